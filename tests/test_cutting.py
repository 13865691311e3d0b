"""Nets of which only a part can be converted: what the message advises works, and ``auto`` does it by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import prototrt
from prototrt.caffe_proto import ConversionError
from prototrt.tests.command_line import done, run

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }'


def layer(kind: str, name: str, bottoms: str, tops: str, more: str = "") -> str:
    blobs = [f'bottom: "{bottom}"' for bottom in bottoms.split()] + [f'top: "{top}"' for top in tops.split()]
    return f'layer {{ name: "{name}" type: "{kind}" {" ".join(blobs)} {more} }}'


TRUNK = [INPUT, layer("TanH", "a", "x", "a"), layer("AbsVal", "b", "a", "b")]
BLOCKED = {
    "in the middle": ([*TRUNK, layer("Odd", "o", "b", "o"), layer("TanH", "p", "o", "p")], ["b"]),
    "two branches": ([*TRUNK, layer("Odd", "o", "b", "o"), layer("TanH", "p", "a", "p")], ["b", "p"]),
    "read with what is computed": (
        [*TRUNK, layer("Odd", "o", "x", "o"), layer("Eltwise", "e", "o a", "e")],
        ["a", "b"],
    ),
    "in place": ([*TRUNK, layer("Odd", "o", "b", "b"), layer("TanH", "p", "b", "p")], ["b@b"]),
    "an unknown field": ([*TRUNK, layer("TanH", "o", "b", "o", "tanh_param { steep: 1 }")], ["b"]),
    "a field that is not supported": (
        [*TRUNK, layer("Reduction", "o", "b", "o", "reduction_param { axis: 1 fancy: 1 }")],
        ["b"],
    ),
    "many of one type": ([*TRUNK, *(layer("Odd", f"o{i}", "b", f"o{i}") for i in range(3))], ["b"]),
}
WITH_MORE = ("in the middle", "read with what is computed", "in place")
"""Where a layer comes after the one without a rule."""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], prototrt.Model]:
    monkeypatch.chdir(tmp_path)

    def load(layers: list[str]) -> prototrt.Model:
        Path("net.prototxt").write_text("\n".join(layers))
        return prototrt.load("net.prototxt", random_weights=1)

    return load


@pytest.mark.parametrize("case", BLOCKED)
def test_the_advice_works(case: str, net: Callable[[list[str]], prototrt.Model]) -> None:
    layers, outputs = BLOCKED[case]
    model = net(layers)
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(model)
    quoted = ", ".join(f'"{name}"' for name in outputs)
    both = '; or both parts: outputs=["auto"], remainder="rest_of_net.prototxt"' if case in WITH_MORE else ""
    assert str(caught.value).endswith(f": outputs=[{quoted}]{both}")
    graph = prototrt.rewrite(model, outputs=outputs)
    assert [value.name for value in graph.outputs] == outputs
    assert graph.warnings == ()


@pytest.mark.parametrize("case", BLOCKED)
def test_auto_takes_it(case: str, net: Callable[[list[str]], prototrt.Model]) -> None:
    layers, outputs = BLOCKED[case]
    graph = prototrt.rewrite(net(layers), outputs=["auto"])
    assert [value.name for value in graph.outputs] == outputs
    assert graph.warnings[0].startswith("the net ends before this layer: net.prototxt:4: ")
    assert "\n" not in graph.warnings[0]


def test_auto_changes_nothing_where_all_can_be_converted(
    net: Callable[[list[str]], prototrt.Model],
) -> None:
    graph = prototrt.rewrite(net(TRUNK), outputs=["auto"])
    assert ([value.name for value in graph.outputs], graph.warnings) == (["b"], ())


def test_a_blob_called_auto_is_a_blob(net: Callable[[list[str]], prototrt.Model]) -> None:
    graph = prototrt.rewrite(net([*TRUNK, layer("TanH", "c", "a", "auto")]), outputs=["auto"])
    assert [value.name for value in graph.outputs] == ["auto"]


def test_nothing_is_cut_for_sizes_that_do_not_fit(net: Callable[[list[str]], prototrt.Model]) -> None:
    fields = "inner_product_param { num_output: 2 axis: 1 }"
    model = net([*TRUNK, layer("InnerProduct", "fc", "b", "c", fields), layer("Eltwise", "e", "b c", "e")])
    with pytest.raises(ConversionError, match="shape is"):
        prototrt.rewrite(model, outputs=["auto"])


def test_shapes_and_outputs_are_told_in_one_command(net: Callable[[list[str]], prototrt.Model]) -> None:
    layers = [
        'input: "x"\ninput: "z"',
        layer("InnerProduct", "a", "x", "a", "inner_product_param { num_output: 2 }"),
        layer("Odd", "o", "a z", "o"),
    ]
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(net(layers))
    assert str(caught.value) == (
        'net.prototxt: the file states no shape for the inputs "x" (line 1), "z" (line 2)\n'
        '  fix: give the shapes: shapes={"x": (N, I), "z": (N, C, H, W)};'
        ' the layers fit with shapes={"x": (1, 256), "z": (1, 3, 224, 224)}'
        " (C is a guess, I is a guess, smaller images fit down to 1x1)\n"
        'net.prototxt:4: layer "o" (Odd): there is no rule for this layer type\n'
        "  fix: write a rule for it, which `prototrt.new_rule(...)` begins; or name your TensorRT plugin, as in "
        'plugin={"Odd": "Odd:1"}\n'
        "2 problems\n"
        '  fix: convert the supported part: outputs=["a"], shapes={"x": (1, 256), "z": (1, 3, 224, 224)}'
    )


def test_a_bottom_that_no_layer_makes_becomes_an_input(net: Callable[[list[str]], prototrt.Model]) -> None:
    """A piece of a net is a net whose inputs the file does not have."""
    model = net([layer("TanH", "a", "features", "a"), layer("AbsVal", "b", "a", "b")])
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(model)
    assert str(caught.value) == (
        'net.prototxt:1: layer "a" (TanH), bottom "features": no layer before this one makes it\n'
        '  fix: make it an input: shapes={"features": (N, C, H, W)}; the layers fit with'
        ' shapes={"features": (1, 3, 224, 224)} (C is a guess, smaller images fit down to 1x1)'
    )
    graph = prototrt.rewrite(model, shapes={"features": (2, 3)})
    assert [(value.name, value.shape) for value in graph.inputs] == [("features", (2, 3))]


def test_a_metric_may_make_a_blob_twice(net: Callable[[list[str]], prototrt.Model]) -> None:
    measures = [layer("Accuracy", f"acc{i}", "b y", "acc") for i in range(2)]
    model = net([INPUT, layer("Data", "in", "", "u y"), *TRUNK[1:], *measures])
    assert [value.name for value in prototrt.rewrite(model).outputs] == ["b"]


DUMMY = """layer { name: "d" type: "DummyData" top: "d" dummy_data_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }"""


def test_what_dummy_data_fills_becomes_an_input(net: Callable[[list[str]], prototrt.Model]) -> None:
    model = net([DUMMY, layer("Pooling", "p", "d", "p", "pooling_param { kernel_size: 2 }")])
    graph = prototrt.rewrite(model, shapes={"d": (1, 3, 4, 4)})
    assert ([(value.name, value.shape) for value in graph.inputs], graph.warnings) == (
        [("d", (1, 3, 4, 4))],
        (),
    )


def test_depthwise_without_num_output_keeps_its_channels(net: Callable[[list[str]], prototrt.Model]) -> None:
    """ShuffleNet's fork does not read the field."""
    shape = "input_param { shape { dim: 1 dim: 6 dim: 4 dim: 4 } }"
    image = f'layer {{ name: "x" type: "Input" top: "x" {shape} }}'
    fields = "convolution_param { kernel_size: 3 bias_term: false }"
    graph = prototrt.rewrite(net([image, layer("ConvolutionDepthwise", "c", "x", "c", fields)]))
    assert [value.shape for value in graph.outputs] == [(1, 6, 2, 2)]


def test_a_field_that_many_layers_have_is_told_once(net: Callable[[list[str]], prototrt.Model]) -> None:
    odd = [layer("TanH", f"o{index}", "b", f"o{index}", "tanh_param { steep: 1 }") for index in range(3)]
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(net([*TRUNK, *odd]))
    assert str(caught.value) == (
        'net.prototxt:4: layer "o0" (TanH), tanh_param: there is no field "steep", which 2 other layers have\n'
        "  fix: remove it if it does not change what the layer computes; the fields here are engine;"
        ' or convert the part before it: outputs=["b"]'
    )


FINAL = 'layer { name: "f" type: "Python" bottom: "b" top: "f" python_param { module: "m" layer: "F" } }'
LEFT_OUT = 'net.prototxt:4: layer "f" (Python): its Python code is not in the file: the net ends before it'


def test_what_is_left_out_is_told_apart(net: Callable[[list[str]], prototrt.Model]) -> None:
    graph = prototrt.rewrite(net([*TRUNK, FINAL]))
    assert [(layer.origin.layer, layer.warning) for layer in graph.left_out] == [("f", LEFT_OUT)]
    assert graph.warnings == (LEFT_OUT,)
    assert prototrt.rewrite(net([*TRUNK, FINAL]), outputs=["b"]).left_out == ()


def test_auto_tells_all_that_is_left_out(net: Callable[[list[str]], prototrt.Model]) -> None:
    graph = prototrt.rewrite(net([*TRUNK, FINAL, layer("Odd", "o", "a", "o")]), outputs=["auto"])
    assert [layer.origin.layer for layer in graph.left_out] == ["f", "o"]
    assert graph.warnings == tuple(layer.warning for layer in graph.left_out)


@pytest.mark.parametrize(
    ("layers", "outputs", "expected"),
    [
        ([*TRUNK, FINAL], None, [("f (Python)", '"b"')]),
        ([*TRUNK, layer("Odd", "f", "b", "f")], ["auto"], [("f (Odd)", '"b"')]),
    ],
)
def test_strict_leaves_nothing_out(
    layers: list[str],
    outputs: list[str] | None,
    expected: list[tuple[str, str]],
    net: Callable[[list[str]], prototrt.Model],
) -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(net(layers), outputs=outputs, strict=True)
    ((subject, chosen),) = expected
    name, _, kind = subject.partition(" ")
    assert str(caught.value) == (
        f'net.prototxt:4: layer "{name}" {kind}: the net would end before this layer\n'
        "  because strict allows this only if you choose the outputs\n"
        f"  fix: choose the outputs: outputs=[{chosen}]"
    )
    assert prototrt.rewrite(net(layers), outputs=["b"], strict=True).left_out == ()


def test_quiet_does_not_silence_it(net: Callable[[list[str]], prototrt.Model], tmp_path: Path) -> None:
    net([*TRUNK, FINAL])
    loud = done("convert", "net.prototxt", "-o", "net.onnx", "--random-weights", "1")
    quiet = done("convert", "net.prototxt", "-o", "net.onnx", "--random-weights", "1", "-q")
    assert "\nleft out f (Python), line 4\n" in loud.stdout
    assert (quiet.stdout, quiet.stderr) == ("", f"warning: {LEFT_OUT}\n")
    manifest = json.loads(Path("net.onnx.json").read_text())
    assert manifest["left_out"] == [{"layer": "f", "type": "Python", "line": 4, "warning": LEFT_OUT}]
    Path("list.yaml").write_text(
        "models: [{name: n, prototxt: net.prototxt, random-weights: 1, format: onnx}]"
    )
    batch = done("batch", "list.yaml", "-o", "out", "-q")
    assert (batch.stdout, batch.stderr) == ("", f"warning: n: {LEFT_OUT}\n")


ROWS = layer("Input", "s", "", "s", "input_param { shape { dim: 2 dim: 1 } }")
REFUSED = [
    *TRUNK,
    ROWS,
    layer("Filter", "f", "b s", "f"),
    layer("TanH", "p", "f", "p"),
    layer("TanH", "q", "a", "q"),
]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("opencv", "needs Compress, which OpenCV"),
        ("datacenter", "its output size depends on input values"),
    ],
)
def test_auto_cuts_before_what_a_program_refuses(
    target: str, reason: str, net: Callable[[list[str]], prototrt.Model]
) -> None:
    net(REFUSED)
    options = ["--target", target, "--output", "auto", "--verify"]
    warning = done("convert", "net.prototxt", "-o", "net.onnx", *options).stderr.splitlines()[0]
    assert warning.startswith(
        f'warning: the net ends before this layer: net.prototxt:5: layer "f" (Filter): {reason}'
    )
    manifest = json.loads(Path("net.onnx.json").read_text())
    assert [value["name"] for value in manifest["outputs"]] == ["b", "q"]
    assert [each["layer"] for each in manifest["left_out"]] == ["f"]


def test_what_a_program_refuses_is_refused_if_nothing_is_before_it(
    net: Callable[[list[str]], prototrt.Model],
) -> None:
    net([INPUT, ROWS, layer("Filter", "f", "x s", "f")])
    result = run("convert", "net.prototxt", "-o", "net.onnx", "--target", "opencv", "--output", "auto")
    assert result.exit_code == 3
    assert "needs Compress, which OpenCV" in result.stderr
