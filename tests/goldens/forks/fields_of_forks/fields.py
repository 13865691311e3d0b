import numpy as np


def interpolated(x, height, width):
    y = np.empty((*x.shape[:2], height, width))
    for i, j in np.ndindex(height, width):
        row, column = i * (x.shape[2] - 1) / (height - 1), j * (x.shape[3] - 1) / (width - 1)
        top, left = int(row), int(column)
        down, right = min(top + 1, x.shape[2] - 1), min(left + 1, x.shape[3] - 1)
        a, b = row - top, column - left
        y[:, :, i, j] = (
            (1 - a) * (1 - b) * x[:, :, top, left]
            + (1 - a) * b * x[:, :, top, right]
            + a * (1 - b) * x[:, :, down, left]
            + a * b * x[:, :, down, right]
        )
    return y


def outputs(inputs, weights):
    x, z, factors = inputs["x"].astype(float), inputs["z"].astype(float), inputs["factors"].astype(float)
    total = np.empty_like(x)
    for item in range(2):
        total[item] = 2 * factors[0, item] * x[item] - factors[1, item] * z[item]
    kernel, bias = weights["learned"]
    return {
        "sum": total,
        "sized": interpolated(x, 5, 7),
        "stated": interpolated(x, 9, 9),
        "learned": z.reshape(2, -1) @ kernel.T + bias,
    }
