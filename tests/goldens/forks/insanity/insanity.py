import numpy as np


def activation(x, lower, upper):
    mean_slope = (upper - lower) / (np.log(abs(upper)) - np.log(abs(lower)))
    return np.maximum(x, 0) + np.minimum(x, 0) / mean_slope


def outputs(inputs, weights):
    x = inputs["x"].astype(np.float64)
    small = activation(x, 3, 5) * 0.0002
    norm = np.array([item * (np.sum(item * item) + 0.0000001) ** -0.5 for item in small])
    matrix, offset = weights["product"]
    rows = np.asarray(matrix, np.float64).reshape(2, 12)
    product = norm.reshape(2, 12) @ rows.T + np.reshape(offset, (1, 2))
    return {"drawn": activation(x, 5, 10), "product": product}
