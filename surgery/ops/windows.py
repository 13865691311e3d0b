"""The elements under a sliding window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.wording import Worded
from prototrt.surgery.ir import Dim, Op, OpenSize, Size, Value, fixed, range_of, range_words, symbols_of
from prototrt.surgery.ir.axes import Tie, one_by_one


class Images(Op):
    """Anything that treats the images of a first input (N, C, ...) alike, each by itself."""

    __slots__ = ()

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return [(inputs[0], outputs[0], one_by_one((0,)))]

    def mixes(self, rank: int) -> Collection[int]:
        return ()


def sizes_of(size: Size) -> str:
    """A size for a message: one number, or the smallest and the largest."""
    span = range_of(size)
    return str(span.min) if span.min == span.max else f"{span.min} to {span.max}"


def ranges_text(*sizes: Size) -> str | None:
    """The ranges of the symbols in these sizes, as a reason; None if no size varies."""
    symbols = {name: span for size in sizes for name, span in symbols_of(size).items()}
    texts = [f"{name} is {span.min} to {span.max}" for name, span in symbols.items()]
    return " and ".join(texts) or None


def ranges_clause(*sizes: Size) -> str:
    """The end of a reason: the ranges of the symbols in these sizes, if any."""
    ranges = ranges_text(*sizes)
    return f", where {ranges}" if ranges else ""


def larger_smallest(size: Size, otherwise: str) -> Worded | str:
    """What helps where a size is too small: a larger smallest size of its symbols, if it varies."""
    if not isinstance(size, OpenSize):
        return otherwise
    return range_words.larger_smallest(size.symbols)


def windows_that_fit(size: Size, extent: int, stride: int, axis: int) -> Size:
    """How many windows fit into an axis with its padding. Raises ``ShapeError`` if none does."""
    if extent > (size if isinstance(size, int) else size.range.min):
        raise ShapeError(
            f"the kernel covers {extent} elements of axis {axis}, which has {sizes_of(size)} with its padding",
            fix=larger_smallest(size, "use a smaller kernel or a larger input"),
        )
    return (size - extent) // stride + 1


def window_index(place: Sequence[int], stride: Sequence[int], out: Sequence[Dim]) -> Any:
    """NumPy index of the elements that one place of the window meets, over all windows.

    ``place`` is the element's offset from the window's corner, ``out`` the number of
    windows, all with one entry a spatial axis; the spatial axes are the last ones.
    """
    ends = [p + s * (fixed(n, "a size") - 1) + 1 for p, s, n in zip(place, stride, out, strict=True)]
    return (..., *map(slice, place, ends, stride))
