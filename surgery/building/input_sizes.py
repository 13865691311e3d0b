"""The sizes of a net's inputs, as the user gives them: shapes, ranges, and sizes with names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from prototrt.caffe_proto.common.errors import OptionsError, ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, SizeSymbol, Worded, excerpt
from prototrt.surgery.ir import Graph, Range, Shape, Size, computable, range_of, size_from_text, symbols_of
from prototrt.surgery.ir.profiles import Profile, SizeNames, Sizes
from prototrt.surgery.ir.shapes import sizes as shown
from prototrt.surgery.ir.shapes import symbol_sources
from prototrt.surgery.options import LETTERS, RewriteOptions


def open_shapes(options: RewriteOptions) -> Mapping[str, Shape]:
    """The shapes in which names stand. Raises ``OptionsError`` for those that say nothing, and for unused names."""
    ranges = ranges_of(options)
    shapes = {
        name: tuple(_size(name, dim, ranges) for dim in shape)
        for name, shape in (options.shapes or {}).items()
        if any(isinstance(dim, str) for dim in shape)
    }
    used = {
        word
        for name in shapes
        for dim in (options.shapes or {})[name]
        if isinstance(dim, str)
        for word in _WORD.findall(dim)
    }
    letters = [letter for word in options.dynamic for letter in LETTERS[word]]
    for name in ranges:
        if name not in {*used, *letters}:
            raise OptionsError(
                Worded("{} has a range for {}, but no shape has that size", Option("sizes"), name),
                fix=_unused_range_fix(name, letters),
            )
    _refuse_two_ranges(options, shapes)
    return shapes


def ranges_of(options: RewriteOptions) -> dict[str, Range]:
    """The ranges that the user gives, by the names of sizes."""
    return {name: _range(name, sizes) for name, sizes in (options.sizes or {}).items()}


def _unused_range_fix(name: str, letters: Sequence[str]) -> str:
    word = next((word for word, own in LETTERS.items() if name in own), None)
    if word is None and letters:
        return f"call the size {' or '.join(letters)}"
    shape = Option("shapes", {"data": (SizeSymbol(name), 3, 224, 224)})
    written = Worded("write {} into a shape, as in {}", name, shape)
    return written if word is None else Worded("add {}, or {}", Option("dynamic", [word]), written)


def _refuse_two_ranges(options: RewriteOptions, formulas: Mapping[str, Shape]) -> None:
    """Raise ``OptionsError`` for an open shape that also has a smallest, usual or largest shape."""
    for name in formulas:
        profile = ("min_shapes", "opt_shapes", "max_shapes")
        own = [option for option in profile if name in (getattr(options, option) or ())]
        if own:
            raise OptionsError(
                Worded('{} names sizes of "{}", which also has a range of shapes', Option("shapes"), name),
                fix=Worded.joined(" and ", [Worded("leave out {}", Option(option)) for option in own]),
            )


def refuse_unknown_sizes(graph: Graph) -> None:
    """Raise ``ShapeError`` for a size that no input of the graph tells."""
    sources = symbol_sources(graph.inputs)
    for value in graph.inputs:
        for dim in value.shape:
            missing = {name: span for name, span in symbols_of(dim).items() if name not in sources}
            if missing:
                raise ShapeError(
                    f'input "{value.name}" has the shape {shown(value.shape)}, from which'
                    f" {' and '.join(missing)} cannot be computed",
                    because="an input must have the size alone, or as in 2*X+1",
                    fix=_one_size(*next(iter(missing.items()))),
                )


def _one_size(name: str, span: Range) -> str:
    """Advice about one of several symbols in a product."""
    if span.source == "dynamic":
        return Worded(
            "let only one of them vary: {}", Option("dynamic", ["batch" if name == "T" else "time"])
        )
    one = Option("sizes", {name: (span.opt, span.opt)})
    return Worded("give {} one size, {}; or name the sizes of another input that has it", name, one)


_WORD = re.compile(r"[A-Za-z0-9_]+")


def _range(name: str, sizes: Sequence[int]) -> Range:
    if not (name.isascii() and name.isidentifier()):
        raise OptionsError(
            Worded('{} has the name "{}", expected letters, digits and _', Option("sizes"), name),
            fix=_example("N"),
        )
    if len(sizes) not in (2, 3) or list(sizes) != sorted(sizes) or sizes[0] < 1:
        raise OptionsError(
            Worded(
                "{} has the sizes {} for {}, expected the smallest, usual and largest, of at least 1",
                Option("sizes"),
                ", ".join(map(str, sizes)),
                name,
            ),
            fix=_example(name),
        )
    return Range(sizes[0], sizes[-2] if len(sizes) == 3 else sizes[-1], sizes[-1], source="sizes")


def _example(name: str) -> Worded:
    return Worded("write three sizes in increasing order, as in {}", Option("sizes", {name: (1, 8, 64)}))


def _ranges_for(words: Iterable[str]) -> str:
    """Advice about the names in a formula that have no range; about the formula where all have one."""
    missing = {word: (1, 8, 64) for word in words if word.isidentifier()}
    if not missing:
        return "write a name, or a formula of names and numbers, such as 2*H+1"
    return Worded("give each name a range, as in {}", Option("sizes", missing))


def _size(blob: str, dim: int | str, ranges: Mapping[str, Range]) -> Size:
    if isinstance(dim, int):
        return dim
    # A name with one size is a number.
    numbers = {name: str(span.min) for name, span in ranges.items() if not span.varies}
    text = _WORD.sub(lambda word: numbers.get(word[0], word[0]), dim.replace(" ", ""))
    try:
        size = size_from_text(text, ranges)
    except ValueError as error:
        raise OptionsError(
            Worded('{} has the size "{}" of "{}": {}', Option("shapes"), excerpt(dim), blob, error),
            fix=_ranges_for(word for word in _WORD.findall(text) if word not in ranges),
        ) from None
    if range_of(size).min < 1:
        raise OptionsError(
            Worded(
                '{} has the size "{}" of "{}", which may be {}',
                Option("shapes"),
                dim,
                blob,
                range_of(size).min,
            ),
            fix=Worded("give its names larger sizes in {}", Option("sizes")),
        )
    return size


@dataclass(frozen=True, slots=True)
class InputSizes:
    """Shapes that override those of the file, ranges, and the inputs that hold int32 (``whole_numbers``).

    ``example`` returns an option that states the shape of an input. ``letters(input, number of axes)`` are T and N, or
    "" for others, of its first axes. ``formulas`` are shapes with names of sizes;
    ``shapes`` has their usual sizes. ``shapes_in_file`` are those that the file states.
    """

    shapes: Mapping[str, Sizes]
    profile: Profile
    whole_numbers: frozenset[str]
    example: Callable[[str], Option]
    letters: Callable[[str, int], Sequence[str]]
    formulas: Mapping[str, Shape]
    shapes_in_file: Mapping[str, Sizes]

    def ranges(self, name: str, dims: Sizes | None) -> list[Range]:
        """The range of each axis, where the file states this shape. Raises ``ShapeError``."""
        return self.profile.ranges(name, self.shapes.get(name, dims), self.example)

    def size_names(self) -> SizeNames:
        """The symbols of inputs."""
        expected: dict[str, Sequence[Range]] = {}
        for name in self.profile.names():
            with suppress(ShapeError):  # which the rule of the input raises again
                expected[name] = self.ranges(name, self.shapes_in_file.get(name))
        return SizeNames(self.letters, expected)


def shapes_of_options(options: RewriteOptions) -> dict[str, Sizes]:
    """The shapes of inputs; the usual ones where sizes vary."""
    varying = open_shapes(options)
    return {
        name: tuple(range_of(computable(dim)).opt for dim in varying[name])
        if name in varying
        else tuple(map(int, shape))
        for name, shape in (options.shapes or {}).items()
    }


def profile_of(options: RewriteOptions) -> Profile:
    profile_shapes = (options.min_shapes, options.opt_shapes, options.max_shapes)
    least, usual, most = (
        {name: tuple(sizes) for name, sizes in (each or {}).items()} for each in profile_shapes
    )
    return Profile(least, usual, most)
