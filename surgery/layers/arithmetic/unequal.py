"""Bottoms that should have one shape, and what makes them equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, misfit
from prototrt.surgery.building.shape_advice import dims, resize_advice
from prototrt.surgery.ir import Dim, Shape, measure


def refuse_other_shapes(build: LayerBuilder, layer: Layer, bottoms: Sequence[Value]) -> None:
    """Raise ``ShapeError`` for a bottom of an Eltwise that has another shape than the first."""
    x = bottoms[0]
    for index, bottom in enumerate(bottoms):
        if bottom.shape != x.shape:
            because = f'that is the shape of the first bottom, "{layer.bottom_blob(0)}"'
            fix = Worded.joined("; or ", _ways(build, layer, bottoms, index))
            raise misfit(layer, index, bottom, x.shape, fix, because)


def _ways(build: LayerBuilder, layer: Layer, bottoms: Sequence[Value], index: int) -> Iterator[str]:
    """What helps: another shape of an input, a Reshape, a layer that broadcasts, a Crop."""
    x, other = bottoms[0].shape, bottoms[index].shape
    first, name = layer.bottom_blob(0), layer.bottom_blob(index)
    ways = [resize_advice(build, bottoms[index], x), resize_advice(build, bottoms[0], other)]
    repairs = [way for way in ways[: 2 if len(bottoms) == 2 else 1] if way is not None]
    if measure(x) == measure(other):
        repairs.append(f'put a Reshape with the shape {dims(x)} between "{name}" and this layer')
    elif (broadcasting := _broadcast_type(layer)) and len(bottoms) == 2:
        repairs += _broadcast(broadcasting, (first, x), (name, other))
        repairs += _broadcast(broadcasting, (name, other), (first, x))
    for larger, smaller in ((name, first), (first, name)):
        sizes = {first: x, name: other}
        if _contains(sizes[larger], sizes[smaller]):
            repairs.append(f'cut "{larger}" to the size of "{smaller}" with a Crop')
    yield from repairs or [
        f'make "{name}" with the shape {x}, as by another num_output of the layer that computes it'
    ]


def _broadcast_type(layer: Layer) -> str | None:
    """The layer that does the same with a smaller second bottom."""
    param = layer.param
    if param.operation == param.PROD:
        return "Scale"
    return (
        "Bias"
        if param.operation == param.SUM and set(param.coeff) <= {1.0} and not param.coeff_blob
        else None
    )


def _broadcast(kind: str, large: tuple[str, Shape], small: tuple[str, Shape]) -> Iterator[str]:
    """A layer of this kind over the large bottom, and a Reshape of the small one if it has sizes of 1 around it."""
    core = _without_ones(small[1])
    for shape in (small[1], core):
        for axis in range(len(large[1]) - len(shape) + 1):
            if large[1][axis : axis + len(shape)] == shape:
                reshaped = (
                    f'"{small[0]}"' if shape is small[1] else f'a Reshape of "{small[0]}" to {dims(shape)}'
                )
                yield f'use a {kind} with axis: {axis} and the bottoms "{large[0]}" and {reshaped}'
                return


def _without_ones(shape: Shape) -> tuple[Dim, ...]:
    inner = [place for place, size in enumerate(shape) if size != 1]
    return shape[inner[0] : inner[-1] + 1] if inner else ()


def _contains(large: Shape, small: Shape) -> bool:
    """Whether a Crop, which cuts from axis 2 on, makes the small one."""
    pairs = list(zip(large, small, strict=False))
    return (
        len(large) == len(small) > 2
        and large[:2] == small[:2]
        and all(isinstance(a, int) and isinstance(b, int) and a >= b for a, b in pairs[2:])
    )
