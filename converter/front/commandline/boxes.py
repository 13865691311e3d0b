"""A picture of what a detector found: its boxes on the image that it was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.installing import refuse_without
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.writing.files import atomic_write
from prototrt.converter.running.data.images import holds_images
from prototrt.surgery.ir import AtMost, Value

if TYPE_CHECKING:
    from PIL.Image import Image

    from prototrt.converter.files.signatures.signature import Signature
    from prototrt.converter.running.data.data import Call
    from prototrt.surgery.ir import Array

_COLORS = ("red", "blue", "green", "purple", "darkorange", "teal")
"""Classes take turns; white text is legible on each."""
_BACKGROUND = ("background", "none_of_the_above")
Part: TypeAlias = tuple[float, float, float, float]
"""Left, top, width and height, relative to an image."""
_ALL: Part = (0.0, 0.0, 1.0, 1.0)


def refuse_without_pillow() -> None:
    """Raise ``ConversionError`` where no boxes can be drawn."""
    refuse_without("PIL", Worded("{} needs Pillow", Option("draw")))


class BoxPicture:
    """Draws the rows of SSD and YOLO: image, class, score, x1, y1, x2, y2, the last four relative to the image.

    Everything is checked before anything is computed: raises ``ConversionError`` if the net has no such rows or no
    image.
    """

    def __init__(self, file: str, signature: Signature, labels: Sequence[str] = ()) -> None:
        self.file, self._labels, self._count = file, labels, 0
        self._rows = _first(
            "output", "rows of a detector, such as DetectionOutput returns", signature.results
        )
        self._image = _first("input", "images of 1 or 3 channels", signature.inputs)

    def write(self, calls: Sequence[Call], results: Sequence[Mapping[str, Array]]) -> str:
        """All images of all calls, one below the other: the files at their own size, else the arrays.

        Returns the file and what is on it, in a line.
        """
        from PIL import Image

        drawn = [
            self._drawn(image, part, rows[rows[:, 0] == number])
            for call, result in zip(calls, results, strict=True)
            for rows in [np.reshape(result[self._rows], (-1, 7))]
            for number, (image, part) in enumerate(self._images(call))
        ]
        whole = Image.new("RGB", (max(image.width for image in drawn), sum(image.height for image in drawn)))
        top = 0
        for image in drawn:
            whole.paste(image, (0, top))
            top += image.height
        with atomic_write(self.file) as stream:
            whole.save(stream, format="PNG")
        return f"{self.file}: {self._count} {'box' if self._count == 1 else 'boxes'}"

    def _images(self, call: Call) -> Iterator[tuple[Image, Part]]:
        """Each image of a call, and the part of it that the net saw."""
        if call.pictures:
            yield from ((picture.pixels(), picture.part) for picture in call.pictures)
        else:
            yield from ((_of_array(pixels), _ALL) for pixels in call.feeds[self._image])

    def _drawn(self, image: Image, part: Part, rows: Array) -> Image:
        """The image with its boxes (rows, 7) on it, in lines and letters of a size that is legible there."""
        from PIL import ImageDraw, ImageFont

        draw, side = ImageDraw.Draw(image), min(image.size)
        font = ImageFont.load_default(max(10, side // 30))
        for label, score, corners in _boxes(rows, image.size, part):
            self._count += 1
            color = _COLORS[label % len(_COLORS)]
            draw.rectangle(corners, outline=color, width=max(2, side // 200))
            text = visible_line(f"{self._name(label)}: {score:.2f}")
            draw.rectangle(draw.textbbox(corners[:2], text, font), fill=color)
            draw.text(corners[:2], text, "white", font)
        return image

    def _name(self, label: int) -> str:
        """The line of the labels for a class. Class 0 is the background, which many files leave out."""
        has_background = bool(self._labels) and self._labels[0].strip("_").lower() in _BACKGROUND
        place = label if has_background else label - 1
        return self._labels[place] if 0 <= place < len(self._labels) else str(label)


def _first(kind: str, what: str, values: Iterable[Value]) -> str:
    """The name of the first value that is of use here."""
    useful = {"input": holds_images, "output": _holds_rows}[kind]
    for value in values:
        if useful(value):
            return value.name
    there = ", ".join(f"{value.name} {value.shape}" for value in values)
    raise ConversionError(
        f"no {kind} holds {what}",
        because=f"the {kind}s are {there}",
        fix=Worded("leave out {}", Option("draw")),
    )


def _holds_rows(value: Value) -> bool:
    """Seven class scores of each proposal of Faster R-CNN are counted as well, but they have two axes."""
    shape = value.shape
    return len(shape) == 4 and shape[:2] == (1, 1) and isinstance(shape[2], AtMost) and shape[3] == 7


def _of_array(pixels: Array) -> Image:
    """One image (C, H, W), its smallest number black and its largest white."""
    from PIL import Image

    numbers = np.nan_to_num(pixels.astype(np.float64))
    span = (np.ptp(numbers) or 1) / 255
    # Caffe's images are BGR.
    channels = np.broadcast_to((numbers - numbers.min())[::-1] / span, (3, *numbers.shape[1:]))
    return Image.fromarray(channels.transpose(1, 2, 0).round().astype(np.uint8))


def _boxes(
    rows: Array, size: tuple[int, int], part: Part
) -> Iterator[tuple[int, float, tuple[float, float, float, float]]]:
    """Class, score and corners in pixels. The best boxes come last, so that they are on top."""
    (width, height), (left, top, columns, lines) = size, part
    # A row of -1 means that nothing was found.
    boxes = rows[np.isfinite(rows).all(axis=1) & (rows[:, 1] >= 0)]
    for _, label, score, *corners in boxes[np.argsort(boxes[:, 2], kind="stable")].tolist():
        places = np.clip(corners, 0, 1) * (columns, lines, columns, lines) + (left, top, left, top)
        x1, y1, x2, y2 = places * (width - 1, height - 1, width - 1, height - 1)
        if x1 <= x2 and y1 <= y2:
            yield int(label), score, (x1, y1, x2, y2)
