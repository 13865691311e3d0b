"""Which axes of inputs and outputs are steps and streams, and where they lie in Caffe's layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.ir.shapes import Dim

if TYPE_CHECKING:
    from prototrt.surgery.ir.graph import Op
    from prototrt.surgery.ir.shapes import Array
    from prototrt.surgery.options import LayoutName

STREAMS, STEPS = "N", "T"


@dataclass(frozen=True, slots=True)
class Factor:
    """Steps or streams, as a part of an axis: ``name`` is ``STEPS`` or ``STREAMS``."""

    name: str
    size: Dim


Factors: TypeAlias = tuple[Factor, ...]
"""What an axis counts: nothing known, one factor, or several if it has a row for each stream of each step.

The last factor changes with every row.
"""


@dataclass(frozen=True, slots=True)
class BindingLayout:
    """The layout of an input or output.

    ``axes`` are the factors of each axis. ``from_caffe`` are the operations that turn an array in Caffe's layout into
    one in this layout, ``to_caffe`` those that turn it back. Both are empty in Caffe's own layout.
    """

    axes: tuple[Factors, ...]
    from_caffe: tuple[Op, ...] = ()
    to_caffe: tuple[Op, ...] = ()

    @property
    def names(self) -> tuple[str | None, ...]:
        """The name of each axis: ``"N"``, ``"T"``, ``"T*N"``; None if it is neither."""
        return tuple("*".join(factor.name for factor in factors) or None for factors in self.axes)

    def array_from_caffe(self, array: Array, sizes: Mapping[str, int] | None = None) -> Array:
        """This array in Caffe's layout, moved to this layout. Rows (T*N, ...) need the sizes of T and N, by symbol."""
        return _move(array, self.from_caffe, sizes or {})

    def array_to_caffe(self, array: Array) -> Array:
        """This array in this layout, moved to Caffe's."""
        return _move(array, self.to_caffe, self.sizes(array))

    def sizes(self, array: Array) -> dict[str, int]:
        """The sizes of steps and streams that vary, of an array in this layout."""
        return {
            factor.size: size
            for factors, size in zip(self.axes, array.shape, strict=True)
            for factor in factors
            if isinstance(factor.size, str) and len(factors) == 1
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """How the axes of a graph's inputs and outputs are ordered: ``name`` as in ``RewriteOptions``.

    ``bindings`` has the layout of each input and output, by name; none before the graph is rewritten.
    """

    name: LayoutName = "caffe"
    bindings: Mapping[str, BindingLayout] = field(default_factory=dict)

    def from_caffe(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays by the names of inputs and outputs, moved from Caffe's layout; others stay as they are."""
        moved, sizes = dict(arrays), dict[str, int]()
        bound_axes = [(name, self.bindings[name]) for name in arrays if name in self.bindings]
        # Rows (T*N, ...) come last: which T and N that is, other inputs tell.
        for name, layout in sorted(bound_axes, key=lambda each: len(each[1].axes) > arrays[each[0]].ndim):
            moved[name] = layout.array_from_caffe(arrays[name], sizes)
            sizes.update(layout.sizes(moved[name]))
        return moved

    def to_caffe(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays by the names of inputs and outputs, moved to Caffe's layout; others stay as they are."""
        return {
            name: self.bindings[name].array_to_caffe(array) if name in self.bindings else array
            for name, array in arrays.items()
        }


def stream_axis(names: Iterable[str | None]) -> int | None:
    """The axis of the streams among axes of these names, if it is known."""
    return next((axis for axis, name in enumerate(names) if name == STREAMS), None)


def _move(array: Array, ops: Iterable[Op], sizes: Mapping[str, int]) -> Array:
    for op in ops:
        (array,) = op.at(sizes).evaluate(array)
    return array
