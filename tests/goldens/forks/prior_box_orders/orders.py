from math import sqrt

import numpy as np

HEIGHT, WIDTH, DOWN, ACROSS = 3, 2, 150, 120


def corners(x, y, width, height, swapped=False, inward=0.0):
    box = [
        (x - width / 2) / ACROSS + inward,
        (y - height / 2) / DOWN + inward,
        (x + width / 2) / ACROSS - inward,
        (y + height / 2) / DOWN - inward,
    ]
    return [box[1], box[0], box[3], box[2]] if swapped else box


def top(boxes, variances):
    return np.array([[boxes, variances * (len(boxes) // len(variances))]])


def outputs(inputs, weights):
    tf, keras, stated, faces, offsets = [], [], [], [], []
    for h in range(HEIGHT):
        for w in range(WIDTH):
            x, y = (w + 0.5) * ACROSS / WIDTH, (h + 0.5) * DOWN / HEIGHT
            for least, most in ((60, 90), (80, 100)):
                tf += corners(x, y, least, least, True, 0.05 if least == 60 else 0)
                tf += corners(x, y, least * sqrt(2), least / sqrt(2), True)
                tf += corners(x, y, least / sqrt(2), least * sqrt(2), True)
                tf += corners(x, y, sqrt(least * most), sqrt(least * most), True)
            for width, height in ((sqrt(5400),) * 2, (60, 60), (60 * sqrt(2), 60 / sqrt(2))):
                keras += [min(max(end, 0), 1) for end in corners(x, y, width, height)]
            for width, height in ((12.5, 30), (40, 20.25)):
                stated += corners((w + 0.5) * 16, (h + 0.5) * 16, width, height, True)
            for size, apart, steps in ((32, 8, range(-2, 2)), (64, 16, range(-1, 1)), (128, 0, range(1))):
                for i in steps:
                    for j in steps:
                        x, y = (w + 0.5) * 64 + apart * j, (h + 0.5) * 64 + apart * i
                        faces += corners(x, y, size - 1, size - 1)
            for right in (0.2, 0.7):
                for below in (0.25, 0.5, 1):
                    for size in (7, 10):
                        place = (w + right) * ACROSS / WIDTH, (h + below) * DOWN / HEIGHT
                        offsets += corners(*place, size * sqrt(0.3), size / sqrt(0.3))
    return {
        "tf": top(tf, [0.1, 0.2, 0.3, 0.4]),
        "keras": top(keras, [0.1]),
        "stated": top(stated, [0.1]),
        "faces": top(faces, [0.1]),
        "offsets": top(offsets, [0.1]),
        "sum": inputs["map"].astype("f8").sum(),
    }
