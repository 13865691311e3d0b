import numpy as np


def normal(x, groups, eps):
    top = np.empty_like(x)
    size = x.shape[1] // groups
    for item in range(len(x)):
        for first in range(0, x.shape[1], size):
            part = x[item, first : first + size]
            top[item, first : first + size] = (part - part.mean()) / np.sqrt(part.var() + eps)
    return top


def outputs(inputs, weights):
    x = inputs["x"].astype(float)
    factors, biases = (each.reshape(8, 1, 1) for each in weights["learned"])
    left = np.stack([np.max([x[:, 4 * group + k] for k in range(4)], 0) for group in range(2)], 1)
    return {"learned": normal(x, 4, 0.25) * factors + biases, "ratio": normal(x, 2, 0.125), "left": left}
