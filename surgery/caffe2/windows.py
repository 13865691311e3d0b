"""The windows of operators: kernels, strides, pads and dilations, in every form that Caffe2 accepts."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.advice import (
    CUT_BEFORE,
    EXPORT_AGAIN,
    GIVE_SHAPES_AND_INIT_NET,
    MEND_ARGUMENTS,
)
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.records import replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.images.windows import SlidingWindow
from prototrt.surgery.ir import OpenSize, Shape, Size, computable, fixed
from prototrt.surgery.ops import Pad

# LegacyPadding in caffe2_legacy.proto.
NOTSET, VALID, SAME, CAFFE_POOLING = range(4)


def window_of(build: Builder, operator: Operator, shape: Shape) -> SlidingWindow:
    """The window that the operator states for an input (N, C, ...). Raises ``NetError``.

    Source: caffe2 ``operators/conv_pool_op_base.h``, ``ConvPoolOpBase`` and ``ComputeSizeAndPad``.
    """
    window, legacy = _plain(build, operator, shape), _legacy_of(operator)
    if legacy == NOTSET and not operator.arguments.flag("global_pooling"):
        return window
    if operator.arguments.flag("global_pooling"):
        return _whole(window, tuple(fixed(dim, "a size of the image") for dim in shape[2:]))
    sizes = tuple(computable(dim, "a size of the image") for dim in shape[2:])
    if legacy != VALID and set(window.dilation) != {1}:
        raise NetError(
            f"legacy_pad is {legacy} and dilation {window.dilation}, expected 1", fix=MEND_ARGUMENTS
        )
    spans = [_legacy(window, legacy, axis, size) for axis, size in enumerate(sizes)]
    return replace(window, before=tuple(b for b, _ in spans), after=tuple(a for _, a in spans))


def transposed_window_of(build: Builder, operator: Operator, shape: Shape) -> SlidingWindow:
    """The same for ConvTranspose. ``after`` is what is left of the padding where ``adj`` adds to the
    result; below 0, the result grows by it.

    Source: caffe2 ``operators/conv_transpose_unpool_op_base.h``, ``ComputeSizeAndPad``.
    """
    window = _plain(build, operator, shape)
    if any(step != 1 for step in window.dilation):
        raise UnsupportedLayerError(
            f"dilation is {window.dilation}, expected 1: Caffe2 supports no other value here", fix=CUT_BEFORE
        )
    if _legacy_of(operator) == CAFFE_POOLING:
        raise UnsupportedLayerError(f"legacy_pad is {CAFFE_POOLING}, expected 0, 1 or 2", fix=CUT_BEFORE)
    axes = len(window.kernel)
    added = _entries(build, operator, "adj", axes) or (0,) * axes
    if any(not 0 <= more < step for more, step in zip(added, window.stride, strict=True)):
        raise NetError(
            f"adj is {added}, expected from 0 to less than the stride {window.stride}", fix=MEND_ARGUMENTS
        )
    after = tuple(pad - more for pad, more in zip(window.after, added, strict=True))
    return replace(window, after=after)


def crop(build: Builder, window: SlidingWindow, x: Value) -> tuple[SlidingWindow, Value]:
    """Value and window without negative padding, which ``legacy_pad`` 2 makes if strides exceed the kernel."""
    before, after = ([min(pad, 0) for pad in pads] for pads in (window.before, window.after))
    if not any((*before, *after)):
        return window, x
    x = build.add(Pad((0, 0, *before), (0, 0, *after)), x, hint="cropped")
    kept = [tuple(max(pad, 0) for pad in pads) for pads in (window.before, window.after)]
    return replace(window, before=kept[0], after=kept[1]), x


def _plain(build: Builder, operator: Operator, shape: Shape) -> SlidingWindow:
    """The window without ``legacy_pad`` and ``global_pooling``."""
    axes = len(shape) - 2
    if axes < 1:
        raise ShapeError(
            f"shape is {shape}, expected (N, C, ...)",
            blob=f'input "{operator.bottom_blob(0)}"',
            fix=GIVE_SHAPES_AND_INIT_NET,
        )
    is_whole = operator.arguments.flag("global_pooling")
    kernel = (1,) * axes if is_whole else _entries(build, operator, "kernel", axes)
    if not kernel:
        raise NetError("states no kernel", fix=EXPORT_AGAIN)
    stride = _entries(build, operator, "stride", axes) or (1,) * axes
    dilation = _entries(build, operator, "dilation", axes) or (1,) * axes
    if min((*kernel, *stride, *dilation)) < 1:
        raise NetError(
            f"kernel {kernel}, stride {stride} and dilation {dilation}, expected at least 1 each",
            fix=MEND_ARGUMENTS,
        )
    return SlidingWindow(kernel, stride, *pads_of(build, operator, axes), dilation)


def _whole(window: SlidingWindow, sizes: tuple[int, ...]) -> SlidingWindow:
    """One window over the whole image."""
    if any((*window.before, *window.after)) or {*window.stride, *window.dilation} != {1}:
        raise NetError(
            "with global_pooling, pad must be 0, and stride and dilation 1",
            fix="remove pad, stride and dilation",
        )
    return replace(window, kernel=sizes)


def _legacy_of(operator: Operator) -> int:
    legacy = operator.arguments.integer("legacy_pad", NOTSET)
    if legacy not in (NOTSET, VALID, SAME, CAFFE_POOLING):
        raise UnsupportedLayerError(f"legacy_pad is {legacy}, expected 0, 1, 2 or 3", fix=CUT_BEFORE)
    return legacy


def _legacy(window: SlidingWindow, legacy: int, axis: int, size: Size) -> tuple[int, int]:
    """The padding before and after along one axis. Raises ``ShapeError`` where it would vary."""
    kernel, stride, pad = window.kernel[axis], window.stride[axis], window.before[axis]
    if legacy == VALID:
        return 0, 0
    if legacy == SAME:
        needed = ((size + stride - 1) // stride - 1) * stride + kernel - size
        if isinstance(needed, OpenSize):
            raise ShapeError(
                f"legacy_pad is {SAME}, the stride is {stride}, and the size {size} varies",
                because="the padding is another one at some sizes",
                fix=Worded(
                    "name a size that {} divides, such as {}*H, in {}", stride, stride, Option("shapes")
                ),
            )
        before = int(needed / 2)  # towards 0 as in C: a stride larger than the kernel needs less than nothing
        return before, needed - before
    # Caffe rounds up, then drops a last window that would start inside the right padding.
    room = 2 * pad - kernel + stride - 1
    if pad:
        room = max(room - stride, min(room, pad - 1))
    if isinstance(size, OpenSize):
        return pad, max(room + kernel - pad, 0)  # what no window reaches at some sizes is never seen
    return pad, max((size + room) // stride * stride + kernel - size - pad, 0)


def _entries(build: Builder, operator: Operator, name: str, axes: int) -> tuple[int, ...]:
    """``kernels``, one per axis; ``kernel`` stands for two of them, ``kernel_h`` with ``kernel_w`` for one each."""
    arguments, sides = operator.arguments, (f"{name}_h", f"{name}_w")
    forms = {f"{name}s": arguments.integers(f"{name}s")}
    if arguments.has(name):
        forms[name] = (arguments.integer(name, 0),) * 2
    elif _all_or_none(build, operator, sides):
        forms[" and ".join(sides)] = tuple(arguments.integer(side, 0) for side in sides)
    return _only(forms, axes, 1)


def pads_of(build: Builder, operator: Operator, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``pads`` (all before, then all after), ``pad`` for two axes, or ``pad_t``, ``pad_l``, ``pad_b``, ``pad_r``."""
    arguments, sides = operator.arguments, ("pad_t", "pad_l", "pad_b", "pad_r")
    forms = {"pads": arguments.integers("pads")}
    if arguments.has("pad"):
        forms["pad"] = (arguments.integer("pad", 0),) * 4
    elif _all_or_none(build, operator, sides):
        forms[", ".join(sides)] = tuple(arguments.integer(side, 0) for side in sides)
    pads = _only(forms, axes, 2)
    if pads and _legacy_of(operator) in (VALID, SAME):
        raise NetError(
            f"legacy_pad is {_legacy_of(operator)}, so no padding may be stated", fix=MEND_ARGUMENTS
        )
    pads = pads or (0, 0) * axes
    if min(pads) < 0:
        raise NetError(f"the padding is {pads}, expected at least 0", fix=MEND_ARGUMENTS)
    return pads[:axes], pads[axes:]


def _all_or_none(build: Builder, operator: Operator, names: tuple[str, ...]) -> bool:
    """Whether all of these are stated; Caffe2 ignores some of them alone."""
    present = [name for name in names if operator.arguments.has(name)]
    if present and len(present) < len(names):
        build.warn(
            f"states {', '.join(present)} without the rest of {', '.join(names)}: ignored, as in Caffe2"
        )
    return len(present) == len(names)


def _only(forms: dict[str, tuple[int, ...]], axes: int, ends: int) -> tuple[int, ...]:
    """The entries of the one form that is stated, with ``ends`` for each axis; none if no form is."""
    present = {name: entries for name, entries in forms.items() if entries}
    if len(present) > 1:
        raise NetError(
            f"states both {' and '.join(present)}, expected one of them", fix=f"remove {list(present)[-1]}"
        )
    for name, entries in present.items():
        each = len(entries) // ends
        # A number for two axes also serves a sequence, which has one.
        if len(entries) != axes * ends if name.endswith("s") else each < axes:
            raise NetError(f"{name} has {len(entries)} entries, expected {axes * ends}", fix=MEND_ARGUMENTS)
        return tuple(entry for end in range(ends) for entry in entries[end * each : end * each + axes])
    return ()
