"""Numbers from sizes that vary, and primitives along axes of such sizes, on every way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Array, DType, Graph, OpenSize, Range, Size
from prototrt.surgery.ops import ADD, MULTIPLY, Count, Tile, TopK
from prototrt.surgery.pipeline import lowered
from prototrt.tests.small_nets import WAYS, has_engine, numbers

SPAN = Range(4000, 4500, 5000)
SIZES = (4000, 4321, 5000)

Rule = Callable[[Builder, Value, Size], Sequence[Value]]


def repeated(build: Builder, x: Value, size: Size) -> list[Value]:
    return [build.add(Tile(1, size // 1000), build.reshape(x, (2, 1, size)))]


def in_a_row(build: Builder, x: Value, size: Size) -> list[Value]:
    return build.add_all(TopK(0, 4), build.reshape(x, (2 * size,)))


def places(x: Array, count: int, *, first: bool) -> Array:
    seen = x if first else x[..., ::-1]
    order = np.argsort(-seen, -1, kind="stable")[..., :count]
    return (order if first else x.shape[-1] - 1 - order).astype(np.int32)


RULES: dict[str, tuple[Rule, Callable[[Array], Array]]] = {
    "counted": (
        lambda build, x, size: [build.add(Count(2 * size, size + 1, 3))],
        lambda x: np.arange(2 * x.shape[1], dtype=np.int32) * 3 + x.shape[1] + 1,
    ),
    "backwards": (
        lambda build, x, size: [build.counted_numbers(size, "n", first=size - 1, step=-1)],
        lambda x: np.arange(x.shape[1] - 1, -1, -1, dtype=np.int32),
    ),
    "in steps of a size": (
        lambda build, x, size: [build.counted_numbers(5, "n", step=size, dtype=DType.FLOAT32)],
        lambda x: np.arange(5, dtype=np.float32) * x.shape[1],
    ),
    "a size as a number": (
        lambda build, x, size: [build.add(MULTIPLY, x, build.scalar(_open(size // 2), 2))],
        lambda x: x * np.float32(x.shape[1] // 2),
    ),
    "copies": (repeated, lambda x: np.tile(x[:, None], (1, x.shape[1] // 1000, 1))),
    "the last of equals": (
        lambda build, x, size: build.add_all(TopK(1, 3), x)[1:],
        lambda x: places(x, 3, first=False),
    ),
    "more than TensorRT takes at once": (
        lambda build, x, size: build.add_all(TopK(1, 3900, first_of_equals=True), x)[1:],
        lambda x: places(x, 3900, first=True),
    ),
    "one axis": (in_a_row, lambda x: x.ravel()[places(x.ravel(), 4, first=False)]),
}


def _open(size: Size) -> OpenSize:
    assert isinstance(size, OpenSize)
    return size


def graph_of(name: str) -> Graph:
    build = Builder({"x"})
    build.symbols = {"n": SPAN}
    size = OpenSize.symbol("n", SPAN)
    x = build.input("x", (2, size))
    (y, *_) = RULES[name][0](build, x, size)
    return build.graph("", [build.named(y, "y", "y", 0)])


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", RULES)
def test_numbers(name: str, on: Way) -> None:
    _, expected = RULES[name]
    session = prototrt.Session(graph_of(name), on=on)
    for size in SIZES:
        x = numbers(2, size)
        x[:, 7] = x[:, 5] = x.max()
        found, wanted = session.run({"x": x})["y"], expected(x)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.trt
@pytest.mark.parametrize("name", RULES)
def test_builds(name: str) -> None:
    assert has_engine(graph_of(name))


def test_known_numbers_are_a_constant() -> None:
    build = Builder()
    value = build.counted_numbers(3, "n", first=5, step=2)
    assert value.data is not None
    np.testing.assert_array_equal(value.data, np.array([5, 7, 9], np.int32))


def test_an_input_that_tells_a_size_stays() -> None:
    """Nothing reads its elements; another input that tells the same size replaces it."""
    build = Builder({"x", "y"})
    build.symbols = {"n": SPAN}
    size = OpenSize.symbol("n", SPAN)
    x, y = (build.input(name, (size,)) for name in "xy")
    count = build.counted_numbers(size, "n")
    assert lowered(build.graph("", [count]), "tensorrt").inputs == (x,)
    total = build.add(ADD, y, build.cast(count, DType.FLOAT32))
    assert lowered(build.graph("", [total]), "tensorrt").inputs == (y,)
