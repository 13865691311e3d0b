"""Stored statistics, with the default eps of the first form, and with one that is stated."""

import numpy as np


def normalized(x, blobs, eps):
    slope, bias, mean, variance = (blob.astype(np.float64).reshape(1, -1, 1, 1) for blob in blobs)
    return (x - mean) / np.sqrt(variance + eps) * slope + bias


def outputs(inputs, weights):
    x = inputs["data"].astype(np.float64)
    y, small = normalized(x, weights["op"], 1e-7), normalized(x, weights["flat"], 0.25)
    return {"out": y.astype(np.float32), "small": small.astype(np.float32)}
