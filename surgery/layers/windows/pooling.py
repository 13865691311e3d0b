"""Pooling: sliding windows without weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import inf

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, UnsupportedLayerError
from prototrt.caffe_proto.schema import Message
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, layer_rule
from prototrt.surgery.building.limits import refuse_large
from prototrt.surgery.images.pooling import (
    LOWEST,
    Span,
    max_pool,
    mean_of_elements,
    mean_with_padding,
    sizes_along,
    spans,
    stochastic_pool,
    windows_op,
    with_empty,
)
from prototrt.surgery.images.windows import (
    Form,
    Sizes,
    SlidingWindow,
    fields_of_kernel,
    gather_windows,
    refuse_forks,
    window_elements,
    window_of,
)
from prototrt.surgery.ir import DType, OpenSize, Shape, computable, fixed
from prototrt.surgery.ops import MAXIMUM, MaxPool, MaxPoolIndex, Pad, Reduce, ReduceKind, Slice


@layer_rule("Pooling")
def pooling(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The largest or the mean element of sliding windows; sizes round up, or as ``round_mode`` says. MAX passes over
    NaN in Caffe; TensorRT, ONNX and PyTorch may return it.

    The lowest float stays where nothing is larger, as in a window wholly outside the image. A window of -infinity alone
    may be that with the others.

    Becomes: MaxPool, MaxPoolIndex; Pad and AveragePool; StochasticPool; over sizes that vary Reduce, Gather.
    Bottoms: (N, C, H, W), or (N, C, L, H, W) as in forks. Tops: (N, C, h, w) or (N, C, l, h, w), and with MAX
    of images optionally where in its plane each largest element stands. A last window that would start inside
    the padding is dropped, where there is padding; without padding it may be empty. AVE divides by the
    window's size, clipped to the padded image. STOCHASTIC is the one of the TEST phase.
    ``ceil_mode: false``, of forks, rounds down. ``dilation``, of naibaf7, puts elements of a MAX window apart.
    Forks state ``kernel_size``, ``stride`` and ``pad`` once or once per axis. Of Synopsys: AVE_EXC_PAD
    divides by the number of elements; ``pad_l``, ``pad_r``, ``pad_t`` and ``pad_b`` pad each side.
    Source: caffe ``src/caffe/layers/pooling_layer.cpp``, ``pooling_layer.cu``; naibaf7/caffe, yjxiong/caffe
    (branch 3D), caffe3d and synopsys-caffe, the same files.
    """
    expect_axes(layer, 0, x, "(N, C, H, W) or (N, C, L, H, W)", 4, 5)
    param, sizes = layer.param, x.shape[2:]
    refuse_forks(param)
    halves = [name for name in ("kernel_h", "kernel_w") if param.HasField(name)]
    if param.kernel_size and len(halves) == 1 and not param.global_pooling:
        build.warn(f"{halves[0]} is ignored, as in Caffe: kernel_size is stated")
        param = type(param).FromString(param.SerializeToString())
        param.ClearField(halves[0])
    if param.global_pooling and any(isinstance(dim, OpenSize) for dim in sizes) and len(layer.tops) == 1:
        window_of_pooling(param, (1,) * len(sizes))  # it refuses what Caffe refuses
        return [_pool_globally(build, param, x)]
    window = window_of_pooling(param, sizes)
    _refuse_unsupported(layer, window)
    floor = param.round_mode == param.FLOOR or not param.ceil_mode
    axis_spans = spans(x.shape, window, floor=floor, drops="any" if len(sizes) == 2 else "each")
    if max(window.dilation) > 1:
        return [_dilated_max_pool(build, x, axis_spans, window)]
    tops = [pool(build, param, x, axis_spans)]
    if param.pool == param.MAX and len(layer.tops) == 2:
        tops.append(_max_pool_index(build, x, axis_spans))
    return tops


MOST_OF_HOLES = 256
"""Elements along one axis of a window with holes: each becomes a node."""


def window_of_pooling(param: Message, sizes: Shape, form: Form = "Caffe") -> SlidingWindow:
    """The window that a pooling_param states, over an input of these sizes. Raises ``NetError`` where Caffe ends."""
    whole, kernel = None, fields_of_kernel(param)
    if param.global_pooling:
        if kernel:
            fix = f"remove {' and '.join(kernel)}"
            raise NetError(f"states both global_pooling and {kernel[0]}", fix=fix)
        whole = tuple(fixed(dim, f"axis {axis}") for axis, dim in enumerate(sizes, 2))
    window = window_of(param, len(sizes), form, whole=whole)
    if whole and (any(window.before + window.after) or max(window.stride) > 1):
        raise NetError("with global_pooling, pad must be 0 and stride 1", fix="remove pad and stride")
    refuse_padded_stochastic(param, tuple(map(max, window.before, window.after)))
    if any(0 < pad >= size for pad, size in zip(window.before, window.kernel, strict=True)):
        raise NetError(
            f"pad is {window.before}, expected less than the kernel {window.kernel}",
            fix="use a smaller pad or a larger kernel",
        )
    return window


def refuse_padded_stochastic(param: Message, pads: Sizes) -> None:
    """Raise ``NetError`` for padding around STOCHASTIC windows."""
    if any(pads) and param.pool == param.STOCHASTIC:
        raise NetError(
            f"pad is {pads}, but pool is STOCHASTIC",
            because="Caffe pads for MAX and AVE only",
            fix="use MAX or AVE, or remove pad",
        )


def _pool_globally(build: LayerBuilder, param: Message, x: Value) -> Value:
    """One window over the whole input, whose size varies."""
    axes = tuple(range(2, len(x.shape)))
    if param.pool != param.STOCHASTIC:
        return build.add(Reduce(ReduceKind.MAX if param.pool == param.MAX else ReduceKind.MEAN, axes), x)
    return stochastic_mean(x.sum(*axes), (x * x).sum(*axes))


def stochastic_mean(total: Value, squares: Value) -> Value:
    """The means of windows whose elements and their squares add up to these, as ``StochasticPool`` defines them."""
    return (total > 0).chosen(squares / (total > 0).chosen(total, 1), 0)


def _refuse_unsupported(layer: Layer, window: SlidingWindow) -> None:
    """Refuse what is defined for images alone, and holes without MAX. Raises ``UnsupportedLayerError``."""
    param, has_mask = layer.param, len(layer.tops) > 1
    if len(window.kernel) > 2 and (param.pool == param.STOCHASTIC or has_mask):
        raise UnsupportedLayerError(
            f"{'a mask of the largest elements' if has_mask else 'STOCHASTIC pooling'}"
            " is supported only for bottoms (N, C, H, W)",
            because="the forks with bottoms of 5 axes compute only MAX and AVE over them, with one top",
            fix=CUT_BEFORE_LAYER,
        )
    if max(window.dilation) > 1:
        if param.pool != param.MAX or has_mask:
            raise UnsupportedLayerError(
                f"dilation is {window.dilation}, which is supported only for MAX with one top",
                fix=CUT_BEFORE_LAYER,
            )
        refuse_large("kernel_size", max(window.kernel), MOST_OF_HOLES)


def _dilated_max_pool(
    build: LayerBuilder, x: Value, axis_spans: Sequence[Span], window: SlidingWindow
) -> Value:
    """The largest element of windows with holes: for each axis, the largest of shifted images.

    Source: naibaf7/caffe ``src/caffe/layers/pooling_layer.cu``, ``MaxPoolForwardSK``.
    """
    spatial = len(axis_spans)
    for place, (span, size, step) in enumerate(zip(axis_spans, window.kernel, window.dilation, strict=True)):
        if span.pad or span.beyond(span.pad):
            before = sizes_along(2 + place, 2 + spatial, span.pad, 0)
            after = sizes_along(2 + place, 2 + spatial, span.beyond(span.pad), 0)
            x = build.add(Pad(before, after, LOWEST), x, hint="padded")
        reach = (span.out - 1) * span.stride + 1
        shifted = [build.add(Slice(2 + place, index * step, reach), x) for index in range(size)]
        x = reduce(partial(build.add, MAXIMUM), shifted)
        if span.stride > 1:
            once, nothing = (1,) * spatial, (0,) * spatial
            x = build.add(
                MaxPool(once, sizes_along(place, spatial, span.stride, 1), nothing, nothing),
                x,
                hint="strided",
            )
    return x


def pool(build: LayerBuilder, param: Message, x: Value, axis_spans: Sequence[Span]) -> Value:
    """What ``pool`` asks for: the largest, the mean or a weighted mean element of each window."""
    methods = {param.MAX: max_pool, param.AVE: mean_with_padding, param.STOCHASTIC: stochastic_pool}
    return methods.get(param.pool, mean_of_elements)(build, x, axis_spans)


def _max_pool_index(build: LayerBuilder, x: Value, axis_spans: Sequence[Span]) -> Value:
    op = windows_op(MaxPoolIndex, axis_spans)
    is_open = any(isinstance(dim, OpenSize) for dim in x.shape[2:])
    y = _first_largest(build, x, op) if is_open else build.add(op, x)
    return with_empty(build, y, axis_spans, -1)


def _first_largest(build: LayerBuilder, x: Value, op: MaxPoolIndex) -> Value:
    """What ``MaxPoolIndex`` means, for planes whose size varies: their positions are computed."""
    padded = x
    if any(op.before + op.after):
        padded = build.add(Pad((0, 0, *op.before), (0, 0, *op.after), -inf), x, hint="padded")
    seen = gather_windows(build, padded, op.window, op.stride, (1, 1))
    items, channels, high, rows, wide, columns = seen.shape
    down, right = (
        window_elements(build, window, computable(count), stride) - before
        for window, count, stride, before in zip(
            op.window, (rows, columns), op.stride, op.before, strict=True
        )
    )
    places = down.reshape(1, 1, high, rows, 1, 1) * computable(x.shape[3])
    places += right.reshape(1, 1, 1, 1, wide, columns)
    largest = seen.largest(2, 4)
    first = seen.equals(largest).chosen(places.cast(DType.FLOAT32), inf).smallest(2, 4)
    index = (largest > LOWEST).chosen(first, -1)
    return index.reshape(items, channels, rows, columns)
