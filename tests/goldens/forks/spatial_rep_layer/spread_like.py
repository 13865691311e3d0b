import numpy as np


def outputs(inputs, weights):
    top = np.empty((2, 3, 3, 5))
    top[...] = inputs["x"]
    return {"y": top}
