"""Arithmetic on elements of one blob, or of several at the same place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery import ops
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import (
    LayerBuilder,
    expect_axes,
    layer_rule,
    misfit,
    refuse_in_place,
)
from prototrt.surgery.building.shape_advice import dims, resize_advice
from prototrt.surgery.ir import Dim, Shape, fixed, measure


@layer_rule("Eltwise")
def eltwise(build: LayerBuilder, layer: Layer, x: Value, *others: Value) -> list[Value]:
    """Product, sum with coefficients, or maximum of blobs of one shape.

    Becomes: Add, Multiply or Maximum, one per further bottom.
    Coefficients are for SUM; with MAX Caffe takes them and ignores them. A bottom whose coefficient is 0
    adds nothing, whatever it holds: the routine that adds does not look at it. With ``coeff_blob``, of the branch
    recurrent, the last bottom (bottoms - 1, N) holds a factor for each item of each other bottom of a SUM, or
    (bottoms - 1, T, N) one for each item of each step. With a coefficient, FlowNet takes one bottom.
    Source: caffe ``src/caffe/layers/eltwise_layer.cpp``; jeffdonahue/caffe (branch recurrent)
    ``src/caffe/layers/eltwise_layer.cu``; lmb-freiburg/flownet2 ``include/caffe/layers/eltwise_layer.hpp``.
    """
    bottoms = [x, *others]
    is_multiple = (
        layer.param.operation == layer.param.SUM and layer.param.coeff and not layer.param.coeff_blob
    )
    if not others and not is_multiple:
        raise NetError(
            "has 1 bottom, expected at least 2",
            fix="give it another bottom, or for a multiple of this one the operation SUM with a coeff",
        )
    if layer.param.coeff_blob and layer.param.operation == layer.param.SUM:
        bottoms = _apply_coefficients(build, layer, bottoms)
    bottoms = [bottoms[0], *(_beside_cudnn(build, bottoms[0], other) for other in bottoms[1:])]
    refuse_other_shapes(build, layer, bottoms)
    param = layer.param
    kinds: dict[int, ops.Binary] = {param.PROD: ops.MULTIPLY, param.SUM: ops.ADD, param.MAX: ops.MAXIMUM}
    coefficients = _coefficients(build, layer, len(bottoms))
    pairs = zip(bottoms, coefficients, strict=True)
    terms = [build.scaled(bottom, factor) for bottom, factor in pairs if factor != 0]
    if not terms:
        return [_everywhere(x, 0.0)]
    kind = kinds[param.operation]
    # Caffe asks whether a further bottom is larger than what it has: with NaN the order matters.
    first = build.add(kind, *terms[:2]) if len(terms) > 1 else terms[0]
    return [reduce(lambda top, bottom: build.add(kind, bottom, top), terms[2:], first)]


def _beside_cudnn(build: LayerBuilder, x: Value, other: Value) -> Value:
    """The other bottom in the shape of the first, where one is cuDNN's (T, N, H, 1), the other (T, N, H).

    Source: MyCaffe/MyCaffe ``MyCaffe/layers/EltwiseLayer.cs``, ``Reshape``.
    """
    shorter, longer = sorted((x, other), key=lambda value: len(value.shape))
    maker = build.writer(longer)
    is_cudnns = maker is not None and maker.origin.type in ("LSTM", "RNN") and len(longer.shape) == 4
    return other.reshape(*x.shape) if is_cudnns and longer.shape == (*shorter.shape, 1) else other


def _apply_coefficients(build: LayerBuilder, layer: Layer, bottoms: list[Value]) -> list[Value]:
    """All bottoms but the last, each item times its factor, which the last bottom holds."""
    *terms, factors = bottoms
    shape = terms[0].shape
    items = shape[: max(len(factors.shape) - 1, 1)]
    if measure(factors.shape) != measure((len(terms), *items)):
        items = shape[:1]
    if measure(factors.shape) != measure((len(terms), *items)):
        because = "coeff_blob is true: it holds a factor for each item of each other bottom"
        fix = "give it such a shape, or remove coeff_blob"
        raise misfit(layer, len(terms), factors, (len(terms), *items), fix, because)
    rows = build.reshape(factors, (len(terms), *items)).split(0)
    return [
        term * row.reshape(*items, *(1,) * (len(shape) - len(items)))
        for term, row in zip(terms, rows, strict=True)
    ]


def _coefficients(build: LayerBuilder, layer: Layer, count: int) -> list[float]:
    """The factor of each bottom: 1 unless the file states them, for a sum."""
    param = layer.param
    coefficients = list(param.coeff)
    if coefficients and len(coefficients) != count:
        raise NetError(
            f"has {len(coefficients)} coefficients for {count} bottoms, expected one each",
            fix="state coeff once per bottom, or not at all",
        )
    if coefficients and param.operation == param.PROD:
        raise NetError("coeff is for the operation SUM only", fix="remove coeff")
    if coefficients and param.operation == param.MAX:
        build.warn("coeff is ignored, as in Caffe: the operation is MAX")
        coefficients = []
    return coefficients or [1.0] * count


@layer_rule("Sum")
def total(build: LayerBuilder, layer: Layer, x: Value, y: Value, *others: Value) -> list[Value]:
    """The sum of blobs, in the shape of the first. From SDS and R*CNN.

    Becomes: Reshape, Add.
    Other forks have a Sum over the axes of one bottom, which is refused.
    Bottoms: at least two, alike up to axes of size 1 at the end. Tops: one.
    Source: bharath272/caffe-sds and WalterMa/caffe-fast-rcnn ``src/caffe/layers/sum_layer.cpp``.
    """
    y_sum = x
    for index, other in enumerate((y, *others), 1):
        if _without_last_ones(other.shape) != _without_last_ones(x.shape):
            because = f'that is the shape of the first bottom, "{layer.bottom_blob(0)}"'
            raise misfit(layer, index, other, x.shape, _CUT_LARGER, because)
        y_sum += other.reshape(*x.shape)
    return [y_sum]


_CUT_LARGER = "cut the larger one with Crop, or change what makes it"


def _without_last_ones(shape: Shape) -> Shape:
    return _without_last_ones(shape[:-1]) if shape and shape[-1] == 1 else shape


@layer_rule("Axpy", "AxpyFast")
def axpy(build: LayerBuilder, layer: Layer, factor: Value, x: Value, y: Value) -> list[Value]:
    """``factor * x + y``, with one factor per channel and item. From SENet; AxpyFast, from waifu2x-caffe, is the same.

    Becomes: Multiply, Add.
    Bottoms: factor (N, C) or (N, C, 1, 1), x (N, C, H, W), y of the same shape. Tops: one, of that shape.
    Source: hujie-frank/SENet ``src/caffe/layers/axpy_layer.cpp``.
    """
    expect_axes(layer, 1, x, "(N, C, H, W)")
    if y.shape != x.shape:
        because = f'that is the shape of the second bottom, "{layer.bottom_blob(1)}"'
        raise misfit(layer, 2, y, x.shape, _CUT_LARGER, because)
    if factor.shape not in (x.shape[:2], (*x.shape[:2], 1, 1)):
        because = f'it is a factor for each channel of the second bottom, "{layer.bottom_blob(1)}", {x.shape}'
        fix = "give it one number per channel, for example with a global Pooling"
        raise misfit(layer, 0, factor, f"{(*x.shape[:2], 1, 1)} or {x.shape[:2]}", fix, because)
    return [build.aligned(factor, 4, 0) * x + y]


@layer_rule("Maxout")
def maxout(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The largest of every ``chgroup_sz`` neighbouring channels. From private-caffe.

    Becomes: Reshape, Reduce.
    Another fork states ``num_output``, the number of channels that are left.
    Bottoms: (N, C, H, W). Tops: (N, C / chgroup_sz, H, W).
    Source: nyamnyam7/private-caffe ``src/caffe/layers/maxout_layer.cpp``; another fork's
    ``src/caffe/layers/maxout.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    channels = fixed(x.shape[1], "axis 1 (channels)")
    size = _size_of_maxout(layer, channels)
    if layer.param.minout:
        raise UnsupportedLayerError(
            "minout is true",
            because="the fork then compares with the lowest number, which no element is below",
            fix=CUT_BEFORE_LAYER,
        )
    if len(layer.tops) > 1:
        raise UnsupportedLayerError(
            "asks for a mask", because="only the maximum is supported", fix=CUT_BEFORE_LAYER
        )
    parts = x.reshape(x.shape[0], channels // size, size, *x.shape[2:])
    return [parts.largest(2).reshape(x.shape[0], channels // size, *x.shape[2:])]


def _size_of_maxout(layer: Layer, channels: int) -> int:
    """How many channels become one."""
    name = "num_output" if layer.param.HasField("num_output") else "chgroup_sz"
    number = int(getattr(layer.param, name))
    if number < 1 or channels % number:
        raise NetError(
            f"{name} is {number}, expected a divisor of the {channels} channels", fix="set it in maxout_param"
        )
    return number if name == "chgroup_sz" else channels // number


@layer_rule("AbsVal")
def absolute_value(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``|x|``.

    Becomes: Abs.
    Source: caffe ``src/caffe/layers/absval_layer.cpp``.
    """
    refuse_in_place(layer, "Caffe's AbsVal refuses it, unlike other activations")
    return [build.add(ops.ABS, x)]


@layer_rule("Power")
def power(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``(shift + scale * x) ** power``. With a scale or a power of 0 Caffe ignores ``x``.

    Becomes: Multiply, Add, Power, each only where needed.
    Of a negative number only whole powers are numbers; others are NaN.
    Source: caffe ``src/caffe/layers/power_layer.cpp``.
    """
    param = layer.param
    exponent, scale, shift = map(np.float32, (param.power, param.scale, param.shift))
    with np.errstate(all="ignore"):
        if exponent * scale == 0:
            return [_everywhere(x, float(np.float32(1) if exponent == 0 else shift**exponent))]
    y = x.scaled(param.scale).shifted(param.shift)
    return [y if param.power == 1 else y**param.power]


def _everywhere(x: Value, number: float) -> Value:
    """One number in the shape of ``x``, whatever ``x`` holds: nothing is above infinity, not even NaN."""
    is_larger = x > math.inf
    return is_larger.apply(ops.Cast(x.dtype)).shifted(number)


@layer_rule("Exp")
def exp(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``base ** (shift + scale * x)``; a base of -1 stands for e.

    Becomes: Multiply, Exp, Multiply.
    Source: caffe ``src/caffe/layers/exp_layer.cpp``.
    """
    param = layer.param
    log_base = _log_of_base(param.base)
    with np.errstate(all="ignore"):  # Caffe goes on with infinity and NaN
        inner = np.float32(log_base) * np.float32(param.scale)
        outer = np.float32(np.exp(np.float64(param.shift) * log_base))
    return [x.scaled(float(inner)).exp().scaled(float(outer))]


@layer_rule("Log")
def log(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``log(shift + scale * x)`` to ``base``; a base of -1 stands for e.

    Becomes: Multiply, Add, Log, Multiply.
    Source: caffe ``src/caffe/layers/log_layer.cpp``.
    """
    param = layer.param
    log_base = _log_of_base(param.base)
    if log_base == 0:
        raise NetError("base is 1, which has no logarithm", fix="use another base, or omit it for e")
    y = x.scaled(param.scale).shifted(param.shift)
    return [y.log().scaled(1 / log_base)]


def _log_of_base(base: float) -> float:
    if base == -1:
        return 1.0
    if not 0 < base < math.inf:
        raise NetError(
            f"base is {base:g}, expected a positive number, or -1 for e", fix="remove base to use e"
        )
    return math.log(base)


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
