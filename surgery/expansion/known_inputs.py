"""Facts about a net's inputs that its file does not state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.options import Shapes
from prototrt.caffe_proto.common.wording import Option
from prototrt.surgery.expansion.stated_sizes import open_shapes
from prototrt.surgery.ir import Range, Shape, computable, range_of
from prototrt.surgery.ir.profiles import Profile, SizeNames, Sizes
from prototrt.surgery.options import RewriteOptions


@dataclass(frozen=True, slots=True)
class KnownInputs:
    """Shapes that override those of the file, ranges, and the inputs that hold int32 (``whole_numbers``).

    ``example`` returns an option that states the shape of an input. ``letters(input, number of axes)`` are T and N, or
    "" for others, of its first axes. ``formulas`` are shapes with names of sizes;
    ``shapes`` has their usual sizes. ``stated`` are the shapes of the file.
    """

    shapes: Mapping[str, Sizes]
    profile: Profile
    whole_numbers: frozenset[str]
    example: Callable[[str], Option]
    letters: Callable[[str, int], Sequence[str]]
    formulas: Mapping[str, Shape]
    stated: Mapping[str, Sizes]

    def ranges(self, name: str, stated: Sizes | None) -> list[Range]:
        """The range of each axis, where the file states this shape. Raises ``ShapeError``."""
        return self.profile.ranges(name, self.shapes.get(name, stated), self.example)

    def size_names(self) -> SizeNames:
        """The symbols of inputs."""
        expected: dict[str, Sequence[Range]] = {}
        for name in self.profile.names():
            with suppress(ShapeError):  # which the rule of the input raises again
                expected[name] = self.ranges(name, self.stated.get(name))
        return SizeNames(self.letters, expected)


def given_shapes(options: RewriteOptions) -> dict[str, Sizes]:
    """The shapes of inputs; the usual ones where sizes vary."""
    varying = open_shapes(options)
    return {
        name: tuple(range_of(computable(dim)).opt for dim in varying[name])
        if name in varying
        else tuple(map(int, shape))
        for name, shape in (options.shapes or {}).items()
    }


def profile_of(options: RewriteOptions) -> Profile:
    return Profile(_sizes(options.min_shapes), _sizes(options.opt_shapes), _sizes(options.max_shapes))


def _sizes(shapes: Shapes | None) -> dict[str, Sizes]:
    return {name: tuple(shape) for name, shape in (shapes or {}).items()}
