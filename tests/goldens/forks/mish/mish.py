import numpy as np


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64) * 12
    e = (np.exp(x) + 1) ** 2
    return {"y": x - 2 * x / (e + 1)}
