"""Colours an image by the class of each pixel: see docs/recipes/fcn.md."""

import numpy as np
import onnxruntime
from PIL import Image

session = onnxruntime.InferenceSession("fcn.onnx", providers=["CPUExecutionProvider"])


def classes(image):
    """The class of each pixel, (H, W)."""
    pixels = np.asarray(image.convert("RGB"), np.float32)
    data = pixels[:, :, ::-1] - (104.00699, 116.66877, 122.67892)  # BGR, and the mean of FCN's training
    data = np.ascontiguousarray(data.transpose(2, 0, 1)[None], np.float32)
    return session.run(["score"], {"data": data})[0][0].argmax(0).astype(np.uint8)


def palette():
    """Pascal VOC's colours: the bits of a class, three by three, are the highest bits of red, green and blue."""
    numbers = np.arange(256)
    colours = np.zeros((256, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            colours[:, channel] |= ((numbers >> (3 * bit + channel)) & 1).astype(np.uint8) << (7 - bit)
    return colours


image = Image.open("photo.png").convert("RGB")
mask = Image.fromarray(classes(image), "P")
mask.putpalette(palette().ravel().tolist())
mask.save("mask.png")
Image.blend(image, mask.convert("RGB"), 0.5).save("overlay.png")
