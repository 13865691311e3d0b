"""Weights go from one framework's order to another's and back; what is computed from them is in test_variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import weights
from prototrt.caffe_proto.caffe2.packed import PackedLayout
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.ir import Array
from prototrt.surgery.layers.recurrent.parameters import NamedBlob, StoredDirection, gru_blobs, lstm_blobs
from prototrt.surgery.recurrent.weights import CAFFES_ORDER, DirectionWeights
from prototrt.tests.recurrent_cases import RecurrentCase, recurrent_cases
from prototrt.tests.small_nets import inputs_of, loaded, stored

PACKED = [case for case in recurrent_cases() if case.folder.parent.name == "cudnn"]


def sizes(case: RecurrentCase) -> tuple[str, int, int, int, int, int]:
    meta = case.meta
    directions = 2 if meta["bidirectional"] else 1
    return meta["mode"], meta["D"], meta["H"], meta["num_layers"], directions, meta["proj_size"]


def named(one: DirectionWeights) -> dict[str, Array]:
    found = {name: getattr(one, name) for name in ("x", "h", "x_bias", "h_bias", "projection", "peephole")}
    return {name: array for name, array in found.items() if array is not None}


def assert_same(left: list[DirectionWeights], right: list[DirectionWeights]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert named(a).keys() == named(b).keys()
        for name, array in named(a).items():
            np.testing.assert_array_equal(array, named(b)[name], err_msg=name)


def numbered(cell: str = "LSTM", hidden: int = 2, inputs: int = 3) -> DirectionWeights:
    """Every row holds the letter of its gate, as a number, and which unit it is."""
    order = weights.ORDERS[cell]["caffe"]
    rows = np.array([100 * order.index(gate) + unit for gate in order for unit in range(hidden)], np.float32)
    x = rows[:, None] + np.arange(inputs, dtype=np.float32) / 10
    return DirectionWeights(cell, x, rows[:, None] + np.zeros((1, hidden), np.float32), rows, rows + 0.5)


@pytest.mark.parametrize("case", PACKED, ids=str)
def test_pytorch_and_cudnn_agree(case: RecurrentCase) -> None:
    """The goldens hold both forms of the same parameters."""
    packed = np.load(case.folder / "packed_weight.npy")
    stack = weights.from_cudnn(packed, *sizes(case))
    assert_same(stack, weights.from_pytorch(case.stored, case.meta["mode"]))
    np.testing.assert_array_equal(weights.to_cudnn(stack), packed)
    back = weights.to_pytorch(stack, sizes(case)[4])
    assert back.keys() == case.stored.keys()
    for name, array in back.items():
        np.testing.assert_array_equal(array, case.stored[name], err_msg=name)


@pytest.mark.parametrize(
    ("cell", "framework", "gates"),
    [
        ("LSTM", "pytorch", [0, 1, 3, 2]),
        ("LSTM", "cudnn", [0, 1, 3, 2]),
        ("LSTM", "onnx", [0, 2, 1, 3]),
        ("LSTM", "caffe2", [0, 1, 2, 3]),
        ("GRU", "onnx", [1, 0, 2]),
        ("GRU", "pytorch", [0, 1, 2]),
    ],
)
def test_rows(cell: str, framework: str, gates: list[int]) -> None:
    """Which of Caffe's gates (i f o g; r z n) stand where, in the words of each framework's documentation."""
    rows = numbered(cell).x
    moved = weights.reordered(rows, cell, "caffe", framework)
    assert [int(row) // 100 for row in moved[::2, 0]] == gates
    np.testing.assert_array_equal(weights.reordered(moved, cell, framework, "caffe"), rows)


@pytest.mark.parametrize("cell", weights.ORDERS)
def test_there_and_back(cell: str) -> None:
    stack = [numbered(cell), numbered(cell)]
    onnx = weights.to_onnx(stack)
    assert_same(weights.from_onnx(onnx["W"], onnx["R"], onnx["B"], cell=cell), stack)
    assert_same([weights.from_caffe2(**weights.to_caffe2(stack[0]), cell=cell)], stack[:1])
    assert_same(weights.from_pytorch(weights.to_pytorch(stack, 2), cell), stack)
    blobs = weights.to_caffe(stack)
    again = weights.from_caffe(blobs, cell, recurrent_bias=cell == "GRU")
    np.testing.assert_array_equal(again[1].bias, stack[1].bias)
    np.testing.assert_array_equal(again[1].h, stack[1].h)


def test_peepholes() -> None:
    """ONNX has them as i, o, f in one row; Caffe has a row each: i, f, o."""
    one = weights.from_onnx(
        np.zeros((1, 8, 3)), np.zeros((1, 8, 2)), None, np.array([[1, 2, 31, 32, 21, 22]])
    )[0]
    np.testing.assert_array_equal(one.peephole, [[1, 2], [21, 22], [31, 32]])
    np.testing.assert_array_equal(weights.to_onnx([one])["P"], [[1, 2, 31, 32, 21, 22]])
    np.testing.assert_array_equal(
        weights.from_caffe(weights.to_caffe([one]), peephole=True)[0].peephole, one.peephole
    )


def test_what_a_framework_lacks() -> None:
    one = numbered()
    projected = weights.from_caffe([*weights.to_caffe([one]), np.zeros((1, 2))], projection=True)
    with pytest.raises(ValueError, match=r"^ONNX has no projections$"):
        weights.to_onnx(projected)
    peephole = weights.from_caffe([*weights.to_caffe([one]), np.zeros((3, 2))], peephole=True)
    for write, name in ((weights.to_pytorch, "PyTorch"), (weights.to_cudnn, "cuDNN")):
        with pytest.raises(ValueError, match=rf"^{name} has no peepholes$"):
            write(peephole)


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"^the vector has 5 numbers, expected 12$"):
        weights.from_cudnn(np.zeros(5), "RNN", 2, 2)
    with pytest.raises(ValueError, match=r"^5 rows cannot be divided into 4 gates$"):
        weights.reordered(np.zeros((5, 1)), "LSTM", "caffe", "onnx")
    with pytest.raises(ValueError, match=r"^there are 4 blobs, expected a multiple of 3: 3 per direction$"):
        weights.from_caffe([np.zeros(1)] * 4)
    with pytest.raises(ValueError, match=r"^the cell is 'lstm', expected one of LSTM, GRU, RNN$"):
        weights.from_caffe([np.zeros(1)] * 3, "lstm")
    with pytest.raises(ValueError, match=r"^there is no weight_ih_l0 among the parameters$"):
        weights.from_pytorch({})


def test_parameters_with_other_names() -> None:
    matrix = np.zeros((4, 1))
    with pytest.raises(ValueError, match=r"^there is no weight_ih_l0 among the parameters$"):
        weights.from_pytorch({})
    with pytest.raises(
        ValueError, match=r"; remove the prefix of lstm\.weight_ih_l0 and of the other names$"
    ):
        weights.from_pytorch({"lstm.weight_ih_l0": matrix})
    with pytest.raises(ValueError, match=r"^there is weight_ih_l0 but no weight_hh_l0 among the parameters$"):
        weights.from_pytorch({"weight_ih_l0": matrix})


@pytest.mark.parametrize("linear_before_reset", [0, 1])
def test_a_gru_of_onnx_gives_what_onnxruntime_gives(linear_before_reset: int, tmp_path: Path) -> None:
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    random = np.random.default_rng(5)
    shapes = {"x": (4, 2, 3), "W": (1, 15, 3), "R": (1, 15, 5), "B": (1, 30)}
    arrays = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    helper = onnx.helper
    node = helper.make_node("GRU", [*arrays], ["y"], hidden_size=5, linear_before_reset=linear_before_reset)
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    graph = helper.make_graph([node], "gru", inputs, [helper.make_tensor_value_info("y", 1, (4, 1, 2, 5))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, arrays)

    stack = weights.from_onnx(arrays["W"], arrays["R"], arrays["B"], cell="GRU")
    blobs = weights.to_caffe(stack, recurrent_bias=bool(linear_before_reset))
    field = "linear_before_reset: true" if linear_before_reset else ""
    text = (
        inputs_of({"x": (4, 2, 3)}) + 'layer { name: "gru" type: "GRU" bottom: "x" top: "gru"'
        f" recurrent_param {{ num_output: 5 {field} }} }}"
    )
    result = prototrt.Session(prototrt.rewrite(loaded(tmp_path, text, stored("gru", blobs))))
    np.testing.assert_allclose(result.run({"x": arrays["x"]})["gru"], expected[:, 0], 1e-4, 1e-5)


def test_it_is_public() -> None:
    assert prototrt.weights is weights


def test_the_table_of_the_documentation(request: pytest.FixtureRequest) -> None:
    """The orders in docs/recurrent.md are those that are computed; c and h are other names of g and n."""
    text = (request.config.rootpath / "docs" / "recurrent.md").read_text()
    rows = text.partition("<!-- orders -->\n")[2].partition("<!-- /orders -->")[0].splitlines()[2:]
    shown = {cells[1].strip().lower(): cells[2:4] for cells in (row.split("|") for row in rows)}
    assert shown.keys() == weights.ORDERS["LSTM"].keys()
    for framework, (lstm, gru) in shown.items():
        assert lstm.replace(" ", "").replace("c", "g") == weights.ORDERS["LSTM"][framework]
        assert gru.replace(" ", "").replace("h", "n") == weights.ORDERS["GRU"][framework]


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_the_parameters_of_recurrent_nets_in_caffe2_are_in_this_order(cell: str) -> None:
    """Operators that get and set a single parameter know where it lies in the packed vector."""
    letters = {"input_gate": "i", "forget_gate": "f", "cell": "g", "output_gate": "o"}
    letters |= {"reset": "r", "update": "z", "new": "n"}
    layout = PackedLayout(cell.lower(), inputs=2, hidden=3, layers=2, directions=2)
    packed = np.arange(layout.size, dtype=np.float32)
    stack, order = weights.from_cudnn(packed, cell, 2, 3, 2, 2), weights.ORDERS[cell]["caffe"]
    for part in layout.arrays.values():
        kind = "" if part.parameter.endswith("_w") else "_bias"
        rows = getattr(stack[part.layer], {"input": "x", "recurrent": "h"}[part.source] + kind)
        first = 3 * order.index(letters[part.parameter[:-2]])
        stored = packed[part.offset : part.offset + int(np.prod(part.shape))]
        np.testing.assert_array_equal(rows[first : first + 3], stored.reshape(part.shape))


@pytest.mark.parametrize(
    ("blobs", "fields", "absent"),
    [
        (lstm_blobs, {"peephole": True, "num_proj": 2}, "b_hc"),
        (gru_blobs, {"linear_before_reset": True}, "peephole W_proj"),
    ],
)
def test_the_order_is_that_in_which_layers_read_blobs(
    blobs: Callable[[StoredDirection], Iterator[NamedBlob]],
    fields: dict[str, Any],
    absent: str,
    tmp_path: Path,
) -> None:
    text = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 1 dim: 3 } } }'
    (layer,) = loaded(tmp_path, text).layers
    param = message_class("RecurrentParameter")(num_output=4, **fields)
    read = [blob.name for blob in blobs(StoredDirection(layer, param, 4, 0, 0))]
    assert read == [name for name in CAFFES_ORDER.values() if name not in absent.split()]
