"""Draws the boxes of Faster R-CNN: see docs/recipes/faster-rcnn.md."""

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

session = onnxruntime.InferenceSession("frcnn.onnx", providers=["CPUExecutionProvider"])


def regions_of(image):
    """Regions (R, 4) in pixels of the image, scores (R, classes), and moves (R, classes, 4)."""
    scale = min(600 / min(image.size), 1000 / max(image.size))
    size = [round(side * scale) for side in image.size]
    pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR), np.float32)[:, :, ::-1]
    data = (pixels - (102.9801, 115.9465, 122.7717)).transpose(2, 0, 1)[None].astype(np.float32)
    info = np.array([[size[1], size[0], scale]], np.float32)
    names = ["rois", "cls_prob", "bbox_pred", "rois_count"]
    rois, scores, moves, (count,) = session.run(names, {"data": data, "im_info": info})
    return rois[:count, 1:] / scale, scores[:count], moves[:count].reshape(count, -1, 4)


def moved(regions, moves):
    """Corners of the regions after moves (R, 4): of the centre, in widths, and of the logarithms of the sides."""
    sides = regions[:, 2:] - regions[:, :2] + 1
    centres = regions[:, :2] + sides / 2 + moves[:, :2] * sides
    halves = np.exp(moves[:, 2:]) * sides / 2
    return np.concatenate([centres - halves, centres + halves], 1)


def suppressed(boxes, scores, most):
    """The places of boxes that overlap no better one by more than ``most``."""
    areas = (boxes[:, 2:] - boxes[:, :2] + 1).prod(1)
    order, kept = scores.argsort(kind="stable")[::-1], []
    while len(order):
        best, order = order[0], order[1:]
        kept.append(best)
        first, last = (
            np.maximum(boxes[best, :2], boxes[order, :2]),
            np.minimum(boxes[best, 2:], boxes[order, 2:]),
        )
        common = np.maximum(last - first + 1, 0).prod(1)
        order = order[common / (areas[best] + areas[order] - common) <= most]
    return kept


def objects(image, least=0.6, overlap=0.3):
    """Class, score and corners in pixels of each object. Class 0 is the background."""
    regions, scores, moves = regions_of(image)
    corner = np.array(image.size * 2) - 1
    for kind in range(1, scores.shape[1]):
        likely = scores[:, kind] >= least
        boxes = moved(regions[likely], moves[likely, kind]).clip(0, corner)
        for place in suppressed(boxes, scores[likely, kind], overlap):
            yield kind, float(scores[likely, kind][place]), boxes[place].tolist()


image = Image.open("photo.png").convert("RGB")
drawing = ImageDraw.Draw(image)
found = list(objects(image))
for kind, score, corners in found:
    drawing.rectangle(corners, outline=(255, 0, 0), width=2)
    drawing.text(corners[:2], f"{kind} {score:.2f}", fill=(255, 255, 0))
image.save("boxes.png")
