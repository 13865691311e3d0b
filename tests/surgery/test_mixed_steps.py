"""A warning names the layers that mix steps outside of recurrences: exactly where two calls differ from one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.small_nets import inputs_of, loaded, numbers


def layer(kind: str, bottom: str, top: str, fields: str = "") -> str:
    return f'layer {{ name: "{top}" type: "{kind}" bottom: "{bottom}" top: "{top}" {fields} }}\n'


def convolution(bottom: str, top: str, fields: str) -> str:
    return layer("Convolution", bottom, top, f"convolution_param {{ num_output: 2 {fields} }}")


def pooling(bottom: str, top: str, fields: str) -> str:
    return layer("Pooling", bottom, top, f"pooling_param {{ {fields} }}")


def steps(bottom: str, top: str = "s") -> str:
    """Rows of an image (1, C, T, W) as steps (T, 1, C, W)."""
    return layer("Permute", bottom, top, "permute_param { order: 2 order: 0 order: 1 order: 3 }")


def lstm(bottom: str, top: str = "h", fields: str = "") -> str:
    return layer("LSTM", f'{bottom}" bottom: "cont', top, f"recurrent_param {{ num_output: 3 {fields} }}")


IMAGE, ROWS, SEQUENCE = ("x", (1, 2, 8, 5)), ("x", (8, 2, 5, 5)), ("x", (8, 1, 4))
ALONG, ACROSS = "kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0", "kernel_h: 1 kernel_w: 3"
AHEAD = (
    layer("Permute", "h", "u", "permute_param { order: 1 order: 2 order: 0 }")
    + layer("Reshape", "u", "column", "reshape_param { shape { dim: 0 dim: 0 dim: 0 dim: 1 } }")
    + convolution("column", "ahead", "kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0")
    + layer("Permute", "ahead", "y", "permute_param { order: 2 order: 0 order: 1 order: 3 }")
)
CASES: dict[str, tuple[tuple[str, tuple[int, ...]], str, list[str]]] = {
    "steps alone": (SEQUENCE, lstm("x"), []),
    "a convolution over steps": (IMAGE, convolution("x", "c", ALONG) + steps("c") + lstm("s"), ["c"]),
    "a convolution of a step": (IMAGE, convolution("x", "c", ACROSS) + steps("c") + lstm("s"), []),
    "several": (
        IMAGE,
        convolution("x", "a", ALONG)
        + convolution("a", "b", ACROSS)
        + layer("ReLU", "b", "b")
        + pooling("b", "p", "kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0 stride: 1")
        + steps("p")
        + lstm("s"),
        ["a", "p"],
    ),
    "images of rows": (
        ROWS,
        convolution("x", "c", "kernel_size: 3 pad: 1")
        + layer("Reshape", "c", "s", "reshape_param { shape { dim: -1 dim: 1 dim: 50 } }")
        + lstm("s"),
        [],
    ),
    "a convolution over results": (SEQUENCE, lstm("x") + AHEAD, ["ahead"]),
    "probabilities of units": (
        SEQUENCE,
        lstm("x") + layer("Softmax", "h", "y", "softmax_param { axis: 2 }"),
        [],
    ),
    "probabilities of steps": (
        SEQUENCE,
        lstm("x") + layer("Softmax", "h", "y", "softmax_param { axis: 0 }"),
        ["y"],
    ),
    "a sequence backwards": (
        SEQUENCE,
        layer("Reverse", "x", "r") + lstm("r", "b") + layer("Reverse", "b", "y"),
        ["r", "y"],
    ),
    "both directions": (SEQUENCE, lstm("x", "h", "bidirectional: CONCAT"), ["h"]),
    "each step by itself": (
        SEQUENCE,
        lstm("x")
        + 'layer { name: "cut" type: "Slice" bottom: "h" top: "a" top: "b" slice_param { axis: 0 slice_point: 2 } }\n'
        + layer("TanH", "a", "c")
        + layer("TanH", "b", "d")
        + layer("Concat", 'c" bottom: "d', "y", "concat_param { axis: 0 }"),
        [],
    ),
    "parts that differ": (
        SEQUENCE,
        lstm("x")
        + 'layer { name: "cut" type: "Slice" bottom: "h" top: "a" top: "b" slice_param { axis: 0 slice_point: 2 } }\n'
        + layer("TanH", "a", "c")
        + layer("Concat", 'c" bottom: "b', "y", "concat_param { axis: 0 }"),
        ["cut", "y"],
    ),
    "parts in another order": (
        SEQUENCE,
        lstm("x")
        + 'layer { name: "cut" type: "Slice" bottom: "h" top: "a" top: "b" slice_param { axis: 0 slice_point: 2 } }\n'
        + layer("Concat", 'b" bottom: "a', "y", "concat_param { axis: 0 }"),
        ["cut", "y"],
    ),
}


def graph_of(folder: Path, case: str, count: int) -> Graph:
    (name, shape), layers, _ = CASES[case]
    axis = shape.index(8)
    inputs = inputs_of({name: (*shape[:axis], count, *shape[axis + 1 :]), "cont": (count, 1)})
    return prototrt.rewrite(loaded(folder, inputs + layers, random_weights=3))


def warned(graph: Graph) -> list[str]:
    text = next((warning for warning in graph.warnings if "the steps of a sequence" in warning), "")
    return [part for part in text.partition(" the steps")[0].split('"') if part.isalpha()]


@pytest.mark.filterwarnings("ignore::prototrt.ConversionWarning")
@pytest.mark.parametrize("case", CASES)
def test_layers_are_named_where_calls_differ(case: str, tmp_path: Path) -> None:
    (name, shape), _, layers = CASES[case]
    whole, part = (graph_of(tmp_path, case, count) for count in (8, 4))
    assert warned(whole) == warned(part) == layers
    axis, x, cont = shape.index(8), numbers(*shape), np.ones((8, 1), np.float32)
    output = whole.outputs[0].name
    expected = prototrt.Session(whole).run({name: x, "cont": cont})[output]
    session, found = prototrt.Session(part), list[Array]()
    for half in np.split(x, 2, axis):
        found.append(session.run({name: half, "cont": cont[:4]})[output])
    is_equal = np.allclose(np.concatenate(found), expected, 1e-4, 1e-5)
    assert is_equal == (not layers)


@pytest.mark.filterwarnings("ignore::prototrt.ConversionWarning")
@pytest.mark.parametrize(
    ("reads", "layers"),
    [("slice_point: 7", []), ("slice_point: 1", ["cut"])],
    ids=["last", "from the second on"],
)
def test_the_last_step_is_that_of_the_last_call(reads: str, layers: list[str], tmp_path: Path) -> None:
    tops = 'top: "a" top: "y"' if not layers else 'top: "y" top: "a"'
    cut = f'layer {{ name: "cut" type: "Slice" bottom: "h" {tops} slice_param {{ axis: 0 {reads} }} }}\n'
    text = inputs_of({"x": (8, 1, 4), "cont": (8, 1)}) + lstm("x") + cut
    graph = prototrt.rewrite(loaded(tmp_path, text, random_weights=3), outputs=["y"])
    assert warned(graph) == layers


@pytest.mark.parametrize("options", [{"cont": "drop", "state": "zero"}, {"state": "zero"}], ids=str)
def test_whole_sequences_need_no_warning(options: dict[str, str], tmp_path: Path) -> None:
    text = inputs_of({"x": IMAGE[1], "cont": (8, 1)}) + CASES["a convolution over steps"][1]
    graph = prototrt.rewrite(loaded(tmp_path, text, random_weights=3), **options)  # type: ignore[call-overload]
    assert not warned(graph)


def test_the_warning(tmp_path: Path) -> None:
    text = inputs_of({"x": IMAGE[1], "cont": (8, 1)}) + CASES["several"][1]
    with pytest.warns(prototrt.ConversionWarning) as caught:
        prototrt.rewrite(loaded(tmp_path, text, random_weights=3))
    (message,) = [str(each.message) for each in caught if "the steps" in str(each.message)]
    assert message == (
        f'{tmp_path / "net.prototxt"}: "a", "p" mix the steps of a sequence: several calls have other results than'
        ' one call; give each call a whole sequence, with cont="drop", state="zero", or a piece of a stream, with'
        " stream=1"
    )
