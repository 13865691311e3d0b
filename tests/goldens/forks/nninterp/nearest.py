import numpy as np


def nearest(x, height, width):
    y = np.zeros((*x.shape[:2], height, width))
    for row, column in np.ndindex(height, width):
        y[:, :, row, column] = x[:, :, row * x.shape[2] // height, column * x.shape[3] // width]
    return y


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    return {"sized": nearest(x, 7, 3), "large": nearest(x, 13, 19), "small": nearest(x, 3, 4)}
