"""Draws faces and their landmarks: see docs/recipes/mtcnn.md."""

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

nets = [
    onnxruntime.InferenceSession(f"det{stage}.onnx", providers=["CPUExecutionProvider"])
    for stage in (1, 2, 3)
]


def run(stage, images, *names):
    """Outputs of a stage for images of one size, at most 128 in a call."""
    pixels = np.stack([np.asarray(image, np.float32) for image in images])
    data = np.ascontiguousarray(((pixels - 127.5) / 128).transpose(0, 3, 2, 1))  # width before height
    parts = [nets[stage - 1].run(names, {"data": data[at : at + 128]}) for at in range(0, len(data), 128)]
    return [np.concatenate(output) for output in zip(*parts, strict=True)]


def windows(image, scale, least):
    """What P-Net finds at one scale: rows of left, top, right, bottom, score and four moves."""
    size = int(np.ceil(image.width * scale)), int(np.ceil(image.height * scale))
    small = image.resize(size, Image.Resampling.BILINEAR)
    prob, moves = run(1, [small], "prob1", "conv4-2")
    x, y = np.nonzero(prob[0, 1] >= least)  # its windows are 12 pixels wide, 2 apart
    corners = np.trunc(np.stack([2 * x + 1, 2 * y + 1, 2 * x + 12, 2 * y + 12], 1) / scale)
    return np.column_stack([corners, prob[0, 1, x, y], moves[0, :, x, y]])


def best(boxes, most, smaller=False):
    """The rows without those that overlap a better one: by their union, or by the smaller of the two."""
    left, top, right, bottom, score = boxes.T[:5]
    area = (right - left + 1) * (bottom - top + 1)
    order, chosen = np.argsort(-score, kind="stable"), []
    while len(order):
        first, order = order[0], order[1:]
        chosen.append(first)
        width = np.minimum(right[first], right[order]) - np.maximum(left[first], left[order]) + 1
        height = np.minimum(bottom[first], bottom[order]) - np.maximum(top[first], top[order]) + 1
        common = np.maximum(width, 0) * np.maximum(height, 0)
        whole = np.minimum(area[first], area[order]) if smaller else area[first] + area[order] - common
        order = order[common <= most * whole]
    return boxes[chosen]


def moved(boxes, more=1):
    """Corners moved by shares of the sides, and the score."""
    sides = np.tile(boxes[:, 2:4] - boxes[:, :2] + more, 2)
    return np.column_stack([boxes[:, :4] + boxes[:, 5:9] * sides, boxes[:, 4]])


def squares(boxes):
    """Squares around the same centres, in whole pixels."""
    sides = boxes[:, 2:4] - boxes[:, :2]
    longer = sides.max(1, keepdims=True)
    first = boxes[:, :2] + (sides - longer) / 2
    return np.trunc(np.hstack([first, first + longer]))


def crops(image, boxes, side):
    """The boxes out of the image; black where they leave it."""
    return [
        image.crop((left - 1, top - 1, right, bottom)).resize((side, side), Image.Resampling.BILINEAR)
        for left, top, right, bottom in boxes.astype(int)
    ]


def faces(image, smallest=20, factor=0.709, least=(0.6, 0.7, 0.7)):
    """Rows of left, top, right, bottom and score, and five landmarks each, (faces, 5, 2)."""
    scales, scale = [], 12 / smallest
    while min(image.size) * scale >= 12:
        scales.append(scale)
        scale *= factor
    found = [best(windows(image, scale, least[0]), 0.5) for scale in scales]
    boxes = squares(moved(best(np.concatenate([np.empty((0, 9)), *found]), 0.7), more=0))
    if not len(boxes):
        return np.empty((0, 5)), np.empty((0, 5, 2))

    prob, moves = run(2, crops(image, boxes, 24), "prob1", "conv5-2")
    rows = np.column_stack([boxes, prob[:, 1], moves])[prob[:, 1] > least[1]]
    boxes = squares(moved(best(rows, 0.7)))
    if not len(boxes):
        return np.empty((0, 5)), np.empty((0, 5, 2))

    prob, moves, points = run(3, crops(image, boxes, 48), "prob1", "conv6-2", "conv6-3")
    sides = boxes[:, 2:4] - boxes[:, :2] + 1
    places = boxes[:, None, :2] + points.reshape(-1, 2, 5).transpose(0, 2, 1) * sides[:, None]  # all x, all y
    rows = np.column_stack([boxes, prob[:, 1], moves])
    rows = np.column_stack([moved(rows), places.reshape(-1, 10)])[prob[:, 1] > least[2]]
    rows = best(rows, 0.7, smaller=True) - ([1] * 4 + [0] + [2] * 10)
    return rows[:, :5], rows[:, 5:].reshape(-1, 5, 2)


image = Image.open("photo.png").convert("RGB")
boxes, landmarks = faces(image)
drawing = ImageDraw.Draw(image)
for corners, points in zip(boxes[:, :4], landmarks, strict=True):
    drawing.rectangle(corners.tolist(), outline=(255, 0, 0), width=2)
    for x, y in points:
        drawing.ellipse([x - 2, y - 2, x + 2, y + 2], fill=(0, 160, 255))
image.save("faces.png")
