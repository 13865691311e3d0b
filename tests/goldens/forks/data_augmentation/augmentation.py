import numpy as np


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    _, _, whole_mean = weights["whole"]
    _, middle_mean, _ = weights["middle"]
    _, other_mean, _ = weights["other"]
    return {
        "whole": read(x, 6, 8) - np.reshape(whole_mean, (1, 3, 1, 1)),
        "middle": read(x, 3, 4) - middle_mean,
        "other": x - np.mean(other_mean, axis=(2, 3), keepdims=True),
        "stated": read(x, 5, 8) - np.reshape([0.5, -0.25, 2], (1, 3, 1, 1)),
    }


def read(x, rows, columns):
    """FlowNet's warp without a transformation: bilinear, at places that end 1.05 before the end."""
    height, width = x.shape[2:]
    top = np.empty((*x.shape[:2], rows, columns))
    for i in range(rows):
        for j in range(columns):
            row = min(max(i - rows / 2 + height / 2, 0), height - 1.05)
            column = min(max(j - columns / 2 + width / 2, 0), width - 1.05)
            h, w = int(row), int(column)
            down, across = row - h, column - w
            top[:, :, i, j] = (
                (1 - across) * (1 - down) * x[:, :, h, w]
                + across * (1 - down) * x[:, :, h, w + 1]
                + (1 - across) * down * x[:, :, h + 1, w]
                + across * down * x[:, :, h + 1, w + 1]
            )
    return top
