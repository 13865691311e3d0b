"""Shapes of inputs with which the layers of a net fit, where nobody states them: usual sizes are tried in turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import prod
from types import MappingProxyType

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.visible import visible
from prototrt.caffe_proto.layer_types import layer_type

Sizes = tuple[int, ...]
Letters = Mapping[str, Sequence[int | str]]
"""Shapes by blobs, with letters for sizes that nobody states."""
Misfits = Callable[[Mapping[str, Sizes]], Sequence[ConversionError]]
"""What is wrong with a net whose inputs have these shapes, beside what is wrong with any."""

USUAL = {"N": 1, "T": 8, "C": 3, "L": 16, "H": 224, "W": 224, "I": 256}
"""Sizes for letters; 1 for others."""
_IMAGES = (
    *((size, size) for size in (256, 227, 299, 300, 320, 321, 384, 416, 448, 512, 513, 608)),
    *((360, 480), (480, 640), (384, 512), (720, 1280)),
    *((size, size) for size in (128, 112, 96, 64, 48, 40, 32, 28, 24, 16, 12)),
    *((112, 96), (24, 94), (32, 100), (32, 280), (36, 100)),
)
"""Heights and widths of images, the most usual first."""
_LINES = ((32, 100),)
"""Those of CRNN: lines of text, whose columns are the steps."""
_SHRINKING = (1, 2, 4, 8, 16, 32, 64)
_REMAINDERS = tuple((size, size) for size in range(217, 233))
"""Those with each remainder of usual strides."""
_CHANNELS, _ROWS = (1, 4, 2, 6), (512, 1024, 2048, 4096, 128)
_OTHER_AXES: tuple[Sizes, ...] = ((1, 256), (1,), (1, 5), (1, 3))
"""Shapes of what is no image: vectors, numbers, rois, facts of an image."""
_MOST_OUTPUTS = 6
_MOST_LAYERS, _FEWEST_TRIALS, _MOST_TRIALS = 12000, 20, 400
_EXPECTED = re.compile(r"expected \(([1-9]\d*(?:, [1-9]\d*)*,?)\)$")
_READ = re.compile(r"weights file is \(\d+, (\d+)\), expected \(\d+, (\d+)\)$")
_CONT = re.compile(r"^shape is \((\d+), (\d+)\), expected \((\d+), (\d+)\)$")
_PAIR = re.compile(r"shape is \(([\d, ]+)\), expected (\([\d, .]+\)|\d+ x 1 elements)")
_RESHAPED = re.compile(r"shape is \(([\d, ]+)\), which cannot become \(([\d, ]+)\)")
_NUMBER = re.compile(r"\d+")
_MOST_COUNTS = 4
_SHAPE = re.compile(r"\(\d+, \d+, ([1-9]\d*), ([1-9]\d*)\)")


def usual_shapes(shapes: Letters) -> dict[str, Sizes]:
    """Shapes with usual sizes for letters."""
    return {name: tuple(map(_usual, sizes)) for name, sizes in shapes.items()}


def _sizes_of_pairs(shapes: Letters) -> Letters:
    """Sizes for letters as in the first input with as many axes that states some: data layers make pairs of images."""
    examples: dict[int, Sequence[int | str]] = {}
    for sizes in shapes.values():
        if any(isinstance(size, int) for size in sizes):
            examples.setdefault(len(sizes), sizes)
    return {
        name: [
            other if isinstance(size, str) else size
            for size, other in zip(sizes, examples.get(len(sizes), sizes), strict=True)
        ]
        for name, sizes in shapes.items()
    }


def _usual(size: int | str) -> int:
    return size if isinstance(size, int) else USUAL.get(size, 1)


def search_shapes(
    shapes: Letters,
    layers: Sequence[Layer],
    misfits: Misfits,
    pixels: tuple[int, int] | None = None,
    hints: Mapping[str, Sizes] = MappingProxyType({}),
    beside: Mapping[str, Mapping[str, Sizes]] = MappingProxyType({}),
) -> ShapeSearch:
    """Shapes that fit: those that ``hints`` name or files ``beside`` the net state, or the most usual ones.

    If none fit, the best of those that were tried.

    Images near ``pixels`` come first. What lets layers fit that failed before is kept.
    """
    most = max(_FEWEST_TRIALS, min(_MOST_TRIALS, _MOST_LAYERS // (len(layers) or 1)))
    search = ShapeSearch(shapes, misfits, most, usual_shapes(shapes))
    if pixels is None:
        of_blobs = {words: sizes for words, sizes in hints.items() if "(" in words}
        search.take({words: sizes for words, sizes in of_blobs.items() if _blob_of(words) in shapes})
        for words, sizes in hints.items():
            if words not in of_blobs:
                search.hint(words, sizes)
        for file, shapes_in_file in beside.items():
            search.take_shapes(file, shapes_in_file)
    if _reads_lines(layers):
        search.resize(_LINES)
    search.improve(usual_shapes(shapes))
    search.improve(usual_shapes(_sizes_of_pairs(shapes)))
    search.expect()
    search.follow_cont()
    search.follow_counts()
    images = [name for name, sizes in shapes.items() if {"C", "H"} <= {*sizes}]
    for name in images:
        for other in _shapes_of_reshapes(layers, name):
            search.improve({**search.best, name: other})
    for others in (_slice_sizes, _usual_sizes, _slice_sizes):
        search.vary(lambda axis, letter, others=others: others(axis, letter, layers))  # type: ignore[misc]
    for name in images:
        for other in (*_OTHER_AXES, *_vectors_and_tables(layers)):
            search.improve({**search.best, name: other})
    search.resize(_near(pixels))
    search.resize(search.sizes_of_misfits())
    search.resize_one()
    for pixels_to_try in (_IMAGES, search.sizes_of_misfits(), _REMAINDERS):
        search.resize(pixels_to_try)
    search.expect()
    search.follow_counts()
    search.balance()
    return search


@dataclass(slots=True)
class ShapeSearch:
    """Tries shapes. ``errors`` are what is wrong with the ``best``.

    ``reached`` is how far it came: the line of the first layer that does not fit. ``source`` says where what fits is
    stated, for the letters ``hinted``.
    """

    shapes: Letters
    misfits: Misfits
    trials_left: int
    best: dict[str, Sizes]
    reached: tuple[int, int] | None = None
    errors: Sequence[ConversionError] = field(default=())
    fits: bool = False
    source: str = ""
    hinted: tuple[str, ...] = ()

    def take(self, hints: Mapping[str, Sizes]) -> None:
        """Try shapes that the file states beside the names of blobs."""
        if hints:
            self.improve({**self.best, **{_blob_of(words): sizes for words, sizes in hints.items()}})
        if self.fits:
            self.source, self.hinted = _words_of_file(", ".join(hints)), ("C", "I")

    def hint(self, words: str, sizes: Sizes) -> None:
        """Try sizes of images, and their channels and number where nobody states them."""
        if not self.fits and any("H" in each for each in self.shapes.values()):
            letters = dict(zip("WHCN", sizes[::-1], strict=False))
            if self._fits_with(letters):
                self.best, self.fits = self._resized(letters), True
                self.source, self.hinted = _words_of_file(words), tuple(letters)

    def take_shapes(self, file: str, shapes: Mapping[str, Sizes]) -> None:
        """Try the shapes that another file states, where the net leaves sizes open."""
        of_open_sizes = {name: _sizes_for(self.shapes[name], sizes) for name, sizes in shapes.items()}
        best = {**self.best, **of_open_sizes}
        if not (self.fits or self.misfits(best)):
            self.best, self.fits = best, True
            self.source, self.hinted = f"as in {visible(file)}", ("C", "I")

    def improve(self, shapes: dict[str, Sizes]) -> Sequence[ConversionError]:
        """Keep the shapes if the net fits better than before; return what is wrong with them.

        Nothing is tried after shapes that fit.
        """
        if self.fits or not self.trials_left:
            return ()
        self.trials_left -= 1
        errors = self.misfits(shapes)
        lines = [error.origin.line if error.origin else 0 for error in errors]
        reached = (min(lines, default=0), -len(lines))
        self.fits = not errors
        if self.fits or self.reached is None or reached > self.reached:
            self.best, self.reached, self.errors = shapes, reached, errors
        return errors

    def vary(self, others: Callable[[int, str], Iterator[int]]) -> None:
        """Try other sizes of the axes that nobody states, one after the other."""
        for name, sizes in self.shapes.items():
            for axis, letter in enumerate(sizes):
                if isinstance(letter, str):
                    for size in others(axis, letter):
                        shape = self.best[name]
                        self.improve({**self.best, name: (*shape[:axis], size, *shape[axis + 1 :])})

    def expect(self) -> None:
        """Try the shapes that messages expect of inputs, one after the other."""
        for _ in self.best:
            for error in self.errors[:1]:
                name = (error.blob or "").partition('"')[2].rpartition('"')[0]
                sizes = _EXPECTED.search(error.problem)
                if sizes and name in self.best:
                    self.improve({**self.best, name: tuple(map(int, sizes[1].rstrip(",").split(", ")))})

    def resize(self, images: Iterable[tuple[int, int]]) -> None:
        """Try other heights and widths of all images."""
        if any("H" in sizes for sizes in self.shapes.values()):
            for height, width in images:
                self.improve(self._resized({"H": height, "W": width}))

    def _resized(self, sizes_by_letter: Mapping[str, int]) -> dict[str, Sizes]:
        return {
            name: tuple(
                sizes_by_letter.get(str(letter), size)
                for letter, size in zip_longest(self._letters(name, old), old)
            )
            for name, old in self.best.items()
        }

    def sizes_of_misfits(self) -> Iterator[tuple[int, int]]:
        """Heights and widths by the shapes that do not fit: one of them is stated, the other one follows the image."""
        height, width = self._pixels()
        for error in self.errors[:1]:
            two_shapes = [tuple(map(int, sizes)) for sizes in _SHAPE.findall(error.problem)][:2]
            for (h, w), (other_h, other_w) in (two_shapes, two_shapes[::-1]) if len(two_shapes) == 2 else ():
                yield height * other_h // h, width * other_w // w

    def resize_one(self) -> None:
        """Try heights and widths by the shapes that do not fit, of one image after the other: maps of labels."""
        for height, width in self.sizes_of_misfits():
            for name in self.shapes:
                self.improve({**self.best, name: self._resized({"H": height, "W": width})[name]})

    def follow_cont(self) -> None:
        """Try the columns and the images that a cont of a stated shape has as steps and streams."""
        for numbers in _CONT.findall(self.errors[0].problem) if self.errors else ():
            _, streams, _, images = map(int, numbers)
            most, count = 4 * self._pixels()[1], streams // images
            _least(1, most, lambda width, count=count: self._is_enough({"N": count, "W": width}))  # type: ignore[misc]

    def follow_counts(self) -> None:
        """Try for steps, streams and images the counts that a layer reads beside those which were guessed."""
        for _ in range(_MOST_COUNTS):
            before = self.reached
            for shapes in _PAIR.findall(self.errors[0].problem) if self.errors else ():
                read, expected = ([*map(int, _NUMBER.findall(shape))] for shape in shapes)
                counts = self._counts(zip(read, expected, strict=False))
                for sizes in (counts, *({letter: size} for letter, size in counts.items())):
                    self.improve(self._resized(sizes))
            for shapes in _RESHAPED.findall(self.errors[0].problem) if self.errors else ():
                count, made = (prod(map(int, _NUMBER.findall(shape))) for shape in shapes)
                self.improve(self._resized({"N": made // max(count, 1)}))
            if self.reached == before:
                return

    def _counts(self, pairs: Iterable[tuple[int, int]]) -> dict[str, int]:
        """By letter, the one of two sizes that differ where the other one is the guess for the letter."""
        others = {size: other for pair in pairs for size, other in (pair, pair[::-1]) if size != other}
        return {
            str(letter): others[size]
            for name, sizes in self.best.items()
            for letter, size in zip(self._letters(name, sizes), sizes, strict=False)
            if letter in ("N", "T") and size in others
        }

    def balance(self) -> None:
        """Try heights and widths with which an InnerProduct reads as many numbers as its weights have.

        Squares first, then images as near to them as possible.
        """
        if _excess(self.errors) > 0:
            side = _least(1, max(self._pixels()), lambda side: self._is_enough({"H": side, "W": side}))
            for height in (side + sign * step for step in range(1, side) for sign in (-1, 1)):
                _least(1, 4 * side, lambda width, height=height: self._is_enough({"H": height, "W": width}))  # type: ignore[misc]

    def _is_enough(self, sizes_by_letter: Mapping[str, int]) -> bool:
        """Whether such images have as many numbers, or columns, as a layer reads, or more; also after all trials."""
        errors = self.improve(self._resized(sizes_by_letter))
        return not errors or _excess(errors) > 0

    def smallest(self) -> tuple[int, int, int] | None:
        """The height and the width of smaller images that fit, the smallest in equal steps; and the step."""
        height, width = self._pixels()
        for step in _SHRINKING if any("H" in sizes for sizes in self.shapes.values()) else ():
            most = max(min(height, width) - 1, 0) // step

            def lacks(count: int, step: int = step) -> bool:
                return not self._fits_with({"H": height - count * step, "W": width - count * step})

            if most and not lacks(1):
                count = _least(2, most + 1, lacks) - 1
                return height - count * step, width - count * step, step
        return None

    def _fits_with(self, sizes_by_letter: Mapping[str, int]) -> bool:
        """Whether other sizes fit, too."""
        self.trials_left -= 1
        return self.trials_left >= 0 and not self.misfits(self._resized(sizes_by_letter))

    def free_letters(self) -> list[str]:
        """The letters whose sizes are a guess: another one fits, too."""
        letters = {letter for name, old in self.best.items() for letter in self._letters(name, old)}
        open_letters = [letter for letter in "CI" if letter in letters.difference(self.hinted)]
        return [letter for letter in open_letters if self._fits_with({letter: USUAL[letter] + 1})]

    def _letters(self, name: str, sizes: Sizes) -> Sequence[int | str]:
        """What was asked for, if the sizes are of as many axes."""
        return self.shapes[name] if len(self.shapes[name]) == len(sizes) else ()

    def _pixels(self) -> tuple[int, int]:
        """The height and the width of the best image."""
        return next((shape[-2:] for shape in self.best.values() if len(shape) == 4), (0, 0))


def _sizes_for(letters: Sequence[int | str], sizes: Sizes) -> Sizes:
    """The sizes, but for those that are known; all of them where there are other axes than letters."""
    if len(letters) != len(sizes):
        return sizes
    return tuple(
        size if isinstance(letter, str) else letter for letter, size in zip(letters, sizes, strict=True)
    )


def _words_of_file(words: str) -> str:
    return f'"{words}" is in the file or its name'


def _blob_of(words: str) -> str:
    """The blob of a hint such as ``cont (40, 16)``."""
    return words.partition("(")[0].rstrip()


def _least(lower: int, upper: int, holds: Callable[[int], bool]) -> int:
    """The least number from which on it holds; ``upper`` if it holds for none below."""
    while lower < upper:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if holds(middle) else (middle + 1, upper)
    return lower


def _excess(errors: Sequence[ConversionError]) -> int:
    """How much is too much of what the first layer that does not fit reads; below 0 if it is too little.

    An InnerProduct reads numbers of an image, a recurrent layer its columns.
    """
    problem = errors[0].problem if errors else ""
    counts = _READ.search(problem) or _CONT.search(problem)
    return int(counts[counts.re.groups // 2 + 1]) - int(counts[1]) if counts else 0


def _reads_lines(layers: Sequence[Layer]) -> bool:
    """Whether columns of an image are the steps of a recurrent layer: nothing between makes rows of numbers of it."""
    reads_rows = False
    for layer in layers:
        facts = layer_type(layer.type)
        reads_rows = reads_rows or facts.reads_rows
        if facts.states:
            return not reads_rows and any(each.type == "Convolution" for each in layers)
    return False


def _near(pixels: tuple[int, int] | None) -> Iterator[tuple[int, int]]:
    """Heights and widths near these: those that usual strides divide, and the next ones."""
    if pixels is None:
        return
    height, width = pixels
    for stride in (8, 16, 32, 64):
        higher, wider = -(-height // stride) * stride, -(-width // stride) * stride
        yield from ((higher, wider), (higher + 1, wider + 1))
    yield from ((height + step, width + step) for step in (1, -1, 2, -2))


def _usual_sizes(_: int, letter: str, layers: Sequence[Layer]) -> Iterator[int]:
    """Other sizes for a letter: usual ones, and the channels that the first layers make."""
    if letter == "C":
        counts = filter(None, (layer.message.convolution_param.num_output for layer in layers))
        yield from (*_CHANNELS, *[*dict.fromkeys(counts)][:_MOST_OUTPUTS])
    elif letter == "I":
        yield from _ROWS
    elif letter == "N":
        for layer in layers:
            steps_and_streams = [dim for dim in layer.message.reshape_param.shape.dim[:2] if dim > 1]
            yield from dict.fromkeys((*steps_and_streams, prod(steps_and_streams)))


def _shapes_of_reshapes(layers: Sequence[Layer], blob: str) -> Iterator[Sizes]:
    """The shapes that Reshapes give a blob, or rows of what one cuts it into: it may have them from the start."""
    for layer in layers:
        dims = tuple(layer.message.reshape_param.shape.dim)
        if dims and blob in layer.bottoms and min(dims) > 0:
            yield dims
        elif -1 in dims and blob in layer.bottoms:
            yield 1, prod(dim for dim in dims if dim > 0)


def _vectors_and_tables(layers: Sequence[Layer]) -> Iterator[Sizes]:
    """Those that Reshapes make: what they read may have this shape from the start."""
    for layer in layers:
        dims = tuple(layer.message.reshape_param.shape.dim)
        if 1 <= len(dims) <= 2 and min(dims) > 0:
            yield dims


def _slice_sizes(axis: int, _: str, layers: Sequence[Layer]) -> Iterator[int]:
    """The sizes of an axis that a Slice may mean: its last part as large as the one before, or of 1."""
    for layer in layers:
        if layer.type == "Slice" and layer.param.axis == axis and layer.param.slice_point:
            before, last = [0, *layer.param.slice_point][-2:]
            yield from dict.fromkeys((2 * last - before, last + 1))
