"""Ranges for the sizes that usually vary: the batch, the number of steps, height and width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.wording import Option, SizeSymbol, Together, Worded, listed
from prototrt.surgery.ir import OpenSize, Range, Shape, Size
from prototrt.surgery.ir.profiles import Profile, Sizes
from prototrt.surgery.ir.shapes import ranges as ranges_text
from prototrt.surgery.options import LETTERS, RewriteOptions, VaryingSize

_LARGEST = {"N": 16, "T": 64}
"""Streams and steps, unless the net states more."""
_ROWS = "T*N"
_IMAGE = "NCHW"
Letters: TypeAlias = Callable[[str, int], Sequence[str]]


def with_dynamic_sizes(
    profile: Profile,
    options: RewriteOptions,
    shapes: Mapping[str, Sizes],
    letters: Letters,
    own_ranges: Mapping[str, Range],
    in_net: Sizes | None = None,
) -> tuple[Profile, dict[str, Shape]]:
    """The profile, and ranges of what ``options.dynamic`` names, for inputs that have no ranges yet.

    Also the shapes of inputs where the net has one with a row for each stream of each step, (T*N, ...).
    ``shapes`` are the usual shapes of inputs, ``letters`` are T and N, or "" for others, of their first axes.
    ``own_ranges`` are those that the user gives for letters. ``in_net`` are the steps and streams into which the net
    itself cuts rows.
    Raises ``OptionsError`` if no input has such an axis.
    """
    axes = {name: _axes(letters(name, len(shape)), len(shape)) for name, shape in shapes.items()}
    rows = _with_rows(axes, shapes, in_net)
    chosen = {letter: own_ranges.get(letter) for word in options.dynamic for letter in LETTERS[word]}
    for word in options.dynamic:
        if not (rows and word != "size") and not any(
            {*LETTERS[word]}.intersection(letters) for letters in axes.values()
        ):
            is_named = bool(_names_of_user(options))
            raise _named_axes_error(word, options) if is_named else _missing_axis_error(word, shapes)
    others = {name: shape for name, shape in shapes.items() if name not in profile.names()}
    if rows:
        if len(others) < len(shapes):
            raise _rows_error(rows[0], shapes[rows[0]], options)
        return profile, _formulas(axes, shapes, chosen, in_net)
    ranges = {
        name: [_range(letter, size, chosen) for letter, size in zip(axes[name], shape, strict=True)]
        for name, shape in others.items()
    }
    varying = {
        name: spans
        for name, spans in ranges.items()
        if any(span.varies or span.opt != size for span, size in zip(spans, shapes[name], strict=True))
    }
    return Profile(
        {**profile.min, **{name: tuple(span.min for span in spans) for name, spans in varying.items()}},
        {**profile.opt, **{name: tuple(span.opt for span in spans) for name, spans in varying.items()}},
        {**profile.max, **{name: tuple(span.max for span in spans) for name, spans in varying.items()}},
        frozenset(varying),
    ), {}


def _with_rows(axes: dict[str, list[str]], shapes: Mapping[str, Sizes], in_net: Sizes | None) -> list[str]:
    """The inputs whose first axis has a row for each stream of each step; their letter becomes T*N.

    They state as many rows as the sequences have steps and streams together.
    """
    steps, streams = _steps_and_streams(axes, shapes, in_net)
    rows = [
        name
        for name, letters in axes.items()
        if letters[:1] in (["N"], [""] if in_net else ["N"])
        and steps > 1
        and shapes[name][0] == steps * streams
    ]
    for name in rows:
        axes[name][0] = _ROWS
    return rows


def _steps_and_streams(
    axes: Mapping[str, Sequence[str]], shapes: Mapping[str, Sizes], in_net: Sizes | None
) -> Sizes:
    """The usual numbers of steps and streams; one step of one stream if neither an input nor the net says."""
    of_inputs = (shapes[name][:2] for name, letters in axes.items() if letters[:2] == ["T", "N"])
    return next(of_inputs, in_net or (1, 1))


def _formulas(
    axes: Mapping[str, Sequence[str]],
    dims_by_input: Mapping[str, Sizes],
    chosen: Mapping[str, Range | None],
    in_net: Sizes | None,
) -> dict[str, Shape]:
    """The shapes of all inputs in which something varies. Equal ranges of one letter are one size."""
    names, symbols = Names(), dict[tuple[str, Range], OpenSize]()

    def size(letter: str, usual: int) -> Size:
        span = _range(letter, usual, chosen)
        if not span.varies:
            return span.opt
        if (letter, span) not in symbols:
            symbols[letter, span] = OpenSize.symbol(names.free(letter), span)
        return symbols[letter, span]

    steps, streams = map(size, "TN", _steps_and_streams(axes, dims_by_input, in_net))
    shapes = {
        name: tuple(
            steps * streams if letter == _ROWS else size(letter, usual)
            for letter, usual in zip(axes[name], shape, strict=True)
        )
        for name, shape in dims_by_input.items()
    }
    return {name: shape for name, shape in shapes.items() if any(isinstance(dim, OpenSize) for dim in shape)}


def sizes_text(options: RewriteOptions, symbols: Mapping[str, Range]) -> str:
    """The warning that says which sizes vary, and how far."""
    return Worded("with {}, {}", Option("dynamic", list(options.dynamic)), ranges_text(symbols))


def _axes(first: Sequence[str], rank: int) -> list[str]:
    """The letters of all axes, "" for one that has none. An image (N, C, H, W) has four axes."""
    letters = [*first, *[""] * (rank - len(first))]
    return [*letters[:2], "H", "W"] if rank == len(_IMAGE) and "T" not in first else letters


def _range(letter: str, size: int, chosen: Mapping[str, Range | None]) -> Range:
    """The range of the user for a letter, or a usual one; a letter that is not chosen has one size."""
    if letter not in chosen:
        return Range(size, size, size)
    own = chosen[letter]
    return _usual_range(letter, size) if own is None else own


def _usual_range(letter: str, size: int) -> Range:
    if letter in _LARGEST:
        return Range(1, size, max(size, _LARGEST[letter]), source="dynamic")
    return Range(max(size // 2, 1), size, 2 * size, source="dynamic")


def _missing_axis_error(word: VaryingSize, shapes: Mapping[str, Sizes]) -> OptionsError:
    """The error for a net whose inputs have no such axis. It says how to name the size of another one."""
    place, letter = (-1, "W") if word == "size" else (0, LETTERS[word])
    named = next(((name, shape) for name, shape in shapes.items() if shape), None)
    fix = Worded("leave out {}", Option("dynamic"))
    if named is not None:
        name, shape = named
        sizes: list[int | str] = list(shape)
        sizes[place] = SizeSymbol(letter)
        span = _usual_range(letter, shape[place])
        ranges = {letter: (span.min, span.opt, span.max)}
        shown = Together([Option("shapes", {name: sizes}), Option("sizes", ranges)])
        fix = Worded("name the size that varies, as in {}, instead of {}", shown, Option("dynamic", [word]))
    return OptionsError(
        Worded("{} is given, but no input has such an axis", Option("dynamic", [word])), fix=fix
    )


def _names_of_user(options: RewriteOptions) -> list[str]:
    """The inputs some of whose sizes the user has named."""
    return [
        name for name, shape in (options.shapes or {}).items() if any(isinstance(dim, str) for dim in shape)
    ]


def _named_axes_error(word: str, options: RewriteOptions) -> OptionsError:
    """The error for an axis that the user may have named already."""
    names = _names_of_user(options)
    return OptionsError(
        Worded("{} finds no axis of its own", Option("dynamic", [word])),
        because=Worded(
            "{} names the sizes that vary of {}", Option("shapes"), listed([f'"{name}"' for name in names])
        ),
        fix=Worded("leave out {}", Option("dynamic")),
    )


def _rows_error(name: str, shape: Sizes, options: RewriteOptions) -> OptionsError:
    """The error for ranges of some inputs, where others are to be products of sizes without a name."""
    rows = Option("shapes", {name: (SizeSymbol(_ROWS), *shape[1:])})
    ranges = [
        each for each in ("dynamic", "min_shapes", "opt_shapes", "max_shapes") if getattr(options, each)
    ]
    return OptionsError(
        Worded('{} cannot determine how many rows "{}" has', Option("dynamic"), name),
        because="it has a row for each stream of each step, and the ranges of other inputs are given without names",
        fix=Worded(
            "name the sizes of all inputs, as in {}, and their ranges with {} instead of {}",
            rows,
            Option("sizes"),
            Worded.joined(", ", [Worded("{}", Option(each)) for each in ranges]),
        ),
    )
