"""Corners of Reduction, MIL and ArgMax, against numbers worked by hand or real Caffe's rule in plain Python."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.small_nets import float32, numbers

X = numbers(2, 3, 4)
WIDE = X.astype(float)
TIES = np.random.default_rng(3).integers(0, 3, (2, 5, 4)).astype(np.float32)
MANY = np.random.default_rng(4).integers(0, 99, (2, 8000)).astype(np.float32)
"""More than one TopK of TensorRT gives, and equal elements on both sides of where the next begins."""


def largest(x: object, axis: int, count: int, *, values: bool = False) -> Array:
    """Pairs of element and index, sorted from the largest on: of equals the larger index first."""

    def few(row: object) -> list[float]:
        pairs = sorted(((value, index) for index, value in enumerate(float32(row))), reverse=True)
        return [pair[0 if values else 1] for pair in pairs[:count]]

    return np.asarray(np.apply_along_axis(few, axis, float32(x)))


def reduction(note: str, fields: str, x: object, expected: object) -> Case:
    return Case(note, "Reduction", f"reduction_param {{ {fields} }}", [x], expected, atol=1e-5)


def argmax(note: str, fields: str, x: object, expected: object) -> Case:
    return Case(note, "ArgMax", f"argmax_param {{ {fields} }}", [x], expected, rtol=0, atol=0)


CASES = [
    Case("the largest is certain", "MIL", "mil_param { type: NOR }", [[[[[0, 1], [0.5, 0]]]]], [[[[1]]]]),
    Case("a region", "MIL", "mil_param { context_per_roi: 2 }", [[[1, 5], [3, 4]]], [[[[3]], [[5]]]]),
    Case("items after the last group", "MIL", "mil_param { context_per_roi: 2 }", [[[1], [3], [9]]], [[[[3]]]]),
    reduction("to one number", "", X, WIDE.sum()),
    reduction("rank 1", "coeff: -2", [1, 2, 4], -14),
    reduction("mean of all", "operation: MEAN coeff: 3", X, 3 * WIDE.mean()),
    reduction("mean from axis 1", "operation: MEAN axis: 1", X, WIDE.mean((1, 2))),
    reduction("last axis", "operation: ASUM axis: 2", X, np.abs(WIDE).sum(2)),
    reduction("negative axis", "operation: SUMSQ axis: -2 coeff: 0.5", X, (WIDE**2).sum((1, 2)) / 2),
    reduction("axis of one", "axis: -1", [[3], [-4]], [3, -4]),
    reduction("coefficient 0", "axis: 1 coeff: 0", [[3, 1], [-4, 1]], [0, 0]),
    argmax("more than one TopK of TensorRT gives", "axis: 1 top_k: 7900", MANY, largest(MANY, 1, 7900)),
    argmax("the last of equals", "axis: 1", [[1, 3, 3, 0], [2, 2, 2, 2]], [[2], [3]]),
    argmax("minus infinity", "axis: -1", [[-np.inf, -np.inf]], [[1]]),
    argmax("ties along the middle", "axis: 1", TIES, largest(TIES, 1, 1)),
    argmax("three of ties", "axis: 1 top_k: 3", TIES, largest(TIES, 1, 3)),
    argmax("all of ties", "axis: -1 top_k: 4", TIES, largest(TIES, 2, 4)),
    argmax("axis 0", "axis: 0 top_k: 2", TIES, largest(TIES, 0, 2)),
    argmax("values", "axis: 1 top_k: 2 out_max_val: true", TIES, largest(TIES, 1, 2, values=True)),
    argmax("largest value", "axis: -3 out_max_val: true", X, X.max(0, keepdims=True)),
    argmax("several without axis", "top_k: 3", TIES, largest(TIES.reshape(2, 1, 20), 2, 3)),
    argmax("rank 1", "axis: 0", [3, 7, 7, 1], [2]),
    argmax("rank 1 and several", "axis: 0 top_k: 3", [3, 7, 7, 1], [2, 1, 0]),
    argmax("rank 1 without axis", "out_max_val: true", [3, -7], [[[0], [3]], [[0], [-7]]]),
    argmax("rank 2 without axis", "top_k: 2", [[5, 9, 9]], [[[2, 1]]]),
    argmax("rank 2 with values", "top_k: 2 out_max_val: true", [[5, 9, 7]], [[[1, 2], [9, 7]]]),
    argmax("rank 5", "out_max_val: true", TIES[:, :, :, None, None],
           np.stack([largest(TIES.reshape(2, 20), 1, 1), TIES.max((1, 2))[:, None]], 1)[:, :, :, None, None]),
    argmax("everything", "axis: 0 top_k: 1", [[4, 5]], [[0, 0]]),
]  # fmt: skip
VARYING = [
    case
    for case in CASES
    if float32(case.bottoms[0]).shape[0] == 2
    and "axis: 0" not in case.fields
    and "axis: -3" not in case.fields
]

REFUSALS = [
    Message(
        "MIL",
        "mil_param { context_per_roi: 4 }",
        [(3, 2)],
        'net.prototxt:2: layer "op" (MIL), bottom "b0": shape is (3, 2), expected (R * context_per_roi, C)\n'
        "  because context_per_roi is 4: so many items are one region\n"
        "  fix: give it more regions",
    ),
    Message(
        "MIL",
        "mil_param { context_per_roi: 0 }",
        [(3, 2)],
        'net.prototxt:2: layer "op" (MIL): context_per_roi is 0, expected at least 1\n  fix: set it in mil_param',
    ),
    Message(
        "MIL",
        "mil_param { context_per_roi: 2 }",
        [(4, 2, 3)],
        'net.prototxt:2: layer "op" (MIL), bottom "b0": shape is (4, 2, 3), expected (R * context_per_roi, C)\n'
        "  because a region has one number for each channel\n"
        "  fix: pool the regions first",
    ),
    Message(
        "Reduction",
        "reduction_param { axis: 2 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (Reduction): axis is 2, but the bottom has 2 axes: (2, 3)\n'
        "  fix: use an axis from -2 to 1",
    ),
    Message(
        "ArgMax",
        "argmax_param { top_k: 0 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (ArgMax): top_k is 0, expected 1 to 3\n'
        "  because there are 3 elements to choose from\n"
        "  fix: remove top_k to use 1",
    ),
    Message(
        "ArgMax",
        "argmax_param { top_k: 4 axis: 1 }",
        [(2, 3, 9)],
        'net.prototxt:2: layer "op" (ArgMax): top_k is 4, expected 1 to 3\n'
        "  because there are 3 elements to choose from\n"
        "  fix: set top_k to 3 or less",
    ),
    Message(
        "ArgMax",
        "argmax_param { axis: 2 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (ArgMax): axis is 2, but the bottom has 2 axes: (2, 3)\n'
        "  fix: use an axis from -2 to 1",
    ),
    Message(
        "ArgMax",
        "",
        [()],
        'net.prototxt:2: layer "op" (ArgMax), bottom "b0": shape is (), expected at least one axis\n'
        '  fix: cut the net before this layer with outputs=["BLOB"]',
    ),
]
