"""Enlarges an image in tiles: see docs/recipes/waifu2x.md."""

import numpy as np
import onnxruntime
from PIL import Image

TILE, EDGE = 128, 7
session = onnxruntime.InferenceSession("waifu2x.onnx", providers=["CPUExecutionProvider"])


def enlarged(image):
    """The image at twice its size."""
    pixels = np.asarray(image.convert("RGB"), np.float32) / 255
    height, width = pixels.shape[:2]
    below, right = -height % TILE, -width % TILE
    padded = np.pad(pixels, ((EDGE, EDGE + below), (EDGE, EDGE + right), (0, 0)), "edge").transpose(2, 0, 1)
    result = np.empty((3, 2 * (height + below), 2 * (width + right)), np.float32)
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            tile = padded[None, :, top : top + TILE + 2 * EDGE, left : left + TILE + 2 * EDGE]
            (made,) = session.run(["conv7"], {"input": np.ascontiguousarray(tile)})
            result[:, 2 * top : 2 * (top + TILE), 2 * left : 2 * (left + TILE)] = made[0]
    numbers = np.rint(result[:, : 2 * height, : 2 * width].clip(0, 1) * 255)
    return Image.fromarray(numbers.astype(np.uint8).transpose(1, 2, 0))


enlarged(Image.open("photo.png")).save("enlarged.png")
