"""A stream in pieces gives what one long call gives: results, delays, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt import Way
from prototrt.converter.front.commandline.summaries import stream_lines
from prototrt.surgery.ir import Array, Graph, Lag, StreamLags, Value, fixed
from prototrt.surgery.views.inspection import inspect
from prototrt.tests.command_line import done
from prototrt.tests.small_nets import WAYS, inputs_of, loaded, numbers
from prototrt.tests.surgery.test_mixed_steps import convolution, layer, lstm, pooling, steps

pytestmark = pytest.mark.filterwarnings("ignore::prototrt.ConversionWarning")
WIDTH = 3


@dataclass(frozen=True)
class Chain:
    """Layers over rows of images (N, C, T, W). ``rate``: so many steps of the input are one step of ``top``."""

    top: str
    steps: int
    rate: int = 1
    channels: int = 2
    layers: tuple[str, ...] = field(default=())

    def then(self, top: str, text: str, **changed: Any) -> Chain:
        return replace(self, top=top, layers=(*self.layers, text), **changed)

    @property
    def fresh(self) -> str:
        return f"b{len(self.layers)}"


def convolved(chain: Chain, kernel: int, stride: int, pad: int, dilation: int, name: str) -> Chain:
    fields = (
        f"kernel_h: {kernel} kernel_w: 1 stride_h: {stride} stride_w: 1 pad_h: {pad} pad_w: 0 dilation: {dilation}"
        f" dilation: 1 num_output: {chain.channels}"
    ).replace(" num_output", "  num_output")
    text = layer("Convolution", chain.top, name, f"convolution_param {{ {fields} }}")
    count = (chain.steps + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return chain.then(name, text, steps=count, rate=chain.rate * stride)


def pooled(chain: Chain, kind: str, kernel: int, stride: int, pad: int) -> Chain:
    """Caffe rounds the number of windows up, and drops one that would begin in the padding."""
    text = pooling(
        chain.top,
        chain.fresh,
        f"pool: {kind} kernel_h: {kernel} kernel_w: 1 stride_h: {stride} stride_w: 1 pad_h: {pad} pad_w: 0",
    )
    count = -(-(chain.steps + 2 * pad - kernel) // stride) + 1
    count -= bool(pad) and (count - 1) * stride >= chain.steps + pad
    return chain.then(chain.fresh, text, steps=count, rate=chain.rate * stride)


def cut(chain: Chain, start: int, end: int, name: str) -> Chain:
    """Without the first ``start`` and the last ``end`` steps."""
    points = [start] * (start > 0) + [chain.steps - end] * (end > 0)
    if not points:
        return chain.then(name, layer("ReLU", chain.top, name, "relu_param { negative_slope: 0.5 }"))
    tops = [f"{name}_front"] * (start > 0) + [name] + [f"{name}_back"] * (end > 0)
    text = (
        f'layer {{ name: "{name}" type: "Slice" bottom: "{chain.top}" {" ".join(f"top: {top!r}" for top in tops)}'
        f" slice_param {{ axis: 2 {' '.join(f'slice_point: {point}' for point in points)} }} }}\n"
    )
    return chain.then(name, text.replace("'", '"'), steps=chain.steps - start - end)


@st.composite
def chains(draw: st.DrawFn, length: int) -> Chain:
    chain = Chain("x", length)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["conv", "MAX", "AVE", "cut", "sum", "max", "concat"]))
        kernel, stride = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 2, 3]))
        before = chain
        if kind == "conv":
            pad, dilation = draw(st.integers(0, 3)), draw(st.integers(1, 2))
            if dilation * (kernel - 1) + 1 <= chain.steps + 2 * pad:
                chain = convolved(chain, kernel, stride, pad, dilation, chain.fresh)
        elif kind in ("MAX", "AVE"):
            pad = draw(st.integers(0, kernel - 1))
            if kernel <= chain.steps:
                chain = pooled(chain, kind, kernel, stride, pad)
        elif kind == "cut":
            chain = cut(chain, draw(st.integers(0, 2)), draw(st.integers(0, 2)), chain.fresh)
        else:  # two branches, of which one looks ahead
            name, ahead = chain.fresh, draw(st.integers(0, 3))
            one = convolved(chain, 2 * kernel - 1, 1, kernel - 1, 1, f"{name}_one")
            other = cut(replace(chain, layers=one.layers), ahead, 0, f"{name}_other")
            one = cut(replace(one, layers=other.layers), 0, ahead, f"{name}_both")
            bottoms = f'{one.top}" bottom: "{other.top}'
            if kind == "concat":
                text = layer("Concat", bottoms, name)
            else:
                text = layer("Eltwise", bottoms, name, f"eltwise_param {{ operation: {kind.upper()} }}")
            channels = chain.channels * (2 if kind == "concat" else 1)
            chain = one.then(name, text, channels=channels)
        if chain.steps < 3 or chain.rate > 12:
            chain = before
    return chain


@dataclass(frozen=True)
class Drawn:
    """A net over ``x`` (N, 2, T, W) and cont, with the output "y"; ``piece`` steps of x are a piece."""

    text: str
    shapes: Mapping[str, tuple[int, ...]]
    rate: int
    piece: int


@st.composite
def nets(draw: st.DrawFn) -> Drawn:
    length, streams = draw(st.integers(6, 24)), draw(st.integers(1, 2))
    chain = draw(chains(length))
    text = "".join(chain.layers) + steps(chain.top) + lstm("s")
    if draw(st.booleans()):
        text += (
            layer("Permute", "h", "u", "permute_param { order: 1 order: 2 order: 0 }")
            + layer("Reshape", "u", "column", "reshape_param { shape { dim: 0 dim: 0 dim: 0 dim: 1 } }")
            + convolution("column", "ahead", "kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0")
            + layer("Permute", "ahead", "y", "permute_param { order: 2 order: 0 order: 1 order: 3 }")
        )
    else:
        text += layer("TanH", "h", "y")
    shapes = {"x": (streams, 2, length, WIDTH), "cont": (chain.steps, streams)}
    return Drawn(text, shapes, chain.rate, chain.rate * draw(st.integers(1, 4)))


def cut_off(array: Array, axis: int, start: int, count: int, fill: float) -> Array:
    """``count`` steps from ``start`` on; after the end this number."""
    held = np.take(array, range(start, min(start + count, array.shape[axis])), axis)
    missing = [(0, 0)] * array.ndim
    missing[axis] = (0, count - held.shape[axis])
    return np.pad(held, missing, constant_values=fill)


def fixed_shape(value: Value) -> list[int]:
    return [fixed(dim, "a size") for dim in value.shape]


def begun(graph: Graph, on: Way = "reference") -> prototrt.Session:
    """A session whose recurrent layers begin with ones; the states of pieces must begin as zeros."""
    session = prototrt.Session(graph, on)
    is_own = {value.name: value.name.endswith(("_h_0", "_c_0")) for value in graph.state_inputs}
    zeros = {value.name: np.zeros(fixed_shape(value), np.float32) for value in graph.state_inputs}
    session.set_state({name: array + is_own[name] for name, array in zeros.items()})
    return session


def streamed(
    graph: Graph,
    arrays: Mapping[str, Array],
    axes: Mapping[str, int],
    results: int,
    output: str,
    on: Way = "reference",
) -> Array:
    """The first results of a stream, which after its end goes on with 7."""
    assert graph.stream is not None
    session, found = begun(graph, on), list[Array]()
    shapes = {value.name: value.shape for value in graph.inputs}
    calls = 0
    while sum(map(len, found)) < results:
        feeds = {
            name: cut_off(array, axes[name], calls * count, count, 7)
            for name, array in arrays.items()
            for count in [shapes[name][axes[name]]]
            if isinstance(count, int)
        }
        found.append(session.run(feeds)[output])
        calls += 1
    return np.concatenate(found)[:results]


@given(net=nets())
def test_any_cut_gives_the_numbers_of_one_long_call(
    net: Drawn, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = loaded(tmp_path_factory.mktemp("net"), inputs_of(net.shapes) + net.text, random_weights=3)
    whole = prototrt.rewrite(model, outputs=["y"])
    arrays = {"x": numbers(*net.shapes["x"]), "cont": np.sign(numbers(*net.shapes["cont"]) + 0.7).clip(0)}
    expected = begun(whole).run(arrays)["y"]
    pieces = prototrt.rewrite(model, outputs=["y"], stream=net.piece)
    assert pieces.stream is not None
    lag = pieces.stream.lags["y"]
    known = max(len(expected) - lag.end, 0)
    found = streamed(pieces, arrays, {"x": 2, "cont": 0}, lag.delay + known, "y")
    np.testing.assert_allclose(found[lag.delay :], expected[:known], 1e-4, 1e-5)


# ------------------------------------------------------------ nets of the usual forms

NETS = Path(__file__).parent.parent / "goldens" / "streams"
FORMS: dict[str, tuple[int, Lag, dict[str, int], list[str]]] = {
    "speech": (8, Lag(2, 2, 3), {"sound": 3, "cont": 0}, ["conv1", "conv2", "lstm1", "lstm2"]),
    "text": (8, Lag(2, 2, 3), {"line": 3}, ["conv0", "pool0", "conv1", "sum", "conv2"]),
    "gesture": (6, Lag(3, 3, 2), {"sensors": 2, "cont": 0}, ["conv", "mean", "beside", "lstm"]),
}
"""By net: the steps of a piece, what is late, the axes of the inputs, and the layers with rows as states."""


def whole_and_pieces(form: str) -> tuple[Graph, Graph, dict[str, Array]]:
    model = prototrt.load(NETS / f"{form}.prototxt", random_weights=2)
    whole, pieces = (
        prototrt.rewrite(model, outputs=["prob"], stream=stream) for stream in (None, FORMS[form][0])
    )
    arrays = {
        value.name: np.ones(fixed_shape(value), np.float32)
        if value.name == "cont"
        else numbers(*fixed_shape(value))
        for value in whole.inputs
        if value not in whole.state_inputs
    }
    return whole, pieces, arrays


@pytest.mark.parametrize("form", FORMS)
def test_delays_and_states(form: str) -> None:
    steps, lag, _, layers = FORMS[form]
    _, pieces, _ = whole_and_pieces(form)
    assert pieces.stream == StreamLags(steps, {"prob": lag})
    rows = {pair.input.name: pair.output.name for pair in pieces.recurrences}
    added = {name: rows[name] for name in rows if name.endswith("_rows_0") or name.startswith("stream")}
    expected = {f"{layer}_rows_0": f"{layer}_rows_T" for layer in layers}
    assert added == expected | {"stream_steps_0": "stream_steps_T"}


@pytest.mark.parametrize("on", [*WAYS, "torch"])
@pytest.mark.parametrize("form", FORMS)
def test_every_way_takes_pieces(form: str, on: Way) -> None:
    if on == "torch":
        pytest.importorskip("torch")
    _, lag, axes, _ = FORMS[form]
    whole, pieces, arrays = whole_and_pieces(form)
    expected = begun(whole).run(arrays)["prob"]
    count = len(expected) - lag.end
    found = streamed(pieces, arrays, axes, lag.delay + count, "prob", on)
    np.testing.assert_allclose(found[lag.delay :], expected[:count], 1e-3, 1e-5)


def test_streams_are_computed_together() -> None:
    """Each begins when it likes, in one batch with others that began before."""
    model = prototrt.load(NETS / "gesture.prototxt", random_weights=2)
    shapes = {"sensors": ("N", 1, 64, 5), "cont": (31, "N")}
    graph = prototrt.rewrite(model, outputs=["prob"], stream=6, shapes=shapes, sizes={"N": (1, 2, 4)})
    whole, _, arrays = whole_and_pieces("gesture")
    expected = prototrt.Session(whole).run(arrays)["prob"]
    found = dict[int, list[Array]]()
    with prototrt.Sessions(graph, 2) as pool:
        for call in range(12):
            if call in (0, 3):
                found[pool.open(len(found))] = []
            results = {}
            for stream in found:
                piece = cut_off(arrays["sensors"][stream : stream + 1], 2, 6 * (call - 3 * stream), 6, 7)
                results[stream] = pool.submit(stream, {"sensors": piece, "cont": np.ones((3, 1), np.float32)})
            pool.flush()
            for stream, result in results.items():
                found[stream].append(result.result()["prob"])
    for stream, pieces in found.items():
        one = np.concatenate(pieces)[3:, 0]
        count = min(len(one), 29)
        np.testing.assert_allclose(one[:count], expected[:count, stream], 1e-4, 1e-5)


def test_streams_in_front() -> None:
    model = prototrt.load(NETS / "gesture.prototxt", random_weights=2)
    graph = prototrt.rewrite(model, outputs=["prob"], stream=2, layout="batch-first")
    assert {value.name: (value.shape, graph.layout.bindings[value.name].names) for value in graph.inputs} == {
        "sensors": ((2, 1, 2, 5), ("N", None, "T", None)),
        "cont": ((2, 1), ("N", "T")),
        "lstm_h_0": ((2, 6), ("N", None)),
        "lstm_c_0": ((2, 6), ("N", None)),
        "conv_rows_0": ((2, 1, 4, 5), ("N", None, None, None)),
        "mean_rows_0": ((2, 3, 1, 5), ("N", None, None, None)),
        "beside_rows_0": ((2, 3, 2, 5), ("N", None, None, None)),
        "lstm_rows_0": ((2, 3, 1), ("N", None, None)),
        "stream_steps_0": ((2, 1), ("N", None)),
    }


def test_files_say_what_is_late(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    _, pieces, _ = whole_and_pieces("text")
    manifest = prototrt.export_onnx(pieces, tmp_path / "text.onnx")
    late = {"steps": 8, "lags": {"prob": {"results": 2, "delay": 2, "end": 3}}}
    assert manifest["stream"] == late
    notes = {note.key: note.value for note in onnx.load(tmp_path / "text.onnx").metadata_props}
    assert json.loads(notes["stream"]) == late
    assert notes["recurrence conv0_rows_0"] == "conv0_rows_T"


def test_inspection_counts_a_piece() -> None:
    model = prototrt.load(NETS / "text.prototxt", random_weights=2)
    whole, piece = (inspect(model, outputs=["prob"], stream=stream) for stream in (None, 80))
    assert whole.stream is None
    assert piece.stream == StreamLags(80, {"prob": Lag(20, 2, 3)})
    tops = {layer.name: layer.tops[0].shape for layer in piece.layers if layer.tops}
    assert tops["conv0"] == (1, 3, 8, 40)
    assert {pair.input for pair in piece.recurrences} > {"conv0_rows_0", "stream_steps_0"}


def test_commands_say_what_is_late(tmp_path: Path) -> None:
    arguments = [str(NETS / "gesture.prototxt"), "--random-weights", "1", "--output", "prob", "--stream", "6"]
    late = "stream   6 steps a call: prob comes 3 results late, 3 a call; the last 2 of a sequence depend on its end"
    assert late in done("inspect", *arguments).stdout.splitlines()
    assert late in done("convert", *arguments, "-o", str(tmp_path / "net.onnx")).stdout.splitlines()
    assert [*stream_lines(StreamLags(1, {"h": Lag(1, 0, 0), "y": Lag(1, 1, 1)}))] == [
        "stream   1 step a call: h comes at once, 1 a call",
        "stream   1 step a call: y comes 1 result late, 1 a call; the last 1 of a sequence depends on its end",
    ]


# ------------------------------------------------------------ corners

AHEAD = convolution("x", "c", "kernel_h: 3 kernel_w: 1")
BEGINS = "continuation_indicator_param { time_step: 22 axis: 1 }"
CORNERS = {
    "a mean of rows that are late, with padding": AHEAD
    + pooling("c", "p", "pool: AVE kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0 stride: 1")
    + steps("p")
    + lstm("s"),
    "numbers of which the first differs": AHEAD
    + steps("c")
    + layer("ContinuationIndicator", "s", "begins", BEGINS)
    + lstm("s").replace('"cont"', '"begins"'),
}


@pytest.mark.parametrize("case", CORNERS)
def test_corners(case: str, tmp_path: Path) -> None:
    shapes = {"x": (1, 2, 24, WIDTH)} | ({} if "begins" in CORNERS[case] else {"cont": (22, 1)})
    text = inputs_of(shapes) + CORNERS[case] + layer("TanH", "h", "y")
    model = loaded(tmp_path, text, random_weights=3)
    whole, pieces = (prototrt.rewrite(model, outputs=["y"], stream=stream) for stream in (None, 5))
    arrays = {
        name: numbers(*shape) if name == "x" else np.ones(shape, np.float32) for name, shape in shapes.items()
    }
    expected = begun(whole).run(arrays)["y"]
    assert pieces.stream is not None
    lag = pieces.stream.lags["y"]
    count = len(expected) - lag.end
    found = streamed(pieces, arrays, {"x": 2, "cont": 0}, lag.delay + count, "y")
    np.testing.assert_allclose(found[lag.delay :], expected[:count], 1e-4, 1e-5)


def test_the_last_step_is_that_of_a_piece(tmp_path: Path) -> None:
    tops = 'top: "a" top: "y" slice_param { axis: 0 slice_point: 7 }'
    cut_last = f'layer {{ name: "cut" type: "Slice" bottom: "h" {tops} }}'
    text = inputs_of({"x": (8, 1, 4), "cont": (8, 1)}) + lstm("x") + cut_last
    graph = prototrt.rewrite(loaded(tmp_path, text, random_weights=3), outputs=["h", "y"], stream=2)
    assert graph.stream == StreamLags(2, {"h": Lag(2, 0, 0)})
    results = prototrt.Session(graph).run({"x": numbers(2, 1, 4), "cont": np.ones((2, 1), np.float32)})
    np.testing.assert_array_equal(results["y"], results["h"][1:])


# ------------------------------------------------------------ what is refused

ROW = inputs_of({"x": (1, 2, 8, 5), "cont": (8, 1)})
SEQUENCE = inputs_of({"x": (8, 1, 4), "cont": (8, 1)})
CUT = '  fix: cut the net before this layer with outputs=["BLOB"]'
MIXES = "mixes the steps of a sequence, which a stream in pieces cannot do\n" + CUT
REFUSALS = {
    "probabilities": (ROW + layer("Softmax", "x", "c", "softmax_param { axis: 2 }"), '"c" (Softmax)', MIXES),
    "statistics": (ROW + layer("MVN", "x", "c"), '"c" (MVN)', MIXES),
    "larger": (
        ROW.replace("cont", "c0nt").replace("dim: 8 dim: 1 }", "dim: 16 dim: 1 }").replace("c0nt", "cont")
        + convolution("x", "c", "kernel_h: 2 kernel_w: 1 stride_h: 2 stride_w: 1").replace(
            "Convolution", "Deconvolution"
        ),
        '"c" (Deconvolution)',
        MIXES,
    ),
    "weighted": (
        ROW + pooling("x", "c", "pool: STOCHASTIC kernel_h: 1 kernel_w: 1"),
        '"c" (Pooling)',
        MIXES,
    ),
    "backwards": (
        SEQUENCE + layer("Reverse", "x", "r") + lstm("r") + layer("Reverse", "h", "y"),
        '"r" (Reverse)',
        MIXES,
    ),
    "both directions": (
        SEQUENCE + lstm("x", "h", "bidirectional: CONCAT"),
        '"h" (LSTM)',
        "reads a sequence backwards, which a stream in pieces cannot do\n" + CUT,
    ),
    "from zero": (
        SEQUENCE + layer("Lstm", "x", "h", "lstm_param { num_output: 3 }"),
        '"h" (Lstm)',
        "begins anew in each call, which a stream in pieces cannot do\n" + CUT,
    ),
    "the first step": (
        SEQUENCE
        + lstm("x")
        + 'layer { name: "cut" type: "Slice" bottom: "h" top: "y" top: "a" slice_param { axis: 0 slice_point: 1 } }',
        '"cut" (Slice)',
        "takes one step, not the last one, out of a sequence, which a stream in pieces cannot do\n" + CUT,
    ),
    "rows of two images": (
        inputs_of({"x": (1, 4, 2, 4), "cont": (8, 1)})
        + layer("Reshape", "x", "r", "reshape_param { shape { dim: 1 dim: 4 dim: 8 } }")
        + layer("Permute", "r", "s", "permute_param { order: 2 order: 0 order: 1 }")
        + lstm("s"),
        '"r" (Reshape)',
        "has steps that none of its inputs has, which a stream in pieces cannot do\n" + CUT,
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, tmp_path: Path) -> None:
    text, name, problem = REFUSALS[case]
    if '"h"' not in text:
        text += steps("c") + lstm("s")
    with pytest.raises(prototrt.ConversionError) as caught:
        prototrt.rewrite(loaded(tmp_path, text, random_weights=3), stream=2)
    found = str(caught.value).replace(f"{tmp_path / 'net.prototxt'}:", "")
    assert re.sub(r"^\d+: ", "", found) == f"layer {name}: {problem}"


def test_pieces_are_whole() -> None:
    model = prototrt.load(NETS / "speech.prototxt", random_weights=2)
    with pytest.raises(prototrt.ConversionError) as caught:
        prototrt.rewrite(model, stream=6)
    assert (
        str(caught.value)
        == "stream=6 is not a multiple of 4, the strides along the steps\n  fix: use stream=8"
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            inputs_of({"x": (1, 2, 8, 5)}) + AHEAD,
            {},
            "stream=2 is for recurrent layers, and the net has none\n  fix: leave out stream",
        ),
        (
            inputs_of({"x": (1, 2, 5), "cont": (1, 2)}) + lstm("x"),
            {},
            "no recurrent layer has several steps, but stream=2 is for sequences\n"
            "  fix: state more than one step with shapes",
        ),
        (
            SEQUENCE + lstm("x"),
            {"state": "zero"},
            'stream=2 keeps states from call to call, but state="zero" begins each call anew\n  fix: leave out state',
        ),
    ],
    ids=["no recurrence", "no sequence", "no state"],
)
def test_what_a_stream_needs(text: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(prototrt.ConversionError) as caught:
        prototrt.rewrite(loaded(tmp_path, text, random_weights=3), stream=2, **options)
    assert str(caught.value) == message
