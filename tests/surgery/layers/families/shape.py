"""Corners of the layers of forks that move elements, against numbers worked by hand."""

from __future__ import annotations

import numpy as np

from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.small_nets import numbers

X = numbers(2, 12, 2, 4)
CASES = [
    Case("one group", "ShuffleChannel", "", [X], X),
    Case("rank 2", "ShuffleChannel", "shuffle_channel_param { group: 2 }", [[[1, 2, 3, 4, 5, 6]]],
         [[1, 4, 2, 5, 3, 6]]),
    Case("varying", "ShuffleChannel", "shuffle_channel_param { group: 4 }", [X],
         X.reshape(2, 4, 3, 2, 4).swapaxes(1, 2).reshape(X.shape)),
    Case("columns", "Flip", "", [X], X[..., ::-1]),
    Case("rows", "Flip", "flip_param { flip_width: false flip_height: true }", [X], X[:, :, ::-1]),
    Case("rows and columns", "Flip", "flip_param { flip_height: true }", [X], X[:, :, ::-1, ::-1]),
    Case("stride 1", "Reorg", "reorg_param { stride: 1 }", [X], X),
    # Read as 1 x 4 x 4: 0 to 15 row by row. Its even rows and columns come first.
    Case("stride 2", "Reorg", "reorg_param { stride: 2 }", [np.arange(16).reshape(1, 4, 2, 2)],
         np.reshape([0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15], (1, 16, 1, 1))),
    Case("backwards", "Reorg", "reorg_param { stride: 2 reverse: true }",
         [np.reshape([0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15], (1, 4, 2, 2))],
         np.arange(16).reshape(1, 1, 4, 4)),
]  # fmt: skip
VARYING = [case for case in CASES if case.bottoms[0] is X]

OP = 'net.prototxt:2: layer "op" '
REFUSALS = [
    Message("Reshape", "reshape_param { pixelshuffler: -2 }", [(1, 4, 2, 2)],
            f"{OP}(Reshape): pixelshuffler is -2, but the bottom has 4 channels\n"
            "  fix: use a number of 1 or more whose square divides the channels"),
    Message("Flip", "", [(1, 12, 2)],
            f'{OP}(Flip), bottom "b0": shape is (1, 12, 2), expected (N, C, H, W)\n'
            "  fix: add a Reshape before this layer to 4 axes"),
    Message("ShuffleChannel", "shuffle_channel_param { group: 5 }", [(1, 12, 2, 4)],
            f"{OP}(ShuffleChannel): group is 5, expected a divisor of the 12 channels\n"
            "  fix: set group in shuffle_channel_param"),
    Message("ShuffleChannel", "shuffle_channel_param { group: 0 }", [(1, 12, 2, 4)],
            f"{OP}(ShuffleChannel): group is 0, expected a divisor of the 12 channels\n"
            "  fix: set group in shuffle_channel_param"),
    Message("Reorg", "reorg_param { stride: 0 }", [(1, 4, 2, 2)],
            f"{OP}(Reorg): stride is 0, expected at least 1\n  fix: set stride in reorg_param"),
    Message("Reorg", "reorg_param { stride: 2 }", [(1, 4, 2, 3)],
            f'{OP}(Reorg), bottom "b0": shape is (1, 4, 2, 3), expected channels that 4 divides, and a height and a'
            " width that 2 divides\n  because stride is 2\n  fix: use another stride, or an input of another size"),
    Message("Reorg", "reorg_param { stride: 3 reverse: true }", [(1, 4, 2, 3)],
            f'{OP}(Reorg), bottom "b0": shape is (1, 4, 2, 3), expected channels that 9 divides\n'
            "  because stride is 3\n  fix: use another stride, or an input of another size"),
]  # fmt: skip
WARNINGS = [
    Message("Reorg", "", [(1, 4, 2, 2)],
            f"{OP}(Reorg): stride is not stated: it is 2, as in choasup/caffe-yolo9000"),
]  # fmt: skip
