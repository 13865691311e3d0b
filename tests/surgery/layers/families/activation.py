"""Corners of the activations, against numbers worked by hand or the formula in float64."""

from __future__ import annotations

import numpy as np

from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.small_nets import numbers

INF, NAN = np.inf, np.nan
X = numbers(2, 3, 4)
WIDE = X.astype(np.float64)

CASES = [
    Case("plain", "ReLU", "", [[-2, 0, 3, INF]], [0, 0, 3, INF]),
    Case("negative slope", "ReLU", "relu_param { negative_slope: -0.5 }", [[-2, 4]], [1, 4]),
    Case("slope above one", "ReLU", "relu_param { negative_slope: 2 }", [[-2, 4]], [-4, 4]),
    Case("not a number", "ReLU", "", [[NAN, 1]], [NAN, 1]),
    Case("not a number", "Insanity", "", [[NAN, INF, -INF]], [NAN, INF, -INF]),
    Case("both ends", "ReLU6", "", [[-1, 0, 5.5, 6, 7, INF]], [0, 0, 5.5, 6, 6, 6]),
    Case("negative slope", "ReLU6", "relu_param { negative_slope: 0.5 }", [[-8, 0, 3, 9]], [-4, 0, 3, 6]),
    Case("above 6 on both sides", "ReLU6", "relu6_param { negative_slope: -0.5 }", [[-20, -8, 9]], [6, 4, 6]),
    Case("minval above maxval", "BReLU", "brelu_param { minval: 3 maxval: 1 }", [[0, 2, 4]], [1, 1, 1]),
    Case("not a number", "BReLU", "", [[NAN, INF, -INF]], [NAN, 1, 0]),
    Case("rank 2", "PReLU", "", [[[-1, -1, 1], [-2, 2, -2]]], [[-1, -2, 1], [-2, 2, -6]], [[1, 2, 3]]),
    Case("rank 3", "PReLU", "", [-np.ones((1, 2, 2))], [[[0.5, 0.5], [-4, -4]]], [[-0.5, 4]]),
    Case("rank 5", "PReLU", "", [-np.ones((1, 2, 1, 1, 2))], [[[[[-3, -3]]], [[[-4, -4]]]]], [[3, 4]]),
    Case(
        "shared",
        "PReLU",
        "prelu_param { channel_shared: true }",
        [[[-2, 2, -4]]],
        [[-0.5, 2, -1]],
        [np.float32(0.25)],
    ),
    Case("default alpha", "ELU", "", [[-INF, -1, 0, 2]], [-1, np.expm1(-1), 0, 2]),
    Case("alpha 0", "ELU", "elu_param { alpha: 0 }", [[-3, 2]], [0, 2]),
    Case("negative alpha", "ELU", "elu_param { alpha: -2 }", [[-1, 2]], [-2 * np.expm1(-1), 2]),
    Case("both ends", "Clip", "clip_param { min: -1 max: 2 }", [[-INF, -1, 0, 2, 9]], [-1, -1, 0, 2, 2]),
    Case("min above max", "Clip", "clip_param { min: 3 max: 1 }", [[0, 2, 4]], [3, 3, 3]),
    Case("default beta", "Swish", "", [X], WIDE / (1 + np.exp(-WIDE))),
    Case("negative beta", "Swish", "swish_param { beta: -2 }", [X], WIDE / (1 + np.exp(2 * WIDE))),
    Case("beta 0", "Swish", "swish_param { beta: 0 }", [[-3, 5]], [-1.5, 2.5]),
    Case("no overflow", "BNLL", "", [[-INF, -1000, -1, 0, 1, 1000, INF]],
         [0, 0, 0.31326169, 0.69314718, 1.31326169, 1000, INF]),
    Case("strictly above 0", "Threshold", "", [[-1, 0, 1e-30, INF, NAN]], [0, 0, 1, 1, 0]),
    Case("strictly above", "Threshold", "threshold_param { threshold: -0.5 }", [[-1, -0.5, -0.25]], [0, 0, 1]),
    Case("saturated", "Sigmoid", "", [[-INF, -200, 0, 200, INF]], [0, 0, 0.5, 1, 1]),
    Case("saturated", "TanH", "", [[-INF, -200, 0, 200, INF]], [-1, -1, 0, 1, 1]),
]  # fmt: skip
VARYING = [case for case in CASES if case.bottoms[0] is X or case.note == "rank 5"]

REFUSALS = [
    Message(
        "Insanity",
        "insanity_param { lb: 3 ub: 3 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (Insanity): lb is 3 and ub 3, expected 0 < lb < ub\n'
        "  fix: state lb and ub as the net was trained with",
    ),
    Message(
        "PReLU",
        "",
        [(3,)],
        'net.prototxt:2: layer "op" (PReLU), bottom "b0": shape is (3,), expected (N, C, ...)\n'
        "  fix: add a Reshape before this layer to 2 axes",
    ),
    Message(
        "Clip",
        "clip_param { min: 0 }",
        [(3,)],
        'net.prototxt:3: layer "op" (Clip), clip_param: max is missing\n  fix: add max: and its value',
    ),
    Message(
        "Threshold",
        "",
        [(3,), (3,)],
        'net.prototxt:3: layer "op" (Threshold): has 2 bottoms, expected 1\n  fix: give it the bottoms x',
    ),
]
