"""Arrays that remember of which arrays they were made, so that numbers learned in one are known in the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir.shapes import Array


@dataclass(frozen=True, slots=True, eq=False)
class Derivation:
    """``made`` is ``factor`` times the sum of the sources, plus ``summand``: views of the same shape."""

    made: Array
    sources: Sequence[Array]
    factor: float = 1.0
    summand: float = 0.0


class MadeArray(np.ndarray):
    """An array that was computed of ``sources``. It owns its numbers: views of it lead to it by their ``base``."""

    sources: Sequence[Array] = ()
    axis: int | None = None
    """Along which the sources stand; None for their sum."""
    factor, summand = 1.0, 0.0

    def links(self) -> Iterator[Derivation]:
        """From each part to what it was made of."""
        if self.axis is None:
            yield Derivation(self, self.sources, self.factor, self.summand)
        else:
            ends = np.cumsum([source.shape[self.axis] for source in self.sources])[:-1]
            for part, source in zip(np.split(self, ends, self.axis), self.sources, strict=True):
                yield Derivation(part, (source,))


def join_of(sources: Sequence[Array], axis: int = 0) -> MadeArray:
    """The arrays one after another along an axis."""
    sizes = [*sources[0].shape]
    sizes[axis] = sum(source.shape[axis] for source in sources)
    made = MadeArray(sizes, np.result_type(*sources))
    np.concatenate(sources, axis, out=made)
    made.sources, made.axis = sources, axis
    return made


def sum_of(*sources: Array, factor: float = 1.0, summand: float = 0.0) -> MadeArray:
    """``factor`` times the sum of the arrays, plus ``summand``."""
    first, *others = sources
    made = MadeArray(first.shape, first.dtype)
    made[...] = first
    for other in others:
        made += other
    made *= made.dtype.type(factor)
    made += made.dtype.type(summand)
    made.sources, made.factor, made.summand = sources, factor, summand
    return made


def unit_matrix(rows: int, columns: int) -> Array:
    """The first rows of the identity, made of two numbers."""
    one, zeros = (np.broadcast_to(np.float32(number), size) for number, size in ((1, 1), (0, columns)))
    return join_of([one, zeros] * rows)[: rows * columns].reshape(rows, columns)


def owner_of(array: Array) -> MadeArray | None:
    """The computed array that an array is or views."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if isinstance(owner, MadeArray) and owner.sources:
            return owner
        owner = owner.base
    return None


def links_of(arrays: Iterable[Array]) -> Iterator[Derivation]:
    """Of what these arrays were made, and in turn what that was made of."""
    waiting, seen = [*arrays], set[int]()
    while waiting:
        owner = owner_of(waiting.pop())
        if owner is not None and id(owner) not in seen:
            seen.add(id(owner))
            yield from (link for link in owner.links() if link.made.size)
            waiting += owner.sources
