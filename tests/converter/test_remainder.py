"""A net around a layer without a rule becomes two nets; with the layer between them they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import prototrt
from prototrt.cli import main
from prototrt.converter.conversion import Converted
from prototrt.surgery.ir import Array
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.short_nets import written_out
from prototrt.tests.small_nets import Blobs, failure, loaded, numbers, stored

NET = """name: "odd" input: "data" input_shape { dim: 2 dim: 3 dim: 8 dim: 8 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 4
  kernel_size: 3 pad: 1 } }
layer { name: "odd1" type: "FIRST" bottom: "conv1" top: "odd1" }
layer { name: "conv2" type: "Convolution" bottom: "odd1" top: "conv2" convolution_param { num_output: 4
  kernel_size: 3 pad: 1 } }
layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
layer { name: "odd2" type: "SECOND" bottom: "conv2" top: "odd2" }
layer { name: "sum" type: "Eltwise" bottom: "odd2" bottom: "conv1" top: "sum" }
layer { name: "size" type: "Eltwise" bottom: "sum" bottom: "conv1" top: "size" }
layer { name: "fc" type: "InnerProduct" bottom: "size" top: "fc" inner_product_param { num_output: 5 } }
"""
SHAPES = {"conv1": ((4, 3, 3, 3), (4,)), "conv2": ((4, 4, 3, 3), (4,)), "fc": ((5, 256), (5,))}
BLOBS = {
    name: array
    for layer, shapes in SHAPES.items()
    for name, array in stored(layer, [numbers(*shape, seed=len(layer)) for shape in shapes]).items()
}
ODD: dict[str, Callable[[Array], Array]] = {"odd1": np.tanh, "odd2": lambda x: 1 / (1 + np.exp(-x))}
DATA = {"data": numbers(2, 3, 8, 8, seed=7)}


def net(first: str = "TanH", second: str = "Sigmoid") -> str:
    return NET.replace("FIRST", first).replace("SECOND", second)


def part(folder: Path, name: str, rest: str, **options: Any) -> Converted:
    """The net ``name`` up to layers without a rule; what comes after these is written to ``rest``."""
    return prototrt.convert(
        folder / f"{name}.prototxt", folder / "net.npz", folder / f"{name}.onnx", outputs=["auto"],
        remainder=str(folder / f"{rest}.prototxt"), **options,
    )  # fmt: skip


def computed(conversion: Converted, arrays: Blobs) -> dict[str, Array]:
    """What a part makes, beside what it got."""
    session = prototrt.Session(conversion.graph)
    return {**arrays, **session.run({value.name: arrays[value.name] for value in conversion.graph.inputs})}


def test_parts_with_functions_between_compute_what_the_whole_net_does(tmp_path: Path) -> None:
    """Two layers without a rule, one after the other: the remainder is cut again."""
    whole = prototrt.Session(prototrt.rewrite(loaded(tmp_path, net(), BLOBS))).run(DATA)
    loaded(tmp_path, net("Odd", "Odder"), BLOBS)
    arrays = computed(part(tmp_path, "net", "rest"), DATA)
    arrays["odd1"] = ODD["odd1"](arrays["conv1"])
    arrays = computed(part(tmp_path, "rest", "end", shapes={"odd1": (2, 4, 8, 8)}), arrays)
    arrays["odd2"] = ODD["odd2"](arrays["conv2"])
    end = prototrt.load(tmp_path / "end.prototxt", tmp_path / "net.npz")
    graph = prototrt.rewrite(end, shapes={"odd2": (2, 4, 8, 8)})
    result = prototrt.Session(graph).run({value.name: arrays[value.name] for value in graph.inputs})
    np.testing.assert_allclose(result["fc"], whole["fc"], rtol=1e-5, atol=1e-6)


def test_a_remainder_of_a_remainder_is_another_file(tmp_path: Path) -> None:
    loaded(tmp_path, net("Odd", "Odder"), BLOBS)
    part(tmp_path, "net", "rest_of_net")
    shapes = {"odd1": (2, 4, 8, 8)}
    message = failure(
        lambda: prototrt.rewrite(
            prototrt.load(tmp_path / "rest_of_net.prototxt", tmp_path / "net.npz"), shapes=shapes
        )
    )
    assert message.endswith('or both parts: outputs=["auto"], remainder="rest_of_rest_of_net.prototxt"')


def test_the_command_writes_both(tmp_path: Path) -> None:
    loaded(tmp_path, net("Odd"), BLOBS)
    files = [str(tmp_path / name) for name in ("net.prototxt", "net.npz", "net.onnx", "rest.prototxt")]
    words = ["convert", *files[:2], "-o", files[2], "--output", "auto", "--remainder", files[3]]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    assert all(Path(file).exists() for file in files)


def test_what_the_user_computes_and_what_is_lost_are_said(tmp_path: Path) -> None:
    loaded(
        tmp_path, net("Odd", 'Odder" odder_param { angle: 2 } name: "odd2').replace('" top', '" top'), BLOBS
    )
    rest = tmp_path / "rest.prototxt"
    assert [text for text in part(tmp_path, "net", "rest").warnings if text.startswith(str(rest))] == [
        f'{rest}: between the two parts, layer "odd1" (Odd) makes "odd1" of "conv1"',
        f'{rest}: give "odd1" by shapes',
        f'{rest}: layer "odd2" (Odder) is without its fields odder_param',
    ]


def test_no_file_is_written_for_nothing(tmp_path: Path) -> None:
    model = net().partition('layer { name: "conv2"')[0].replace("TanH", "Odd")
    loaded(tmp_path, model, BLOBS)
    warnings = part(tmp_path, "net", "rest").warnings
    assert warnings[-1] == f"{tmp_path / 'rest.prototxt'}: not written: no other layer comes after these"
    assert not (tmp_path / "rest.prototxt").exists()


RULES = """
from prototrt.surgery.rules import layer_rule

@layer_rule("Odder")
def odder(build, layer, x):
    return [x * layer.fields["odder_param"]["angle"]]
"""


def test_fields_that_a_rule_reads_are_not_lost(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    loaded(tmp_path, net("Odd", 'Odder" odder_param { angle: 2 } name: "odd2'), BLOBS)
    message = failure(lambda: part(tmp_path, "net", "rest", rules=str(tmp_path / "rules.py")))
    assert message == (
        'net.prototxt:8: layer "odd2" (Odder): the rule of this layer reads odder_param,'
        " which Caffe's messages lack\n  because the remainder is written with Caffe's fields\n"
        "  fix: leave out remainder"
    )
    assert not (tmp_path / "net.onnx").exists()


def test_marks_that_part_a_recurrence_are_refused(tmp_path: Path) -> None:
    """The state is made before the layer without a rule, and read after it."""
    fed = net("Odd").replace('bottom: "odd2" bottom: "conv1"', 'bottom: "odd2" bottom: "h"')
    fed = fed.replace('input: "data"', 'input: "h" input: "data" input_shape { dim: [2, 4, 8, 8] }')
    fed = f'# recurrence: "conv1" -> "h"\n{fed}'
    loaded(tmp_path, fed, BLOBS)
    assert '"conv1" is fed back to "h", which another part reads' in failure(
        lambda: part(tmp_path, "net", "rest")
    )


def test_parts_of_a_net_of_caffe2_compute_what_the_whole_net_does(tmp_path: Path) -> None:
    """The blob before the odd operator is written in place after it; the init net fills weights of both parts."""
    golden = GOLDENS / "caffe2" / "fc_lstm_fc_softmax"
    predict, init = golden / "predict_net.pbtxt", golden / "init_net.pb"
    arrays = {**np.load(golden / "inputs.npz")}
    given = {name: array.shape for name, array in arrays.items()}
    odd, rest = tmp_path / "odd.pbtxt", tmp_path / "rest.pbtxt"
    odd.write_text(predict.read_text().replace('type: "Relu"', 'type: "Odd"'))
    first = prototrt.convert(
        odd, init, tmp_path / "first.onnx", shapes=given, outputs=["auto"], remainder=str(rest)
    )
    assert [text for text in first.warnings if text.startswith(str(rest))] == [
        f'{rest}: between the two parts, operator 1 (Odd) makes "proj" of "proj@0"',
        f'{rest}: give shapes={{"seq_lengths": (2,)}}',
        f'{rest}: give "proj" by shapes',
    ]
    arrays = computed(first, arrays)
    arrays["proj"] = np.maximum(arrays["proj@0"], 0)
    shapes = {name: arrays[name].shape for name in ("proj", "seq_lengths")}
    result = computed(prototrt.convert(rest, init, tmp_path / "second.onnx", shapes=shapes), arrays)
    for name, expected in np.load(golden / "outputs.npz").items():
        np.testing.assert_allclose(result[name], expected, rtol=1e-4, atol=1e-5)


def test_a_blob_that_a_step_net_names_and_a_later_operator_writes_is_refused(tmp_path: Path) -> None:
    """The remainder has an own name for each value, which a step net does not know."""
    short = written_out(
        "caffe2(x=4x2x3, h0=2x3, w:3x3, b:3) Sigmoid(x -> s); Odd(s -> g);"
        " RecurrentNetwork(g h0 w b -> all last ws) **recurrence(link_external=['h', 'h', 'g']);"
        " Relu(g -> g); Sum(all g -> y)"
    )
    assert short.init is not None
    (tmp_path / "predict.pbtxt").write_text(short.text)
    (tmp_path / "init.pbtxt").write_text(short.init)
    rest = tmp_path / "rest.pbtxt"
    options: dict[str, Any] = {"shapes": short.shapes, "outputs": "auto", "remainder": str(rest)}
    message = failure(
        lambda: prototrt.convert(
            tmp_path / "predict.pbtxt", tmp_path / "init.pbtxt", tmp_path / "net.onnx", **options
        )
    )
    assert message == (
        f"{tmp_path}/predict.pbtxt:12: operator 2 (RecurrentNetwork):"
        ' its step net names "g", which another operator writes again\n'
        "  because the remainder has another name for it\n  fix: leave out remainder"
    )
    assert not rest.exists()


def test_without_a_cut_there_is_no_remainder(tmp_path: Path) -> None:
    loaded(tmp_path, net(), BLOBS)
    files = (tmp_path / "net.prototxt", tmp_path / "net.npz", tmp_path / "net.onnx")
    problems = {
        "rest.prototxt": 'remainder is for outputs=["auto"]',
        "rest.txt": 'remainder: "rest.txt" ends in .txt, expected .prototxt or .pbtxt',
    }
    for named, problem in problems.items():
        assert problem in failure(partial(prototrt.convert, *files, remainder=named))
