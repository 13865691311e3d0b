import numpy as np


def outputs(inputs, weights):
    x, half, third, scores, items = (
        inputs[name].astype(np.float64) for name in ("x", "half", "third", "scores", "items")
    )
    chances = 1 / (1 + np.exp(-x))
    no_place = np.ones(x.shape[:2])
    for row in range(x.shape[2]):
        for column in range(x.shape[3]):
            no_place *= 1 - chances[:, :, row, column]
    best = np.stack([items[:3].max(axis=0), items[3:6].max(axis=0)])
    return {
        "within": np.where(x < 1, np.where(x > 0, x, 0), 1),
        "between": np.where(x < 0.75, np.where(x > -0.5, x, -0.5), 0.75),
        "largest": x.max(axis=(2, 3))[:, :, None, None],
        "any": np.maximum(1 - no_place, chances.max(axis=(2, 3)))[:, :, None, None],
        "sum": 2 * scores + best[:, :, 0, 0],
        "joined": np.concatenate([x, copied(half, 6, 8), copied(third, 6, 8)], axis=1),
    }


def copied(small, height, width):
    large = np.zeros((*small.shape[:2], height, width))
    down, across = height // small.shape[2], width // small.shape[3]
    for row in range(small.shape[2]):
        for column in range(small.shape[3]):
            place = np.s_[:, :, row * down : (row + 1) * down, column * across : (column + 1) * across]
            large[place] = small[:, :, row, column, None, None]
    return large
