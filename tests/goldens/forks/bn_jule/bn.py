"""Scale, shift, mean and variance, with the default eps and with one that is stated."""

import numpy as np


def normalized(x, blobs, eps):
    scale, shift, mean, variance = (blob.astype(np.float64).reshape(1, -1, 1, 1) for blob in blobs)
    return (x - mean) / np.sqrt(variance + eps) * scale + shift


def outputs(inputs, weights):
    x = inputs["data"].astype(np.float64)
    return {"out": normalized(x, weights["op"], 1e-10), "small": normalized(x, weights["wide"], 0.25)}
