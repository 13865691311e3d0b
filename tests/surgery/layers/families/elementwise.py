"""Corners of arithmetic on elements, against numbers worked by hand or the formula in float64."""

from __future__ import annotations

import math

import numpy as np

from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.small_nets import numbers

INF, NAN = np.inf, np.nan
X = numbers(2, 3, 4)
Y, Z = numbers(2, 3, 4, seed=1), numbers(2, 3, 4, seed=2)
WIDE = X.astype(np.float64)


def power(note: str, fields: str, x: list[float], expected: list[float]) -> Case:
    return Case(note, "Power", f"power_param {{ {fields} }}", [x], expected)


CASES = [
    Case("two axes", "Axpy", "", [[[2, -1]], [[[[1, 2]], [[3, 4]]]], [[[[5, 5]], [[6, 6]]]]], [[[[7, 9]], [[3, 2]]]]),
    Case("two", "Eltwise", "", [X, Y], WIDE + Y),
    Case("the same bottom", "Eltwise", "eltwise_param { operation: PROD }", [X, X], WIDE * X),
    Case("one, of FlowNet", "Eltwise", "eltwise_param { coeff: -0.5 }", [[-2, 4]], [1, -2]),
    Case("four", "Eltwise", "eltwise_param { operation: PROD }", [X, Y, Z, Y], WIDE * Y * Z * Y),
    Case("largest of three", "Eltwise", "eltwise_param { operation: MAX }", [X, Y, Z], np.maximum(np.maximum(X, Y), Z)),
    Case("coefficients", "Eltwise", "eltwise_param { coeff: 1 coeff: -2.5 coeff: 0 }", [X, Y, Z], WIDE - 2.5 * Y),
    Case("coefficient 0", "Eltwise", "eltwise_param { coeff: 0 coeff: 1 }", [[NAN, INF], [1, 2]], [1, 2]),
    Case("only coefficients 0", "Eltwise", "eltwise_param { coeff: 0 coeff: 0 }", [[NAN, INF], [1, 2]], [0, 0]),
    Case("coefficients are for sums", "Eltwise", "eltwise_param { operation: MAX coeff: 3 coeff: -1 }", [X, Y],
         np.maximum(X, Y)),
    Case("infinite", "AbsVal", "", [[-INF, -2, 0, 3]], [INF, 2, 0, 3]),
    power("nothing to do", "", [-2, 3], [-2, 3]),
    power("shift alone", "shift: -1.5", [-2, 3], [-3.5, 1.5]),
    power("square of a negative", "power: 2", [-3, 0, 2], [9, 0, 4]),
    power("cube of a negative", "power: 3", [-3, 0, 2], [-27, 0, 8]),
    power("fourth of a negative", "power: 4 shift: 1", [-3, -1, 1], [16, 0, 16]),
    power("seventh of a negative", "power: 7", [-2, 1, 2], [-128, 1, 128]),
    power("reciprocal", "power: -1", [-4, 0, 2, INF], [-0.25, INF, 0.5, 0]),
    power("reciprocal square", "power: -2 scale: 2", [-1, 0, 4], [0.25, INF, 1 / 64]),
    power("root", "power: 0.5", [-1, 0, 4, INF], [NAN, 0, 2, INF]),
    power("no whole power", "power: 1.5", [-1, 0, 4], [NAN, 0, 8]),
    power("no whole negative power", "power: -0.5", [0, 4], [INF, 0.5]),
    power("power 0", "power: 0", [-1, 0, NAN, INF], [1, 1, 1, 1]),
    power("power 0 comes first", "power: 0 scale: 0 shift: 0", [-1, 0, NAN, INF], [1, 1, 1, 1]),
    power("scale 0", "power: 3 scale: 0 shift: -2", [-1, 0, NAN, INF], [-8, -8, -8, -8]),
    power("scale 0 and no whole power", "power: 0.5 scale: 0 shift: -2", [-1, 5], [NAN, NAN]),
    power("scale 0 and a pole", "power: -1 scale: 0", [-1, 5], [INF, INF]),
    power("scale and power vanish together", "power: 1e-30 scale: 1e-30 shift: 4", [-1, 5], [1, 1]),
    Case("e", "Exp", "", [X], np.exp(WIDE)),
    Case("scale and shift", "Exp", "exp_param { scale: -0.5 shift: 2 }", [X], np.exp(2 - 0.5 * WIDE)),
    Case("base 2", "Exp", "exp_param { base: 2 scale: 3 shift: -1 }", [[-1, 0, 2]], [1 / 16, 0.5, 32]),
    Case("base below 1", "Exp", "exp_param { base: 0.5 }", [[-2, 0, 3]], [4, 1, 0.125]),
    Case("base 1", "Exp", "exp_param { base: 1 shift: 5 }", [[-2, 0, 3]], [1, 1, 1]),
    Case("base 1 and no number", "Exp", "exp_param { base: 1 scale: inf }", [[-2, 0, 3]], [NAN, NAN, NAN]),
    Case("both ends", "Exp", "", [[-INF, 1000, INF]], [0, INF, INF]),
    Case("e", "Log", "", [[-1, 0, 1, math.e, INF]], [NAN, -INF, 0, 1, INF]),
    Case("base 10", "Log", "log_param { base: 10 scale: 10 shift: -100 }", [[5, 10, 11, 110]], [NAN, -INF, 1, 3]),
    Case("base below 1", "Log", "log_param { base: 0.5 }", [[0.25, 1, 4]], [2, 0, -2]),
]  # fmt: skip
VARYING = [
    *(case for case in CASES if case.bottoms[0] is X and len(case.bottoms) == 1),
    *(case for case in CASES if case.note in ("cube of a negative", "power 0", "infinite", "base 10")),
]

REFUSALS = [
    Message(
        "Sum",
        "",
        [(2, 3), (3, 2)],
        'net.prototxt:3: layer "op" (Sum), bottom "b1": shape is (3, 2), expected (2, 3)\n'
        '  because that is the shape of the first bottom, "b0"\n'
        "  fix: cut the larger one with Crop, or change what makes it",
    ),
    Message(
        "Eltwise",
        "eltwise_param { operation: MAX coeff: 2 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (Eltwise): has 1 bottom, expected at least 2\n'
        "  fix: give it another bottom, or for a multiple of this one the operation SUM with a coeff",
    ),
    Message(
        "Sum",
        "",
        [(2, 3)],
        'net.prototxt:2: layer "op" (Sum): has 1 bottom, expected at least 2\n  fix: give it the bottoms x, y',
    ),
    Message(
        "Axpy",
        "",
        [(2, 3), (2, 3, 4, 5), (2, 3, 4, 4)],
        'net.prototxt:4: layer "op" (Axpy), bottom "b2": shape is (2, 3, 4, 4), expected (2, 3, 4, 5)\n'
        '  because that is the shape of the second bottom, "b1"\n'
        "  fix: cut the larger one with Crop, or change what makes it",
    ),
    Message(
        "Axpy",
        "",
        [(2, 3, 4, 1), (2, 3, 4, 5), (2, 3, 4, 5)],
        'net.prototxt:4: layer "op" (Axpy), bottom "b0": shape is (2, 3, 4, 1), expected (2, 3, 1, 1) or (2, 3)\n'
        '  because it is a factor for each channel of the second bottom, "b1", (2, 3, 4, 5)\n'
        "  fix: give it one number per channel, for example with a global Pooling",
    ),
    Message(
        "Eltwise",
        "eltwise_param { coeff: 1 }",
        [(2,), (2,)],
        'net.prototxt:3: layer "op" (Eltwise): has 1 coefficients for 2 bottoms, expected one each\n'
        "  fix: state coeff once per bottom, or not at all",
    ),
    Message(
        "Eltwise",
        "eltwise_param { operation: MAX coeff: 1 }",
        [(2,), (2,)],
        'net.prototxt:3: layer "op" (Eltwise): has 1 coefficients for 2 bottoms, expected one each\n'
        "  fix: state coeff once per bottom, or not at all",
    ),
    Message(
        "Eltwise",
        "eltwise_param { operation: PROD coeff: 1 coeff: 1 }",
        [(2,), (2,)],
        'net.prototxt:3: layer "op" (Eltwise): coeff is for the operation SUM only\n  fix: remove coeff',
    ),
    Message(
        "Eltwise",
        "",
        [(2, 1), (2, 3)],
        'net.prototxt:3: layer "op" (Eltwise), bottom "b1": shape is (2, 3), expected (2, 1)\n'
        '  because that is the shape of the first bottom, "b0"\n'
        '  fix: give "b1" this shape: shapes={"b1": (2, 1)}; or give "b0" this shape: shapes={"b0": (2, 3)}; or use a'
        ' Bias with axis: 0 and the bottoms "b1" and a Reshape of "b0" to { dim: 2 }',
    ),
    Message(
        "Exp",
        "exp_param { base: 0 }",
        [(2,)],
        'net.prototxt:2: layer "op" (Exp): base is 0, expected a positive number, or -1 for e\n'
        "  fix: remove base to use e",
    ),
    Message(
        "Exp",
        "exp_param { base: inf }",
        [(2,)],
        'net.prototxt:2: layer "op" (Exp): base is inf, expected a positive number, or -1 for e\n'
        "  fix: remove base to use e",
    ),
    Message(
        "Log",
        "log_param { base: -2 }",
        [(2,)],
        'net.prototxt:2: layer "op" (Log): base is -2, expected a positive number, or -1 for e\n'
        "  fix: remove base to use e",
    ),
    Message(
        "Log",
        "log_param { base: 1 }",
        [(2,)],
        'net.prototxt:2: layer "op" (Log): base is 1, which has no logarithm\n'
        "  fix: use another base, or omit it for e",
    ),
]

WARNINGS = [
    Message(
        "Eltwise",
        "eltwise_param { operation: MAX coeff: 1 coeff: 2 }",
        [(2,), (2,)],
        'net.prototxt:3: layer "op" (Eltwise): coeff is ignored, as in Caffe: the operation is MAX',
    ),
]
