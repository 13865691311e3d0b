import numpy as np


def relu(x, slope=0.0):
    return np.where(x > 0, x, slope * x)


def outputs(inputs, weights):
    x = 5 * inputs["x"]
    return {
        "six": np.minimum(relu(x), 6),
        "leaky": np.minimum(relu(x, 0.5), 6),
    }
