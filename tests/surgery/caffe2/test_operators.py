"""Operators and forms of them that no golden reaches, against formulas in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from prototrt import Way
from prototrt.surgery.ir import Array
from prototrt.tests.caffe2_nets import check, operator, refusal
from prototrt.tests.small_nets import WAYS, numbers


def grown(
    x: Array, w: Array, stride: Sequence[int], pads: Sequence[int], adj: Sequence[int], group: int
) -> Array:
    """ConvTranspose by its definition: every element of x puts a kernel into a larger image."""
    count, channels, height, width = x.shape
    sizes = [(n - 1) * s + k + a for n, s, k, a in zip(x.shape[2:], stride, w.shape[2:], adj, strict=True)]
    each, per_group = w.shape[1], channels // group
    whole = np.zeros((count, each * group, *sizes))
    for n, c, i, j in product(range(count), range(channels), range(height), range(width)):
        start = c // per_group * each
        top, left = i * stride[0], j * stride[1]
        whole[n, start : start + each, top : top + w.shape[2], left : left + w.shape[3]] += (
            x[n, c, i, j] * w[c]
        )
    top, left, bottom, right = pads
    return whole[:, :, top : sizes[0] - bottom, left : sizes[1] - right]


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("arguments", "stride", "pads", "adj", "group"),
    [
        ({"kernel": 3}, (1, 1), (0, 0, 0, 0), (0, 0), 1),
        ({"kernels": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 0]}, (2, 3), (1, 0, 1, 0), (0, 0), 1),
        (
            {"kernel_h": 3, "kernel_w": 3, "stride": 2, "pad_t": 0, "pad_l": 2, "pad_b": 1, "pad_r": 1},
            (2, 2),
            (0, 2, 1, 1),
            (0, 0),
            1,
        ),
        ({"kernel": 3, "stride": 2, "pad": 1, "adj": 1}, (2, 2), (1, 1, 1, 1), (1, 1), 1),
        ({"kernel": 3, "stride_h": 3, "stride_w": 2, "adj_h": 2, "adj_w": 1}, (3, 2), (0,) * 4, (2, 1), 1),
        (
            {"kernel": 3, "strides": [3, 3], "adjs": [2, 0], "pads": [1, 0, 1, 2]},
            (3, 3),
            (1, 0, 1, 2),
            (2, 0),
            1,
        ),
        ({"kernel": 3, "stride": 2, "group": 2}, (2, 2), (0,) * 4, (0, 0), 2),
        ({"kernel": 3, "stride": 2, "legacy_pad": 2}, (2, 2), (0,) * 4, (0, 0), 1),
    ],
    ids=str,
)
def test_conv_transpose(
    arguments: dict[str, Any],
    stride: Sequence[int],
    pads: Sequence[int],
    adj: Sequence[int],
    group: int,
    on: Way,
) -> None:
    width = arguments.get("kernels", (3, 3))[1]
    x, w, b = numbers(2, 4, 3, 5), numbers(4, 3, 3, width, seed=1), numbers(3 * group, seed=2)
    expected = grown(x, w, stride, pads, adj, group)
    check(operator("ConvTranspose", ["x", "w"], **arguments), {"x": x}, {"w": w}, {"y": expected}, on)
    with_bias = expected + b[:, None, None]
    check(
        operator("ConvTranspose", ["x", "w", "b"], **arguments),
        {"x": x},
        {"w": w, "b": b},
        {"y": with_bias},
        on,
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    ("starts", "ends", "cut"),
    [
        ([1, 0, 0], [3, -1, -1], np.s_[1:3]),
        ([0, 1], [-1, 100], np.s_[:, 1:]),
        ([0, 0, -3], [-1, -1, -2], np.s_[:, :, 3:4]),
        ([0, 0, 2], [-1, -1, -1], np.s_[:, :, 2:]),
        ([2], [-1], np.s_[2:]),
    ],
)
def test_slice(starts: list[int], ends: list[int], cut: Any, on: Way) -> None:
    x = numbers(4, 3, 5)
    check(operator("Slice", starts=starts, ends=ends), {"x": x}, {}, {"y": x[cut]}, on)
    places = {"starts": np.array(starts, np.int32), "ends": np.array(ends, np.int32)}
    check(operator("Slice", ["x", "starts", "ends"]), {"x": x}, places, {"y": x[cut]}, on)


@pytest.mark.parametrize(
    ("start", "end", "found", "fix"),
    [
        (5, 9, "4 to 4", "give the shapes and the init net that belong to this predict net"),
        (4, -1, "4 to 4", "give the shapes and the init net that belong to this predict net"),
        (3, 2, "3 to 2", "correct the arguments, or export the net again"),
        (-2, -2, "3 to 3", "correct the arguments, or export the net again"),
    ],
)
def test_slice_of_nothing(start: int, end: int, found: str, fix: str) -> None:
    assert refusal(operator("Slice", starts=[start], ends=[end]), {"x": numbers(4, 3)}, {}) == (
        f"operator 0 (Slice): axis 0 is cut from {found}, but has 4 elements\n  fix: {fix}"
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("axis", [1, 2, -1, 0])
@pytest.mark.parametrize("is_affine", [False, True])
def test_layer_norm(axis: int, is_affine: bool, on: Way) -> None:
    x = numbers(2, 3, 4) * 3 + 1
    axes = tuple(range(axis % 3, 3))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    deviation = np.sqrt(variance + 0.01)
    scale, shift = numbers(*x.shape[axis % 3 :], seed=1), numbers(*x.shape[axis % 3 :], seed=2)
    y = (x - mean) / deviation
    statistics = {
        name: array.reshape(*x.shape[: axis % 3], 1) for name, array in (("m", mean), ("s", deviation))
    }
    arguments = {"axis": axis, "epsilon": 0.01}
    weights = {"scale": scale, "shift": shift}
    norm = operator("LayerNorm", ["x"], ["y", "m", "s"], **arguments)
    if is_affine:
        norm = operator("LayerNorm", ["x", *weights], ["y", "m", "s"], elementwise_affine=1, **arguments)
        y = y * scale + shift
    graph = check(norm, {"x": x}, weights if is_affine else {}, {"y": y}, on)
    assert [value.name for value in graph.outputs] == ["y", "m", "s"]
    check(norm, {"x": x}, weights if is_affine else {}, statistics, on)


@pytest.mark.parametrize("on", WAYS)
def test_layer_norm_does_not_look_at_its_scale_unless_told(on: Way) -> None:
    x = numbers(3, 4)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    weights = {"scale": numbers(4, seed=1), "shift": numbers(4, seed=2)}
    graph = check(
        operator("LayerNorm", ["x", *weights], ["y", "m", "s"]), {"x": x}, weights, {"y": expected}, on
    )
    assert [warning.partition("_net.pb: ")[2] for warning in graph.warnings] == [
        "operator 0 (LayerNorm): elementwise_affine is not set: the inputs scale and bias are ignored, as in Caffe2"
    ]


def test_the_noise_of_a_stylizer_is_left_out() -> None:
    x, mean = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4), np.array([1, 2, 3], np.float32)
    planes = operator("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["x", "mean"])
    graph = check(
        planes, {"x": x}, {"mean": mean}, {"y": (x[..., :3] - mean).transpose(0, 3, 1, 2)}, "reference"
    )
    assert [warning.partition("_net.pb: ")[2] for warning in graph.warnings] == [
        f"operator 0 ({planes.type}): the random noise of Caffe2 (noise_std 10) is left out"
    ]


def test_outputs_that_are_missing() -> None:
    assert refusal(operator("LayerNorm"), {"x": numbers(3, 4)}, {}) == (
        "operator 0 (LayerNorm): has 1 output, expected 3\n  fix: list as many outputs as the layer makes"
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat_along_a_new_axis(axis: int, on: Way) -> None:
    a, b = numbers(2, 3), numbers(2, 3, seed=1)
    concat = operator("Concat", ["a", "b"], ["y", "sizes"], axis=axis, add_axis=1)
    check(concat, {"a": a, "b": b}, {}, {"y": np.stack([a, b], axis)}, on)


def test_concat_beyond_the_axes() -> None:
    concat = operator("Concat", ["x", "x"], ["y", "sizes"], axis=5, add_axis=1)
    assert refusal(concat, {"x": numbers(2, 3)}, {}) == (
        "operator 0 (Concat): axis is 5, but the input has 3 axes: (1, 2, 3)\n  fix: use an axis from -3 to 2"
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("axis", "axis_w"), [(1, 1), (2, 1), (1, 2), (0, 1), (-1, -1)])
def test_fc(axis: int, axis_w: int, on: Way) -> None:
    x = numbers(2, 3, 4)
    inputs, outputs = int(np.prod(x.shape[axis:])), 6
    shape = (outputs, inputs) if axis_w != 2 else (2, 3, inputs)
    w, b = numbers(*shape, seed=1), numbers(outputs, seed=2)
    expected = x.reshape(-1, inputs) @ w.reshape(outputs, inputs).T + b
    leading = x.shape[: axis % 3]
    fc = operator("FC", ["x", "w", "b"], axis=axis, axis_w=axis_w)
    check(fc, {"x": x}, {"w": w, "b": b}, {"y": expected.reshape(*leading, outputs)}, on)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_batch_matmul(trans_a: int, trans_b: int, on: Way) -> None:
    a, b = numbers(2, 3, 4), numbers(2, 4, 5, seed=1)
    given = {"a": a.swapaxes(1, 2).copy() if trans_a else a, "b": b.swapaxes(1, 2).copy() if trans_b else b}
    matmul = operator("BatchMatMul", ["a", "b"], trans_a=trans_a, trans_b=trans_b)
    check(matmul, given, {}, {"y": a @ b}, on)


@pytest.mark.parametrize("on", WAYS)
def test_bags_of_rows_of_a_table(on: Way) -> None:
    """These Caffe2 runs on processors that it knows only."""
    table, weights = numbers(4, 3), numbers(6, seed=1)
    index, lengths = np.array([3, 0, 0, 2, 1, 3], np.int32), np.array([2, 0, 3, 1], np.int32)
    parts = np.split(np.arange(6), np.cumsum(lengths)[:-1])
    picked = table[index]
    sums = np.stack([picked[part].sum(0) for part in parts])
    means = sums / np.maximum(lengths, 1)[:, None]
    weighted = np.stack([(picked[part] * weights[part, None]).sum(0) for part in parts])
    operators = [
        operator("SparseLengthsSum", ["table", "index", "lengths"], ["sums"]),
        operator("SparseLengthsMean", ["table", "index", "lengths"], ["means"]),
        operator("SparseLengthsWeightedSum", ["table", "weights", "index", "lengths"], ["weighted"]),
    ]
    inputs = {"index": index, "lengths": lengths, "weights": weights}
    expected = {"sums": sums, "means": means, "weighted": weighted}
    check(operators, inputs, {"table": table}, expected, on)


@pytest.mark.parametrize("on", WAYS)
def test_weights_that_the_init_net_computes(on: Way) -> None:
    """Written over in place, as Caffe2's exporters from ONNX do."""
    x, w = numbers(2, 3), numbers(4, 3, 1, seed=1)
    fills = [
        operator("Squeeze", ["w"], ["w"], dims=[2]),
        operator("GivenTensorInt64Fill", [], ["ends"], shape=[2], values=[-1, -1]),
        operator("GivenTensorIntFill", [], ["axis"], shape=[1], values=[0]),
        operator("GivenTensorInt64Fill", [], ["end"], shape=[1], values=[2]),
        operator("ScatterAssign", ["ends", "axis", "end"], ["ends"]),
        operator("ConstantFill", [], ["starts"], shape=[2], dtype=10, value=0),
        operator("Slice", ["w", "starts", "ends"], ["top"]),
        operator("Shape", ["top"], ["sizes"], axes=[0]),
        operator("ConstantFill", ["sizes"], ["bias"], input_as_shape=1, value=0.5),
    ]
    check(
        operator("FC", ["x", "top", "bias"]),
        {"x": x},
        {"w": w},
        {"y": x @ w[:2, :, 0].T + 0.5},
        on,
        fills=fills,
    )


@pytest.mark.parametrize(
    ("index", "rows", "message"),
    [
        (
            [0],
            [[1.0]],
            'input "rows": shape is (1, 1), expected (1,)\n'
            "  fix: give the shapes and the init net that belong to this predict net",
        ),
        (
            [2],
            [1.0],
            'input "index": index 2 is outside the 2 rows\n  fix: store indices of existing rows',
        ),
    ],
)
def test_scatter_assign_refuses(index: list[int], rows: list[Any], message: str) -> None:
    weights = {"index": np.array(index, np.int32), "rows": np.array(rows, np.float32), "w": numbers(2)}
    operators = [operator("ScatterAssign", ["w", "index", "rows"], ["v"]), operator("Add", ["x", "v"])]
    assert refusal(operators, {"x": numbers(2)}, weights) == f"operator 0 (ScatterAssign), {message}"


def test_scatter_assign_refuses_one_number_and_fractions_as_places() -> None:
    rows, one = np.ones(1, np.float32), np.array(1, np.float32)
    weights = {"index": np.zeros(1, np.int32), "rows": rows, "w": one}
    operators = [operator("ScatterAssign", ["w", "index", "rows"], ["v"]), operator("Add", ["x", "v"])]
    assert refusal(operators, {"x": numbers(2)}, weights) == (
        'operator 0 (ScatterAssign), input "w": shape is (), expected at least one axis\n'
        "  fix: give the shapes and the init net that belong to this predict net"
    )
    fractions = {"index": np.zeros(1, np.float32), "rows": rows, "w": numbers(2)}
    assert refusal(operators, {"x": numbers(2)}, fractions).startswith(
        'operator 0 (ScatterAssign), input "index": holds float32, expected int32\n'
    )


@pytest.mark.parametrize("on", WAYS)
def test_fc_transposed(on: Way) -> None:
    x, w, b = numbers(2, 3, 4), numbers(12, 5, seed=1), numbers(5, seed=2)
    check(
        operator("FCTransposed", ["x", "w", "b"]),
        {"x": x},
        {"w": w, "b": b},
        {"y": x.reshape(2, 12) @ w + b},
        on,
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("kind", "axes"), [("AveragePool2D", 2), ("AveragePool3D", 3)])
def test_average_over_as_many_axes_as_the_name_says(kind: str, axes: int, on: Way) -> None:
    x = numbers(2, 3, *(4, 6, 2)[:axes])
    parts = x.reshape(2, 3, *(size for axis in x.shape[2:] for size in (axis // 2, 2)))
    expected = parts.mean(axis=tuple(range(3, 3 + 2 * axes, 2)))
    check(operator(kind, kernels=[2] * axes, strides=[2] * axes), {"x": x}, {}, {"y": expected}, on)


@pytest.mark.parametrize("on", WAYS)
def test_convolution_over_three_axes(on: Way) -> None:
    x, w = numbers(1, 2, 3, 4, 3), numbers(3, 2, 2, 1, 2, seed=1)
    seen = np.lib.stride_tricks.sliding_window_view(x, (2, 1, 2), (2, 3, 4))
    expected = np.einsum("ncxyzijk,ocijk->noxyz", seen, w)
    check(operator("Conv3D", ["x", "w"], kernels=[2, 1, 2]), {"x": x}, {"w": w}, {"y": expected}, on)


@pytest.mark.parametrize("on", WAYS)
def test_a_condition_that_the_init_net_states(on: Way) -> None:
    a, b = numbers(2, 2), numbers(2, 2, seed=1)
    chosen = operator("GivenTensorBoolFill", [], ["chosen"], shape=[2, 2], values=[1, 0, 0, 1])
    expected = np.where([[True, False], [False, True]], a, b)
    check(operator("Where", ["chosen", "a", "b"]), {"a": a, "b": b}, {}, {"y": expected}, on, fills=[chosen])


TRUTHS = np.array([[1, 0], [0, -2]], np.float32)
READERS: dict[str, Callable[[Array, Array], Array]] = {
    "Where": lambda t, a: np.where(t, a, 2 * a),
    "And": lambda t, a: np.where(t & (a > 0), 1, 0),
    "Or": lambda t, a: np.where(t | (a > 0), 1, 0),
    "Xor": lambda t, a: np.where(t ^ (a > 0), 1, 0),
    "Not": lambda t, a: np.where(t, 0, 1),
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", READERS)
def test_an_input_of_truths_holds_numbers(kind: str, on: Way) -> None:
    """As in a remainder, after an operator that compares."""
    a = numbers(2, 2)
    bottoms = {"Where": ["truths", "a", "twice"], "Not": ["truths"]}.get(kind, ["positive", "truths"])
    before = [operator("Add", ["a", "a"], ["twice"]), operator("GT", ["twice", "a"], ["positive"])]
    after = operator(kind, bottoms, ["z"]), operator("Cast", ["z"], to=1)
    expected = READERS[kind](TRUTHS != 0, a).astype(np.float32)
    check([*before, *after], {"truths": TRUTHS, "a": a}, {}, {"y": expected}, on)
