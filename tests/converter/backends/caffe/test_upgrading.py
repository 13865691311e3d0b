"""``prototrt upgrade``: a net of any age, and its weights, become files that Caffe reads and computes alike."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, example, given, settings

import prototrt
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.caffe_proto.text.comments import comments_of
from prototrt.converter.options import UpgradeStage
from prototrt.surgery.ir import Array, Value, fixed
from prototrt.tests.command_line import DIGITS, STREAM, WEIGHTS, done, run
from prototrt.tests.golden_cases import Case, caffe_cases, case_called
from prototrt.tests.odd_names import NAMES, TEXTS, quoted
from prototrt.tests.samples import one_of_each
from prototrt.tests.tools import caffemodel_writer

pytestmark = pytest.mark.usefixtures("folder")
CASES = [case for case in caffe_cases() if case.facts["phase"] == "TEST"]
RECURRENT = [case for case in CASES if case.is_recurrent]
OLD = """\
# A net of the first form.
name: "old"  # as in 2013
input: "data"
input_dim: 1
input_dim: 3
input_dim: 4
input_dim: 4
# The filters.
layers {
  name: "conv"
  type: CONVOLUTION
  bottom: "data" top: "conv"
  # Both learn at the same rate.
  blobs_lr: 1
  blobs_lr: 1
  convolution_param {
    num_output: 2  # one for each class
    kernel_size: 3
    # last
  }
}
layers { name: "prob" type: SOFTMAX bottom: "conv" top: "prob" }  # "not # a comment"
# The end.
"""
UPGRADED = """\
# A net of the first form.
# as in 2013
name: "old"
layer {
  name: "data"
  type: "Input"
  top: "data"
  input_param {
    shape {
      dim: 1
      dim: 3
      dim: 4
      dim: 4
    }
  }
}
# The filters.
layer {
  # Both learn at the same rate.
  name: "conv"
  type: "Convolution"
  bottom: "data"
  top: "conv"
  param {
    lr_mult: 1.0
  }
  param {
    lr_mult: 1.0
  }
  convolution_param {
    num_output: 2  # one for each class
    kernel_size: 3
  }
  # last
}
layer {
  name: "prob"
  type: "Softmax"
  bottom: "conv"
  top: "prob"  # "not # a comment"
}
# The end.
"""


def upgraded(case: Case, folder: Path, stage: UpgradeStage) -> list[dict[str, Array]]:
    """What the upgraded net of a case computes, call by call: the file says which states are carried."""
    results = []
    state: dict[str, Array] = {}
    for shapes, calls in itertools.groupby(case.arrays("inputs"), lambda inputs: _shapes(inputs)):
        net = prototrt.upgrade(
            case.load(),
            folder / "new.prototxt",
            stage=stage,
            rewriting=prototrt.RewriteOptions(shapes=dict(shapes)),
            shapes=dict(shapes),
        )
        has_weights = (folder / "new.caffemodel").exists()
        model = prototrt.load(folder / "new.prototxt", folder / "new.caffemodel" if has_weights else None)
        graph = prototrt.rewrite(model, outputs=[*case.arrays("outputs")[0]])
        if stage == "rewritten":
            assert net.recurrences == [(pair.input.name, pair.output.name) for pair in graph.recurrences]
        session = prototrt.Session(graph, on="reference", cut=True)
        if state:
            session.set_state(state)
        results += [dict(session.run(inputs)) for inputs in calls]
        state = {name: session.state[name] for name in session.state}
    return results


def _shapes(inputs: dict[str, Array]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, array.shape) for name, array in inputs.items())


def _check(case: Case, results: list[dict[str, Array]]) -> None:
    for computed, expected in zip(results, case.arrays("outputs"), strict=True):
        for name, array in expected.items():
            relative, absolute = case.tolerance(name)
            np.testing.assert_allclose(computed[name], array, relative, absolute, err_msg=name)


def words(case: Case) -> set[str]:
    """The layer types of a net, and the fields that it states."""
    text = (case.folder / "model.prototxt").read_text()
    return {*case.layer_types, *re.findall(r"\w+(?=:)", text)}


@pytest.mark.parametrize("case", one_of_each(CASES, words), ids=str)
def test_an_upgraded_net_computes_what_caffe_computed(case: Case, tmp_path: Path) -> None:
    _check(case, upgraded(case, tmp_path, "parsed"))


@pytest.mark.parametrize("case", one_of_each(RECURRENT, words), ids=str)
def test_written_out_steps_compute_what_caffe_computed(case: Case, tmp_path: Path) -> None:
    _check(case, upgraded(case, tmp_path, "rewritten"))
    types = {layer.type for layer in prototrt.load(tmp_path / "new.prototxt").layers}
    assert types.isdisjoint(("LSTM", "RNN"))


def test_comments_stay_where_they_stand() -> None:
    Path("old.prototxt").write_text(OLD)
    assert prototrt.upgrade(prototrt.load("old.prototxt")).text == UPGRADED
    assert done("upgrade", "old.prototxt").stdout == UPGRADED


def test_comments_of_upgraded_text_are_found_again() -> None:
    Path("new.prototxt").write_text(UPGRADED)
    assert prototrt.upgrade(prototrt.load("new.prototxt")).text == UPGRADED
    assert comments_of("# alone").tail == ["# alone"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("#[conv1]", "##[conv1]")
@example("#vso[task]", "\\##[a")
@given(comment=TEXTS, name=NAMES)
def test_any_comment_and_name_is_printed_for_readers(comment: str, name: str) -> None:
    """By Caffe's reader, protobuf's."""
    comment = comment.replace("\n", " ").encode(errors="replace").decode()
    Path("net.prototxt").write_text(
        f"#{comment}\nname: {quoted(name)} #{comment}\nlayer {{ #{comment}\n #{comment}\n"
        f" name: {quoted(name)} type: 'TanH' bottom: 'x/y' top: {quoted(name)} #{comment}\n}}\n#{comment}\n"
        "input: 'x/y' input_shape { dim: 1 }"
    )
    model = prototrt.load("net.prototxt")
    written = prototrt.upgrade(model).text
    printed = done("upgrade", "net.prototxt").stdout
    for text in (written, printed):
        net = text_format.Parse(text, message_class("NetParameter")())
        layer = net.layer[1]
        assert (net.name, layer.name, [*layer.top]) == (
            model.name,
            model.layers[1].name,
            [*model.layers[1].tops],
        )


def test_blobs_lose_the_ones_of_their_four_sizes(tmp_path: Path) -> None:
    net = message_class("NetParameter")()
    text_format.Parse(
        'layers { name: "ip" type: INNER_PRODUCT blobs { num: 1 channels: 1 height: 2 width: 3 data: [1,2,3,4,5,6] }'
        " blobs { num: 1 channels: 1 height: 1 width: 2 data: [7, 8] } }",
        net,
    )
    (tmp_path / "old.caffemodel").write_bytes(net.SerializeToString())
    (tmp_path / "net.prototxt").write_text(
        'input: "x" input_shape { dim: 1 dim: 3 }'
        ' layers { name: "ip" type: INNER_PRODUCT bottom: "x" top: "y" inner_product_param { num_output: 2 } }'
    )
    done(
        "upgrade", f"{tmp_path}/net.prototxt", f"{tmp_path}/old.caffemodel",
        "-o", f"{tmp_path}/new.prototxt", "-o", f"{tmp_path}/other.caffemodel",
    )  # fmt: skip
    written = message_class("NetParameter")()
    written.ParseFromString((tmp_path / "other.caffemodel").read_bytes())
    blobs = {layer.name: [[*blob.shape.dim] for blob in layer.blobs] for layer in written.layer}
    assert blobs == {"x": [], "ip": [[2, 3], [2]]}


def test_a_blob_that_no_layer_makes_becomes_an_input_if_it_has_a_shape() -> None:
    Path("net.prototxt").write_text('layer { name: "r" type: "ReLU" bottom: "x" top: "y" }')
    model = prototrt.load("net.prototxt")
    messages = []
    for _ in range(2):
        with pytest.raises(prototrt.ConversionError) as error:
            prototrt.upgrade(model)
        messages.append(error.value.text)
    assert (
        messages[0]
        == messages[1]
        == (
            'net.prototxt:1: layer "r" (ReLU), bottom "x": no layer before this one makes it\n'
            '  fix: make it an input: shapes={"x": (N, C, H, W)}; the layers fit with '
            'shapes={"x": (1, 3, 224, 224)} (C is a guess, smaller images fit down to 1x1)'
        )
    )
    net = prototrt.upgrade(model, shapes={"x": (2, 3)})
    assert net.text.splitlines()[1:5] == ["layer {", '  name: "x"', '  type: "Input"', '  top: "x"']


RESPELLED = {
    "hole_h: 2 hole_w: 2": "dilation: 2",
    "hole_h: 2 hole_w: 3": "dilation: 2 dilation: 3",
    "kstride: 2": "dilation: 2",
    "kstride_h: 2 kstride_w: 1": "dilation: 2 dilation: 1",
    "dilation_h: 3 dilation_w: 2": "dilation: 3 dilation: 2",
    "pad_t: 1 pad_b: 1 pad_l: 2 pad_r: 2": "pad_h: 1 pad_w: 2",
    'weight_filler { type: "diagonal" diag_val: 2 }': "weight_filler { }",
}


@pytest.mark.parametrize("fields", RESPELLED)
def test_words_of_forks_become_those_of_bvlc(fields: str) -> None:
    model = _convolution(f"convolution_param {{ num_output: 3 kernel_size: 1 {fields} }}")
    net = prototrt.upgrade(model)
    expected = message_class("ConvolutionParameter")()
    text_format.Parse(f"num_output: 3 kernel_size: 1 {RESPELLED[fields]}", expected)
    assert _layer(net.text).convolution_param == expected
    assert net.warnings == []


def test_a_depthwise_convolution_has_a_group_for_each_channel() -> None:
    model = _convolution("convolution_param { num_output: 3 kernel_size: 1 }", "ConvolutionDepthwise")
    layer = _layer(prototrt.upgrade(model).text)
    assert (layer.type, layer.convolution_param.group) == ("Convolution", 3)


def test_a_sum_of_one_blob_becomes_its_multiple() -> None:
    layer = _layer(prototrt.upgrade(_convolution("eltwise_param { coeff: 0.5 }", "Eltwise")).text)
    assert (layer.type, layer.power_param.scale, layer.HasField("eltwise_param")) == ("Power", 0.5, False)


def test_what_bvlc_does_not_read_is_said() -> None:
    fields = "convolution_param { num_output: 3 kernel_size: 1 pad_t: 1 pad_b: 2 }"
    net = prototrt.upgrade(_convolution(fields))
    assert net.warnings == [
        f'net.prototxt:2: layer "conv" (Convolution): {name} is a field of a fork, which BVLC Caffe does not read'
        for name in ("pad_t", "pad_b")
    ]
    net = prototrt.upgrade(_convolution("", "Mish"))
    assert net.warnings == [
        'net.prototxt:2: layer "conv" (Mish): Mish is a layer of a fork, which BVLC Caffe does not load'
    ]


def _convolution(fields: str, kind: str = "Convolution") -> prototrt.Model:
    Path("net.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [1, 3, 4, 4] } } }\n'
        f'layer {{ name: "conv" type: "{kind}" bottom: "x" top: "y" {fields} }}\n'
    )
    return prototrt.load("net.prototxt")


def _layer(text: str) -> Message:
    net = message_class("NetParameter")()
    text_format.Parse(text, net)
    return net.layer[1]


REFUSED = {
    "-o a.caffemodel": "Error: -o names a caffemodel alone: also give -o FILE.prototxt\n",
    "-o a.prototxt -o b.prototxt": "Error: -o names two files of one kind: give one prototxt, and one caffemodel\n",
    "--json": "Error: the prototxt is printed without -o: also give -o FILE.prototxt\n",
    "-o a.prototxt -o a.caffemodel": 'Error: -o names a caffemodel, but no weights are given\n'
    "  fix: give the weights of the net, or leave out -o\n",
    "-o net.prototxt": 'Error: -o would overwrite "net.prototxt", which is read\n  fix: give another output file\n',
}  # fmt: skip


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_cannot_be_written(arguments: str) -> None:
    _convolution("convolution_param { num_output: 3 kernel_size: 1 }")
    before = sorted(Path().iterdir())
    result = run("upgrade", "net.prototxt", *arguments.split())
    assert result.exit_code == 2
    assert result.stderr.endswith(REFUSED[arguments])
    assert sorted(Path().iterdir()) == before


def test_weights_do_not_overwrite_those_that_are_read() -> None:
    _convolution("convolution_param { num_output: 3 kernel_size: 1 }")
    caffemodel_writer.write(
        "new.caffemodel", {"conv": [np.ones((3, 3, 1, 1), np.float32), np.ones(3, np.float32)]}
    )
    result = run("upgrade", "net.prototxt", "new.caffemodel", "-o", "new.prototxt")
    assert result.exit_code == 2
    assert 'would overwrite "new.caffemodel", which is read' in result.stderr
    assert not Path("new.prototxt").exists()


@pytest.mark.parametrize("stage", ["parsed", "rewritten"])
@pytest.mark.parametrize("name", ["lstm_t1", "lstm_shared_stack", "net_crnn", "batchnorm_running_sums"])
def test_random_weights_are_drawn_for_the_new_net_as_for_the_old(name: str, stage: str) -> None:
    net = str(case_called(name).folder / "model.prototxt")
    done("upgrade", net, "--random-weights", "1", "--stage", stage, "-o", "new.prototxt")
    old = prototrt.rewrite(prototrt.load(net, random_weights=1), state="zero")
    outputs = [value.name for value in old.outputs]
    new = prototrt.rewrite(prototrt.load("new.prototxt", "new.caffemodel"), state="zero", outputs=outputs)
    rng = np.random.default_rng(3)
    drawn = {value.name: rng.uniform(0, 1, sizes(value)).astype(np.float32) for value in old.inputs}
    states = {value.name: np.zeros(sizes(value), np.float32) for value in new.inputs}
    sessions = [prototrt.Session(graph, on="reference", cut=True) for graph in (old, new)]
    expected, found = (
        session.run(feeds) for session, feeds in zip(sessions, (drawn, states | drawn), strict=True)
    )
    for output in outputs:
        np.testing.assert_allclose(found[output], expected[output], rtol=1e-4, atol=1e-5)


def sizes(value: Value) -> list[int]:
    return [fixed(size, "a size") for size in value.shape]


def test_steps_need_layers_that_caffe_has() -> None:
    case = case_called("attention_lstm")
    with pytest.raises(prototrt.ConversionError) as refusal:
        prototrt.upgrade(case.load(), stage="rewritten")
    first = str(refusal.value).splitlines()[0]
    assert first.endswith(
        "computes with (3, 1, 4, 1) against (3, 2, 4, 5), for which BVLC Caffe has no layer"
    )


@pytest.mark.slow
def test_ncnn_computes_written_out_steps(tmp_path: Path) -> None:
    """Where ncnn's tool for Caffe is: the sample, step by step."""
    ncnn: Any = pytest.importorskip("ncnn", reason="runs the net: pip install ncnn")
    tool = shutil.which("caffe2ncnn")
    if tool is None:
        pytest.skip("needs caffe2ncnn, which is made from ncnn's sources")
    done(
        "upgrade",
        STREAM,
        WEIGHTS,
        "--stage",
        "rewritten",
        "--cont",
        "drop",
        "-o",
        f"{tmp_path}/steps.prototxt",
    )
    files = [f"{tmp_path}/steps.{suffix}" for suffix in ("prototxt", "caffemodel", "param", "bin")]
    subprocess.run([tool, *files], check=True, capture_output=True)
    net = ncnn.Net()
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, option, False)
    assert (net.load_param(files[2]), net.load_model(files[3])) == (0, 0)
    session = prototrt.Session(prototrt.rewrite(prototrt.load(STREAM, WEIGHTS), cont="drop"))
    sizes = {"lstm1_h_0": 64, "lstm1_c_0": 64, "lstm2_h_0": 48, "lstm2_c_0": 48}
    state = {name: np.zeros((1, size), np.float32) for name, size in sizes.items()}
    frames = np.load(DIGITS / "stream_in.npz")
    for step in range(10):
        frame = frames[f"data/{step}"]
        extractor = net.create_extractor()
        extractor.input("data", ncnn.Mat(np.ascontiguousarray(frame[0, 0])).clone())
        for name, array in state.items():
            extractor.input(name, ncnn.Mat(array).clone())
        _, prob = extractor.extract("prob")
        expected = session.run({"data": frame})["prob"]
        np.testing.assert_allclose(np.array(prob).reshape(-1), expected.reshape(-1), atol=1e-5)
        state = {
            name: np.array(extractor.extract(name.replace("_0", "_T"))[1]).reshape(array.shape)
            for name, array in state.items()
        }
