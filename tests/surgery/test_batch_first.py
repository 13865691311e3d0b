"""Batch first: the goldens with their streams in front, in every way of running, and what is known of axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form, Way
from prototrt.converter.checking.verification.comparison import TOLERANCES, difference_of
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.passes.quantization_placement import quantized_values
from prototrt.surgery.pipeline import lowered
from prototrt.surgery.recurrent.fused_cells import FusedLSTM
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.dynamic_lstm import continuing
from prototrt.tests.golden_cases import Case, caffe_cases, case_called, recurrent_runs
from prototrt.tests.recurrent_cases import RecurrentCase, recurrent_cases
from prototrt.tests.small_nets import WAYS, Shapes, inputs_of, loaded

UNMOVED = {"xs", "x_static", "data"}
"""Blobs of the goldens that begin with N as Caffe has them."""
CAFFE2 = [case for case in caffe2_cases() if case.is_recurrent and not case.folder.name.endswith("unrolled")]


IN_NETWORK = pytest.param("network", marks=[pytest.mark.trt, pytest.mark.slow])


def batch_first(name: str, array: Array) -> Array:
    """An array of a golden as documented: N in front, and no first axis of size 1, unless (N,) remains."""
    if name in UNMOVED:
        return array
    if name == "frames":  # T*N rows, with T = 5 and N = 2
        array = array.reshape(5, 2, *array.shape[1:])
    moved = np.swapaxes(array, 0, 1)
    return moved[:, 0] if array.shape[0] == 1 and array.ndim > 2 else moved


def calls(case: Case, sequence: Form = "auto") -> Iterator[tuple[Graph, dict[str, Array], dict[str, Array]]]:
    """The graph of each call with what is fed and expected; the same graph while shapes do not change."""
    shapes, graph = None, None
    for inputs, outputs in zip(case.arrays("inputs"), case.arrays("outputs"), strict=True):
        new = {name: array.shape for name, array in inputs.items()}
        if graph is None or new != shapes:
            shapes = new
            graph = prototrt.rewrite(
                case.load(), shapes=new, outputs=list(outputs), sequence=sequence, layout="batch-first"
            )
        yield graph, moved(inputs), moved(outputs)


def moved(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: batch_first(name, array) for name, array in arrays.items()}


def check(case: Case, on: Way, sequence: Form = "auto") -> None:
    session: prototrt.Session | None = None
    for graph, inputs, outputs in calls(case, sequence):
        if session is None or session.graph is not graph:
            session = prototrt.Session(graph, on=on)
        results = session.run(inputs)
        for name, wanted in outputs.items():
            assert results[name].shape == wanted.shape, name
            relative, absolute = case.tolerance(name)
            np.testing.assert_allclose(results[name], wanted, relative, absolute, err_msg=name)
        for pair in graph.recurrences:
            assert graph.layout.bindings[pair.input.name].names[0] == "N"


@pytest.mark.parametrize(("case", "sequence"), recurrent_runs(), ids=str)
def test_caffe_on_the_reference(case: Case, sequence: Form) -> None:
    check(case, "reference", sequence)


@pytest.mark.trt
@pytest.mark.parametrize("case", [case for case in caffe_cases() if case.is_recurrent], ids=str)
def test_caffe_in_the_network(case: Case) -> None:
    check(case, "network")


@pytest.mark.parametrize("case", [case for case in caffe_cases() if case.is_recurrent], ids=str)
def test_caffe_in_onnxruntime(case: Case) -> None:
    pytest.importorskip("onnxruntime")
    check(case, "onnx")


@pytest.mark.parametrize("name", ["lstm_t5_n3", "lstm_stream_t1", "lstm_stacked"])
def test_the_lstm_of_onnx(name: str) -> None:
    """It is found where it is found in Caffe's layout, and its sequences are moved outside."""
    pytest.importorskip("onnxruntime")
    case = case_called(name)
    graphs = both(case.load(), cont="drop", sequence="loop")
    found = [
        [type(node.op) for node in lowered(graph, "onnx-lstm").nodes].count(FusedLSTM) for graph in graphs
    ]
    assert found[1] == found[0] > 0
    check_equal(graphs, [{"x": feeds["x"]} for feeds in case.arrays("inputs")[:1]] * 2, "onnx-lstm")


def check_in_caffe_layout(graph: Graph, feeds: Mapping[str, Array], on: Way) -> dict[str, Array]:
    """The results of one call, in Caffe's layout; every binding begins with N."""
    for value in (*graph.inputs, *graph.outputs):
        assert graph.layout.bindings[value.name].names[0] == "N", value
    results = prototrt.Session(graph, on=on).run(graph.layout.from_caffe(feeds))
    return graph.layout.to_caffe(results)


@pytest.mark.parametrize("case", CAFFE2, ids=str)
@pytest.mark.parametrize("on", ["reference", IN_NETWORK])
def test_caffe2(case: Caffe2Case, on: Way) -> None:
    feeds = case.arrays("inputs")
    shapes = {name: array.shape for name, array in feeds.items()}
    case.check(
        check_in_caffe_layout(prototrt.rewrite(case.load(), shapes=shapes, layout="batch-first"), feeds, on)
    )


@pytest.mark.parametrize("case", recurrent_cases(), ids=str)
@pytest.mark.parametrize("on", ["reference", IN_NETWORK])
def test_variants(case: RecurrentCase, on: Way, tmp_path: Path) -> None:
    net = case.net()
    graph = prototrt.rewrite(net.load(tmp_path), outputs=list(net.expected), layout="batch-first")
    results = check_in_caffe_layout(graph, net.feeds, on)
    relative, absolute = case.tolerance
    for name, wanted in net.expected.items():
        np.testing.assert_allclose(results[name], wanted, relative, absolute, err_msg=name)


STATE = "lstm_h_0"


def test_streams_are_reset_along_their_axis() -> None:
    graph, inputs, _ = next(calls(case_called("lstm_carry")))
    session = prototrt.Session(graph)
    session.run(inputs)
    before = session.get_state()[STATE]
    session.reset(streams=[1])
    after = session.get_state()[STATE]
    np.testing.assert_array_equal(after[0], before[0])
    assert before[1].any()
    assert not after[1].any()


# ---------------------------------------------------------------- which axes are known


def layer(kind: str, bottom: str, top: str, fields: str = "") -> str:
    return f'layer {{ name: "{top}" type: "{kind}" bottom: "{bottom}" top: "{top}" {fields} }}\n'


def cell(bottom: str, top: str) -> str:
    return layer("VanillaRNN", bottom, top, "recurrent_param { num_output: 5 }")


def lstm(x: str, cont: str, top: str) -> str:
    return layer("LSTM", f'{x}" bottom: "{cont}', top, "recurrent_param { num_output: 5 }")


def swapped(bottom: str, top: str) -> str:
    return layer("Permute", bottom, top, "permute_param { order: 1 order: 0 order: 2 }")


def reshaped(bottom: str, top: str, *shape: int) -> str:
    dims = " ".join(f"dim: {dim}" for dim in shape)
    return layer("Reshape", bottom, top, f"reshape_param {{ shape {{ {dims} }} }}")


AXES: dict[str, tuple[Shapes, str, dict[str, str]]] = {
    "sequence": ({"x": (3, 2, 4)}, cell("x", "h"), {"x": "T N .", "h": "T N .", "h_h_0": ". N ."}),
    "one step of one stream": ({"x": (1, 1, 4)}, cell("x", "h"), {"x": "T N .", "h_h_0": ". N ."}),
    "sizes that are all equal": ({"x": (2, 2, 2)}, cell("x", "h"), {"x": "T N .", "h": "T N ."}),
    "rows of all steps": (
        {"x": (6, 4)},
        reshaped("x", "s", 3, 2, 4) + cell("s", "h") + reshaped("h", "y", -1, 5),
        {"x": "T*N .", "y": "T*N ."},
    ),
    "rows of one step": ({"x": (2, 4)}, reshaped("x", "s", 1, 2, 4) + cell("s", "h"), {"x": "N ."}),
    "rows of one stream": ({"x": (3, 4)}, reshaped("x", "s", 3, 1, 4) + cell("s", "h"), {"x": "T*N ."}),
    "rows of one step of one stream": (
        {"x": (1, 4)},
        reshaped("x", "s", 1, 1, 4) + cell("s", "h"),
        {"x": "N ."},
    ),
    "rows with axes of size 1": (
        {"x": (3, 2, 4), "m": (6, 1, 1, 1)},
        reshaped("m", "c", 3, 2) + lstm("x", "c", "h"),
        {"m": "T*N . . ."},
    ),
    "rows with axes of size 1, of one step": (
        {"x": (1, 2, 4), "m": (2, 1, 1)},
        reshaped("m", "c", 1, 2) + lstm("x", "c", "h"),
        {"m": "N . ."},
    ),
    "rows with axes of size 1, of one step of one stream": (
        {"x": (1, 1, 4), "m": (1, 1, 1, 1), "n": (1, 1, 1)},
        reshaped("m", "c", 1, 1) + lstm("x", "c", "h") + reshaped("n", "d", 1, 1) + lstm("x", "d", "i"),
        {"m": "N . . .", "n": "N . .", "x": "T N .", "h_h_0": ". N ."},
    ),
    "streams in front": ({"x": (2, 3, 4)}, swapped("x", "s") + cell("s", "h"), {"x": "N T .", "h": "T N ."}),
    "the last steps": (
        {"x": (3, 2, 4)},
        cell("x", "h")
        + 'layer { name: "cut" type: "Slice" bottom: "h" top: "a" top: "b" slice_param { axis: 0 slice_point: 1 } }'
        + layer("TanH", "b", "y"),
        {"y": "T N ."},
    ),
    "steps that are summed up": (
        {"x": (3, 2, 4)},
        cell("x", "h")
        + layer("Permute", "h", "p", "permute_param { order: 1 order: 2 order: 0 }")
        + layer("Reduction", "p", "y", "reduction_param { operation: SUM axis: 2 }"),
        {"y": "N ."},
    ),
    "streams and features in one axis": (
        {"x": (3, 2, 4)},
        cell("x", "h") + layer("Flatten", "h", "y"),
        {"x": "T N .", "y": "T ."},
    ),
    "what counts steps in one layer and streams in another": (
        {"x": (3, 2, 4)},
        cell("x", "a") + swapped("a", "b") + cell("b", "c"),
        {"x": ". . .", "a_h_0": ". . .", "c_h_0": ". . .", "c": ". . ."},
    ),
    "images": (
        {"x": (2, 3, 4, 4)},
        layer("Convolution", "x", "c", "convolution_param { num_output: 2 kernel_size: 3 }")
        + layer("InnerProduct", "c", "y", "inner_product_param { num_output: 3 }"),
        {"x": "N . . .", "y": "N ."},
    ),
    "neither images nor steps": ({"x": (2, 3)}, layer("TanH", "x", "y"), {"x": ". .", "y": ". ."}),
}


def rewritten(folder: Path, shapes: Shapes, layers: str, **options: Any) -> Graph:
    return prototrt.rewrite(loaded(folder, inputs_of(shapes) + layers, random_weights=1), **options)


@pytest.mark.parametrize(("shapes", "layers", "expected"), AXES.values(), ids=AXES)
def test_axes(shapes: Shapes, layers: str, expected: dict[str, str], tmp_path: Path) -> None:
    """The names of axes in Caffe's layout; in the other one N is first wherever it is known."""
    graph = rewritten(tmp_path, shapes, layers)
    found = {name: layout.names for name, layout in graph.layout.bindings.items()}
    assert {name: " ".join(axis or "." for axis in found[name]) for name in expected} == expected
    moved = rewritten(tmp_path, shapes, layers, layout="batch-first")
    for name, layout in moved.layout.bindings.items():
        knows_streams = any("N" in (axis or "") for axis in found[name])
        assert layout.names.index("N") == 0 if knows_streams else layout == graph.layout.bindings[name]


SMALL_SIZES = [sizes for sizes in itertools.product([1, 2], repeat=4) if sizes[1] == 2 or sizes[2:] == (2, 2)]
"""T, N, D, H. With one stream of one number, nothing tells which axis is which after a Reshape."""


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("sizes", SMALL_SIZES, ids=str)
def test_axes_are_the_same_for_all_sizes(sizes: tuple[int, ...], layers: int, tmp_path: Path) -> None:
    """Sizes do not tell axes apart: those of this net are 1 or 2."""
    steps, streams, width, hidden = sizes
    shapes = {
        "x": (steps, streams, width),
        "cont": (steps, streams),
        "static": (streams, width),
        "lengths": (streams,),
    }
    blobs = " ".join(f'bottom: "{name}"' for name in shapes)
    fields = f"num_output: {hidden} num_layers: {layers} sequence_lengths: true bidirectional: CONCAT"
    lstm = f'layer {{ name: "l" type: "LSTM" {blobs} top: "h" recurrent_param {{ {fields} }} }}'
    graph = rewritten(tmp_path, shapes, lstm)
    found = {
        name: " ".join(axis or "." for axis in each.names) for name, each in graph.layout.bindings.items()
    }
    states = dict.fromkeys(("l_h_0", "l_c_0", "l_h_T", "l_c_T"), ". N .")
    assert found == {"x": "T N .", "cont": "T N", "static": "N .", "lengths": "N", "h": "T N .", **states}


@pytest.mark.parametrize(
    ("case", "warning"),
    [
        (
            "streams and features in one axis",
            'batch-first leaves "y" in Caffe\'s layout: which axis is the batch N is not known',
        ),
        ("neither images nor steps", "batch-first has no effect: the net has no recurrent layer"),
        ("images", None),
        ("sequence", None),
    ],
)
def test_warning(case: str, warning: str | None, tmp_path: Path) -> None:
    shapes, layers, _ = AXES[case]
    graph = rewritten(tmp_path, shapes, layers, layout="batch-first")
    assert graph.warnings == (() if warning is None else (f"{tmp_path / 'net.prototxt'}: {warning}",))


# ---------------------------------------------------------------- with other options


def both(model: prototrt.Model, **options: Any) -> tuple[Graph, Graph]:
    """The graph in Caffe's layout, and batch first."""
    return prototrt.rewrite(model, **options), prototrt.rewrite(model, layout="batch-first", **options)


def check_equal(graphs: tuple[Graph, Graph], calls: Iterable[Mapping[str, Array]], on: Way) -> None:
    """The two give the same numbers, call after call."""
    caffe, moved = graphs
    sessions = prototrt.Session(caffe, on=on), prototrt.Session(moved, on=on)
    for feeds in calls:
        expected = sessions[0].run(feeds)
        found = moved.layout.to_caffe(sessions[1].run(moved.layout.from_caffe(feeds)))
        for name, wanted in expected.items():
            assert difference_of(found[name], wanted, TOLERANCES[precision_of(caffe)]).is_small, name


@pytest.mark.parametrize("on", WAYS)
def test_sizes_that_vary(on: Way) -> None:
    model = case_called("lstm_t5_n3").load()
    shapes = {"x": (1, 1, 6), "cont": (1, 1)}, {"x": (8, 7, 6), "cont": (8, 7)}
    caffe, moved = graphs = both(model, min_shapes=shapes[0], max_shapes=shapes[1])
    for steps, streams in ((5, 3), (1, 7), (8, 1)):
        check_equal(graphs, (continuing(steps, streams, call) for call in range(2)), on)
    assert [value.shape for value in caffe.inputs[:2]] == [("T", "N", 6), ("T", "N")]
    assert [value.shape for value in moved.inputs[:2]] == [("N", "T", 6), ("N", "T")]


@pytest.mark.parametrize("on", WAYS)
def test_rows_whose_steps_and_streams_vary(on: Way) -> None:
    """LRCN: (T*N, C, H, W) becomes (N, T, C, H, W), for any T and N."""
    case = case_called("net_lrcn")
    shapes = {"frames": ("T*N", 3, 12, 12), "cont": ("T", "N")}
    caffe, moved = graphs = both(case.load(), shapes=shapes, sizes={"T": (1, 5, 12), "N": (1, 2, 4)})
    assert [str(value.shape) for value in moved.inputs[:2]] == ["(N, T, 3, 12, 12)", "(N, T)"]
    check_equal(graphs, case.arrays("inputs"), on)
    random = np.random.default_rng(0)
    for steps, streams in ((3, 1), (1, 4), (2, 3)):
        frames = random.standard_normal((steps * streams, 3, 12, 12), np.float32)
        check_equal(graphs, [{"frames": frames, "cont": np.ones((steps, streams), np.float32)}] * 2, on)
    assert moved.warnings == caffe.warnings


def test_a_cont_that_only_tells_steps_from_streams_is_for_rows_alone() -> None:
    """In Caffe's layout rows need it; batch first, they have an axis for each."""
    model, sizes = case_called("net_lrcn").load(), {"T": (1, 5, 12), "N": (1, 2, 4)}
    shapes = {"frames": ("T*N", 3, 12, 12), "cont": ("T", "N")}
    options: dict[str, Any] = {"shapes": shapes, "sizes": sizes, "cont": "drop", "sequence": "loop"}
    caffe, moved = both(model, **options)
    assert [value.name for value in caffe.inputs[:2]] == ["frames", "cont"]
    assert "cont" not in [value.name for value in moved.inputs]
    assert moved.warnings == caffe.warnings
    compared = prototrt.verify(
        model, ways=["onnx"], rewriting=RewriteOptions(**options, layout="batch-first"), calls=2
    )
    assert compared.verdict.startswith("PASS")


@pytest.mark.parametrize("options", [{"precision": "fp16"}, {"state": "zero"}, {"tile": "keep"}], ids=str)
@pytest.mark.parametrize("on", WAYS)
def test_options(options: dict[str, Any], on: Way) -> None:
    feeds = case_called("lstm_t5_n3").arrays("inputs")
    check_equal(both(case_called("lstm_t5_n3").load(), **options), feeds * 2, on)


@pytest.mark.parametrize("on", WAYS)
def test_quantized(on: Way) -> None:
    """Ranges are of values in Caffe's layout; their names do not change."""
    case = case_called("lstm_stacked")
    ranges = dict.fromkeys(quantized_values(prototrt.rewrite(case.load()), RewriteOptions()), 4.0)
    options = {"precision": "int8", "ranges": ranges, "quantize_all": True}
    check_equal(both(case.load(), **options), case.arrays("inputs") * 2, on)
