import numpy as np


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    kernel, bias = weights["deconv"]
    full = np.zeros((2, 2, 3, 7, 9))
    for n, c, d, h, w in np.ndindex(*x.shape):
        full[n, :, d : d + 2, 2 * h : 2 * h + 3, 2 * w : 2 * w + 3] += x[n, c, d, h, w] * kernel[c]
    return {"y": full[:, :, :, 1:-1, 1:-1] + np.reshape(bias, (1, 2, 1, 1, 1))}
