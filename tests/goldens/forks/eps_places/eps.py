import numpy as np

EPS = 0.25


def column(array):
    return array.astype(float).reshape(-1, 1, 1)


def outputs(inputs, weights):
    x = inputs["x"].astype(float)
    mean, variance, factor = weights["bn"]
    bn = (x - column(mean) / factor[0]) / (np.sqrt(column(variance) / factor[0]) + EPS)
    return {"bn": bn}
