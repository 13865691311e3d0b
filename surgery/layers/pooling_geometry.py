"""Where the windows of Pooling and SPP stand: what their fields say, and how many windows fit."""

from __future__ import annotations

from typing import Any, TypeAlias

from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.images.spatial import Ends, pads_of_sides, per_axis
from prototrt.surgery.ir import OpenSize, Shape, Size, computable, fixed, range_of
from prototrt.surgery.ops.windows import larger_smallest, ranges_text

Sizes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Pooling windows along one axis: input ``size``, window, stride, pads before it and ``after`` it, windows ``out``.

    ``reach`` is how many elements after the input the last window may see. ``has_empty``: the last window begins after
    the input, at some sizes at least. Caffe drops it only if there is padding.
    """

    size: Size
    window: int
    stride: int
    pad: int
    after: int
    out: Size
    reach: int
    has_empty: bool

    @property
    def without_empty(self) -> Span:
        if not self.has_empty:
            return self
        if isinstance(self.size, OpenSize):
            out = (self.size - 1) // self.stride + 1
            return replace(self, out=out, reach=self.window - 1, has_empty=False)
        return replace(self, out=self.out - 1, reach=self.reach - self.stride, has_empty=False)

    @property
    def empty_size(self) -> Size:
        """What Caffe takes for the size of an empty window: 0 or less."""
        return self.size - (self.out - 1) * self.stride

    def beyond(self, padded: int) -> int:
        """How far the last window reaches beyond the input with this much padding."""
        return max(0, self.reach - padded)


def spans(
    shape: Shape,
    windows: Sizes,
    strides: Sizes,
    before: Sizes,
    after: Sizes,
    *,
    floor: bool = False,
    each_axis: bool = False,
) -> list[Span]:
    """The places of windows along the axes after the channels of (N, C, H, W) or (N, C, L, H, W), between pads.

    Padding on one axis drops windows that begin after the input on all axes; with ``each_axis``, on this one.
    Raises ``ShapeError`` where no window fits.
    """
    result = []
    for place, (window, stride, pad, end) in enumerate(zip(windows, strides, before, after, strict=True)):
        size = computable(shape[2 + place], _NAMES[len(windows)][place])
        room = pad + end - window + (0 if floor else stride - 1)
        if pad + end if each_axis else any(before + after):
            room = min(room, pad - 1)  # no window begins after the input and the pad before it
        if range_of((size + room) // stride + 1).min < 1:
            raise ShapeError(
                f"the window {windows} is larger than the bottom {shape} with its padding",
                because=ranges_text(size),
                fix=larger_smallest(size, "use a smaller window or a larger input"),
            )
        result.append(_span(size, window, stride, (pad, end), room))
    return result


def _span(size: Size, window: int, stride: int, pads: tuple[int, int], room: int) -> Span:
    """The windows along one axis. ``room`` is where the last of them may begin, less the size."""
    pad, after = pads
    out = (size + room) // stride + 1
    # A window without end over a small image would cost its whole size.
    window = min(window, range_of(size).max + pad + after)
    if isinstance(
        size, OpenSize
    ):  # its windows reach as far as its roundest size needs: what is added is never seen
        return Span(size, window, stride, pad, after, out, room + window, has_empty=room >= pad)
    last = fixed(out - 1, "a size") * stride
    return Span(size, window, stride, pad, after, out, last + window - size, has_empty=last >= size + pad)


_NAMES = {2: ("the height", "the width"), 3: ("the length", "the height", "the width")}
"""What the axes after the channels are called, by their number."""


def geometry(param: Any, sizes: Shape) -> tuple[Sizes, Sizes, Ends]:
    """Windows, strides and the pads before and after of a pooling_param, for the sizes of the axes after the channels.

    Raises ``NetError`` where Caffe ends the process.
    Source: caffe ``src/caffe/layers/pooling_layer.cpp``, ``LayerSetUp``.
    """
    windows = _windows_of(param, sizes)
    strides = _sizes(param, "stride", len(sizes), 1)
    if min(strides) < 1 or min(windows) < 1:
        raise NetError(
            f"kernel is {windows} and stride {strides}, expected at least 1",
            fix="set both in pooling_param to 1 or more",
        )
    sides = pads_of_sides(param, len(sizes))
    pads = sides[0] if sides else _sizes(param, "pad", len(sizes), 0)
    if param.global_pooling and (sides or any(pads) or max(strides) > 1):
        raise NetError("with global_pooling, pad must be 0 and stride 1", fix="remove pad and stride")
    refuse_padded_stochastic(param, tuple(map(max, *sides)) if sides else pads)
    if any(pads) and any(pad >= window for pad, window in zip(pads, windows, strict=True)):
        raise NetError(
            f"pad is {pads}, expected less than the kernel {windows}",
            fix="use a smaller pad or a larger kernel",
        )
    return windows, strides, sides or (pads, pads)


def lengths_per_axis(param: Any) -> Any:
    """A pooling_param that states once per axis what P3D states for the length, and for height and width.

    Raises ``NetError``.
    Source: ZhaofanQiu/pseudo-3d-residual-networks ``caffe_add_layers/src/pooling3d_layer.cpp``, ``LayerSetUp``.
    """
    plain = type(param)(pool=param.pool, global_pooling=param.global_pooling)
    plain.stride.extend((param.stride_l, *_sizes(param, "stride", 2, 1)))
    plain.pad.extend((param.pad_l, *_sizes(param, "pad", 2, 0)))
    if any(param.HasField(name) for name in ("kernel_l", "kernel_h", "kernel_w")) or param.kernel_size:
        plain.kernel_size.extend((param.kernel_l, *_sizes(param, "kernel", 2, 0)))
    return plain


def refuse_padded_stochastic(param: Any, pads: Sizes) -> None:
    """Raise ``NetError`` for padding around STOCHASTIC windows."""
    if any(pads) and param.pool == param.STOCHASTIC:
        raise NetError(
            f"pad is {pads}, but pool is STOCHASTIC",
            because="Caffe pads for MAX and AVE only",
            fix="use MAX or AVE, or remove pad",
        )


def _windows_of(param: Any, sizes: Shape) -> Sizes:
    """The windows that the fields state: with ``global_pooling``, the sizes themselves. Raises ``NetError``."""
    halves = [name for name in ("kernel_h", "kernel_w") if param.HasField(name)]
    fields = [*(["kernel_size"] if param.kernel_size else []), *halves]
    if param.global_pooling:
        if fields:
            raise NetError(
                f"states both global_pooling and {fields[0]}", fix=f"remove {' and '.join(fields)}"
            )
        return tuple(map(fixed, sizes, _NAMES[len(sizes)]))
    if not fields:
        raise NetError("states no kernel size", fix="set kernel_size, or kernel_h and kernel_w")
    if param.kernel_size and len(halves) == 1:
        return per_axis(list(param.kernel_size), "kernel_size", len(sizes))
    return _sizes(param, "kernel", len(sizes))


def _sizes(param: Any, name: str, spatial: int, default: int | None = None) -> Sizes:
    """A size for each axis after the channels: stated once, once per axis, or as ``_h`` and ``_w``."""
    plain = "kernel_size" if name == "kernel" else name
    values = list(getattr(param, plain))
    height, width = f"{name}_h", f"{name}_w"
    fields = [field for field in (height, width) if param.HasField(field)]
    if not fields:
        return per_axis(values, plain, spatial, default)
    if values:
        raise NetError(
            f"states both {plain} and {' and '.join(fields)}",
            fix=f"remove {plain} if height and width differ, else the others",
        )
    if spatial != 2:
        raise NetError(
            f"states {' and '.join(fields)}, but the bottom has {spatial} axes after the channels",
            fix=f"state {plain} once, or {spatial} times",
        )
    if len(fields) == 1:
        raise NetError(
            f"states {fields[0]} alone", fix=f"state both {height} and {width}, or {plain} for both"
        )
    return getattr(param, height), getattr(param, width)
