"""Sizes with names: inputs whose shapes are formulas, and what must tell the names apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import VaryingSize, Way
from prototrt.caffe_proto.common.errors import ConversionError, ShapeError
from prototrt.converter.files.written_values import open_shapes_from_text
from prototrt.surgery.ir import Graph, Range
from prototrt.tests.command_line import done, run
from prototrt.tests.golden_cases import case_called
from prototrt.tests.small_nets import WAYS, inputs_of, loaded, numbers, op, rewritten, stored, told

LRCN = case_called("net_lrcn")
LRCN_SHAPES = {"frames": ("T*N", 3, 12, 12), "cont": ("T", "N")}
LRCN_SIZES = {"T": (1, 5, 12), "N": (1, 2, 4)}


def lrcn() -> Graph:
    return prototrt.rewrite(LRCN.load(), shapes=LRCN_SHAPES, sizes=LRCN_SIZES)


@pytest.mark.parametrize("on", WAYS)
def test_frames_of_steps_and_streams(on: Way) -> None:
    """LRCN: Caffe's numbers for its five steps of two streams, and for each step and stream alone."""
    inputs, wanted = LRCN.arrays("inputs")[0], LRCN.arrays("outputs")[0]["prob"]
    session = prototrt.Session(lrcn(), on=on)
    tolerance = LRCN.tolerance("prob")
    np.testing.assert_allclose(session.run(inputs)["prob"], wanted, *tolerance)
    frames = inputs["frames"].reshape(5, 2, 3, 12, 12)
    for stream in range(2):
        for parts in ([5], [1, 4], [3, 2]):
            session.reset()
            for first, steps in zip(np.cumsum([0, *parts]), parts, strict=False):
                rows = slice(first, first + steps)
                feeds = {"frames": frames[rows, stream], "cont": inputs["cont"][rows, stream : stream + 1]}
                found = session.run(feeds)["prob"]
                np.testing.assert_allclose(found[:, 0], wanted[rows, stream], *tolerance)
    session.reset()
    twice = {
        "frames": np.tile(frames, (1, 2, 1, 1, 1)).reshape(20, 3, 12, 12),
        "cont": np.tile(inputs["cont"], 2),
    }
    np.testing.assert_allclose(session.run(twice)["prob"], np.tile(wanted, (1, 2, 1)), *tolerance)


def test_lengths_of_sequences_grow_with_the_batch() -> None:
    layers = op("GRU", "recurrent_param { num_output: 2 sequence_lengths: true }", ("x", "cont", "lengths"))
    shapes = {"x": (5, 2, 3), "cont": (5, 2), "lengths": (2,)}
    graph = rewritten(layers, shapes, dynamic=["batch"], require_weights=False)
    assert [value.shape for value in graph.inputs[:3]] == [(5, "N", 3), (5, "N"), ("N",)]


def test_a_size_that_only_a_dropped_cont_had_is_told(tmp_path: Path) -> None:
    layers = op("VanillaRNN", "recurrent_param { num_output: 2 }", ("rows", "cont"))
    rows = op("Reshape", "reshape_param { shape { dim: 1 dim: 2 dim: 3 } }", ("x",), ("rows",))
    text = inputs_of({"x": (2, 3), "cont": (1, 2)}) + rows.replace('"op"', '"rows"') + layers
    graph = prototrt.rewrite(loaded(tmp_path, text, random_weights=1), dynamic=["time"], cont="drop")
    assert graph.symbols == {}
    assert told(graph.warnings[-1]) == (
        'net.prototxt: T does not vary: only "cont" had it, which no output needs'
    )


def test_a_size_that_data_decide_is_no_lost_size() -> None:
    graph = rewritten(op("Filter", bottoms=("x", "chosen")), {"x": (3, 2), "chosen": (3,)})
    assert [*graph.symbols] == ["op_count"]
    assert graph.warnings == ()


@pytest.mark.trt
def test_a_plan_of_frames() -> None:
    plan = prototrt.build(lrcn(), backend="rtx")
    frames, cont, *_ = plan.manifest["inputs"]
    assert frames["shape"] == ["N*T", 3, 12, 12]
    assert frames["profile"] == {"N*T": [1, 10, 48], "T": [1, 5, 12], "N": [1, 2, 4]}
    assert cont["shape"] == ["T", "N"]


CRNN = (
    op("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops=("pooled",))
    + op("Transpose", "transpose_param { dim: 3 dim: 2 dim: 0 dim: 1 }", ("pooled",), ("columns",))
    + op("Reshape", "reshape_param { shape { dim: -1 } axis: 1 num_axes: 2 }", ("columns",), ("sequence",))
    + op("Lstm", "lstm_param { num_output: 4 }", ("sequence",))
)
"""The columns of an image are the steps of an LSTM."""


@pytest.mark.parametrize("on", WAYS)
def test_columns_are_steps(on: Way) -> None:
    layers = "".join(part.replace('"op"', f'"op{place}"') for place, part in enumerate(_layers(CRNN)))
    blobs = stored("op3", [numbers(16, 3, seed=1), numbers(16, 4, seed=2), numbers(16, seed=3)])
    shapes: dict[str, Any] = {"x": ("N", 3, 2, "W")}
    graph = rewritten(
        layers, {"x": (1, 3, 2, 8)}, blobs, shapes=shapes, sizes={"W": (2, 8, 40), "N": (1, 1, 3)}
    )
    assert graph.outputs[0].shape == ("(W+1)//2", "N", 4)
    session = prototrt.Session(graph, on=on)
    for streams, width in ((1, 8), (3, 40), (2, 2), (1, 3), (2, 17)):
        x = numbers(streams, 3, 2, width, seed=width)
        fixed = prototrt.Session(rewritten(layers, {"x": x.shape}, blobs)).run({"x": x})["y"]
        session.reset()
        np.testing.assert_allclose(session.run({"x": x})["y"], fixed, 1e-5, 1e-6)


def _layers(text: str) -> list[str]:
    return [f"layer {part}" for part in text.split("layer ")[1:]]


U_NET = (
    op("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops=("half",)).replace('"op"', '"down"')
    + op(
        "Deconvolution",
        "convolution_param { num_output: 1 kernel_size: 2 stride: 2 bias_term: false }",
        ("half",),
        ("whole",),
    ).replace('"op"', '"up"')
    + op("Concat", bottoms=("x", "whole"))
)
U_BLOBS = stored("up", [np.ones((1, 1, 2, 2))])


@pytest.mark.parametrize("on", WAYS)
def test_a_net_that_needs_even_sizes(on: Way) -> None:
    shapes: dict[str, Any] = {"x": (1, 1, "2*H", "2*W")}
    graph = rewritten(
        U_NET, {"x": (1, 1, 8, 8)}, U_BLOBS, shapes=shapes, sizes={"H": (1, 4, 9), "W": (1, 4, 9)}
    )
    assert graph.outputs[0].shape == (1, 2, "2*H", "2*W")
    session = prototrt.Session(graph, on=on)
    x = numbers(1, 1, 6, 10)
    largest = x.reshape(1, 1, 3, 2, 5, 2).max((3, 5)).repeat(2, 2).repeat(2, 3)
    np.testing.assert_array_equal(session.run({"x": x})["y"], np.concatenate([x, largest], 1))
    with pytest.raises(ShapeError) as caught:
        session.run({"x": numbers(1, 1, 7, 10)})
    assert str(caught.value) == (
        'input "x" has 2*H = 7, expected 2 to 18, in steps of 2\n'
        "  because H is 1 to 9, usually 4\n"
        "  fix: give it such a size, or give the net another range with sizes"
    )


def test_a_net_that_needs_even_sizes_refuses_others() -> None:
    with pytest.raises(ShapeError) as caught:
        rewritten(
            U_NET,
            {"x": (1, 1, 8, 8)},
            U_BLOBS,
            shapes={"x": (1, 1, "H", 8)},
            sizes={"H": (2, 8)},
        )
    assert str(caught.value).split(": ", 1)[1] == (
        'layer "op" (Concat), bottom "whole": shape is (1, 1, 2*((H+1)//2), 8), expected (1, 1, H, 8) but for axis 1\n'
        '  because that is the shape of the first bottom, "x"\n'
        "  fix: give the bottoms sizes that differ only in this axis, or use another axis"
    )


@pytest.mark.parametrize(
    ("shapes", "sizes", "message"),
    [
        (
            {"x": ("N", 3)},
            {},
            'shapes has the size "N" of "x": \'N\' is neither a number nor a symbol with a range\n'
            '  fix: give each name a range, as in sizes={"N": (1, 8, 64)}',
        ),
        (
            {"x": ("N+", 3)},
            {"N": (1, 8)},
            'shapes has the size "N+" of "x": \'N+\' ends too early\n'
            "  fix: write a name, or a formula of names and numbers, such as 2*H+1",
        ),
        (
            {"x": ("N-1", 3)},
            {"N": (1, 8)},
            'shapes has the size "N-1" of "x", which may be 0\n  fix: give its names larger sizes in sizes',
        ),
        (
            {"x": ("N", 3)},
            {"N": (4, 2, 8)},
            "sizes has the sizes 4, 2, 8 for N, expected the smallest, usual and largest, of at least 1\n"
            '  fix: write three sizes in increasing order, as in sizes={"N": (1, 8, 64)}',
        ),
        (
            {"x": ("N", 3)},
            {"N": (1, 8), "a b": (1, 2)},
            'sizes has the name "a b", expected letters, digits and _\n'
            '  fix: write three sizes in increasing order, as in sizes={"N": (1, 8, 64)}',
        ),
        (
            {"x": (1, 3)},
            {"N": (1, 8)},
            "sizes has a range for N, but no shape has that size\n"
            '  fix: add dynamic=["batch"], or write N into a shape, as in shapes={"data": ("N", 3, 224, 224)}',
        ),
        (
            {"x": (1, 3)},
            {"B": (1, 8)},
            "sizes has a range for B, but no shape has that size\n"
            '  fix: write B into a shape, as in shapes={"data": ("B", 3, 224, 224)}',
        ),
        (
            {"x": ("N*M", 3)},
            {"N": (1, 8), "M": (1, 8)},
            'input "x" has the shape [M*N]x3, from which N and M cannot be computed\n'
            "  because an input must have the size alone, or as in 2*X+1\n"
            '  fix: give N one size, sizes={"N": (8, 8)}; or name the sizes of another input that has it',
        ),
    ],
)
def test_message(shapes: dict[str, Any], sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        rewritten(op("TanH"), {"x": (2, 3)}, shapes=shapes, sizes=sizes)
    assert str(caught.value) == message


def test_a_range_of_the_user_counts_where_sizes_vary_by_a_word() -> None:
    images = {"x": (10, 3, 8, 8)}
    graph = rewritten(op("TanH"), images, dynamic=("batch", "size"), sizes={"N": (1, 4), "H": (8, 16, 32)})
    assert [value.shape for value in graph.inputs] == [("N", 3, "H", "W")]
    assert [warning.partition(": ")[2] for warning in graph.warnings] == [
        'with dynamic=["batch", "size"], N is 1 to 4, usually 4; H is 8 to 32, usually 16; W is 4 to 16, usually 8'
    ]
    fixed = rewritten(op("TanH"), images, dynamic=("batch",), sizes={"N": (4, 4)})
    assert ([value.shape for value in fixed.inputs], fixed.warnings) == ([(4, 3, 8, 8)], ())


def test_rows_take_the_ranges_of_the_user() -> None:
    graph = prototrt.rewrite(LRCN.load(), dynamic=("batch", "time"), sizes={"N": (2, 2), "T": (1, 5, 9)})
    assert [value.shape for value in graph.inputs[:2]] == [("2*T", 3, 12, 12), ("T", 2)]
    assert graph.warnings[-1].endswith(': with dynamic=["batch", "time"], T is 1 to 9, usually 5')


def test_a_range_with_a_name_that_no_word_lets_vary() -> None:
    with pytest.raises(ConversionError) as caught:
        rewritten(op("TanH"), {"x": (2, 3)}, dynamic=("batch",), sizes={"B": (1, 8)})
    assert str(caught.value) == (
        "sizes has a range for B, but no shape has that size\n  fix: call the size N"
    )


def test_names_and_ranges_of_shapes_exclude_each_other() -> None:
    with pytest.raises(ConversionError) as caught:
        rewritten(
            op("TanH"), {"x": (2, 3)}, shapes={"x": ("N", 3)}, sizes={"N": (1, 8)}, min_shapes={"x": (1, 3)}
        )
    assert str(caught.value) == (
        'shapes names sizes of "x", which also has a range of shapes\n  fix: leave out min_shapes'
    )


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("data:[T]x2x3,cont:[T]x2", {"data": ("T", 2, 3), "cont": ("T", 2)}),
        ("a:0:1x3,b:[16*H],c:4", {"a:0": (1, 3), "b": ("16*H",), "c": (4,)}),
        ("a,b:1x3", {"a,b": (1, 3)}),
        ("conv1,b:2:[N],c:1", {"conv1,b:2": ("N",), "c": (1,)}),
    ],
)
def test_several_shapes_in_one_word(text: str, shapes: Mapping[str, Sequence[int | str]]) -> None:
    assert open_shapes_from_text(text) == shapes


@pytest.mark.parametrize("text", ["data:1x3,cont", "data:1x3,", "data=1x3,cont=1"])
def test_several_shapes_with_a_mistake_are_told_as_one(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'"{text}" is not a shape')):
        open_shapes_from_text(text)


def test_the_command_line(tmp_path: Path) -> None:
    loaded(tmp_path, 'input: "x" input_dim: 4 input_dim: 3 input_dim: 8 input_dim: 8 ' + op("TanH"))
    net, target = str(tmp_path / "net.prototxt"), tmp_path / "net.onnx"
    done(
        "-q",
        "convert",
        net,
        "--shape",
        "x:[2*N]x3x8x[W]",
        "--size",
        "N=1..2..6",
        "--size",
        "W=8..16",
        "-o",
        str(target),
        "--random-weights",
        "0",
    )
    import onnx

    (x,) = onnx.load(target).graph.input
    assert [dim.dim_param or dim.dim_value for dim in x.type.tensor_type.shape.dim] == ["2*N", 3, 8, "W"]
    missing = run("convert", net, "--dynamic", "time", "-o", str(target), "--random-weights", "0").output
    assert "fix: name the size that varies, as in --shape 'x:[T]x3x8x8' --size T=1..4..64" in " ".join(
        missing.split()
    )
    told = done("convert", net, "--dynamic", "batch,size", "-o", str(target), "--random-weights", "0").stderr
    assert "with --dynamic batch,size, N is 1 to 16, usually 4; H is 4 to 16, usually 8" in " ".join(
        told.split()
    )
    for option, text, message in (
        (
            "--shape",
            "x:[N]x",
            '"x:[N]x" is not a shape: write the blob\'s name, a colon, and sizes with x between them; those that vary'
            " stand in brackets, as in data:[N]x3x[16*H]x224",
        ),
        (
            "--size",
            "N=1-8",
            '"N=1-8" is not a range: write a name and its sizes, of 1 or more, as in T=1..16..64',
        ),
    ):
        assert message in " ".join(run("convert", net, option, text).output.split())


DYNAMIC: dict[str, tuple[tuple[VaryingSize, ...], list[tuple[int | str, ...]], str]] = {
    "lstm_t5_n3": (
        ("batch", "time"),
        [("T", "N", 6), ("T", "N"), (1, "N", 8), (1, "N", 8)],
        'with dynamic=["batch", "time"], T is 1 to 64, usually 5; N is 1 to 16, usually 3',
    ),
    "lstm_static": (
        ("batch",),
        [(5, "N", 4), (5, "N"), ("N", 3), (1, "N", 6), (1, "N", 6)],
        'with dynamic=["batch"], N is 1 to 16, usually 2',
    ),
    "lstm_expose": (
        ("batch",),
        [(5, "N", 4), (5, "N"), (1, "N", 6), (1, "N", 6)],
        'with dynamic=["batch"], N is 1 to 16, usually 2',
    ),
    "net_fcn": (
        ("size",),
        [(1, 3, "H", "W")],
        'with dynamic=["size"], H is 8 to 34, usually 17; W is 7 to 30, usually 15',
    ),
    "net_lenet": (
        ("batch",),
        [("N", 1, 28, 28)],
        'with dynamic=["batch"], N is 1 to 16, usually 1',
    ),
}


DYNAMIC_ROWS: dict[tuple[VaryingSize, ...], list[tuple[int | str, ...]]] = {
    ("time",): [("2*T", 3, 12, 12), ("T", 2)],
    ("batch",): [("5*N", 3, 12, 12), (5, "N")],
    ("batch", "time"): [("N*T", 3, 12, 12), ("T", "N")],
}


@pytest.mark.parametrize("dynamic", DYNAMIC_ROWS)
def test_rows_of_steps_and_streams_vary(dynamic: tuple[VaryingSize, ...]) -> None:
    """Frames are as many as steps and streams together: one step of each stream, and twice as many streams."""
    graph = prototrt.rewrite(LRCN.load(), dynamic=dynamic)
    assert [value.shape for value in graph.inputs[:2]] == DYNAMIC_ROWS[dynamic]
    inputs, wanted = LRCN.arrays("inputs")[0], LRCN.arrays("outputs")[0]["prob"]
    session = prototrt.Session(graph)
    np.testing.assert_allclose(session.run(inputs)["prob"], wanted, *LRCN.tolerance("prob"))
    frames, cont = inputs["frames"].reshape(5, 2, 3, 12, 12), inputs["cont"]
    if "time" in dynamic:
        frames, cont, wanted = frames[:1], cont[:1], wanted[:1]
    if "batch" in dynamic:
        frames, cont, wanted = (np.concatenate([array, array], 1) for array in (frames, cont, wanted))
    session.reset()
    found = session.run({"frames": frames.reshape(-1, 3, 12, 12), "cont": cont})["prob"]
    np.testing.assert_allclose(found, wanted, *LRCN.tolerance("prob"))


def test_rows_vary_with_every_size_of_an_image() -> None:
    """Equal ranges are one size, others have names of their own."""
    images = {"x": (6, 1, 8, 8), "y": (6, 1, 8, 4), "cont": (3, 2)}
    layers = ""
    for name in "xy":
        mean, rows = f"{name}_mean", f"{name}_rows"
        pooling = op("Pooling", "pooling_param { global_pooling: true }", (name,), (mean,))
        reshape = op("Reshape", "reshape_param { shape { dim: 3 dim: 2 dim: 1 } }", (mean,), (rows,))
        layers += pooling.replace('"op"', f'"{mean}"') + reshape.replace('"op"', f'"{rows}"')
    layers += op("LSTM", "recurrent_param { num_output: 2 }", ("x_rows", "cont"), ("h",))
    layers += op("Concat", "concat_param { axis: 2 }", ("h", "y_rows"), ("z",)).replace('"op"', '"joined"')
    blobs = stored("op", [numbers(8, 1), numbers(8), numbers(8, 2)])
    graph = rewritten(layers, images, blobs, dynamic=("batch", "time", "size"))
    assert [value.shape for value in graph.inputs[:3]] == [
        ("N*T", 1, "H", "W"),
        ("N*T", 1, "H", "W_2"),
        ("T", "N"),
    ]


@pytest.mark.parametrize("name", DYNAMIC)
def test_usual_sizes_that_vary(name: str) -> None:
    dynamic, shapes, told = DYNAMIC[name]
    graph = prototrt.rewrite(case_called(name).load(), dynamic=dynamic)
    assert [value.shape for value in graph.inputs] == shapes
    assert [warning.partition(": ")[2] for warning in graph.warnings] == [told]


def test_ranges_of_the_user_come_first() -> None:
    least, most = {"x": (1, 3, 6), "cont": (1, 3)}, {"x": (7, 3, 6), "cont": (7, 3)}
    model = case_called("lstm_t5_n3").load()
    graph = prototrt.rewrite(model, dynamic=("time",), min_shapes=least, max_shapes=most)
    assert graph.symbols == {"T": Range(1, 5, 7)}


def test_rows_beside_ranges_without_names() -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(LRCN.load(), dynamic=("time",), max_shapes={"cont": (9, 2)})
    assert str(caught.value) == (
        'dynamic cannot determine how many rows "frames" has\n'
        "  because it has a row for each stream of each step, and the ranges of other inputs are given without names\n"
        '  fix: name the sizes of all inputs, as in shapes={"frames": ("T*N", 3, 12, 12)}, and their ranges with sizes'
        " instead of dynamic, max_shapes"
    )


def test_what_varies_beside_names_of_the_user() -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(
            case_called("net_lenet").load(),
            dynamic=("batch",),
            shapes={"data": ("B", 1, 28, 28)},
            sizes={"B": (1, 2, 8)},
        )
    assert str(caught.value) == (
        'dynamic=["batch"] finds no axis of its own\n'
        '  because shapes names the sizes that vary of "data"\n'
        "  fix: leave out dynamic"
    )


@pytest.mark.parametrize(
    ("name", "dynamic", "message"),
    [
        (
            "net_lenet",
            ("batch", "time"),
            'dynamic=["time"] is given, but no input has such an axis\n'
            "  fix: name the size that varies, as in"
            ' shapes={"data": ("T", 1, 28, 28)}, sizes={"T": (1, 1, 64)}, instead of dynamic=["time"]',
        ),
        (
            "net_lenet",
            ("height",),
            "dynamic is 'height', expected one of batch, time, size\n  fix: use dynamic=[\"batch\"]",
        ),
    ],
)
def test_what_cannot_vary(name: str, dynamic: tuple[VaryingSize, ...], message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(case_called(name).load(), dynamic=dynamic)
    assert str(caught.value) == message


CUTS = op("Reshape", "reshape_param { shape { dim: -1 dim: 1 dim: 6 } }", tops=("one",)).replace(
    '"op"', '"cut"'
)
LSTM = op("LSTM", "recurrent_param { num_output: 2 }", ("one", "cont"))
LSTM_BLOBS = stored("op", [numbers(8, 6), numbers(8), numbers(8, 2)])


def test_message_about_a_cont_of_other_sizes() -> None:
    """The Reshape states one stream, and cont has N of them."""
    shapes: dict[str, Any] = {"x": ("T", "N", 6), "cont": ("T", "N")}
    with pytest.raises(ShapeError) as caught:
        rewritten(
            CUTS + LSTM,
            {"x": (4, 1, 6), "cont": (4, 1)},
            LSTM_BLOBS,
            shapes=shapes,
            sizes={"T": (1, 4, 9), "N": (1, 2, 3)},
        )
    assert str(caught.value).split('layer "op" ', 1)[1] == (
        '(LSTM), bottom "cont": shape is (T, N), expected (N*T, 1)\n'
        '  because T is N*T and N is 1, the first dimensions of bottom "one"\n'
        '  fix: give "cont" this shape: shapes={"cont": ("N*T", 1)}'
    )


@pytest.mark.parametrize("on", WAYS)
def test_a_constant_cont_of_other_sizes_may_be_dropped(on: Way) -> None:
    """A net that makes its own cont, for one size, and whose calls hold whole sequences."""
    first = op("DummyData", "dummy_data_param { shape { dim: 1 dim: 1 } }", (), ("first",)).replace(
        '"op"', '"first"'
    )
    later = first.replace("first", "later").replace("dim: 1 dim", "dim: 3 dim")
    filler = "data_filler { type: 'constant' value: 1 } } }"
    cont = op("Concat", "concat_param { axis: 0 }", ("first", "later"), ("cont",)).replace('"op"', '"cont"')
    layers = CUTS + first + later.replace("} } }", f"}} {filler}") + cont + LSTM
    x = numbers(7, 1, 6)
    whole: dict[str, Any] = {"cont": "drop", "state": "zero"}
    graph = rewritten(
        layers, {"x": (4, 1, 6)}, LSTM_BLOBS, shapes={"x": ("T", 1, 6)}, sizes={"T": (1, 4, 9)}, **whole
    )
    session = prototrt.Session(graph, on=on)
    stated = layers.replace("dim: 3 dim", "dim: 6 dim")
    wanted = prototrt.Session(rewritten(stated, {"x": x.shape}, LSTM_BLOBS)).run({"x": x})["y"]
    for _ in range(2):
        np.testing.assert_allclose(session.run({"x": x})["y"], wanted, 1e-5, 1e-6)


CUT_INTO_STEPS = """
layer { name: 'in' type: 'Input' top: 'rows' top: 'marks'
        input_param { shape { dim: 6 dim: 4 } shape { dim: 6 dim: 1 } } }
layer { name: 'cut' type: 'Reshape' bottom: 'rows' top: 'x' reshape_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: 'cut_marks' type: 'Reshape' bottom: 'marks' top: 'cont' reshape_param { shape { dim: 3 dim: 2 } } }
layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'y' recurrent_param { num_output: 5 } }
"""


@pytest.mark.parametrize(
    ("word", "rows", "output"), [("time", "2*T", ("T", 2, 5)), ("batch", "3*N", (3, "N", 5))], ids=str
)
def test_steps_and_streams_that_a_reshape_states(
    word: VaryingSize, rows: str, output: tuple[int | str, ...], tmp_path: Path
) -> None:
    graph = prototrt.rewrite(
        loaded(tmp_path, CUT_INTO_STEPS, random_weights=1), dynamic=(word,), state="zero"
    )
    assert [value.shape for value in graph.inputs[:2]] == [(rows, 4), (rows, 1)]
    assert graph.outputs[-1].shape == output
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(loaded(tmp_path, CUT_INTO_STEPS, random_weights=1), dynamic=("time", "batch"))
    assert caught.value.fix == 'let only one of them vary: dynamic=["batch"]'
