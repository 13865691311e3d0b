"""LSTM and RNN of MyCaffe over cuDNN: one vector with all matrices, then all biases, gate by gate: i, f, g, o."""

from __future__ import annotations

import numpy as np

H = 3
state = {}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layers(blob, inputs, count, gates):
    """For each layer the matrices of x and h, then their biases: a list for each gate."""
    vector, sizes = blob.astype(np.float64).reshape(-1), [inputs] + [H] * (count - 1)
    place = 0

    def take(*shape):
        nonlocal place
        part = vector[place : place + int(np.prod(shape))].reshape(shape)
        place += part.size
        return part

    matrices = [([take(H, size) for _ in range(gates)], [take(H, H) for _ in range(gates)]) for size in sizes]
    biases = [([take(H) for _ in range(gates)], [take(H) for _ in range(gates)]) for _ in sizes]
    assert place == vector.size
    return [(*of_x_and_h, *each) for of_x_and_h, each in zip(matrices, biases, strict=True)]


def run(name, xs, cont, blob, count, gates):
    """Of cont the first number alone is read, for all streams."""
    stack = layers(blob, xs[0].reshape(2, -1).shape[1], count, gates)
    zero = np.zeros((2, H))
    old = state.get(name, [(zero, zero)] * count) if cont[0, 0] > 0 else [(zero, zero)] * count
    tops = []
    for x in xs:
        x = x.reshape(2, -1)
        for level, (w_x, w_h, b_x, b_h) in enumerate(stack):
            h, c = old[level]
            sums = [x @ w_x[k].T + h @ w_h[k].T + b_x[k] + b_h[k] for k in range(gates)]
            if gates == 4:
                i, f, g, o = sums
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
            else:
                h = np.maximum(sums[0], 0)
            old = [*old[:level], (h, c), *old[level + 1 :]]
            x = h
        tops.append(x)
    state[name] = old
    return np.stack(tops)[..., None]


def outputs(inputs, weights):
    x, cont = inputs["x"].astype(np.float64), inputs["cont"]
    h = run("lstm", x, cont, weights["lstm"][0], 2, 4)
    r = run("rnn", x, cont, weights["rnn"][0], 1, 1)
    w, b = (blob.astype(np.float64) for blob in weights["ip"])
    return {"h": h, "r": r, "ip": h.reshape(3, 2, H) @ w.reshape(2, H).T + b}
