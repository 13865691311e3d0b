"""Draws the boxes of SSD: see docs/recipes/ssd.md."""

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

session = onnxruntime.InferenceSession("ssd.onnx", providers=["CPUExecutionProvider"])


def objects(image, least=0.25):
    """Class, score and corners in pixels of each object."""
    pixels = np.asarray(image.convert("RGB").resize((300, 300), Image.Resampling.BILINEAR), np.float32)
    data = pixels[:, :, ::-1] - (104, 117, 123)  # BGR, and its mean
    data = np.ascontiguousarray(data.transpose(2, 0, 1)[None], np.float32)
    names = ["detection_out", "detection_out_count"]
    rows, count = session.run(names, {"data": data})
    sides = (image.width, image.height) * 2
    for _, kind, score, *corners in rows[0, 0, : count[0]]:
        if kind >= 0 and score >= least:  # an image without objects has one row of -1
            yield (
                int(kind),
                float(score),
                [float(corner * side) for corner, side in zip(corners, sides, strict=True)],
            )


image = Image.open("photo.png").convert("RGB")
drawing = ImageDraw.Draw(image)
found = list(objects(image))
for kind, score, corners in found:
    drawing.rectangle(corners, outline=(255, 0, 0), width=2)
    drawing.text(corners[:2], f"{kind} {score:.2f}", fill=(255, 255, 0))
image.save("boxes.png")
