from math import floor

import numpy as np


def start(landmark, size):
    place = float(landmark) * 0.25 - size // 2
    return floor(abs(place) + 0.5) * (1 if place >= 0 else -1)


def cut(x, landmarks, number, height, width):
    """Element by element, as the fork copies them."""
    y = np.zeros((*x.shape[:2], height, width))
    for image, row, column in np.ndindex(len(x), height, width):
        across, down = landmarks[image, number]
        i, j = start(down, height) + row, start(across, width) + column
        if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]:
            y[image, :, row, column] = x[image, :, i, j]
    return y


def outputs(inputs, weights):
    pixels = inputs["landmarks"] * 14 + 14
    even = {
        name: cut(inputs["x"], pixels, number, 4, 4)
        for number, name in enumerate(("eye", "nose", "mouth", "ear"))
    }
    return even | {name: cut(inputs["x"], pixels, number, 5, 3) for number, name in enumerate("abcd")}
