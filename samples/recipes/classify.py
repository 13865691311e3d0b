"""Prints the likeliest labels of images: see docs/recipes/classify.md."""

from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

BATCH, SIDE = 16, 227  # 224 for ResNet
session = onnxruntime.InferenceSession("classify.onnx", providers=["CPUExecutionProvider"])
labels = Path("synset_words.txt").read_text().splitlines()


def pixels_of(file):
    """An image (C, H, W) as Caffe's classifier reads it: all of it at 256 x 256, and its middle."""
    image = Image.open(file).convert("RGB").resize((256, 256), Image.Resampling.BILINEAR)
    begin = (256 - SIDE) // 2
    pixels = np.asarray(image, np.float32)[begin : begin + SIDE, begin : begin + SIDE]
    return (pixels[:, :, ::-1] - (104, 117, 123)).transpose(2, 0, 1)  # BGR, and its mean


def likeliest(files, count=5):
    """For each file the likeliest labels, each with its probability."""
    for begin in range(0, len(files), BATCH):
        part = files[begin : begin + BATCH]
        data = np.stack([pixels_of(file) for file in part]).astype(np.float32)
        (prob,) = session.run(["prob"], {"data": data})
        for file, row in zip(part, prob.reshape(len(part), -1), strict=True):
            best = row.argsort()[::-1][:count]
            yield file, [(labels[place], float(row[place])) for place in best]


found = dict(likeliest(sorted(Path("photos").glob("*.png"))))
for file, best in found.items():
    print(file.name, *(f"{label} {share:.2f}" for label, share in best), sep="\n  ")
