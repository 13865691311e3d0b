"""Sizes that are known only when an engine runs: from ranges of input shapes to symbols."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wording import Option, SizeSymbol, Together, Worded
from prototrt.surgery.ir import Dim, OpenSize, Range, Shape
from prototrt.surgery.ir.dimensions import RangeSource

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """The smallest, usual and largest shape of inputs, by name.

    The default is the shape that the net states (or ``shapes`` of ``rewrite``). ``dynamic`` are inputs whose ranges
    were chosen for the user.
    """

    min: Mapping[str, Sizes] = field(default_factory=dict)
    opt: Mapping[str, Sizes] = field(default_factory=dict)
    max: Mapping[str, Sizes] = field(default_factory=dict)
    dynamic: frozenset[str] = frozenset()

    def names(self) -> set[str]:
        return {*self.min, *self.opt, *self.max}

    def ranges(self, name: str, dims: Sizes | None, example: Callable[[str], Option]) -> list[Range]:
        """The range of each axis of an input. Raises ``ShapeError``, with an example of an option that helps.

        ``example`` returns one for a name.
        """
        shapes = (self.opt.get(name, dims), self.max.get(name), self.min.get(name))
        usual = next((shape for shape in shapes if shape is not None), None)  # () is the shape of one number
        if usual is None:
            fix = Worded("give one: {}", example(name))
            raise ShapeError("the file states no shape", blob=f'top "{name}"', fix=fix)
        least, most = self.min.get(name, usual), self.max.get(name, usual)
        if not len(least) == len(usual) == len(most):
            raise ShapeError(
                f"the smallest, usual and largest shapes {least}, {usual} and {most} have different numbers of axes",
                blob=f'top "{name}"',
                fix="give all three the same number of axes",
            )
        source: RangeSource = "dynamic" if name in self.dynamic else "ranges"
        ranges = [Range(*sizes, source=source) for sizes in zip(least, usual, most, strict=True)]
        for axis, span in enumerate(ranges):
            _refuse_range(name, axis, span, usual)
        return ranges


def _refuse_range(name: str, axis: int, span: Range, usual: Sizes) -> None:
    """Raise ``ShapeError`` unless sizes are at least 1 and increase; ``usual`` are those of all axes."""
    if span.min == span.opt == span.max < 1:
        sound = tuple(max(size, 1) for size in usual)
        fix = Worded("correct the shape in the file, or give one: {}", Option("shapes", {name: sound}))
        raise ShapeError(
            f"axis {axis} has the size {span.opt}, expected at least 1",
            blob=f'top "{name}"',
            fix=_for_sizes_that_vary(name, usual) if -1 in usual and min(usual) == -1 else fix,
        )
    if not 1 <= span.min <= span.opt <= span.max:
        raise ShapeError(
            f"axis {axis} has the smallest, usual and largest sizes {span.min}, {span.opt} and {span.max}",
            blob=f'top "{name}"',
            because="sizes are at least 1 and must not decrease in this order",
            fix=Worded(
                "correct {}, or {}, {} and {}",
                *(Option(option) for option in ("shapes", "min_shapes", "opt_shapes", "max_shapes")),
            ),
        )


def _for_sizes_that_vary(name: str, usual: Sizes) -> Worded:
    """What helps with sizes of -1, which programs write for sizes that vary, and Caffe does not take."""
    letters = _IMAGE if len(usual) == len(_IMAGE) else ("N", *(f"D{axis}" for axis in range(1, len(usual))))
    varying = tuple(
        SizeSymbol(letter) if size == -1 else max(size, 1)
        for letter, size in zip(letters, usual, strict=False)
    )
    sides = [size for size in usual[2:] if size > 1]
    ranges = {
        letter: (max(1, sides[0] // 2), 2 * sides[0]) if sides and axis > 1 else (1, 8)
        for axis, (letter, size) in enumerate(zip(letters, usual, strict=False))
        if size == -1
    }
    return Worded(
        "a size of -1 varies: name it, and state its range, as in {}; or correct the shape in the file",
        Together([Option("shapes", {name: varying}), Option("sizes", ranges)]),
    )


_IMAGE = "NCHW"
"""The axes of an input that has four, outside of recurrent nets."""


class SizeNames:
    """The symbols of inputs: ``T`` and ``N`` where that is known, ``H`` and ``W`` of an image.

    Others are called after the input and the axis, as in ``data.0``.

    ``letters(input, number of axes)`` are T and N, or "" for others, of an input's first axes;
    ``expected`` are the ranges of inputs that come later.
    """

    def __init__(
        self, letters: Callable[[str, int], Sequence[str]], expected: Mapping[str, Sequence[Range]]
    ) -> None:
        self._letters = letters
        self._places: dict[str, int] = {}
        self._claimed: dict[Range, str] = {}
        # Steps come first: the first axis of an image in a recurrent net is T, if N is 1, or N, if T is 1.
        for name in sorted(expected, key=lambda name: "T" not in letters(name, len(expected[name]))):
            spans = expected[name]
            for letter, span in zip(letters(name, len(spans)), spans, strict=False):
                if (
                    letter
                    and span.varies
                    and span not in self._claimed
                    and letter not in self._claimed.values()
                ):
                    self._claimed[span] = letter

    def symbolic(self, name: str, ranges: Sequence[Range], symbols: dict[str, Range]) -> Shape:
        """The shape of an input: an axis with a fixed size is a number, an axis with a range is a symbol.

        Axes of the same range share a symbol, since x and cont grow together: the one that has this letter or else
        the axis at the same place first, but never two axes of one input. New symbols are added to ``symbols``.
        """
        shape: list[Dim] = []
        letters = dict(enumerate(self._letters(name, len(ranges))))
        for axis, span in enumerate(ranges):
            if not span.varies:
                shape.append(span.max)
                continue
            same = [symbol for symbol, other in symbols.items() if other == span and symbol not in shape]
            letter = letters.get(axis)
            same.sort(key=lambda symbol: (symbol != letter, self._places.get(symbol) != axis))
            symbol = same[0] if same else self._new(name, axis, ranges, symbols)
            self._places.setdefault(symbol, axis)
            symbols[symbol] = span
            shape.append(OpenSize.symbol(symbol, span))
        return tuple(shape)

    def _new(self, name: str, axis: int, ranges: Sequence[Range], taken: Iterable[str]) -> str:
        first = self._letters(name, len(ranges))
        own = [letter for letter in first[axis : axis + 1] if letter not in self._claimed.values()]
        if len(ranges) == len(_IMAGE) and "T" not in first and axis > 1:
            own.append(_IMAGE[axis])
        claimed = self._claimed.get(ranges[axis])
        names = set(taken)
        letters = (letter for letter in (claimed, *own) if letter and letter not in names)
        # The name also stands in sums and products, where - and * have a meaning.
        plain = f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}.{axis}"
        return next(letters, None) or Names(names).free(plain)
