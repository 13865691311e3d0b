"""Every primitive that may compute in float16, lowered in float16: the same numbers on every way, and an engine."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import Origin
from prototrt.converter.checking.verification.comparison import TOLERANCES, difference_of
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DataSize, DType, Graph, Op
from prototrt.surgery.ops import (
    ABS,
    ADD,
    ELU,
    GREATER,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NEGATIVE,
    SUBTRACT,
    Affine,
    Clip,
    Compress,
    Concat,
    Convolution,
    Deconvolution,
    Gather,
    HardSigmoid,
    Identity,
    LeakyReLU,
    MatMul,
    MaxPool,
    Pad,
    Patches,
    PReLU,
    Reshape,
    Reverse,
    ReverseSequence,
    Scatter,
    Select,
    Sigmoid,
    Slice,
    Softsign,
    TanH,
    Tile,
    Transpose,
)
from prototrt.surgery.passes.precision import IN_HALF, InHalf
from prototrt.tests.small_nets import WAYS, has_engine, numbers

IMAGE = (2, 4, 5, 6)
ONE, NOTHING = (1, 1), (0, 0)
CASES: list[tuple[Op, list[tuple[int, ...] | Array]]] = [
    (ABS, [IMAGE]),
    (ADD, [IMAGE, (1, 4, 1, 1)]),
    (ELU(0.5), [IMAGE]),
    (MAXIMUM, [IMAGE, IMAGE]),
    (MINIMUM, [IMAGE, IMAGE]),
    (MULTIPLY, [IMAGE, IMAGE]),
    (NEGATIVE, [IMAGE]),
    (SUBTRACT, [IMAGE, IMAGE]),
    (Affine(), [IMAGE, numbers(4), numbers(4, seed=1)]),
    (Clip(-0.5, 0.7), [IMAGE]),
    (Concat(1), [IMAGE, IMAGE]),
    (Convolution(ONE, ONE, ONE, 2), [IMAGE, numbers(6, 2, 3, 3), numbers(6)]),
    (Convolution((1,), (1,), (1,)), [(2, 4, 5), numbers(3, 4, 3), numbers(3)]),
    (Deconvolution((2, 2), ONE, ONE, 2), [IMAGE, numbers(4, 3, 4, 4), numbers(6)]),
    (Deconvolution((2, 2), NOTHING, (2, 2)), [IMAGE, numbers(4, 3, 2, 2), numbers(3)]),
    (Gather(), [numbers(7, 3), np.array([[6, 0], [3, 3]], np.int32)]),
    (HardSigmoid(), [IMAGE]),
    (Identity(), [IMAGE]),
    (LeakyReLU(), [IMAGE]),
    (LeakyReLU(0.1), [IMAGE]),
    (MatMul(transpose_b=True), [(2, 3, 4), numbers(1, 5, 4)]),
    (MatMul(), [(2, 3, 4), (2, 4, 5)]),
    (MaxPool((3, 3), (2, 2), ONE, ONE), [IMAGE]),
    (PReLU(), [IMAGE, numbers(1, 4, 1, 1)]),
    (Pad((0, 0, 1, 0), (0, 0, 2, 1), 1.5), [IMAGE]),
    (Patches((2, 3), ONE, (0, 1), ONE), [IMAGE]),
    (Reshape((2, 4, 30)), [IMAGE]),
    (ReverseSequence(), [(5, 2, 3), np.array([2, 5], np.int32)]),
    (Reverse(3), [IMAGE]),
    (Scatter(7), [numbers(3, 4), np.array([[6, 0, 2, 1], [3, 4, 5, 6], [0, 1, 2, 3]], np.int32)]),
    (Sigmoid(), [IMAGE]),
    (Slice(1, 1, 2), [IMAGE]),
    (Softsign(), [IMAGE]),
    (TanH(), [IMAGE]),
    (Tile(1, 3), [IMAGE]),
    (Transpose((0, 2, 3, 1)), [IMAGE]),
]


def name_of(case: object) -> str:
    return repr(case) if isinstance(case, Op) else ""


def half(op: Op, operands: list[tuple[int, ...] | Array]) -> Graph:
    """Shapes are inputs, cast to float16; arrays are constants of it."""
    build = Builder()
    build.origin = Origin("net.prototxt", 1, "op", "Op")
    read = []
    for index, operand in enumerate(operands):
        if isinstance(operand, tuple):
            read.append(build.cast(build.input(f"x{index}", operand), DType.FLOAT16))
        else:
            is_float = operand.dtype.kind == "f"
            read.append(build.constant(operand.astype(np.float16) if is_float else operand))
    assert DType.FLOAT16 in {value.dtype for value in read}
    result = build.add(op, *read)
    assert result.dtype is DType.FLOAT16
    return build.graph("half", [build.cast(result, DType.FLOAT32)])


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("op", "operands"), CASES, ids=name_of)
def test_a_primitive_in_float16(op: Op, operands: list[tuple[int, ...] | Array], on: Way) -> None:
    """Held against float32, which the meaning of the primitive is known in."""
    graph = half(op, operands)
    feeds = {value.name: numbers(*map(int, value.shape), seed=3) for value in graph.inputs}
    full = iter(feeds.values())
    (wanted,) = op.evaluate(*(next(full) if isinstance(item, tuple) else item for item in operands))
    (found,) = prototrt.Session(graph, on=on).run(feeds).values()
    difference = difference_of(found, wanted, TOLERANCES["fp16"])
    assert difference.is_small, difference


@pytest.mark.trt
@pytest.mark.parametrize(("op", "operands"), CASES, ids=name_of)
def test_a_primitive_in_float16_has_an_engine(op: Op, operands: list[tuple[int, ...] | Array]) -> None:
    assert has_engine(half(op, operands))


@pytest.mark.parametrize("on", WAYS)
def test_a_choice_in_float16(on: Way) -> None:
    build = Builder()
    x = build.input("x", (2, 3))
    a = build.cast(x, DType.FLOAT16)
    chosen = build.add(Select(), build.add(GREATER, x, build.scalar(0, 2)), a, build.add(NEGATIVE, a))
    graph = build.graph("half", [build.cast(chosen, DType.FLOAT32)])
    (found,) = prototrt.Session(graph, on=on).run({"x": np.float32([[1, -2, 3], [-4, 0, 0.5]])}).values()  # type: ignore[arg-type]  # its stub says scalar
    np.testing.assert_array_equal(found, [[1, 2, 3], [4, 0, 0.5]])


@pytest.mark.parametrize("on", ["reference", "onnx"])
def test_some_of_the_items_in_float16(on: Way) -> None:
    """No engine has it."""
    build = Builder()
    x, flags = build.input("x", (3, 2)), build.input("flags", (3,))
    kept = build.add(Compress(DataSize("K")), build.cast(x, DType.FLOAT16), flags)
    graph = build.graph("half", [build.cast(kept, DType.FLOAT32)])
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(3, 2), "flags": np.array([1, 0, 1], np.float32)}
    (found,) = prototrt.Session(graph, on=on).run(feeds).values()
    np.testing.assert_array_equal(found, [[0, 1], [4, 5]])


def test_no_primitive_is_forgotten() -> None:
    tried = {type(op) for op, _ in CASES} | {Select, Compress}
    assert tried == {kind for kind, half in IN_HALF.items() if half in (InHalf.PRODUCT, InHalf.FOLLOWS)}
