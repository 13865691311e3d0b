"""Single parameters of weights, listed, read and set: on nets that Caffe, Caffe2 and PyTorch computed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.front.parameters.files import SUFFIXES, read_arrays, write_arrays
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import Array
from prototrt.surgery.layers.recurrent.recurrent_types import named_blobs
from prototrt.tests.caffe2_cases import Caffe2Case
from prototrt.tests.command_line import run
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.golden_cases import GOLDENS, Case, caffe_cases, case_called, fork_cases
from prototrt.tests.npz import write_npz
from prototrt.tests.small_nets import failure

CASES = [
    case
    for case in (*caffe_cases(), *fork_cases())
    if str(case) != "lstm_mycaffe"  # its blobs have several parameters each
    and {"GRU", "LSTM", "LSTMNew", "LSTMTopic", "LSTMController", "RNN", "VanillaRNN", "Lstm"}
    & {*case.facts["layer_types"]}
]
TORCH = Caffe2Case(GOLDENS / "cudnn" / "lstm_1l")
CHECKPOINT = TORCH.folder / "checkpoint.pt"
"""Saved by PyTorch 2.14: the same LSTM as ``rnn``, behind an ``fc``, in a checkpoint with an epoch."""
NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 5 dim: 2 } } }
layer { name: "rnn" type: "TYPE" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 3 FIELDS } }
"""


def written(kind: str, fields: str, *shapes: tuple[int, ...]) -> prototrt.Model:
    """A net of one layer with blobs of zeros."""
    Path("net.prototxt").write_text(NET.replace("TYPE", kind).replace("FIELDS", fields))
    blobs = [np.zeros(shape, np.float32) for shape in shapes]
    write_npz("zeros.npz", {f"rnn/{index}": blob for index, blob in enumerate(blobs)})
    return prototrt.load("net.prototxt", "zeros.npz")


LSTM = ("LSTM", "", (12, 4), (12,), (12, 3))


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("case", CASES, ids=str)
def test_names_are_those_that_the_rules_read(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, list[str]] = {}
    parameter = LayerBuilder.parameter

    def recorded(build: Any, layer: Any, shape: Any, what: str, **options: Any) -> Any:
        read.setdefault(layer.name, []).append(what)
        return parameter(build, layer, shape, what, **options)

    monkeypatch.setattr(LayerBuilder, "parameter", recorded)
    model = case.load()
    shapes = {name: array.shape for name, array in case.arrays("inputs")[0].items()}
    prototrt.rewrite(model, shapes=shapes)
    for layer in model.layers:
        names = [blob.name.partition("_l0")[0].partition("_l1")[0] for blob in named_blobs(layer)]
        assert names in ([], read.get(layer.name, [])), layer.name
        if layer.type in ("LSTM", "RNN", "GRU"):
            assert names, layer.name


def test_gates_are_rows_in_caffes_order() -> None:
    case = case_called("lstm_static")
    model = case.load()
    (blobs,) = [[blob.array for blob in layer.blobs or ()] for layer in model.layers if layer.type == "LSTM"]
    arrays = {each.address: each.array for each in prototrt.list_weights(model).parameters}
    assert [*arrays][:6] == [
        f"lstm/{name}" for name in ("W_xc/i", "W_xc/f", "W_xc/o", "W_xc/g", "b_c/i", "b_c/f")
    ]
    np.testing.assert_array_equal(arrays["lstm/W_xc/f"], blobs[0][6:12])
    np.testing.assert_array_equal(arrays["lstm/b_c/o"], blobs[1][12:18])
    np.testing.assert_array_equal(arrays["lstm/W_xc_static/i"], blobs[2][:6])
    np.testing.assert_array_equal(arrays["lstm/W_hc/g"], blobs[3][18:])


@pytest.mark.parametrize(
    ("kind", "fields", "shapes", "names"),
    [
        (
            "LSTM",
            "bidirectional: CONCAT peephole: true num_proj: 2",
            [(12, 4), (12,), (12, 2), (3, 3), (2, 3)] * 2,
            "W_xc_l0/i W_xc_l0/f W_xc_l0/o W_xc_l0/g b_c_l0/i b_c_l0/f b_c_l0/o b_c_l0/g W_hc_l0/i W_hc_l0/f"
            " W_hc_l0/o W_hc_l0/g peephole_l0/i peephole_l0/f peephole_l0/o W_proj_l0 W_xc_l0_reverse/i",
        ),
        ("LSTM", "coupled_input_forget: true", [(9, 4), (9,), (9, 3)], "W_xc/i W_xc/o W_xc/g b_c/i"),
        (
            "GRU",
            "linear_before_reset: true num_layers: 2",
            [(9, 4), (9,), (9, 3), (9,), (9, 3), (9,), (9, 3), (9,)],
            "W_xc_l0/r W_xc_l0/z W_xc_l0/n",
        ),
        (
            "GRU",
            "",
            [(9, 4), (9,), (6, 3), (3, 3)],
            "W_xc/z W_xc/r W_xc/n b_c/z b_c/r b_c/n W_zr/z W_zr/r W_n",
        ),
        (
            "GRU",
            "",
            [(9, 4), (9,), (3, 3), (3, 3), (3, 3)],
            "W_xc/z W_xc/r W_xc/n b_c/z b_c/r b_c/n W_z W_r W_n",
        ),
        ("VanillaRNN", "", [(3, 4), (3,), (3, 3)], "W_xc b_c W_hc"),
        ("LSTM", "", [(12, 4)] * 7, "0 1 2 3 4 5 6"),
    ],
)
def test_names_of_variants(
    kind: str, fields: str, shapes: list[tuple[int, ...]], names: str, folder: Path
) -> None:
    parameters = prototrt.list_weights(written(kind, fields, *shapes)).parameters
    expected = [f"rnn/{name}" for name in names.split()]
    assert [each.address for each in parameters][: len(expected)] == expected


# ---------------------------------------------------------------- reading and setting


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_read_and_set_again_is_the_same(case: Case, folder: Path) -> None:
    """In a caffemodel, whatever the weights were; with all numbers doubled, all are doubled."""
    model = case.load()
    prototxt = shutil.copy(case.folder / "model.prototxt", "net.prototxt")
    arrays = {each.address: each.array for each in prototrt.list_weights(model).parameters}
    prototrt.set_weights(model, arrays, "same.caffemodel")
    prototrt.set_weights(model, {name: 2 * array for name, array in arrays.items()}, "double.caffemodel")
    phase = {name: case.facts[name] for name in ("phase", "level", "stages")}
    for file, factor in (("same.caffemodel", 1), ("double.caffemodel", 2)):
        new = prototrt.load(prototxt, file, **phase)
        for layer, other in zip(model.layers, new.layers, strict=True):
            assert len(layer.blobs or ()) == len(other.blobs or ())
            for blob, written_blob in zip(layer.blobs or (), other.blobs or (), strict=True):
                np.testing.assert_array_equal(written_blob.array, factor * blob.array)


def test_one_gate_alone_is_set(folder: Path) -> None:
    model = case_called("lstm_carry").load()
    before = prototrt.get_weights(model)
    (new,) = {before["lstm/W_hc"].shape[1]}
    gate = np.full((new, new), 0.5, np.float32)
    edited = prototrt.set_weights(model, {"lstm/W_hc/f": gate}, "new.caffemodel")
    after = prototrt.get_weights(prototrt.load(model.file, "new.caffemodel"))
    expected = before["lstm/W_hc"].copy()
    expected[new : 2 * new] = gate
    np.testing.assert_array_equal(after["lstm/W_hc"], expected)
    np.testing.assert_array_equal(after["lstm/W_xc"], before["lstm/W_xc"])
    assert edited.names == ["lstm/W_hc/f"]


def test_layers_that_share_a_blob_all_get_the_new_one(folder: Path) -> None:
    model = case_called("shared_parameters").load()
    (first, *_) = [
        each for each in prototrt.list_weights(model).parameters if each.layer.shared[0:1] != (None,)
    ]
    new = np.full(first.shape, 0.25, np.float32)
    prototrt.set_weights(model, {first.address: new}, "new.caffemodel")
    again = prototrt.list_weights(prototrt.load(model.file, "new.caffemodel")).parameters
    changed = [each.address for each in again if (each.array == 0.25).all()]
    assert len(changed) >= 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_in_files_of_each_kind(suffix: str, folder: Path) -> None:
    arrays: dict[str, Array] = {
        "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "c": np.zeros(0, np.float32),
        "d": np.array([-1.5]),
        "e": np.ones(()),
    }
    write_arrays(f"some{suffix}", arrays)
    again = read_arrays(f"some{suffix}")
    assert [*again] == [*arrays]
    for name, array in arrays.items():
        assert again[name].dtype == np.float32
        np.testing.assert_array_equal(again[name], array)


# ---------------------------------------------------------------- PyTorch, and cuDNN's packed blob


def test_the_packed_blob_of_a_caffe_layer(folder: Path) -> None:
    """MyCaffe's LSTM: its first matrix is the one of i, its first bias behind all matrices."""
    model = case_called("lstm_mycaffe").load()
    arrays = {each.address: each.array for each in prototrt.list_weights(model).parameters}
    (blob,) = model.layer_named("lstm").blobs or ()
    flat = blob.array.reshape(-1)
    np.testing.assert_array_equal(arrays["lstm/W_xc_l0/f"], flat[12:24].reshape(3, 4))
    np.testing.assert_array_equal(arrays["lstm/b_xc_l0/i"], flat[48 + 36 + 72 :][:3])
    prototrt.get_weights(model, ["lstm"], "state.pt", naming="pytorch")
    zeros = {name: 0 * array for name, array in prototrt.get_weights(model).items()}
    prototrt.set_weights(model, zeros, "zeros.caffemodel")
    emptied = prototrt.load(model.file, "zeros.caffemodel")
    prototrt.set_weights(emptied, "state.pt", "again.caffemodel", layer="lstm")
    (again,) = prototrt.load(model.file, "again.caffemodel").layer_named("lstm").blobs or ()
    np.testing.assert_array_equal(again.array, blob.array)


def close(results: Mapping[str, Any], expected: Mapping[str, Array]) -> None:
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, 1e-4, 2e-5, err_msg=name)


def test_a_checkpoint_of_pytorch_becomes_a_layer_of_caffe(folder: Path) -> None:
    """The numbers are PyTorch's."""
    model = written(*LSTM)
    with pytest.warns(prototrt.ConversionWarning, match=r"not read: fc\.weight"):
        prototrt.set_weights(model, CHECKPOINT, "new.caffemodel")
    inputs, expected = TORCH.arrays("inputs"), TORCH.arrays("outputs")
    session = prototrt.Session(
        prototrt.rewrite(prototrt.load("net.prototxt", "new.caffemodel"), state="bind")
    )
    session.set_state({"rnn_h_0": inputs["hidden_init"], "rnn_c_0": inputs["cell_init"]})
    results = session.run({"x": inputs["input"], "cont": np.ones((5, 2), np.float32)})
    close({"rnn_output": results["h"]}, {"rnn_output": expected["rnn_output"]})


@pytest.mark.parametrize("name", ["lstm_1l", "lstm_2l", "lstm_bi_3l", "gru_1l"])
def test_a_packed_blob_is_read_and_set_under_pytorchs_names(name: str, folder: Path) -> None:
    case = Caffe2Case(GOLDENS / "cudnn" / name)
    with np.load(case.folder / "weights.npz") as weights:
        state = dict(weights)
    model = case.load()
    found = prototrt.get_weights(model, file="got.npz", naming="pytorch")
    assert {*found} == {*state}
    close(found, state)
    zeros = {name: np.zeros_like(array) for name, array in found.items()}
    prototrt.set_weights(model, zeros, "zeros.pb")
    emptied = prototrt.load(case.folder / "predict_net.pb", "zeros.pb")
    assert not any(array.any() for array in prototrt.get_weights(emptied).values())
    prototrt.set_weights(emptied, "got.npz", "again.pb")
    again = prototrt.load(case.folder / "predict_net.pb", "again.pb")
    shapes = {blob: array.shape for blob, array in case.arrays("inputs").items()}
    case.check(prototrt.Session(prototrt.rewrite(again, shapes=shapes)).run(case.arrays("inputs")))


@pytest.mark.parametrize(
    ("kind", "fields", "shapes"),
    [
        ("LSTM", "bidirectional: CONCAT num_proj: 2", [(12, 4), (12,), (12, 2), (2, 3)] * 2),
        ("GRU", "linear_before_reset: true", [(9, 4), (9,), (9, 3), (9,)]),
        ("VanillaRNN", "", [(3, 4), (3,), (3, 3)]),
    ],
)
def test_pytorchs_names_and_back(kind: str, fields: str, shapes: list[tuple[int, ...]], folder: Path) -> None:
    model = written(kind, fields, *shapes)
    random = np.random.default_rng(1)
    arrays = {
        name: random.random(array.shape, np.float32) for name, array in prototrt.get_weights(model).items()
    }
    prototrt.set_weights(model, arrays, "random.caffemodel")
    drawn = prototrt.load("net.prototxt", "random.caffemodel")
    prototrt.get_weights(drawn, file="state.pt", naming="pytorch")
    prototrt.set_weights(model, "state.pt", "again.caffemodel")
    close(prototrt.get_weights(prototrt.load("net.prototxt", "again.caffemodel")), arrays)


def test_the_blob_of_a_layer_over_cudnn(folder: Path) -> None:
    """By the program of docs/weights.md; the numbers are PyTorch's."""
    page = (ROOT / "docs" / "weights.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    case = Caffe2Case(GOLDENS / "cudnn" / "lstm_2l")
    inputs = case.arrays("inputs")
    np.save("packed.npy", np.load(case.folder / "packed_weight.npy"))
    exec(program, {})
    steps, streams, size = inputs["input"].shape
    net = NET.replace("dim: 5 dim: 2 dim: 4", f"dim: {steps} dim: {streams} dim: {size}")
    net = net.replace("dim: 5 dim: 2 }", f"dim: {steps} dim: {streams} }}").replace(
        "num_output: 3", "num_output: 4"
    )
    Path("net.prototxt").write_text(
        net.replace("TYPE", "LSTM").replace("FIELDS", "num_layers: 2").replace('"rnn"', '"lstm"')
    )
    session = prototrt.Session(prototrt.rewrite(prototrt.load("net.prototxt", "net.npz"), state="bind"))
    session.set_state({"lstm_h_0": inputs["hidden_init"], "lstm_c_0": inputs["cell_init"]})
    results = session.run({"x": inputs["input"], "cont": np.ones((steps, streams), np.float32)})
    (expected,) = [array for array in case.arrays("outputs").values() if array.shape == results["h"].shape]
    close({"h": results["h"]}, {"h": expected})


# ---------------------------------------------------------------- refusals


def problem(source: Any, *shapes: tuple[int, ...], kind: str = "LSTM", layer: str | None = None) -> str:
    """The message, and that nothing was written."""
    model = written(kind, "", *(shapes or LSTM[2:]))
    with pytest.raises(ConversionError) as caught:
        prototrt.set_weights(model, source, "new.caffemodel", layer=layer)
    assert not Path("new.caffemodel").exists()
    return str(caught.value)


def test_refusals_of_arrays(folder: Path) -> None:
    assert problem({"rnn/W_hc/g": np.zeros((3, 4))}) == (
        'net.prototxt:4: layer "rnn" (LSTM): "rnn/W_hc/g" has the shape (3, 4), expected (3, 3)\n'
        "  because that is what the weights have\n  fix: transpose or cut the array, or set another parameter"
    )
    assert problem({"rnn/W_hc/c": np.zeros((3, 3))}).startswith(
        'net.prototxt: there is no parameter "rnn/W_hc/c"\n  fix: name one of rnn/W_hc'
    )
    assert "has the shape (12,) of complex128, expected (12,)" in problem({"rnn/b_c": np.zeros(12, complex)})
    assert problem({"rnn/b_c": np.zeros(12)}, layer="rnn").startswith(
        "layer is for PyTorch's names, and there is no weight_ih_l0\n"
    )


def test_refusals_of_state_dicts(folder: Path) -> None:
    state = dict(np.load(TORCH.folder / "weights.npz"))
    assert problem({f"a.{name}": array for name, array in state.items()} | state) == (
        "there are 2 recurrent modules: a., \n  fix: give the state dict of one module"
    )
    assert problem(state, (3, 4), (3,), (3, 3), (3, 3), (3,), kind="RNN").startswith(
        "PyTorch's names are those of one layer, and there are 0"
    )
    assert problem(
        {**state, "weight_ih_l1": state["weight_hh_l0"], "weight_hh_l1": state["weight_hh_l0"]}
    ) == (
        'net.prototxt:4: layer "rnn" (LSTM): the state dict has 2 layers and directions, expected 1\n'
        "  fix: give the state dict of a module like this layer"
    )
    del state["weight_hh_l0"]
    assert problem(state) == (
        "there is weight_ih_l0 but no weight_hh_l0 among the parameters\n"
        "  fix: give the state dict of a module like this layer"
    )
    with pytest.raises(ConversionError, match="the layer resets before the product"):
        prototrt.get_weights(written("GRU", "", (9, 4), (9,), (9, 3)), naming="pytorch")
    with pytest.raises(ConversionError, match=r"the layer has W_xc_static\n"):
        prototrt.get_weights(case_called("lstm_static").load(), naming="pytorch")


@pytest.mark.parametrize(
    "shapes",
    [((), (12,), (12, 3)), ((12, 4), (), (12, 3)), ((12, 4), (12,), (3, 3)), ((12, 4), (12, 1), (12, 3))],
)
def test_blobs_of_odd_shapes_have_no_names_of_pytorch(
    shapes: tuple[tuple[int, ...], ...], folder: Path
) -> None:
    model = written("LSTM", "", *shapes)
    assert prototrt.list_weights(model).parameters
    x, bias, h = shapes
    assert failure(lambda: prototrt.get_weights(model, naming="pytorch")) == (
        'net.prototxt:4: layer "rnn" (LSTM): the matrices of x and h and their biases have the shapes'
        f" {x}, {h}, {bias}, {bias}, expected as many rows in two matrices and two biases\n"
        "  fix: give the weights that were saved with this net"
    )


@pytest.mark.parametrize("shape", [(), (1,), (12, 1), (12, 2, 2), (1000000, 1)])
@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0"])
def test_states_of_odd_shapes_are_not_set(name: str, shape: tuple[int, ...], folder: Path) -> None:
    sizes = {"weight_ih_l0": (12, 4), "weight_hh_l0": (12, 3), "bias_ih_l0": (12,), "bias_hh_l0": (12,)}
    state = {each: np.zeros(size, np.float32) for each, size in (sizes | {name: shape}).items()}
    message = failure(lambda: prototrt.set_weights(written(*LSTM), state, "out.caffemodel"))
    assert str(shape) in message
    assert not Path("out.caffemodel").exists()


def test_refusals_of_files(folder: Path) -> None:
    model = written(*LSTM)
    with pytest.raises(ConversionError, match=r"net\.prototxt"):
        prototrt.set_weights(model, {"rnn/b_c": np.zeros(12)}, "net.prototxt")
    with pytest.raises(
        ConversionError, match=r"a\.csv ends in \.csv, expected one of \.npz, \.pt, \.pth, \.safetens"
    ):
        prototrt.get_weights(model, file="a.csv")
    with pytest.raises(
        ConversionError, match=r"no recurrent layer has weights\n  fix: name parameters of other"
    ):
        prototrt.get_weights(case_called("conv_plain").load())
    with pytest.raises(ConversionError, match="the model has no weights"):
        prototrt.list_weights(prototrt.load("net.prototxt"))


def test_the_commands(folder: Path) -> None:
    written(*LSTM)
    net = ["net.prototxt", "zeros.npz"]
    listed = run("weights", "list", *net)
    assert listed.exit_code == 0
    assert "rnn     LSTM      4   W_hc        g      3 x 3" in listed.output
    got = run("weights", "get", *net, "rnn/W_hc/?", "rnn/b_c", "-o", "some.safetensors")
    assert got.output.splitlines()[:5] == [
        *(f"rnn/W_hc/{gate}: 3 x 3" for gate in "ifog"),
        "rnn/b_c: 12",
    ]
    got = run("weights", "get", *net, "--names", "pytorch", "rnn", "-o", "state.pt")
    assert got.output.splitlines()[0] == "weight_ih_l0: 12 x 4"
    result = run("weights", "set", *net, "state.pt", "--layer", "rnn", "-o", "new.caffemodel")
    assert result.output.splitlines()[0] == "set rnn/W_xc"
    assert run("weights", "set", *net, str(CHECKPOINT), "--layer", "rnn", "-o", "new.caffemodel").stderr == (
        "warning: not read: fc.weight\n"
    )
    assert run("weights", "get", *net, "lstm*", "-o", "a.npz").exit_code == 3
    assert run("weights", "set", *net, "state.pt", "-o", "zeros.npz").exit_code == 2
