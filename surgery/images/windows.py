"""The window of a Convolution or a Pooling: one fields of all that spell it, and what it sees where sizes vary."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import plural
from prototrt.caffe_proto.schema import Message
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import refuse_fields_of
from prototrt.surgery.ir import Size, computable
from prototrt.surgery.ops.windows import windows_that_fit

Sizes: TypeAlias = tuple[int, ...]
Form = Literal["Caffe", "C3D", "P3D", "caffe3d"]
"""Whose fields a layer states."""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Along each axis: elements, how far windows are apart, what is around the input, how far elements are apart."""

    kernel: Sizes
    stride: Sizes
    before: Sizes
    after: Sizes
    dilation: Sizes

    @property
    def extents(self) -> Sizes:
        """How many elements it covers, those between its own among them."""
        return tuple(step * (size - 1) + 1 for step, size in zip(self.dilation, self.kernel, strict=True))


class _SizeFields(NamedTuple):
    """A field that states a size once or once per axis, those of height and width, and what stands for all of them."""

    field: str
    pair: tuple[str, str]
    usual: int | None


_SPELLINGS = {
    "kernel": _SizeFields("kernel_size", ("kernel_h", "kernel_w"), None),
    "stride": _SizeFields("stride", ("stride_h", "stride_w"), 1),
    "pad": _SizeFields("pad", ("pad_h", "pad_w"), 0),
    "dilation": _SizeFields("dilation", ("hole_h", "hole_w"), 1),
}
_OF_FORKS: dict[Form, dict[str, str]] = {
    "Caffe": {},
    "C3D": {
        "kernel": "kernel_depth",
        "stride": "temporal_stride",
        "pad": "temporal_pad",
        "group": "filter_group",
    },
    "P3D": {"kernel": "kernel_l", "stride": "stride_l", "pad": "pad_l"},
    "caffe3d": {"kernel": "kernel_shape", "stride": "stride_shape", "pad": "pad_shape"},
}
"""Of the length, beside those of height and width; in caffe3d shapes, with a dim for each axis."""
_TYPES: dict[Form, str] = {"C3D": "{}3D", "P3D": "{}3D", "caffe3d": "Nd{}"}
_SIDES = ("pad_t", "pad_b", "pad_l", "pad_r")
"""Of Synopsys."""


def window_of(
    param: Message, axes: int, form: Form = "Caffe", halves: Collection[str] = (), whole: Sizes | None = None
) -> SlidingWindow:
    """The window that a message states for so many axes. ``whole``: it is as large as an input of these sizes.

    ``halves``: the sizes that may be stated for height or width alone. Raises ``NetError``, in the fields of the file.
    Source: caffe ``src/caffe/layers/base_conv_layer.cpp``, ``pooling_layer.cpp``; facebook/C3D ``pool3d_layer.cpp``;
    ZhaofanQiu/pseudo-3d-residual-networks ``pooling3d_layer.cpp``; caffe3d ``cudnn_ndconv_layer.cpp``.
    """
    fields = _WindowFields(param, axes, form, halves)
    kernel = fields.sizes("kernel") if whole is None else whole
    # Caffe accepts 0, which changes nothing for a kernel of one element.
    dilation = fields.sizes("dilation", [min(size - 1, 1) for size in kernel])
    return SlidingWindow(
        kernel, fields.sizes("stride"), *fields.ends(), tuple(max(step, 1) for step in dilation)
    )


def fields_of_kernel(param: Message) -> list[str]:
    """The fields that state the size of a window."""
    of_forks = (fields.get("kernel") for fields in _OF_FORKS.values())
    names = (_SPELLINGS["kernel"].field, *_SPELLINGS["kernel"].pair, *of_forks)
    present = fields_in(param)
    return [name for name in names if name in present]


def fields_of_length(param: Message, form: Form) -> list[str]:
    """The fields of this form that a message states beside those of height and width."""
    present = fields_in(param)
    return [name for name in _OF_FORKS[form].values() if name in present]


def fields_in(param: Message) -> set[str]:
    """The fields that a message states."""
    return {field.name for field, _ in param.ListFields()}


def refuse_forks(param: Message) -> None:
    """Raise ``NetError`` for a field that another type reads in a fork. ``pad_l`` is Synopsys', too."""
    kind = param.DESCRIPTOR.name.removesuffix("Parameter")
    others = {
        field: name.format(kind)
        for form, name in _TYPES.items()
        for field in fields_of_length(param, form)
        if field not in _SIDES
    }
    refuse_fields_of(param, others)


class _WindowFields(NamedTuple):
    param: Message
    axes: int
    form: Form
    halves: Collection[str]

    def sizes(self, what: str, least: Iterable[int] | None = None) -> Sizes:
        """A size for each axis, of at least 1 or ``least``. Raises ``NetError``."""
        entries = self._entries(what)
        for (field, size), smallest in zip(entries, least or (1,) * self.axes, strict=True):
            if size < smallest:
                raise NetError(
                    f"{field} is {size}, expected at least 1", fix=f"write a positive number for {field}"
                )
        return tuple(size for _, size in entries)

    def ends(self) -> tuple[Sizes, Sizes]:
        """The pads before and after each axis. Raises ``NetError``."""
        pads = tuple(size for _, size in self._entries("pad"))
        sides = [name for name in _SIDES if getattr(self.param, name, 0)] if self.form == "Caffe" else []
        if not sides:
            return pads, pads
        if any(pads):
            other = next(name for name in ("pad_h", "pad_w", "pad") if name in fields_in(self.param))
            raise NetError(f"states both {sides[0]} and {other}", fix=f"remove {other}, or {sides[0]}")
        if self.axes != 2:
            raise self._only_of_images(sides[0], "pad")
        return (self.param.pad_t, self.param.pad_l), (self.param.pad_b, self.param.pad_r)

    def _only_of_images(self, name: str, field: str) -> NetError:
        return NetError(
            f"{name} is for 2 spatial axes, the bottom has {self.axes}",
            fix=f"state {field}, once or once per axis",
        )

    def _entries(self, what: str) -> list[tuple[str, int]]:
        """A field and its number for each axis."""
        size, field = _SPELLINGS[what], _OF_FORKS[self.form].get(what)
        if field is None:
            return self._plane(size, self.axes)
        if self.form != "caffe3d":
            return [(field, int(getattr(self.param, field, 0))), *self._plane(size, 2)]
        dims = getattr(self.param, field).dim or [size.usual] * self.axes
        if size.usual is None and field not in fields_in(self.param):
            raise NetError(f"states no {field}", fix=f"set {field}, with one dim for each axis")
        if len(dims) != self.axes:
            raise NetError(
                f"{field} has {plural(len(dims), 'dim')}, expected {self.axes}",
                because=f"the bottom has {self.axes} spatial axes",
                fix="add or remove dims, one for each axis",
            )
        return [(field, int(dim)) for dim in dims]

    def _plane(self, size: _SizeFields, axes: int) -> list[tuple[str, int]]:
        """Stated once for so many axes, once per axis, or for height and width."""
        field, pair = size.field, [name for name in size.pair if name in fields_in(self.param)]
        values = [int(value) for value in getattr(self.param, field, ())]
        both = " and ".join(size.pair)
        if values and pair:
            raise NetError(
                f"states both {field} and {' and '.join(pair)}",
                fix=f"remove {field} if height and width differ, else the others",
            )
        if pair and axes != 2:
            raise self._only_of_images(pair[0], field)
        if len(pair) == 1 and field not in self.halves:
            raise NetError(f"states {pair[0]} alone", fix=f"state both {both}, or {field} for both")
        if pair:
            return [(name, int(getattr(self.param, name))) for name in size.pair]
        if not values and size.usual is None and axes:
            raise NetError(f"states no {field}", fix=f"set {field}, or {both}")
        values = values or [size.usual or 0]
        if len(values) not in (1, axes):
            raise NetError(
                f"{field} is stated {len(values)} times, expected once or {axes} times",
                because=f"the bottom has {axes} spatial axes"
                if axes == self.axes
                else "it is for height and width",
                fix=f"state {field} once for all axes, or once per axis",
            )
        return [(field, value) for value in (values * axes if len(values) == 1 else values)]


def gather_windows(
    build: Builder, x: Value, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Value:
    """x (N, C, ...) as (N, C, places of the window, windows, ...): two axes for each axis that the window slides along.

    A primitive that slides over a known size needs no such picture: its backends know which elements it sees.
    """
    for axis in reversed(range(2, len(x.shape))):
        places, step, apart = window[axis - 2], stride[axis - 2], dilation[axis - 2]
        count = windows_that_fit(computable(x.shape[axis]), apart * (places - 1) + 1, step, axis)
        x = build.gathered(x, window_elements(build, places, count, step, apart), axis)
    return x


def window_elements(build: Builder, places: int, windows: Size, stride: int, dilation: int = 1) -> Value:
    """Which element of an axis each place of each window meets: int32 (places, windows)."""
    corners = build.counted_numbers(windows, "windows").reshape(1, windows) * stride
    offsets = (np.arange(places, dtype=np.int32) * dilation).reshape(places, 1)
    return corners + build.constant(offsets, "places")
