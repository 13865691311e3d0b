"""Ranges for the sizes that usually vary: the batch, the number of steps, height and width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prototrt.caffe_proto.errors import OptionsError
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.surgery.ir import Range
from prototrt.surgery.ir.profiles import Profile, Sizes
from prototrt.surgery.ir.shapes import ranges as told_ranges
from prototrt.surgery.options import RewriteOptions

_LARGEST = {"N": 16, "T": 64}
"""Streams and steps, unless the net states more."""
_MEANT = {"batch": "N", "time": "T", "size": "HW"}


def with_dynamic_sizes(
    profile: Profile,
    options: RewriteOptions,
    stated: Mapping[str, Sizes],
    letters: Callable[[str, int], Sequence[str]],
) -> Profile:
    """The profile, and ranges of what ``options.dynamic`` names, for inputs that have no ranges yet.

    ``stated`` are the usual shapes of inputs, ``letters`` the names of their first axes, as far as they are T and N.
    Raises ``OptionsError`` if no input has such an axis.
    """
    if not options.dynamic:
        return profile
    wanted = {letter for word in options.dynamic for letter in _MEANT[word]}
    found: set[str] = set()
    ranges: dict[str, list[Range]] = {}
    for name, shape in stated.items():
        axes = _axes(letters(name, len(shape)), len(shape))
        open_axes = [letter if letter in wanted else "" for letter in axes]
        found.update(open_axes)
        if name not in profile.names():
            ranges[name] = [_range(*axis) for axis in zip(open_axes, shape, strict=True)]
    for word in options.dynamic:
        if not found.intersection(_MEANT[word]):
            raise OptionsError(
                Worded("{} is given, but no input has such an axis", Option("dynamic", [word])),
                fix=Worded("state ranges with {} and {}", Option("min_shapes"), Option("max_shapes")),
            )
    varying = {name: spans for name, spans in ranges.items() if any(span.varies for span in spans)}
    return Profile(
        {**profile.min, **{name: tuple(span.min for span in spans) for name, spans in varying.items()}},
        {**profile.opt, **{name: tuple(span.opt for span in spans) for name, spans in varying.items()}},
        {**profile.max, **{name: tuple(span.max for span in spans) for name, spans in varying.items()}},
    )


def told_sizes(options: RewriteOptions, symbols: Mapping[str, Range]) -> str:
    """The warning that says which sizes vary, and how far."""
    return Worded("with {}, {}", Option("dynamic", list(options.dynamic)), told_ranges(symbols))


def _axes(first: Sequence[str], rank: int) -> list[str]:
    """The letters of all axes, "" for one that has none. An image (N, C, H, W) has four axes."""
    if rank == 4 and "T" not in first:
        return [*(first or [""]), "", "H", "W"][-4:]
    return [*first, *[""] * (rank - len(first))]


def _range(letter: str, size: int) -> Range:
    if letter in _LARGEST:
        return Range(1, size, max(size, _LARGEST[letter]))
    return Range(max(size // 2, 1), size, 2 * size) if letter else Range(size, size, size)
