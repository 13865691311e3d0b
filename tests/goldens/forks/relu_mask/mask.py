import numpy as np


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    return {"y": np.array([1 + v if v > 0 else 0.1 * v for v in x.flat]).reshape(x.shape)}
