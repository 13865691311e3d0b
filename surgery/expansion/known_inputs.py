"""Facts about a net's inputs that its file does not state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prototrt.caffe_proto.options import Shapes
from prototrt.caffe_proto.wording import Option
from prototrt.surgery.ir import Range
from prototrt.surgery.ir.profiles import Profile, Sizes
from prototrt.surgery.options import RewriteOptions


@dataclass(frozen=True, slots=True)
class KnownInputs:
    """Shapes that override those of the file, ranges, and the inputs that hold int32 (``whole_numbers``).

    ``example`` returns an option that states the shape of an input.
    """

    shapes: Mapping[str, Sizes]
    profile: Profile
    whole_numbers: frozenset[str]
    example: Callable[[str], Option]

    def ranges(self, name: str, stated: Sizes | None) -> list[Range]:
        """The range of each axis, where the file states this shape. Raises ``ShapeError``."""
        return self.profile.ranges(name, self.shapes.get(name, stated), self.example)


def given_shapes(options: RewriteOptions) -> dict[str, Sizes]:
    return _sizes(options.shapes)


def profile_of(options: RewriteOptions) -> Profile:
    return Profile(_sizes(options.min_shapes), _sizes(options.opt_shapes), _sizes(options.max_shapes))


def _sizes(shapes: Shapes | None) -> dict[str, Sizes]:
    return {name: tuple(shape) for name, shape in (shapes or {}).items()}
