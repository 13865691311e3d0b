import numpy as np


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64) * 0.0002
    squares = np.array([row @ row for row in x])[:, None]
    return {"y": (x / np.sqrt(squares + 1e-7)).reshape(3, 5, 1, 1), "z": x / np.sqrt(squares)}
