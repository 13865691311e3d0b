"""DetectNet's clusters, box by box, after NVCaffe's layer and OpenCV's ``groupRectangles``.

Whole numbers are divided as in Python 2.
Where ``cv2`` has ``groupRectangles`` (OpenCV 3 and 4), its clusters must be the same.
"""

import math

import cv2
import numpy as np

NUMBERS = [float(text) for text in ["240", "160", "16", "0.3", "1", "0.2", "22", "2", "30"]]


def outputs(inputs, weights):
    classes = inputs["coverage"].shape[1]
    names = ["objects"] if classes == 1 else [f"objects{index}" for index in range(classes)]
    return {name: objects(inputs["coverage"][:, i], inputs["bboxes"]) for i, name in enumerate(names)}


def objects(coverage, boxes):
    width, height, stride, least, group, eps, min_height, *further = NUMBERS
    most = int(further[1]) if len(further) > 1 else 50
    grid_x, grid_y = int(width / stride), int(height / stride)
    table = np.zeros((len(coverage), most, 5))
    for image, (cover, corners) in enumerate(zip(coverage, boxes, strict=True)):
        cover = cover[0:grid_y][0:grid_x]  # rows twice, as the layer has it
        rectangles = []
        for y, x in np.argwhere(cover >= np.float32(least)):
            moves = (x * (width // grid_x), y * (height // grid_y)) * 2
            rectangles.append([float(corners[k, y, x]) + moves[k] for k in range(4)])
        if not np.any(rectangles):
            continue
        rectangles = [[round(number) for number in each] for each in rectangles]  # as cv2 made them whole
        clusters = grouped(rectangles, int(group), eps)
        if hasattr(cv2, "groupRectangles"):
            theirs, counts = cv2.groupRectangles(rectangles, int(group), eps)
            assert [(tuple(map(int, r)), int(n)) for r, n in zip(theirs, counts, strict=True)] == clusters
        rows = [[*r, math.log(n)] for r, n in clusters if r[3] - r[1] >= min_height]
        if rows:
            table[image, : len(rows)] = np.asarray(rows, np.float16)
    return table


def grouped(rectangles, threshold, eps):
    if threshold <= 0:
        return [(tuple(each), 1) for each in rectangles]
    clusters = []
    left = list(range(len(rectangles)))
    while left:
        members, edge = {left[0]}, [left[0]]
        while edge:
            here = edge.pop()
            near = [i for i in left if i not in members and similar(rectangles[here], rectangles[i], eps)]
            members.update(near)
            edge.extend(near)
        left = [i for i in left if i not in members]
        share = np.float32(1) / np.float32(len(members))
        sums = [np.float32(sum(rectangles[i][k] for i in members)) for k in range(4)]
        clusters.append((tuple(int(np.rint(total * share)) for total in sums), len(members)))
    large = [each for each in clusters if each[1] > threshold]
    return [
        each for each in large if not any(holds(other, each, eps) for other in large if other is not each)
    ]


def similar(a, b, eps):
    delta = eps * (min(a[2], b[2]) + min(a[3], b[3])) * 0.5
    ends = abs(a[0] + a[2] - b[0] - b[2]), abs(a[1] + a[3] - b[1] - b[3])
    return max(abs(a[0] - b[0]), abs(a[1] - b[1]), *ends) <= delta


def holds(other, mine, eps):
    (x, y, w, h), count = other
    (mx, my, mw, mh), my_count = mine
    dx, dy = round(w * eps), round(h * eps)
    is_inside = mx >= x - dx and my >= y - dy and mx + mw <= x + w + dx and my + mh <= y + h + dy
    return is_inside and (count > max(3, my_count) or my_count < 3)
