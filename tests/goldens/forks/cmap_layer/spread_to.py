import numpy as np


def outputs(inputs, weights):
    maps = np.zeros((1, 3, 4, 6))
    for channel in range(3):
        maps[0][channel].fill(inputs["x"][0][channel])
    return {"y": maps}
