"""Layers that move elements: every form of Reshape, Flatten, Concat, Slice, Tile, Permute, Transpose, Reverse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prototrt import Session, Way
from prototrt.tests.small_nets import WAYS, builds, failure, numbers, op, refusal, rewritten, run

X = (2, 3, 4, 5)


def layer(kind: str, param: str = "", tops: Sequence[str] = ("y",), bottoms: Sequence[str] = ("x",)) -> str:
    field = f"{kind.lower()}_param {{ {param} }}" if param else ""
    return op(kind, field, bottoms, tops)


RESHAPES = {
    "shape { dim: 0 dim: -1 }": (2, 60),
    "shape { dim: 0 dim: 0 dim: 20 }": (2, 3, 20),
    "shape { dim: -1 dim: 0 dim: 2 }": (20, 3, 2),
    "shape { dim: 12 } axis: 1 num_axes: 2": (2, 12, 5),
    "shape { dim: 1 dim: -1 } axis: -1 num_axes: 0": (*X, 1, 1),
    "shape { dim: -1 dim: 1 } axis: -2": (2, 3, 4, 5, 1),
    "shape { dim: 1 } axis: 0 num_axes: 0": (1, *X),
    "shape { dim: 1 dim: 1 } axis: 4 num_axes: 0": (*X, 1, 1),
    "shape { } axis: 1 num_axes: 0": X,
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("param", RESHAPES)
def test_reshape(on: Way, param: str) -> None:
    x = numbers(*X)
    np.testing.assert_array_equal(
        run(layer("Reshape", param), {"x": x}, on=on)["y"], x.reshape(RESHAPES[param])
    )


FLATTENED = {
    "": (2, 60),
    "axis: 0": (120,),
    "axis: -2": (2, 3, 20),
    "axis: 1 end_axis: 2": (2, 12, 5),
    "axis: -1": X,
    "axis: 2 end_axis: 1": (2, 3, 1, 4, 5),  # nothing, as one axis
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("param", FLATTENED)
def test_flatten(on: Way, param: str) -> None:
    x = numbers(*X)
    np.testing.assert_array_equal(
        run(layer("Flatten", param), {"x": x}, on=on)["y"], x.reshape(FLATTENED[param])
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("param", "axis"), [("", 1), ("axis: -1", 3), ("concat_dim: 0", 0), ("axis: 2", 2)])
@pytest.mark.parametrize("count", [1, 3])
def test_concat(on: Way, param: str, axis: int, count: int) -> None:
    names = ["a", "b", "c"][:count]
    shapes = [(*X[:axis], size, *X[axis + 1 :]) for size in (1, 3, 2)]
    inputs = {name: numbers(*shape, seed=len(name)) for name, shape in zip(names, shapes, strict=False)}
    result = run(layer("Concat", param, bottoms=names), inputs, on=on)["y"]
    np.testing.assert_array_equal(result, np.concatenate(list(inputs.values()), axis))


SLICES = {
    "axis: -1 slice_point: 1 slice_point: 2": (3, [1, 2]),
    "slice_dim: 1": (1, [1, 2]),
    "axis: 2 slice_point: 2 slice_point: 3": (2, [2, 3]),
    "": (1, [1, 2]),
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("param", SLICES)
def test_slice(on: Way, param: str) -> None:
    x = numbers(*X)
    axis, points = SLICES[param]
    results = run(layer("Slice", param, tops=["p", "q", "r"]), {"x": x}, on=on)
    for name, part in zip("pqr", np.split(x, points, axis), strict=True):
        np.testing.assert_array_equal(results[name], part)


@pytest.mark.parametrize("on", WAYS)
def test_slice_with_one_top_is_a_copy(on: Way) -> None:
    x = numbers(*X)
    np.testing.assert_array_equal(run(layer("Slice", "axis: 2"), {"x": x}, on=on)["y"], x)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("axis", "tiles"), [(1, 1), (-1, 3), (0, 2)])
def test_tile(on: Way, axis: int, tiles: int) -> None:
    x = numbers(*X)
    copies = [1] * len(X)
    copies[axis] = tiles
    result = run(layer("Tile", f"axis: {axis} tiles: {tiles}"), {"x": x}, on=on)["y"]
    np.testing.assert_array_equal(result, np.tile(x, copies))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", ["Permute", "Transpose"])
def test_axes_are_reordered(on: Way, kind: str) -> None:
    x, field = numbers(*X), "order" if kind == "Permute" else "dim"
    param = " ".join(f"{field}: {axis}" for axis in (3, 0, 2, 1))
    np.testing.assert_array_equal(run(layer(kind, param), {"x": x}, on=on)["y"], x.transpose(3, 0, 2, 1))


@pytest.mark.parametrize("on", WAYS)
def test_permute_keeps_the_axes_that_it_does_not_list(on: Way) -> None:
    x = numbers(*X)
    np.testing.assert_array_equal(
        run(layer("Permute", "order: 2"), {"x": x}, on=on)["y"], x.transpose(2, 0, 1, 3)
    )


REVERSED = {"": (0,), "axis: -1": (3,), "axis: 1 axis: 2": (1, 2)}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("param", REVERSED)
def test_reverse(on: Way, param: str) -> None:
    x = numbers(*X)
    np.testing.assert_array_equal(
        run(layer("Reverse", param), {"x": x}, on=on)["y"], np.flip(x, REVERSED[param])
    )


@pytest.mark.trt
@pytest.mark.parametrize(
    "text",
    [
        layer("Reverse", "axis: 1"),
        layer("Transpose", "dim: 3 dim: 2 dim: 1 dim: 0"),
        layer("Flatten", "axis: 2 end_axis: 1"),
        layer("Concat", bottoms=["x", "x"]),
    ],
)
def test_builds(text: str) -> None:
    assert builds(text, {"x": X})


OP = 'net.prototxt:2: layer "op"'
BOTTOM = 'net.prototxt:2: layer "op" ({}), bottom "x"'
REFUSED = {
    ("Reshape", "shape { dim: -1 dim: -1 }"): (
        f"{OP} (Reshape): shape is [-1, -1], expected at most one -1\n"
        "  fix: state sizes, 0 for one that is copied, and -1 once for the rest"
    ),
    ("Reshape", "shape { dim: 2 dim: -2 }"): (
        f"{OP} (Reshape): shape is [2, -2], expected at most one -1\n"
        "  fix: state sizes, 0 for one that is copied, and -1 once for the rest"
    ),
    ("Reshape", "shape { dim: 7 dim: -1 }"): (
        f"{OP} (Reshape): shape is (2, 3, 4, 5): its 120 elements cannot be cut into parts of 7\n"
        '  fix: state a shape that fits, as in overrides={"op.reshape_param.shape.dim": "-1,1"}'
    ),
    ("Reshape", "shape { dim: 7 dim: 2 }"): (
        f'{OP} (Reshape), bottom "x": shape is (2, 3, 4, 5), which cannot become (7, 2)\n'
        "  because the numbers of elements differ\n"
        '  fix: state a shape that fits, as in overrides={"op.reshape_param.shape.dim": "-1,2"}'
    ),
    ("Reshape", "shape { dim: 2 dim: 3 dim: 4 dim: 5 dim: 0 }"): (
        f"{OP} (Reshape): dim 4 is 0, which copies axis 4, but the bottom has 4 axes: (2, 3, 4, 5)\n"
        "  fix: state the size itself"
    ),
    ("Reshape", "axis: 5"): (
        f"{OP} (Reshape): axis is 5, but the bottom has 4 axes: (2, 3, 4, 5)\n  fix: use an axis from -5 to 4"
    ),
    ("Reshape", "axis: 2 num_axes: 3"): (
        f"{OP} (Reshape): num_axes is 3 from axis 2 on, but the bottom has 4 axes: (2, 3, 4, 5)\n"
        "  fix: use a num_axes from 0 to 2, or -1 for all"
    ),
    ("Reshape", "num_axes: -2"): (
        f"{OP} (Reshape): num_axes is -2 from axis 0 on, but the bottom has 4 axes: (2, 3, 4, 5)\n"
        "  fix: use a num_axes from 0 to 4, or -1 for all"
    ),
    ("Flatten", "axis: 3 end_axis: 1"): (
        f"{OP} (Flatten): end_axis is 1, expected axis 3 or a later one\n"
        "  fix: use a larger end_axis, or -1 for the last one"
    ),
    ("Flatten", "axis: -5"): (
        f"{OP} (Flatten): axis is -5, but the bottom has 4 axes: (2, 3, 4, 5)\n  fix: use an axis from -4 to 3"
    ),
    ("Concat", "axis: 1 concat_dim: 1"): (
        f"{OP} (Concat): states both axis and concat_dim\n  fix: remove concat_dim"
    ),
    ("Concat", "concat_dim: 4"): (
        f"{OP} (Concat): concat_dim is 4, but the bottom has 4 axes: (2, 3, 4, 5)\n  fix: use an axis from 0 to 3"
    ),
    ("Slice", "slice_point: 1"): f"{OP} (Slice): has 1 slice points for 1 tops, expected 0\n"
    "  fix: state one slice_point between each two tops",
    ("Slice", "axis: 1 slice_dim: 1"): (
        f"{OP} (Slice): states both axis and slice_dim\n  fix: remove slice_dim"
    ),
    ("Tile", "tiles: 0"): f"{OP} (Tile): tiles is 0, expected at least 1\n  fix: set tiles in tile_param",
    ("Tile", ""): f"{OP} (Tile): tiles is 0, expected at least 1\n  fix: set tiles in tile_param",
    ("Permute", "order: 1 order: 1"): f"{OP} (Permute): order is [1, 1], expected different axes below 4\n"
    "  fix: state each axis once",
    ("Permute", "order: 4"): f"{OP} (Permute): order is [4], expected different axes below 4\n"
    "  fix: state each axis once",
    ("Transpose", "dim: 1 dim: 0"): (
        f"{OP} (Transpose): dim is [1, 0], expected each of the axes from 0 to 3 once\n"
        "  because the bottom has the shape (2, 3, 4, 5)\n"
        "  fix: state each axis once"
    ),
    ("Reverse", "axis: 1 axis: -3"): f"{OP} (Reverse): axis is [1, -3], expected different axes\n"
    "  fix: state each axis once",
}


@pytest.mark.parametrize(("kind", "param"), REFUSED)
def test_refused(kind: str, param: str) -> None:
    assert refusal(layer(kind, param), {"x": X}) == REFUSED[kind, param]


SLICES_REFUSED = {
    "slice_point: 2 slice_point: 1": "slice_point is [2, 1], expected increasing numbers between 0 and 3\n"
    "  fix: state each slice point once, in increasing order",
    "slice_point: 1 slice_point: 3": "slice_point is [1, 3], but axis 1 of the bottom has 3 elements\n"
    "  fix: give the bottom more than 3 elements along this axis, or state smaller numbers",
    "slice_point: 0 slice_point: 1": "slice_point is [0, 1], expected increasing numbers between 0 and 3\n"
    "  fix: state each slice point once, in increasing order",
    "slice_point: 1": "has 1 slice points for 3 tops, expected 2\n"
    "  fix: state one slice_point between each two tops",
    "axis: 2": "4 elements cannot be cut into 3 equal parts\n  fix: state slice_point",
}


@pytest.mark.parametrize("param", SLICES_REFUSED)
def test_refused_slice(param: str) -> None:
    assert refusal(layer("Slice", param, tops=["p", "q", "r"]), {"x": X}) == (
        f"{OP} (Slice): {SLICES_REFUSED[param]}"
    )


@pytest.mark.parametrize(("kind", "param"), [("Reshape", "shape { dim: -1 }"), ("Flatten", "")])
def test_other_shape_in_place_is_refused(kind: str, param: str) -> None:
    assert refusal(layer(kind, param, tops=["x"]), {"x": X}) == (
        f'{OP} ({kind}), top "x": this layer cannot work in place\n'
        "  because the top has another shape than the bottom\n"
        "  fix: give the top another name"
    )


CANNOT_BE_IN_PLACE = {
    "AbsVal": "Caffe's AbsVal refuses it, unlike other activations",
    "Split": "the tops are the bottom under other names",
}


@pytest.mark.parametrize("kind", CANNOT_BE_IN_PLACE)
def test_layer_that_caffe_refuses_in_place(kind: str) -> None:
    assert refusal(layer(kind, tops=["x"]), {"x": X}) == (
        f'{OP} ({kind}), top "x": this layer cannot work in place\n'
        f"  because {CANNOT_BE_IN_PLACE[kind]}\n"
        "  fix: give the top another name"
    )


@pytest.mark.parametrize("other", [(2, 3, 4, 6), (2, 3, 4)])
def test_concat_of_other_sizes_is_refused(other: tuple[int, ...]) -> None:
    assert refusal(layer("Concat", bottoms=["x", "z"]), {"x": X, "z": other}) == (
        f'net.prototxt:3: layer "op" (Concat), bottom "z": shape is {other}, expected (2, 3, 4, 5) but for axis 1\n'
        '  because that is the shape of the first bottom, "x"\n'
        "  fix: give the bottoms sizes that differ only in this axis, or use another axis"
    )


@pytest.mark.parametrize("axes", [32, 33])
def test_at_most_32_axes(axes: int) -> None:
    text = layer("Reshape", f"shape {{ {'dim: 1 ' * (axes - 4)} }} num_axes: 0")
    if axes == 32:
        assert run(text, {"x": numbers(*X)})["y"].ndim == 32
    else:
        assert refusal(text, {"x": X}) == (
            f'{OP} (Reshape), top "y": has 33 axes, expected at most 32\n'
            "  because Caffe's blobs have at most that many\n  fix: use fewer axes"
        )


def test_more_elements_than_an_int_counts_are_refused() -> None:
    assert refusal(layer("Tile", "axis: 0 tiles: 20000000"), {"x": X}) == (
        f'{OP} (Tile), top "y": shape is (40000000, 3, 4, 5), which is 2400000000 elements,'
        " expected at most 2147483647\n"
        "  because Caffe counts elements with 32-bit integers\n  fix: use smaller sizes"
    )


@pytest.mark.trt
def test_more_axes_than_tensorrt_has_are_refused_for_an_engine() -> None:
    graph = rewritten(layer("Reshape", "shape { dim: 1 dim: 1 dim: 1 dim: 1 dim: 1 } num_axes: 0"), {"x": X})
    assert failure(lambda: Session(graph, on="network")) == (
        f"{OP} (Reshape): works on 9 axes, expected at most 8\n"
        "  because TensorRT's tensors have at most that many\n"
        '  fix: run it as `prototrt.Session(...)` does with on="reference",'
        ' or cut the net before it with outputs=["BLOB"]'
    )
