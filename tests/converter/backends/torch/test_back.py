"""Back from PyTorch: the state dict of a module is weights of its net."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import MissingShapesError
from prototrt.caffe_proto.weights.module_state import TABLE, weights_of_module
from prototrt.caffe_proto.weights.safetensors import write_safetensors
from prototrt.converter.backends.torch import blobs
from prototrt.converter.backends.torch.source import module_text
from prototrt.converter.front.commandline.wording import command_line_words
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.pipeline import lowered
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.command_line import run
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.golden_cases import GOLDENS, Case, caffe_cases, case_called, fork_cases
from prototrt.tests.samples import one_of_each
from prototrt.tests.small_nets import inputs_of, loaded, numbers

DIGITS = ROOT / "samples" / "digits"
KEPT = {
    "batchnorm_batch_statistics": "statistics of the batch, so that the stored ones are in no module",
    "batchnorm_batch_two_axes": "the same",
    "data_augmentation": "means of other sizes, or of which a mean is taken",
    "eps_places": "an epsilon outside of the root",
    "ff_images": "shapes and factors",
    "ff_moves": "ends of slices",
    "ff_net_faster": "anchors",
    "ff_net_mask": "anchors",
    "ff_proposals": "anchors",
    "gru_1l": "an initial state that nothing reads",
    "lstm_from_onnx": "a shape",
    "lstm_init1d": "an initial state that is repeated for each stream",
}
"""Cases with blobs that no tensor holds: they come back as they were."""


def graph_of(case: Case | Caffe2Case) -> Graph:
    if isinstance(case, Caffe2Case):
        return case.rewritten()
    return prototrt.rewrite(case.load(), settings=case.facts.get("settings", {}).get("json", {}))


def state_of(graph: Graph) -> dict[str, Array]:
    return module_text(lowered(graph, "torch"), "net.safetensors").arrays


def kinds(case: Case | Caffe2Case) -> set[str]:
    return {*case.families, *{case.folder.name} & {*KEPT}}


NETS: list[Case | Caffe2Case] = [*caffe_cases(), *fork_cases(), *caffe2_cases()]


@pytest.mark.parametrize("case", one_of_each(NETS, kinds), ids=str)
def test_blobs_come_back(case: Case | Caffe2Case) -> None:
    """From the state dict of every net: all blobs, or others that give the same numbers, of its tensors."""
    graph = graph_of(case)
    state = state_of(graph)
    if TABLE not in state:
        assert not any(graph.learned.values())
        return
    facts = json.loads(state[TABLE].tobytes())["layers"]
    kept = [layer for layer in facts for fact in facts[layer] if isinstance(fact.get("fill"), list)]
    assert bool(kept) == (case.folder.name in KEPT), kept
    weights = weights_of_module(state, None)
    assert not weights.warnings
    for layer, learned in graph.learned.items():
        for blob, stored in zip(learned, weights.blobs_of(layer) or (), strict=True):
            assert stored is not None
            assert stored.shape == blob.shape
            np.testing.assert_array_equal(stored.array, blob.array)


def test_a_module_notes_what_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blobs that no tensor holds, and that are too large to be kept."""
    monkeypatch.setattr(blobs, "MOST_KEPT", 2)
    graph = lowered(graph_of(case_called("eps_places")), "torch")
    source = module_text(graph, "net.safetensors")
    note = "Note: prototrt cannot read back the weights of bn: here are numbers that were computed of them"
    assert note in " ".join(source.text.split())
    assert weights_of_module(source.arrays, "FILE").warnings == (
        'FILE: the weights of "bn" are not read: the module holds numbers that were computed of them',
    )


# ---------------------------------------------------------------- changed modules


def lenet_state() -> dict[str, Array]:
    return state_of(graph_of(case_called("net_lenet")))


def without_bias(state: dict[str, Array]) -> None:
    del state["conv2.bias"]


def with_a_head(state: dict[str, Array]) -> None:
    state["head.weight"] = np.zeros((2, 10), np.float32)


def inside_another(state: dict[str, Array]) -> None:
    inner = {f"module.net.{name}": array for name, array in state.items()}
    state.clear()
    state.update(inner)
    state["module.head.weight"] = np.zeros((2, 10), np.float32)


def with_more_classes(state: dict[str, Array]) -> None:
    state["ip2.weight"], state["ip2.bias"] = np.zeros((20, 24), np.float32), np.zeros(20, np.float32)


def transposed(state: dict[str, Array]) -> None:
    """As many numbers in another shape: they must not be taken as they lie."""
    state["ip2.weight"] = np.ascontiguousarray(state["ip2.weight"].T)


CHANGES: Mapping[Callable[[dict[str, Array]], None], list[str]] = {
    without_bias: ['FILE: the weights of "conv2" are not read: there is no conv2.bias'],
    with_a_head: ["FILE: not read, since they were added to the module: head.weight"],
    inside_another: ["FILE: not read, since they were added to the module: module.head.weight"],
    with_more_classes: [
        'FILE: "ip2" was changed: ip2.weight has the shape (20, 24), and blob 0 had (10, 24)',
        'FILE: "ip2" was changed: ip2.bias has the shape (20,), and blob 1 had (10,)',
    ],
    transposed: ['FILE: "ip2" was changed: ip2.weight has the shape (24, 10), and blob 0 had (10, 24)'],
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_changes_are_named(change: Callable[[dict[str, Array]], None]) -> None:
    state = lenet_state()
    change(state)
    weights = weights_of_module(state, "FILE")
    assert [*weights.warnings] == CHANGES[change]
    assert weights.blobs_of("conv1") is not None
    assert (weights.blobs_of("conv2") is None) == (change is without_bias)


def test_a_rearranged_tensor_is_missing() -> None:
    state = state_of(graph_of(case_called("conv_lstm_relu")))
    del state["lstm.peepholes"]
    weights = weights_of_module(state, "FILE")
    assert weights.warnings == ('FILE: the weights of "lstm" are not read: there is no lstm.peepholes',)
    assert weights.blobs_of("lstm") is None


def test_a_rearranged_tensor_of_another_shape() -> None:
    state = state_of(graph_of(case_called("conv_lstm_relu")))
    state["lstm.peepholes"] = np.zeros((1, 3, 2, 2, 2), np.float32)
    assert weights_of_module(state, "FILE").warnings == (
        'FILE: the weights of "lstm" are not read: lstm.peepholes has the shape (1, 3, 2, 2, 2), and had'
        " (1, 3, 2, 4, 3)",
    )


def test_copies_of_one_blob_that_differ() -> None:
    """A second tensor that holds the peepholes, as where a module copied them."""
    state = state_of(graph_of(case_called("conv_lstm_relu")))
    table = json.loads(state[TABLE].tobytes())
    of_peepholes = (each["tensors"] for each in table["groups"].values())
    (tensors,) = (each for each in of_peepholes if each[0][0] == ["lstm.peepholes"])
    tensors.append([["copy"], *tensors[0][1:]])
    state |= {"copy": state["lstm.peepholes"], TABLE: np.frombuffer(json.dumps(table).encode(), np.uint8)}
    assert not weights_of_module(state, None).warnings
    state["copy"] = state["copy"] + 1
    assert weights_of_module(state, "FILE").warnings == (
        'FILE: the weights of "lstm" are not read: Caffe has one blob for parts of lstm.peepholes, copy, which'
        " differ",
    )


def test_a_tied_gate_comes_back(tmp_path: Path) -> None:
    net = (
        inputs_of({"x": (2, 5), "c": (2, 3)})
        + 'layer { name: "unit" type: "LstmUnit" bottom: "x" bottom: "c" top: "h" top: "d"'
        " lstm_unit_param { num_cells: 3 tie_output_forget: true } }"
    )
    blobs = {f"unit/{index}": numbers(1, 3, 1, 5, seed=index) for index in range(4)}
    state = state_of(prototrt.rewrite(loaded(tmp_path, net, blobs)))
    state["unit.weights"] = state["unit.weights"] + 1
    weights = weights_of_module(state, None)
    assert not weights.warnings
    expected = (blobs["unit/0"] + 1, blobs["unit/1"] + 1, np.zeros((1, 3, 1, 5)), blobs["unit/3"] + 1)
    for blob, wanted in zip(weights.blobs_of("unit") or (), expected, strict=True):
        assert blob is not None
        np.testing.assert_array_equal(blob.array, wanted)


def test_numbers_that_others_were_computed_of_stay() -> None:
    state = state_of(graph_of(case_called("eps_places")))
    before = weights_of_module(state, None).blobs_of("bn") or ()
    state["bn.weight"] = state["bn.weight"] + 1
    weights = weights_of_module(state, "FILE")
    assert weights.warnings == ("FILE: not read, since Caffe has no blobs for them: bn.weight",)
    for old, new in zip(before, weights.blobs_of("bn") or (), strict=True):
        assert old is not None
        assert new is not None
        np.testing.assert_array_equal(old.array, new.array)


def test_trained_numbers_without_a_blob_are_named() -> None:
    """A kernel without a bias is an array of a part that Caffe does not have."""
    state = state_of(graph_of(case_called("deformable_convolution")))
    state["usual.no_bias"] = state["usual.no_bias"] + 1
    assert weights_of_module(state, "FILE").warnings == (
        "FILE: not read, since Caffe has no blobs for them: usual.no_bias",
    )


def test_a_changed_layer_needs_its_net(tmp_path: Path) -> None:
    state = lenet_state()
    with_more_classes(state)
    file, net = tmp_path / "trained.safetensors", tmp_path / "net.prototxt"
    with file.open("wb") as stream:
        write_safetensors(stream, state, {})
    text = (case_called("net_lenet").folder / "model.prototxt").read_text()
    net.write_text(text)
    message = re.escape(
        "(InnerProduct), blob 0 (weights): shape in the weights file is (20, 24), expected (10, 24)"
    )
    with pytest.raises(prototrt.WeightsError, match=message):
        prototrt.rewrite(prototrt.load(net, file))
    net.write_text(re.sub(r'("ip2".*?num_output: )10', r"\g<1>20", text, flags=re.DOTALL))
    graph = prototrt.rewrite(prototrt.load(net, file))
    assert [value.shape for value in graph.outputs] == [(graph.inputs[0].shape[0], 20)]


TABLES = {
    "none": (None, "the state dict has no tensor caffe_blobs, expected one"),
    "no JSON": (b"{", "the tensor caffe_blobs is no table of blobs"),
    "a list": (b"[]", "the tensor caffe_blobs is no table of blobs"),
    "no shape": (b'{"layers":{"conv1":[{"keys":[["conv1.weight"]]}]},"others":{}}', "is no table of blobs"),
    "any memory": (
        b'{"layers":{"conv1":[{"shape":[1],"place":[0,[0,0,4]]}]},"others":{},"groups":{"0":{"sizes":[99999999999],'
        b'"tensors":[],"fills":[],"links":[]}}}',
        "a group takes more memory than its tensors need",
    ),
    "negative sizes": (
        b'{"layers":{"conv1":[{"shape":[-1],"fill":1}]},"others":{}}',
        "the stored shape is (-1,), expected at most",
    ),
    "too many numbers": (
        b'{"layers":{"conv1":[{"shape":[99999,99999],"fill":1}]},"others":{}}',
        "the stored shape is (99999, 99999), expected at most",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_are_none(name: str) -> None:
    content, message = TABLES[name]
    state = lenet_state()
    del state[TABLE]
    if content is not None:
        state[TABLE] = np.frombuffer(content, np.uint8)
    with pytest.raises(prototrt.ConversionError, match=re.escape(message)):
        weights_of_module(state, "FILE")


def test_a_state_dict_of_another_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open("other.safetensors", "wb") as stream:
        write_safetensors(stream, {"fc.weight": np.zeros((2, 2), np.float32)}, {})
    result = run("convert", str(DIGITS / "deploy.prototxt"), "other.safetensors", "-o", "a.onnx")
    assert result.stderr == (
        "error: other.safetensors: the state dict has no tensor caffe_blobs, expected one\n"
        "  because it says which blob of Caffe each tensor is, in a module that prototrt wrote\n"
        "  fix: convert the net to a module, name these tensors as it does, and add its tensor caffe_blobs\n"
    )


def test_a_state_dict_lacks_what_an_init_net_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fix is followed: the state dict is put into the init net."""
    monkeypatch.chdir(tmp_path)
    golden = GOLDENS / "caffe2" / "lstm_from_onnx"
    predict, init = golden / "predict_net.pb", golden / "init_net.pb"
    shapes = {name: array.shape for name, array in np.load(golden / "inputs.npz").items()}
    prototrt.convert(predict, init, "net.py", shapes=shapes)
    with pytest.raises(MissingShapesError) as caught:
        prototrt.rewrite(prototrt.load(predict, "net.safetensors"), shapes=shapes)
    because, fix = caught.value.text.by(command_line_words).splitlines()[1:]
    assert because.endswith("and 2 more; a state dict has no weights that an init net computes")
    typed = f"prototrt weights set {predict} INIT_NET.pb net.safetensors -o new_init_net.pb"
    assert fix == f"  fix: put the state dict into the init net, and give that: {typed}"
    assert str(caught.value).endswith("give that: prototrt.set_weights(...)")
    prototrt.set_weights(prototrt.load(predict, init), "net.safetensors", "new_init_net.pb")
    prototrt.rewrite(prototrt.load(predict, "new_init_net.pb"), shapes=shapes)
