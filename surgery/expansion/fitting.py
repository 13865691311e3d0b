"""Shapes of inputs with which the layers of a net fit, where nobody states them: usual sizes are tried in turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.records import dataclass, field

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
_REMAINDERS = tuple((size, size) for size in range(217, 233))
"""Those with each remainder of usual strides."""
_CHANNELS, _ROWS = (1, 4, 2, 6), (512, 1024, 2048, 4096, 128)
_OTHER_AXES: tuple[Sizes, ...] = ((1, 256), (1,), (1, 5), (1, 3))
"""Shapes of what is no image: vectors, numbers, rois, facts of an image."""
_MOST_OUTPUTS = 6
_MOST_LAYERS, _FEWEST_TRIALS, _MOST_TRIALS = 12000, 20, 100
_EXPECTED = re.compile(r"expected \(([1-9]\d*(?:, [1-9]\d*)*,?)\)$")
_SHAPE = re.compile(r"\(\d+, \d+, ([1-9]\d*), ([1-9]\d*)\)")


def usual_shapes(shapes: Letters) -> dict[str, Sizes]:
    """Shapes with usual sizes for letters."""
    return {name: tuple(map(_usual, sizes)) for name, sizes in shapes.items()}


def _usual(size: int | str) -> int:
    return size if isinstance(size, int) else USUAL.get(size) or (int(size) if size.isdecimal() else 1)


def fitting_shapes(
    shapes: Letters, layers: Sequence[Layer], misfits: Misfits, pixels: tuple[int, int] | None = None
) -> tuple[dict[str, Sizes], Sequence[ConversionError]]:
    """The most usual shapes that fit; or the best of those that were tried, and what is wrong with them.

    Images near ``pixels`` come first. What lets layers fit that failed before is kept.
    """
    most = max(_FEWEST_TRIALS, min(_MOST_TRIALS, _MOST_LAYERS // (len(layers) or 1)))
    search = _Search(misfits, most, usual_shapes(shapes))
    search.improve(search.best)
    search.expect()
    for others in (_slice_sizes, _usual_sizes, _slice_sizes):
        search.vary(shapes, lambda axis, letter, others=others: others(axis, letter, layers))  # type: ignore[misc]
    for name in (name for name, sizes in shapes.items() if {"C", "H"} <= {*sizes}):
        for other in _OTHER_AXES:
            search.improve({**search.best, name: other})
    for images in (_near(pixels), _IMAGES, search.sizes_of_misfits(), _REMAINDERS):
        search.resize(shapes, images)
    return search.best, search.errors


@dataclass(slots=True)
class _Search:
    """Tries shapes. ``reached`` is how far the ``best`` came: the line of the first layer that does not fit."""

    misfits: Misfits
    trials_left: int
    best: dict[str, Sizes]
    reached: tuple[int, int] | None = None
    errors: Sequence[ConversionError] = field(default=())
    fits: bool = False

    def improve(self, shapes: dict[str, Sizes]) -> None:
        """Keep the shapes if the net fits better than before; nothing is tried after shapes that fit."""
        if self.fits or not self.trials_left:
            return
        self.trials_left -= 1
        errors = self.misfits(shapes)
        lines = [error.origin.line if error.origin else 0 for error in errors]
        reached = (min(lines, default=0), -len(lines))
        self.fits = not errors
        if self.fits or self.reached is None or reached > self.reached:
            self.best, self.reached, self.errors = shapes, reached, errors

    def vary(self, shapes: Letters, others: Callable[[int, str], Iterator[int]]) -> None:
        """Try other sizes of the axes that nobody states, one after the other."""
        for name, sizes in shapes.items():
            for axis, letter in enumerate(sizes):
                if isinstance(letter, str) and not letter.isdecimal():
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

    def resize(self, shapes: Letters, images: Iterable[tuple[int, int]]) -> None:
        """Try other heights and widths of all images."""
        if any("H" in sizes for sizes in shapes.values()):
            for height, width in images:
                sizes_by_letter = {"H": height, "W": width}
                self.improve(
                    {
                        name: _with_sizes(each, self.best[name], sizes_by_letter)
                        for name, each in shapes.items()
                    }
                )

    def sizes_of_misfits(self) -> Iterator[tuple[int, int]]:
        """Heights and widths by the shapes that do not fit: one of them is stated, the other one follows the image."""
        height, width = next((shape[-2:] for shape in self.best.values() if len(shape) == 4), (0, 0))
        for error in self.errors[:1]:
            two_shapes = [tuple(map(int, sizes)) for sizes in _SHAPE.findall(error.problem)][:2]
            for (h, w), (other_h, other_w) in (two_shapes, two_shapes[::-1]) if len(two_shapes) == 2 else ():
                yield height * other_h // h, width * other_w // w


def _with_sizes(sizes: Sequence[int | str], before: Sizes, sizes_by_letter: Mapping[str, int]) -> Sizes:
    """The shape with these sizes for some letters."""
    return tuple(sizes_by_letter.get(str(size), old) for size, old in zip(sizes, before, strict=False))


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


def _slice_sizes(axis: int, _: str, layers: Sequence[Layer]) -> Iterator[int]:
    """The sizes of an axis that a Slice may mean: its last part as large as the one before, or of 1."""
    for layer in layers:
        if layer.type == "Slice" and layer.param.axis == axis and layer.param.slice_point:
            before, last = [0, *layer.param.slice_point][-2:]
            yield from dict.fromkeys((2 * last - before, last + 1))
