"""Axes with more elements, or left out. From Synopsys' fork."""

from __future__ import annotations

from prototrt.surgery.rules import (
    Layer,
    LayerBuilder,
    NetError,
    Value,
    canonical_axis,
    layer_rule,
    misfit,
    ops,
)


@layer_rule("Pad")
def pad(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``constant_values`` around the bottom: two ``paddings`` for each axis, before and after it. From Synopsys' fork.

    Becomes: Pad.
    Source: synopsys-caffe ``src/caffe/layers/pad_layer.cpp``.
    """
    paddings = [int(size) for size in layer.param.paddings]
    if len(paddings) != 2 * len(x.shape):
        raise NetError(
            f"has {len(paddings)} paddings, expected {2 * len(x.shape)}",
            because=f"the bottom has the shape {x.shape}",
            fix="state two for each axis: before it and after it",
        )
    op = ops.Pad(tuple(paddings[::2]), tuple(paddings[1::2]), layer.param.constant_values)
    return [build.add(op, x) if any(paddings) else x]


@layer_rule("Squeeze")
def squeeze(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The bottom without the axes in ``axis``, which have a size of 1, or without all such axes. From Synopsys' fork.

    Becomes: Reshape.
    Source: synopsys-caffe ``src/caffe/layers/squeeze_layer.cpp``.
    """
    axes = {canonical_axis(axis, x.shape, "axis") for axis in layer.param.axis}
    for axis in axes:
        if x.shape[axis] != 1:
            fix = "remove that axis from squeeze_param"
            raise misfit(layer, 0, x, f"a size of 1 on axis {axis}", fix)
    axes = axes or {axis for axis, size in enumerate(x.shape) if size == 1}
    return [build.reshape(x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))]
