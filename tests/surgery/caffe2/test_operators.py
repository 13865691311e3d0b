"""Operators and forms of them that no golden reaches, against formulas in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from prototrt import Way
from prototrt.caffe_proto.errors import ShapeError
from prototrt.surgery.ir import Array
from prototrt.tests.caffe2_nets import check, operator, refusal
from prototrt.tests.small_nets import WAYS, numbers

ways = pytest.mark.parametrize("on", WAYS)


def one(kind: str, inputs: Any = ("x",), outputs: Any = ("y",), **arguments: Any) -> Any:
    return operator(kind, inputs, outputs, **arguments)


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


@ways
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
    check(one("ConvTranspose", ["x", "w"], **arguments), {"x": x}, {"w": w}, {"y": expected}, on)
    with_bias = expected + b[:, None, None]
    check(
        one("ConvTranspose", ["x", "w", "b"], **arguments), {"x": x}, {"w": w, "b": b}, {"y": with_bias}, on
    )


@ways
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
    check(one("Slice", starts=starts, ends=ends), {"x": x}, {}, {"y": x[cut]}, on)
    places = {"starts": np.array(starts, np.int32), "ends": np.array(ends, np.int32)}
    check(one("Slice", ["x", "starts", "ends"]), {"x": x}, places, {"y": x[cut]}, on)


def test_slice_of_nothing() -> None:
    assert refusal(one("Slice", starts=[5], ends=[9]), {"x": numbers(4, 3)}, {}) == (
        "operator 0 (Slice): axis 0 is cut from 4 to 4, but has 4 elements\n"
        "  fix: give the shapes and the init net that belong to this predict net"
    )


MASKS = {
    "sequence": lambda i, j, c: j >= c[i],
    "window": lambda i, j, c: (j > c[i] + 1) | (j < c[i] - 1),
    "upper": lambda i, j, c: j > i,
    "lower": lambda i, j, c: j < i,
    "upperdiag": lambda i, j, c: j >= i,
    "lowerdiag": lambda i, j, c: j <= i,
}


@ways
@pytest.mark.parametrize("mode", MASKS)
@pytest.mark.parametrize(
    ("arguments", "rows"), [({}, 3), ({"axis": 2, "batch": 0}, 2), ({"axis": -1}, 6)], ids=str
)
def test_sequence_mask(mode: str, arguments: dict[str, int], rows: int, on: Way) -> None:
    x = numbers(3, 2, 4)
    lengths = np.array([2, 4, 0, 1, 3, 5][:rows], np.int32)
    flat = x.reshape(-1, rows, 24 // rows // (3 if "batch" in arguments else 1))
    i, j = np.indices(flat.shape[1:])
    expected = np.where(MASKS[mode](i, j, lengths), -7.5, flat).reshape(x.shape)
    has_input = mode in ("sequence", "window")
    inputs = {"x": x, **({"lengths": lengths} if has_input else {})}
    mask = one("SequenceMask", list(inputs), mode=mode, radius=1, fill_val=-7.5, **arguments)
    check(mask, inputs, {}, {"y": expected}, on)


@ways
@pytest.mark.parametrize("last", [2, -1])
def test_sequence_mask_repeats_from_an_axis(last: int, on: Way) -> None:
    x, lengths = numbers(3, 4, 2), np.array([4, 0, 2], np.int32)
    expected = np.where(np.arange(4)[None, :, None] >= lengths[:, None, None], -np.inf, x)
    mask = one("SequenceMask", ["x", "lengths"], mode="sequence", repeat_from_axis=last)
    check(mask, {"x": x, "lengths": lengths}, {}, {"y": expected}, on)


@pytest.mark.parametrize(
    ("inputs", "arguments", "message"),
    [
        (
            ["x"],
            {"mode": "middle"},
            'mode is "middle", expected one of sequence, window, upper, lower, upperdiag, lowerdiag\n'
            '  fix: cut the net before this operator with outputs=["BLOB"]',
        ),
        (
            ["x"],
            {"mode": "sequence"},
            'has 1 inputs, expected 2 inputs for mode "sequence"\n'
            "  fix: correct the arguments, or export the net again",
        ),
        (
            ["x", "lengths"],
            {"mode": "upper"},
            'has 2 inputs, expected 1 input for mode "upper"\n'
            "  fix: correct the arguments, or export the net again",
        ),
        (
            ["x", "lengths"],
            {"mode": "sequence"},
            'input "lengths": shape is (5,), expected (3,)\n'
            "  fix: give the shapes and the init net that belong to this predict net",
        ),
        (
            ["x"],
            {"mode": "upper", "batch": 1},
            "batch is 1, expected an axis before axis 1\n  fix: correct the arguments, or export the net again",
        ),
    ],
)
def test_sequence_mask_refuses(inputs: list[str], arguments: dict[str, Any], message: str) -> None:
    arrays = {"x": numbers(3, 4), "lengths": np.ones(5, np.int32)}
    found = refusal(one("SequenceMask", inputs, **arguments), {name: arrays[name] for name in inputs}, {})
    separator = ", " if message.startswith("input") else ": "
    assert found == f"operator 0 (SequenceMask){separator}{message}"


@ways
@pytest.mark.parametrize("lengths", [[4, 0, 1], [3, 2, 4], [1, 4, 4]])
def test_reverse_packed_segs(lengths: list[int], on: Way) -> None:
    x, count = numbers(4, 3, 2), np.array(lengths, np.int32)
    expected = x.copy()
    for n, length in enumerate(lengths):
        expected[:length, n] = x[:length, n][::-1]
    reverse = one("ReversePackedSegs", ["x", "lengths"])
    check(reverse, {"x": x, "lengths": count}, {}, {"y": expected}, on)


@ways
@pytest.mark.parametrize("length", [5, -1])
def test_reverse_packed_segs_refuses_lengths_outside(length: int, on: Way) -> None:
    x, count = numbers(4, 3, 2), np.array([4, length, 1], np.int32)
    reverse = one("ReversePackedSegs", ["x", "lengths"])
    with pytest.raises(ShapeError, match=f"length {length} is not one of 0 to 4"):
        check(reverse, {"x": x, "lengths": count}, {}, {"y": x}, on)


@ways
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
    norm = one("LayerNorm", ["x"], ["y", "m", "s"], **arguments)
    if is_affine:
        norm = one("LayerNorm", ["x", *weights], ["y", "m", "s"], elementwise_affine=1, **arguments)
        y = y * scale + shift
    graph = check(norm, {"x": x}, weights if is_affine else {}, {"y": y}, on)
    assert [value.name for value in graph.outputs] == ["y", "m", "s"]
    check(norm, {"x": x}, weights if is_affine else {}, statistics, on)


@ways
def test_layer_norm_does_not_look_at_its_scale_unless_told(on: Way) -> None:
    x = numbers(3, 4)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    weights = {"scale": numbers(4, seed=1), "shift": numbers(4, seed=2)}
    graph = check(one("LayerNorm", ["x", *weights], ["y", "m", "s"]), {"x": x}, weights, {"y": expected}, on)
    assert [warning.partition("_net.pb: ")[2] for warning in graph.warnings] == [
        "operator 0 (LayerNorm): elementwise_affine is not set: the inputs scale and bias are ignored, as in Caffe2"
    ]


FUNCTIONS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "GT": np.greater,
    "LE": np.less_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "GE": np.greater_equal,
}


@ways
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(
    ("shape", "arguments", "stretched"),
    [
        ((4,), {}, (1, 1, 4)),
        ((4,), {"axis_str": ""}, (1, 1, 4)),
        ((3, 4), {"axis": -1}, (1, 3, 4)),
        ((2,), {"axis": 0}, (2, 1, 1)),
        ((2, 3), {"axis": 0}, (2, 3, 1)),
        ((3,), {"axis_str": "C"}, (1, 3, 1)),
        ((3, 1), {"axis": 1}, (1, 3, 1)),
        ((1, 1, 1, 1), {}, (1, 1, 1)),
    ],
    ids=str,
)
def test_legacy_broadcast(
    kind: str, shape: tuple[int, ...], arguments: dict[str, Any], stretched: tuple[int, ...], on: Way
) -> None:
    function = FUNCTIONS[kind]
    x = np.round(numbers(2, 3, 4) * 2) / 2
    b = np.sign(numbers(*shape, seed=1)).astype(np.float32)
    wanted = function(x, b.reshape(stretched))
    operators = [one(kind, ["x", "b"], ["z"], broadcast=1, **arguments), one("Cast", ["z"], to="float")]
    check(operators, {"x": x}, {"b": b}, {"y": wanted.astype(np.float32)}, on)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"axis_str": "K"},
            'operator 0 (Add): axis_str is "K", expected one letter of the order "NCHW"\n'
            "  fix: correct the arguments, or export the net again",
        ),
        (
            {"axis": 2},
            'operator 0 (Add), input "b": shape is (3, 4),'
            " expected that of the first input, (2, 3, 4), from axis 2 on\n"
            "  fix: give the shapes and the init net that belong to this predict net",
        ),
    ],
)
def test_legacy_broadcast_refuses(arguments: dict[str, Any], message: str) -> None:
    add = one("Add", ["x", "b"], broadcast=1, **arguments)
    assert refusal(add, {"x": numbers(2, 3, 4)}, {"b": numbers(3, 4)}) == message


def test_outputs_that_are_missing() -> None:
    assert refusal(one("LayerNorm"), {"x": numbers(3, 4)}, {}) == (
        "operator 0 (LayerNorm): has 1 output, expected 3\n  fix: list as many outputs as the layer makes"
    )


@ways
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat_along_a_new_axis(axis: int, on: Way) -> None:
    a, b = numbers(2, 3), numbers(2, 3, seed=1)
    concat = one("Concat", ["a", "b"], ["y", "sizes"], axis=axis, add_axis=1)
    check(concat, {"a": a, "b": b}, {}, {"y": np.stack([a, b], axis)}, on)


def test_concat_beyond_the_axes() -> None:
    concat = one("Concat", ["x", "x"], ["y", "sizes"], axis=5, add_axis=1)
    assert refusal(concat, {"x": numbers(2, 3)}, {}) == (
        "operator 0 (Concat): axis is 5, but the input has 3 axes: (1, 2, 3)\n  fix: use an axis from -3 to 2"
    )


@ways
@pytest.mark.parametrize(("axis", "axis_w"), [(1, 1), (2, 1), (1, 2), (0, 1), (-1, -1)])
def test_fc(axis: int, axis_w: int, on: Way) -> None:
    x = numbers(2, 3, 4)
    inputs, outputs = int(np.prod(x.shape[axis:])), 6
    shape = (outputs, inputs) if axis_w != 2 else (2, 3, inputs)
    w, b = numbers(*shape, seed=1), numbers(outputs, seed=2)
    expected = x.reshape(-1, inputs) @ w.reshape(outputs, inputs).T + b
    leading = x.shape[: axis % 3]
    fc = one("FC", ["x", "w", "b"], axis=axis, axis_w=axis_w)
    check(fc, {"x": x}, {"w": w, "b": b}, {"y": expected.reshape(*leading, outputs)}, on)


@ways
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_batch_matmul(trans_a: int, trans_b: int, on: Way) -> None:
    a, b = numbers(2, 3, 4), numbers(2, 4, 5, seed=1)
    given = {"a": a.swapaxes(1, 2).copy() if trans_a else a, "b": b.swapaxes(1, 2).copy() if trans_b else b}
    matmul = one("BatchMatMul", ["a", "b"], trans_a=trans_a, trans_b=trans_b)
    check(matmul, given, {}, {"y": a @ b}, on)


@ways
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
        one("SparseLengthsSum", ["table", "index", "lengths"], ["sums"]),
        one("SparseLengthsMean", ["table", "index", "lengths"], ["means"]),
        one("SparseLengthsWeightedSum", ["table", "weights", "index", "lengths"], ["weighted"]),
    ]
    inputs = {"index": index, "lengths": lengths, "weights": weights}
    expected = {"sums": sums, "means": means, "weighted": weighted}
    check(operators, inputs, {"table": table}, expected, on)


@ways
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
        one("FC", ["x", "top", "bias"]), {"x": x}, {"w": w}, {"y": x @ w[:2, :, 0].T + 0.5}, on, fills=fills
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
    operators = [operator("ScatterAssign", ["w", "index", "rows"], ["v"]), one("Add", ["x", "v"])]
    assert refusal(operators, {"x": numbers(2)}, weights) == f"operator 0 (ScatterAssign), {message}"


PASSED_ON = [
    *("Alias", "CopyCPUToGPU", "CopyGPUToCPU", "CopyOnDeviceLike"),
    *("EnsureCPUOutput", "EnsureDense", "StopGradient"),
]


@ways
@pytest.mark.parametrize("kind", PASSED_ON)
def test_what_only_passes_a_blob_on(kind: str, on: Way) -> None:
    x = numbers(2, 3)
    operators = [one(kind, outputs=["same"]), one("Negative", ["same"])]
    check(operators, {"x": x}, {}, {"y": -x}, on)


@ways
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Abs", np.abs),
        ("Negative", np.negative),
        ("Softsign", lambda x: x / (1 + abs(x))),
        ("Sqr", np.square),
        ("FlattenToVec", np.ravel),
    ],
)
def test_functions_of_one_blob(kind: str, expected: Callable[[Array], Array], on: Way) -> None:
    x = numbers(2, 3, 4)
    check(one(kind), {"x": x}, {}, {"y": expected(x)}, on)


@ways
def test_fc_transposed(on: Way) -> None:
    x, w, b = numbers(2, 3, 4), numbers(12, 5, seed=1), numbers(5, seed=2)
    check(
        one("FCTransposed", ["x", "w", "b"]), {"x": x}, {"w": w, "b": b}, {"y": x.reshape(2, 12) @ w + b}, on
    )


@ways
@pytest.mark.parametrize(("kind", "axes"), [("AveragePool2D", 2), ("AveragePool3D", 3)])
def test_average_over_as_many_axes_as_the_name_says(kind: str, axes: int, on: Way) -> None:
    x = numbers(2, 3, *(4, 6, 2)[:axes])
    parts = x.reshape(2, 3, *(size for axis in x.shape[2:] for size in (axis // 2, 2)))
    expected = parts.mean(axis=tuple(range(3, 3 + 2 * axes, 2)))
    check(one(kind, kernels=[2] * axes, strides=[2] * axes), {"x": x}, {}, {"y": expected}, on)


@ways
def test_convolution_over_three_axes(on: Way) -> None:
    x, w = numbers(1, 2, 3, 4, 3), numbers(3, 2, 2, 1, 2, seed=1)
    seen = np.lib.stride_tricks.sliding_window_view(x, (2, 1, 2), (2, 3, 4))
    expected = np.einsum("ncxyzijk,ocijk->noxyz", seen, w)
    check(one("Conv3D", ["x", "w"], kernels=[2, 1, 2]), {"x": x}, {"w": w}, {"y": expected}, on)


@ways
def test_a_condition_that_the_init_net_states(on: Way) -> None:
    a, b = numbers(2, 2), numbers(2, 2, seed=1)
    chosen = operator("GivenTensorBoolFill", [], ["chosen"], shape=[2, 2], values=[1, 0, 0, 1])
    expected = np.where([[True, False], [False, True]], a, b)
    check(one("Where", ["chosen", "a", "b"]), {"a": a, "b": b}, {}, {"y": expected}, on, fills=[chosen])
