from math import ceil, floor

import numpy as np


def read(plane, x, y):
    left, right, top, bottom = floor(x), ceil(x), floor(y), ceil(y)
    upper = plane[top, left] * (1 - (x - left)) + plane[top, right] * (x - left)
    lower = plane[bottom, left] * (1 - (x - left)) + plane[bottom, right] * (x - left)
    return upper * (1 - (y - top)) + lower * (y - top)


def away(value):
    return int(np.sign(value)) * floor(abs(value) + 0.5)


def pooled(x, rois, trans, samples, std, group=3, dim=4, scale=0.25):
    height, width = x.shape[2:]
    top = np.zeros((len(rois), dim, group, group))
    for (n, c, i, j), _ in np.ndenumerate(top):
        image, x1, y1, x2, y2 = rois[n]
        begin_x, begin_y = away(x1) * scale - 0.5, away(y1) * scale - 0.5
        across = max((away(x2) + 1) * scale - 0.5 - begin_x, 0.1)
        down = max((away(y2) + 1) * scale - 0.5 - begin_y, 0.1)
        move_x = move_y = 0.0
        if trans is not None:
            parts, size = trans.shape[1] // 2, trans.shape[2]
            part = c // (dim // parts)
            place = floor(i / group * size), floor(j / group * size)
            move_x, move_y = (trans[(n, 2 * part + k, *place)] * std for k in (0, 1))
        values = []
        for a in range(samples):
            for b in range(samples):
                px = begin_x + j * across / group + move_x * across + b * across / group / samples
                py = begin_y + i * down / group + move_y * down + a * down / group / samples
                if -0.5 <= px <= width - 0.5 and -0.5 <= py <= height - 0.5:
                    plane = x[min(max(int(image), 0), len(x) - 1), (c * group + i) * group + j]
                    values.append(read(plane, min(max(px, 0), width - 1), min(max(py, 0), height - 1)))
        top[n, c, i, j] = np.mean(values) if values else 0
    return top


def outputs(inputs, weights):
    x, rois, trans = (inputs[name].astype(float) for name in ("x", "rois", "trans"))
    return {"moved": pooled(x, rois, trans, 3, 0.5), "plain": pooled(x, rois, None, 2, 0.0)}
