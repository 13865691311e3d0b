import numpy as np


def bilinear(x, rows, columns):
    """Element by element; what lies beyond the last row or column is left out of the sum."""
    height, width = x.shape[2:]
    y = np.zeros((*x.shape[:2], rows, columns), np.float32)
    for row in range(rows):
        for column in range(columns):
            h, w = row * height / rows, column * width / columns
            for near_h in (int(h), int(h) + 1):
                for near_w in (int(w), int(w) + 1):
                    if near_h < height and near_w < width:
                        share = (1 - abs(h - near_h)) * (1 - abs(w - near_w))
                        y[:, :, row, column] += share * x[:, :, near_h, near_w]
    return y


def outputs(inputs, weights):
    x = inputs["x"]
    copied = np.zeros((2, 3, 8, 6), np.float32)
    for row in range(8):
        for column in range(6):
            copied[:, :, row, column] = x[:, :, int(row / 1.6), int(column / 1.6)]
    return {"doubled": bilinear(x, 10, 8), "stated": bilinear(x, 7, 3), "copied": copied}
