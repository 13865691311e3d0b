"""The middle of a map, as SRN cuts it."""

from __future__ import annotations

import numpy as np


def half(difference):
    """As C's round: up where the difference is odd."""
    return int(np.floor(difference / 2 + 0.5))


def outputs(inputs, weights):
    x, like = inputs["x"], inputs["like"]
    top, left = half(x.shape[2] - like.shape[2]), half(x.shape[3] - like.shape[3])
    cut = x[:, :, top : top + like.shape[2], left : left + like.shape[3]]
    return {"y": cut, "z": np.concatenate([like, like], 1)}
