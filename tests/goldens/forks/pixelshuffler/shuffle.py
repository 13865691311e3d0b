import numpy as np


def shuffled(x, side):
    items, channels, height, width = x.shape
    y = np.zeros((items, channels // side**2, height * side, width * side))
    for item, channel, row, column in np.ndindex(x.shape):
        down, across = channel % side**2 // side, channel % side
        y[item, channel // side**2, row * side + down, column * side + across] = x[item, channel, row, column]
    return y


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    return {"large": shuffled(x, 3), "last": x[:, 4:], "twice": shuffled(x[:, :4], 2)}
