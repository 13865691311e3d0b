"""Primitives of any geometry, alone and between others, in each program that reads our models and is installed here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import Problems, UnsupportedLayerError
from prototrt.converter.files.readers.names import ReaderName
from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Graph, Op, Value
from prototrt.tests.converter.backends.onnx.test_readers import PROGRAMS, RUNNERS
from prototrt.tests.geometries import GEOMETRIES, Case, filled

FEW: Final = 2
MANY: Final = 30
READERS = (*PROGRAMS, "onnx", "torch")
REFUSED = {("opencv", "ReverseSequence"), ("opencv", "Reduce")}
"""What a program does not read: of Reduce, only results without axes."""
Neighbour: TypeAlias = Callable[[Builder, Value], Value]


def _plain(op: Op) -> Neighbour:
    return lambda build, x: build.add(op, x)


def _sum(build: Builder, x: Value) -> Value:
    return build.add(ops.ADD, x, build.scalar(0.5, len(x.shape)))


def _affine(build: Builder, x: Value) -> Value:
    scale, shift = (build.constant(filled((int(x.shape[1]),), seed)) for seed in (1, 2))
    return build.add(ops.Affine(), x, scale, shift)


def _prelu(build: Builder, x: Value) -> Value:
    slope = filled((1, int(x.shape[1]), *(1,) * (len(x.shape) - 2)), 1)
    return build.add(ops.PReLU(), x, build.constant(slope))


def _convolution(build: Builder, x: Value) -> Value:
    """Of 1x1, as many channels as there are."""
    channels, axes = int(x.shape[1]), len(x.shape) - 2
    weights = filled((channels, channels, *(1,) * axes), 1), filled((channels,), 2)
    op = ops.Convolution((1,) * axes, (0,) * axes, (1,) * axes)
    return build.add(op, x, *map(build.constant, weights))


NEIGHBOURS: Mapping[str, tuple[tuple[int, int], Neighbour]] = {
    "nothing": ((9, 9), _sum),
    "relu": ((0, 5), _plain(ops.LeakyReLU())),
    "clip": ((0, 5), _plain(ops.Clip(0, 6))),
    "sigmoid": ((0, 5), _plain(ops.Sigmoid())),
    "sum": ((0, 5), _sum),
    "softmax": ((2, 5), _plain(ops.Softmax(1))),
    "affine": ((2, 5), _affine),
    "prelu": ((2, 5), _prelu),
    "convolution": ((3, 5), _convolution),
}
"""What stands before or behind a primitive, where that has so many axes: programs fuse and lay out neighbours."""


def _beside(name: str, build: Builder, x: Value) -> Value:
    (least, most), neighbour = NEIGHBOURS[name]
    return neighbour(build, x) if least <= len(x.shape) <= most and x.dtype is DType.FLOAT32 else x


def graph_of(case: Case, constant: int, before: str, behind: str) -> Graph:
    """The primitive between its neighbours. One of its inputs may be a constant, if others are not."""
    (op, arrays), build = case, Builder()
    fixed = (
        {*op.constants, constant} if {*op.constants, constant} < {*range(len(arrays))} else {*op.constants}
    )
    values: list[Value] = [
        build.constant(array)
        if place in fixed
        else build.input(f"x{place}", array.shape, DType(array.dtype.name))
        for place, array in enumerate(arrays)
    ]
    if 0 not in fixed and not isinstance(op, ops.NonMaxSuppression):  # boxes stay boxes
        values[0] = _beside(before, build, values[0])
    first, *others = build.add_all(op, *values)
    return build.graph("", [_beside(behind, build, first), *others])


def computed(reader: Any, graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    names = [value.name for value in graph.outputs]
    if reader not in PROGRAMS:
        results = prototrt.Session(graph, on=reader).run(feeds)
        return [results[name] for name in names]
    program: ReaderName = reader
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        prototrt.export_onnx(graph, file, readers=[program])
        return [*RUNNERS[program]()(str(file), feeds, names)]


def check(reader: str, primitive: str, examples: int) -> None:
    pytest.importorskip({"opencv": "cv2", "onnx": "onnxruntime"}.get(reader, reader))

    @settings(max_examples=examples)
    @given(
        GEOMETRIES[primitive],
        st.integers(-1, 2),
        st.sampled_from([*NEIGHBOURS]),
        st.sampled_from([*NEIGHBOURS]),
    )
    def agrees(case: Case, constant: int, before: str, behind: str) -> None:
        graph = graph_of(case, constant, before, behind)
        feeds = {value.name: case[1][int(value.name[1:])] for value in graph.inputs}
        with np.errstate(all="ignore"):
            expected = prototrt.Session(graph).run(feeds)
        try:
            results = computed(reader, graph, feeds)
        except (Problems, UnsupportedLayerError):
            assert (reader, primitive) in REFUSED
            return
        for value, result in zip(graph.outputs, results, strict=True):
            assert result.shape == expected[value.name].shape
            np.testing.assert_allclose(result, expected[value.name], 1e-3, 1e-4)

    agrees()


@pytest.mark.parametrize("primitive", GEOMETRIES)
@pytest.mark.parametrize("reader", READERS)
def test_a_few_geometries(reader: str, primitive: str) -> None:
    check(reader, primitive, FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize("primitive", GEOMETRIES)
@pytest.mark.parametrize("reader", READERS)
def test_many_geometries(reader: str, primitive: str) -> None:
    check(reader, primitive, MANY)


def test_every_primitive_has_geometries() -> None:
    """Compress, and Count, are for sizes that vary, the loops are made of others, and a plugin is the user's."""
    primitives = {
        each.__name__ for each in vars(ops).values() if isinstance(each, type) and issubclass(each, Op)
    }
    others = {"Compress", "Count", "Dequantize", "Plugin", "Quantize", "Scan", "While"}
    assert {*GEOMETRIES} == primitives - others


GARBAGE = {
    f"a padded kernel of 1x1 over {axes} axes, {outputs} outputs": (axes, outputs)
    for axes in (1, 2, 3)
    for outputs in (3, 16)
}


@pytest.mark.parametrize("name", GARBAGE)
def test_opencv_pads_before_a_kernel_of_one_pixel(name: str) -> None:
    """OpenCV 5.0 itself reads memory that nobody has written."""
    pytest.importorskip("cv2")
    axes, outputs = GARBAGE[name]
    op = ops.Convolution((1,) * axes, (1,) * axes, (1,) * axes)
    weights = [filled((outputs, 3, *(1,) * axes), 1), filled((outputs,), 2)]
    graph = graph_of((op, [filled((1, 3, *(4,) * axes), 0), *weights]), 1, "nothing", "relu")
    feeds = {"x0": filled((1, 3, *(4,) * axes), 0)}
    (result,) = computed("opencv", graph, feeds)
    np.testing.assert_allclose(result, prototrt.Session(graph).run(feeds)[graph.outputs[0].name], 1e-4, 1e-5)
