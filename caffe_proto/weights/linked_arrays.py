"""Arrays that hold the same numbers in other places, filled from those whose numbers are known.

A place is the number of a piece of memory, the offset of the first element there, and the step along each axis, in
bytes: an init net may hold other bytes between the numbers. A link is
``(shape, place, places, factor, summand)``: what is at the first place is ``factor`` times the sum of what is at the
others, plus ``summand``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from prototrt.caffe_proto.weights import Array

Place: TypeAlias = Sequence[int]
Shape: TypeAlias = Sequence[int]
_BYTE_OF_NAN = 255
"""Four of them are a NaN, wherever an element begins."""
Link: TypeAlias = tuple[Shape, Place, Sequence[Place], float, float]


def view_at(memory: Sequence[Array], place: Place, shape: Shape) -> Array:
    """What is at a place. Raises ``ValueError`` if that is outside of its piece of memory."""
    number, first, *steps = place
    return np.ndarray(shape, np.float32, memory[number], first, steps)


def fill(
    sizes: Sequence[int], facts: Iterable[tuple[Place, Array]], links: Iterable[Link]
) -> tuple[list[Array], bool]:
    """Pieces of memory of these sizes, with NaN where nothing is known; and whether all that is known agrees."""
    memory = [np.full(size, _BYTE_OF_NAN, np.uint8) for size in sizes]
    held = [(view_at(memory, place, numbers.shape), numbers) for place, numbers in facts]
    views = [
        (
            view_at(memory, made, shape),
            [view_at(memory, source, shape) for source in sources],
            np.float32(factor),
            np.float32(summand),
        )
        for shape, made, sources, factor, summand in links
    ]
    for target, numbers in held:
        target[...] = numbers
    unknown, before = 0, -1
    while unknown != before:
        for made, sources, factor, summand in views:
            np.copyto(made, factor * sum(sources) + summand, where=np.isnan(made))
            for source in sources:
                others = sum(other for other in sources if other is not source)
                np.copyto(source, (made - summand) / factor - others, where=np.isnan(source))
        before = unknown
        unknown = sum(int(np.isnan(view).sum()) for made, sources, *_ in views for view in (made, *sources))
    agrees = all(_are_close(target, numbers) for target, numbers in held) and all(
        _are_close(made, np.asarray(factor * sum(sources) + summand))
        for made, sources, factor, summand in views
    )
    return memory, agrees


def _are_close(a: Array, b: Array) -> bool:
    """Whether numbers are the same, as far as both are known."""
    is_unknown = np.isnan(a) | np.isnan(b)
    return bool((is_unknown | np.isclose(a, b, rtol=1e-5, atol=1e-6)).all())
