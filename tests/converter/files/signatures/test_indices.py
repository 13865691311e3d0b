"""Numbers that pick no row of a table are refused alike on all ways to run a net."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.converter.files.companions.manifest import graph_facts
from prototrt.converter.files.signatures.indices import IndexRange, index_ranges
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime.plan_file import plan_with_manifest
from prototrt.surgery.ir import Graph
from prototrt.tests.caffe2_nets import Arrays, operator, refusal
from prototrt.tests.caffe2_nets import graph_of as graph_of_operators
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine, gpu_of

WAYS = [
    "reference",
    pytest.param("network", marks=pytest.mark.trt),
    "onnx",
    "engine",
]
X = "shape { dim: 2 dim: 3 dim: 8 dim: 8 }"
CASES: dict[str, tuple[str, str, str, tuple[int | str, int, int], list[float], str]] = {
    "Embed": (
        "shape { dim: 2 dim: 3 }",
        'type: "Embed" bottom: "i" embed_param { input_dim: 5 num_output: 4 }',
        "",
        (5, 1, 0),
        [0, 4, 4.5, -0.5, 1, 2],
        "index {} is outside the 5 rows that it picks from\n  fix: give indices from 0 to 4",
    ),
    "BatchReindex": (
        "shape { dim: 4 }",
        'type: "BatchReindex" bottom: "x" bottom: "i"',
        X,
        (2, 1, 0),
        [0, 1, 1, 0],
        "index {} is outside the 2 rows that it picks from\n  fix: give indices from 0 to 1",
    ),
    "ROIPooling": (
        "shape { dim: 2 dim: 5 }",
        'type: "ROIPooling" bottom: "x" bottom: "i" roi_pooling_param { pooled_h: 1 pooled_w: 1 spatial_scale: 1 }',
        X,
        (2, 5, 0),
        [0, 0, 0, 7, 7, 1, 0, 0, 7, 7],
        "a roi's image {} is outside the 2 images of the batch\n  fix: give indices from 0 to 1",
    ),
    "ReverseTime": (
        "shape { dim: 3 }",
        'type: "ReverseTime" bottom: "x" bottom: "i"',
        "shape { dim: 4 dim: 3 }",
        (4, 1, 0),
        [0, 4, 4.5],
        "length {} is not one of 0 to 4\n  fix: correct the lengths: none may exceed the number of steps",
    ),
    "Unpooling": (
        "shape { dim: 2 dim: 3 dim: 1 dim: 1 }",
        'type: "Unpooling" bottom: "s" bottom: "i" unpooling_param { unpool_h: 2 unpool_w: 2 }',
        X,
        (4, 1, 0),
        [0, 1, 2, 3, 3, 0],
        "index {} is outside the 4 places\n  fix: give indices from 0 to 3",
    ),
}

LENGTHS = {"ReverseTime": 5}
"""What counts steps, and may be as large as their number: the first length that is too large."""


def graph_of(case: str, tmp_path: Any) -> Graph:
    indices, layer, x, *_ = CASES[case]
    lines = [f'layer {{ name: "i" type: "Input" top: "i" input_param {{ {indices} }} }}']
    if x:
        lines.append(f'layer {{ name: "x" type: "Input" top: "x" input_param {{ {x} }} }}')
    if "unpool" in layer:
        pool = "pooling_param { pool: AVE global_pooling: true }"
        lines.append(f'layer {{ name: "s" type: "Pooling" bottom: "x" top: "s" {pool} }}')
    lines.append(f'layer {{ name: "op" {layer} top: "y" }}')
    net = tmp_path / "net.prototxt"
    net.write_text("\n".join(lines))
    return prototrt.rewrite(prototrt.load(net, random_weights=1))


def session_of(graph: Graph, way: Way) -> prototrt.Session:
    if way == "onnx":
        pytest.importorskip("onnxruntime", reason="runs the model")
    return prototrt.Session(fake_engine(graph) if way == "engine" else graph, on=way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_a_number_that_picks_nothing(case: str, way: Way, tmp_path: Any) -> None:
    *_, (below, _, start), good, message = CASES[case]
    graph = graph_of(case, tmp_path)
    shapes = {value.name: tuple(map(int, value.shape)) for value in graph.inputs}
    given = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    given["i"] = np.array(good, np.float32).reshape(shapes["i"])
    with session_of(graph, way) as session:
        session.run(given)
        for wrong in (LENGTHS.get(case, below), -1, np.nan):
            given["i"].reshape(-1)[start] = wrong
            with pytest.raises(ConversionError) as caught:
                session.run(given)
            layer = f'{tmp_path / "net.prototxt"}:{len(graph_lines(tmp_path))}: layer "op" ({case})'
            assert str(caught.value) == f"{layer}: {message.format(wrong)}"


def graph_lines(tmp_path: Any) -> list[str]:
    lines: list[str] = (tmp_path / "net.prototxt").read_text().splitlines()
    return lines


@pytest.mark.parametrize("case", CASES)
def test_the_manifest_says_which_numbers_pick(case: str, tmp_path: Any) -> None:
    graph, (below, every, start) = graph_of(case, tmp_path), CASES[case][3]
    (own,) = (binding for binding in graph_facts(graph)["inputs"] if binding["name"] == "i")
    lengths = {"lengths": True} if case in LENGTHS else {}
    assert own["indices"] == [{"below": below, "every": every, "start": start, **lengths}]


def test_a_size_that_varies(tmp_path: Any) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "d" type: "Input" top: "x" top: "i"'
        " input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }\n"
        'layer { name: "op" type: "BatchReindex" bottom: "x" bottom: "i" top: "y" }'
    )
    graph = prototrt.rewrite(prototrt.load(net), min_shapes={"x": (1, 3)}, max_shapes={"x": (4, 3)})
    with session_of(graph, "reference") as session:
        assert session.run({"x": np.ones((3, 3)), "i": np.array([2, 0])})["y"].shape == (2, 3)
        with pytest.raises(ConversionError, match="index 2 is outside the 2 rows"):
            session.run({"x": np.ones((2, 3)), "i": np.array([2, 0])})


def test_a_call_that_is_prepared_is_checked_each_time(tmp_path: Any) -> None:
    graph = graph_of("Embed", tmp_path)
    ids = np.zeros((2, 3), np.float32)
    with session_of(graph, "engine") as session:
        call = session.prepare({"i": ids})
        call.run()
        uploads = gpu_of(session.engine).calls["upload"]
        ids[1, 2] = 5
        with pytest.raises(ConversionError, match="index 5 is outside the 5 rows"):
            call.run()
        assert gpu_of(session.engine).calls["upload"] == uploads


def test_what_is_computed_is_not_an_input(tmp_path: Any) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }\n'
        'layer { name: "a" type: "ArgMax" bottom: "x" top: "a" argmax_param { axis: 1 } }\n'
        'layer { name: "e" type: "Embed" bottom: "a" top: "y" embed_param { input_dim: 3 num_output: 4 } }'
    )
    assert index_ranges(prototrt.rewrite(prototrt.load(net, random_weights=1))) == ()


STATED = {"below": 5, "every": 1, "start": 0}


def planned(graph: Graph, *indices: dict[str, Any]) -> Signature | None:
    manifest = {
        **graph_facts(graph),
        "plan": {"bytes": len(b"plan"), "sha256": hashlib.sha256(b"plan").hexdigest()},
        "tensorrt": {"flavour": "rtx", "version": "1.7.1"},
    }
    if indices:
        manifest["inputs"][0]["indices"] = indices
    return plan_with_manifest("net.plan", b"plan", manifest).signature


def test_a_plan_knows_them_from_its_manifest(tmp_path: Any) -> None:
    signature = planned(graph_of("Embed", tmp_path))
    assert signature is not None
    assert signature.indices == (IndexRange("i", 5),)
    with pytest.raises(ConversionError) as caught:
        signature.refuse_indices({"i": np.array([5.0])}, {})
    assert str(caught.value) == (
        'input "i": index 5 is outside the 5 rows that it picks from\n  fix: give indices from 0 to 4'
    )


def test_a_plan_knows_lengths_from_its_manifest(tmp_path: Any) -> None:
    signature = planned(graph_of("ReverseTime", tmp_path))
    assert signature is not None
    signature.refuse_indices({"i": np.array([4])}, {})
    with pytest.raises(ConversionError, match="length 5 is not one of 0 to 4"):
        signature.refuse_indices({"i": np.array([5])}, {})


@pytest.mark.parametrize("change", [{"below": -1}, {"every": 0}, {"start": 1}, {"every": "x"}])
def test_a_manifest_of_nonsense(change: dict[str, Any], tmp_path: Any) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        planned(graph_of("Embed", tmp_path), {**STATED, **change})
    wrong = {**STATED, **change}
    told = f"below is {wrong['below']!r}, every {wrong['every']!r}, start {wrong['start']!r}"
    assert f"because it is wrong or missing: the indices of 'i': {told}" in str(caught.value)


def test_a_manifest_with_a_size_of_no_range(tmp_path: Any) -> None:
    with pytest.raises(UnreadableFileError, match="'Q' is neither a number nor a symbol with a range"):
        planned(graph_of("Embed", tmp_path), {**STATED, "below": "Q"})


ROWS, LENGTHS_OF_SEGMENTS = np.ones((4, 3), np.float32), np.array([1, 0, 3], np.int32)
PICKED = {"i": np.array([1, 0, 3, 3], np.int32), "lengths": LENGTHS_OF_SEGMENTS}
SEGMENTED: dict[str, Arrays] = {
    "LengthsSum": {"rows": ROWS, "lengths": LENGTHS_OF_SEGMENTS},
    "LengthsMean": {"rows": ROWS, "lengths": LENGTHS_OF_SEGMENTS},
    "SparseLengthsSum": {"table": ROWS, **PICKED},
    "SparseLengthsMean": {"table": ROWS, **PICKED},
    "SparseLengthsWeightedSum": {"table": ROWS, "weights": np.ones(4, np.float32), **PICKED},
}
WRONG_SEGMENTS = [
    ([1, 0, 2], "the lengths add up to 3, expected 4"),
    ([1, 1, 3], "the lengths add up to 5, expected 4"),
    ([5, 0, -1], "length 5 is not one of 0 to 4"),
]
ADD_UP = "fix: correct the lengths: they must add up to the number of rows"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", SEGMENTED)
def test_lengths_of_segments_that_do_not_add_up(kind: str, way: Way) -> None:
    given = SEGMENTED[kind]
    graph = graph_of_operators([operator(kind, list(given), ["y"])], given, {})
    with session_of(graph, way) as session:
        session.run(given)
        for wrong, problem in WRONG_SEGMENTS:
            with pytest.raises(ConversionError) as caught:
                session.run({**given, "lengths": np.array(wrong, np.int32)})
            told = str(caught.value).partition("predict_net.pb: ")[2]
            assert told == f"operator 0 ({kind}): {problem}\n  {ADD_UP}"


def test_stored_lengths_of_segments_are_refused_at_once() -> None:
    lengths = {"lengths": np.array([1, 0, 2], np.int32)}
    told = refusal(operator("LengthsSum", ["rows", "lengths"], ["y"]), {"rows": ROWS}, lengths)
    assert told == f"operator 0 (LengthsSum): the lengths add up to 3, expected 4\n  {ADD_UP}"


def test_a_plan_knows_segments_from_its_manifest() -> None:
    given = SEGMENTED["LengthsSum"]
    graph = replace(graph_of_operators([operator("LengthsSum", list(given), ["y"])], given, {}), sources=())
    (own,) = (binding for binding in graph_facts(graph)["inputs"] if binding["name"] == "lengths")
    assert own["indices"] == [{"below": 4, "every": 1, "start": 0, "lengths": True, "fill": True}]
    signature = planned(graph)
    assert signature is not None
    signature.refuse_indices(given, {})
    with pytest.raises(ConversionError, match="the lengths add up to 3, expected 4"):
        signature.refuse_indices({"lengths": np.array([1, 0, 2])}, {})
