import numpy as np


def outputs(inputs, weights):
    x = inputs["x"].reshape(3, 5).astype(np.float64)
    return {"y": np.array([row / np.linalg.norm(row) for row in x])}
