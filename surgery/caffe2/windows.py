"""The geometry of windows: kernels, strides, pads and dilations in all the ways to state them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery.ir import Shape, fixed

# LegacyPadding in caffe2_legacy.proto.
NOTSET, VALID, SAME, CAFFE_POOLING = range(4)


@dataclass(frozen=True, slots=True)
class Geometry:
    """One entry a spatial axis; ``before`` and ``after`` are padding."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]


def geometry_of(operator: Operator, shape: Shape, *, default_kernel: tuple[int, ...] = ()) -> Geometry:
    """What the operator states for an input (N, C, ...). Raises ``NetError``.

    ``default_kernel`` is that of the weights, for an operator which does not state it.
    """
    stated, legacy = (
        _stated(operator, shape, default_kernel),
        operator.arguments.integer("legacy_pad", NOTSET),
    )
    if legacy == NOTSET or operator.arguments.flag("global_pooling"):
        return stated
    sizes = tuple(fixed(dim, "a size of the image") for dim in shape[2:])
    spans = [
        _legacy(legacy, size, dilated * (window - 1) + 1, step, pad)
        for size, window, step, pad, dilated in zip(
            sizes, stated.kernel, stated.stride, stated.before, stated.dilation, strict=True
        )
    ]
    return replace(stated, before=tuple(b for b, _ in spans), after=tuple(a for _, a in spans))


def transposed_geometry_of(operator: Operator, shape: Shape, default_kernel: tuple[int, ...]) -> Geometry:
    """The same for ConvTranspose. ``after`` is what is left of the padding where ``adj`` adds to the
    result; below 0, the result grows by it.

    Source: caffe2 ``operators/conv_transpose_unpool_op_base.h``, ``ComputeSizeAndPad``.
    """
    geometry, legacy = (
        _stated(operator, shape, default_kernel),
        operator.arguments.integer("legacy_pad", NOTSET),
    )
    if any(step != 1 for step in geometry.dilation):
        raise UnsupportedLayerError(f"dilation is {geometry.dilation}, expected 1: Caffe2 has no other here")
    if legacy not in (NOTSET, VALID, SAME):
        raise UnsupportedLayerError(f"legacy_pad is {legacy}, expected 0, 1 or 2")
    if legacy != NOTSET:
        nothing = (0,) * len(geometry.kernel)
        geometry = replace(geometry, before=nothing, after=nothing)
    added = _sizes(operator.arguments, "adj", len(geometry.kernel), 0)
    if any(not 0 <= more < step for more, step in zip(added, geometry.stride, strict=True)):
        raise NetError(f"adj is {added}, expected from 0 to less than the stride {geometry.stride}")
    after = tuple(pad - more for pad, more in zip(geometry.after, added, strict=True))
    return replace(geometry, after=after)


def _stated(operator: Operator, shape: Shape, default_kernel: tuple[int, ...]) -> Geometry:
    """The geometry before ``legacy_pad`` has its say."""
    arguments, axes = operator.arguments, len(shape) - 2
    if axes < 1:
        raise ShapeError(f"shape is {shape}, expected (N, C, ...)", blob=f'input "{operator.bottom_blob(0)}"')
    kernel = _sizes(arguments, "kernel", axes, None, default_kernel)
    stride = _sizes(arguments, "stride", axes, 1)
    dilation = _sizes(arguments, "dilation", axes, 1)
    if arguments.flag("global_pooling"):
        sizes = tuple(fixed(dim, "a size of the image") for dim in shape[2:])
        return Geometry(sizes, (1,) * axes, (0,) * axes, (0,) * axes, (1,) * axes)
    if min((*kernel, *stride, *dilation)) < 1:
        raise NetError(f"kernel {kernel}, stride {stride} and dilation {dilation}, expected at least 1 each")
    return Geometry(kernel, stride, *_pads(arguments, axes), dilation)


def _legacy(legacy: int, size: int, window: int, stride: int, pad: int) -> tuple[int, int]:
    """The padding before and after along one axis."""
    if legacy == VALID:
        return 0, 0
    if legacy == SAME:
        needed = max((math.ceil(size / stride) - 1) * stride + window - size, 0)
        return needed // 2, needed - needed // 2
    if legacy != CAFFE_POOLING:
        raise UnsupportedLayerError(f"legacy_pad is {legacy}, expected 0, 1, 2 or 3")
    # Caffe rounds up, then drops a last window that would start inside the right padding.
    out = math.ceil((size + 2 * pad - window) / stride) + 1
    if pad and (out - 1) * stride >= size + pad:
        out -= 1
    return pad, max((out - 1) * stride + window - size - pad, 0)


def _sizes(
    arguments: Arguments, name: str, axes: int, default: int | None, fallback: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """``kernels`` for each axis, ``kernel`` for all, or ``kernel_h`` and ``kernel_w``."""
    if arguments.has(f"{name}s"):
        return _for_each(arguments.integers(f"{name}s"), f"{name}s", axes)
    if arguments.has(f"{name}_h") or arguments.has(f"{name}_w"):
        plain = arguments.integer(name, default or 0)
        pair = (arguments.integer(f"{name}_h", plain), arguments.integer(f"{name}_w", plain))
        return _for_each(pair, f"{name}_h and {name}_w", axes)
    if arguments.has(name):
        return (arguments.integer(name, 0),) * axes
    if default is not None:
        return (default,) * axes
    if fallback or arguments.flag("global_pooling"):
        return fallback
    raise NetError(f"states no {name}", fix="export the net again")


def _pads(arguments: Arguments, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``pads`` (all before, then all after), ``pad``, or ``pad_t``, ``pad_l``, ``pad_b``, ``pad_r``."""
    sides = ("pad_t", "pad_l", "pad_b", "pad_r")
    if arguments.has("pads"):
        pads = _for_each(arguments.integers("pads"), "pads", 2 * axes)
    elif any(arguments.has(side) for side in sides):
        plain = arguments.integer("pad", 0)
        pads = _for_each(tuple(arguments.integer(side, plain) for side in sides), ", ".join(sides), 2 * axes)
    else:
        pads = (arguments.integer("pad", 0),) * 2 * axes
    if min(pads) < 0:
        raise NetError(f"the padding is {pads}, expected at least 0")
    return pads[:axes], pads[axes:]


def _for_each(sizes: tuple[int, ...], name: str, count: int) -> tuple[int, ...]:
    if len(sizes) != count:
        raise NetError(f"{name} has {len(sizes)} entries, expected {count}")
    return sizes
