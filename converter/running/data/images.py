"""Images as inputs of a net, prepared as the user says: size, order of channels, mean, scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prototrt.caffe_proto.common.errors import NetError, UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_IMAGE, refuse_size
from prototrt.caffe_proto.common.installing import refuse_without
from prototrt.caffe_proto.common.records import dataclass, fields
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.weights.npz import SIGNS_OF_DAMAGE
from prototrt.converter.files.signatures.feeds import Feeds
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.options import ChannelOrder
from prototrt.surgery.ir import Array, OpenSize, Value
from prototrt.surgery.ir.shapes import usual_shape

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What Pillow may recognize in a file, whatever its name. It reads others with programs such as Ghostscript."""
_MOST_PIXELS = 64_000_000
_SMALLER = "make it smaller, or remove it"
IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, slots=True)
class Preparation:
    """What becomes of an image before it enters the net: ``(pixels - mean) * scale``, pixels from 0 to 255.

    ``resize`` is the height and width that an image gets before its middle is cropped to the size of the input; a
    single number is the length of its shorter side. Without it, an image gets the size of the input. ``channels``
    is their order, ``"bgr"`` as for Caffe's own tools, or ``"rgb"``. ``mean`` has one number, or one for each
    channel, in that order.
    """

    mean: Sequence[float] = ()
    scale: float = 1.0
    channels: ChannelOrder = "bgr"
    resize: tuple[int, ...] | None = None

    @property
    def names_in_use(self) -> list[str]:
        """The fields that differ from their defaults."""
        return [each.name for each in fields(self) if getattr(self, each.name) != each.default]


@dataclass(frozen=True, slots=True)
class ImageFile:
    """The file of an image, and the part of it that a net sees: left, top, width, height, relative to the image."""

    file: Path
    part: tuple[float, float, float, float]

    def pixels(self) -> Image:
        """The image at its own size, in colours. It was read before, when it became an input."""
        from PIL import Image

        with Image.open(self.file, formats=_FORMATS) as image:
            return image.convert("RGB")


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Files of images, and the input (N, C, H, W) that they are for."""

    files: Sequence[Path]
    input: Value
    preparation: Preparation

    @classmethod
    def of(
        cls, files: Sequence[Path], where: str, signature: Signature, preparation: Preparation
    ) -> ImageFolder:
        """Raises ``ConversionError`` where the net does not read images and nothing else, or without Pillow."""
        refuse_without("PIL", "reading images needs Pillow")
        needed = [value for value in signature.inputs if value.name not in signature.states]
        inputs_text = ", ".join(f"{value.name} {value.shape}" for value in needed)
        if len(needed) != 1 or not holds_images(needed[0]):
            raise NetError(
                "holds images, but the net does not read images alone",
                where=where,
                because=f"the inputs are {inputs_text}, expected one of (N, 3, H, W) or (N, 1, H, W)",
                fix=Worded(
                    "give npz files, or use {} instead of {}", Option("data_loader"), Option("inputs")
                ),
            )
        _refuse_mean(preparation, needed[0], where)
        return cls(files, needed[0], preparation)

    @property
    def count(self) -> int:
        """How many batches there are."""
        return -(-len(self.files) // self._shape[0])

    @property
    def warnings(self) -> tuple[str, ...]:
        rest = len(self.files) % self._shape[0]
        if not rest:
            return ()
        return (
            f"{len(self.files)} images do not fill batches of {self._shape[0]}: the last batch repeats"
            f" the first {self._shape[0] - rest}",
        )

    @property
    def what_becomes(self) -> str:
        """What is done to the pixels, in a line."""
        _, channels, height, width = self._shape
        resize, mean, scale = self.preparation.resize, self.preparation.mean, self.preparation.scale
        steps = [f"resized to {width} x {height}"]
        if resize is not None:
            size = f"{resize[1]} x {resize[0]}" if len(resize) == 2 else f"a shorter side of {resize[0]}"
            steps = [f"resized to {size}", f"the middle {width} x {height}"]
        steps.append("grey" if channels == 1 else self.preparation.channels.upper())
        subtracted = f" - ({', '.join(f'{number:g}' for number in mean)})" if mean else ""
        steps.append(f"x{subtracted} of 0 to 255" + (f", times {scale:g}" if scale != 1 else ""))
        return ", ".join(steps)

    def batches(self) -> Iterator[tuple[str, Feeds, tuple[ImageFile, ...]]]:
        """The images in the order of their names, N at a time; the first ones once more fill the last batch.

        The last of each are the pictures that a batch is made of, each picture once.
        """
        size = self._shape[0]
        for first in range(0, len(self.files), size):
            files = [self.files[place % len(self.files)] for place in range(first, first + size)]
            images = np.stack([self._prepare(file) for file in files])
            pictures = tuple(map(self._picture, self.files[first : first + size]))
            yield str(files[0]), {self.input.name: images}, pictures

    @cached_property
    def _shape(self) -> tuple[int, int, int, int]:
        """N, C, H, W: where they vary, the smallest batch, and the usual height and width."""
        first, *others = self.input.shape
        count = first.range.min if isinstance(first, OpenSize) else first
        dims = (count, *usual_shape(tuple(others)))
        batch, channels, height, width = (dim if isinstance(dim, int) else 1 for dim in dims)
        return batch, channels, height, width

    def _prepare(self, file: Path) -> Array:
        """One image (C, H, W)."""
        from PIL import Image

        refuse_size(file, file.stat().st_size, "an image", LARGEST_IMAGE)
        try:
            with Image.open(file, formats=_FORMATS) as image:
                self._refuse_pixels(file, image.size)
                pixels = np.asarray(
                    self._resize(image.convert("L" if self._shape[1] == 1 else "RGB")), np.float32
                )
        except Image.DecompressionBombError as error:
            raise UnreadableFileError(
                "the image has more pixels than Pillow reads",
                where=str(file),
                because=str(error),
                fix=_SMALLER,
            ) from error
        except SIGNS_OF_DAMAGE as error:
            raise UnreadableFileError(
                "is not an image that Pillow can read", where=str(file), fix="remove it, or replace it"
            ) from error
        planes = np.atleast_3d(pixels).transpose(2, 0, 1)
        if self.preparation.channels == "bgr":
            planes = planes[::-1]
        mean = np.array(self.preparation.mean or [0], np.float32).reshape(-1, 1, 1)
        prepared: Array = (planes - mean) * np.float32(self.preparation.scale)
        return prepared

    def _picture(self, file: Path) -> ImageFile:
        from PIL import Image

        _, _, height, width = self._shape
        with Image.open(file, formats=_FORMATS) as image:
            columns, rows = self._size_before_crop(*image.size)
        left, top = (columns - width) // 2, (rows - height) // 2
        return ImageFile(file, (left / columns, top / rows, width / columns, height / rows))

    def _resize(self, image: Image) -> Image:
        """Bilinear, as in Caffe's own tools; then the middle."""
        from PIL import Image

        _, _, height, width = self._shape
        resized = image.resize(self._size_before_crop(*image.size), Image.Resampling.BILINEAR)
        left, top = (resized.width - width) // 2, (resized.height - height) // 2
        return resized.crop((left, top, left + width, top + height))

    def _refuse_pixels(self, file: Path, size: tuple[int, int]) -> None:
        _, _, height, width = self._shape
        most = max(_MOST_PIXELS, height * width)
        before_crop = self._size_before_crop(*size)
        feeds = f'it feeds "{self.input.name}", whose images have {width} x {height} pixels'
        if prod(size) > most:
            problem, fix = f"the image has {size[0]} x {size[1]} pixels", _SMALLER
        elif prod(before_crop) > most:
            problem = f"{size[0]} x {size[1]} pixels become {before_crop[0]} x {before_crop[1]}"
            fix = Worded("crop the image, or give {} a height and a width", Option("resize"))
        else:
            return
        raise UnreadableFileError(
            f"{problem}, expected at most {most:,}", where=str(file), because=feeds, fix=fix
        )

    def _size_before_crop(self, columns: int, rows: int) -> tuple[int, int]:
        """Width and height, never less than those of the input."""
        _, _, height, width = self._shape
        resize = self.preparation.resize
        if resize is None:
            return width, height
        if len(resize) == 2:
            return max(resize[1], width), max(resize[0], height)
        factor = resize[0] / min(columns, rows)
        return max(round(columns * factor), width), max(round(rows * factor), height)


def image_input(signature: Signature) -> Value:
    """The input that images become, of a net that reads images alone."""
    return next(value for value in signature.inputs if value.name not in signature.states)


def holds_images(value: Value) -> bool:
    """Whether its shape is that of images with one channel or three."""
    return len(value.shape) == 4 and value.shape[1] in (1, 3)


def _refuse_mean(preparation: Preparation, value: Value, where: str) -> None:
    channels = value.shape[1]
    if len(preparation.mean) not in (0, 1, channels):
        raise NetError(
            Worded(
                "{} has {} numbers, expected {}",
                Option("mean"),
                len(preparation.mean),
                "1" if channels == 1 else f"1 or {channels}, one per channel",
            ),
            where=where,
            because=f'the input "{value.name}" has the shape {value.shape}',
            fix="give one number" if channels == 1 else f"give one number, or {channels}",
        )
