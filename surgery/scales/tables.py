"""Tables of scales that other programs wrote: TensorRT's calibration cache, NVDLA's, and ncnn's for Caffe models.

TensorRT's cache is a header and lines ``TENSOR: HEX``: the bits of the scale, a float32, in hexadecimal, the most
significant first. NVDLA's compiler for Caffe reads the same scales from JSON, which names layers for what they write;
its converter of calibration caches leaves the names of tensors. caffe-int8-convert-tools and ncnn2table write lines
``LAYER_param_0 NUMBER...`` for weights and ``LAYER NUMBER`` for what the layer reads; their number is 127 / range. The
first version of caffe-int8-convert-tools names blobs instead of layers.
Source: the lines that TensorRT 5 to 8 wrote; nvdla/sw ``umd/utils/calibdata/calib_txt_to_json.py``; BUG1989
caffe-int8-convert-tools ``caffe-int8-convert-tool.py`` and ``caffe-int8-convert-tool-dev-weight.py``; Tencent/ncnn
``tools/quantize/ncnn2table.cpp``, ``save_table``.
"""

from __future__ import annotations

import enum
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import read_regular, value_from_json
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.scales.scales_file import INT8

HEADER = "TRT-8601-EntropyCalibration2"
"""Of the cache that is written. TensorRT reads the cache of another release of its line with a warning at most."""
_CACHES = "TRT-"
"""How the headers of all caches begin."""
UNNAMED = "(Unnamed Layer* "
"""How the names of tensors begin that have no name of their own."""
_CACHE_LINE = re.compile(r"(?P<name>.+): *(?P<bits>[0-9a-fA-F]{1,8})")
_WEIGHTS = re.compile(r"(?P<layer>.+)_param_\d+")


class EntryKind(enum.Enum):
    """What the name of an entry is."""

    TENSOR = "a tensor of TensorRT's Caffe parser"
    BLOB = "a blob"
    BOTTOM = "a layer, for what it reads"
    TOP = "a layer, for what it writes; or an input"


@dataclass(frozen=True, slots=True)
class TableScale:
    """A scale of a table, in our sense: what one step of int8 stands for. ``place`` is which bottom of a layer."""

    name: str
    scale: float
    line: int
    named: EntryKind
    place: int = 0


def read_table(file: str) -> list[TableScale]:
    """The scales of activations. Raises ``UnreadableFileError`` for another file, or ``ConversionError``."""
    try:
        text = read_regular(file, "a calibration cache, or a table").decode()
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise UnreadableFileError(problem, where=file, fix="give a calibration cache, or a table") from error
    except UnicodeDecodeError as error:
        raise _stranger(file, "it is not text") from error
    entries = [*_entries(file, text)]
    if not entries:
        raise _stranger(file, "it has no scales")
    for entry in entries:
        if not math.isfinite(entry.scale) or entry.scale < 0:
            raise ConversionError(
                f'the scale of "{entry.name}" is {entry.scale:g}, expected a number of 0 or more',
                where=f"{file}:{entry.line}",
                fix="remove the line, or calibrate again",
            )
    return entries


def _entries(file: str, text: str) -> Iterator[TableScale]:
    """The first lines tell the kind."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if text.lstrip().startswith("{"):
        return _of_json(file, text)
    if text.lstrip().startswith(_CACHES) or any(_CACHE_LINE.fullmatch(line) for _, line in lines[:2]):
        return _of_cache(file, lines)
    return _of_ncnn(file, lines)


def _of_cache(file: str, lines: Sequence[tuple[int, str]]) -> Iterator[TableScale]:
    for number, line in lines:
        match = _CACHE_LINE.fullmatch(line)
        if match is not None:
            (scale,) = struct.unpack(">f", bytes.fromhex(match["bits"].zfill(8)))
            yield TableScale(match["name"], scale, number, EntryKind.TENSOR)
        elif number != lines[0][0]:  # the header
            raise _bad_line(file, number, line, "expected TENSOR: HEX, as in data: 3c010a14")


def _of_json(file: str, text: str) -> Iterator[TableScale]:
    try:
        facts = value_from_json(text)
    except ValueError as error:
        raise _stranger(file, f"it is not JSON: {error}") from error
    if "blobs" in facts:
        raise UnreadableFileError(
            "is a file of scales, not a table of another program",
            where=file,
            fix=Worded("use {} instead of {}", Option("scales", file), Option("calibration_cache")),
        )
    named = EntryKind.TENSOR if any(name.startswith(UNNAMED) for name in facts) else EntryKind.TOP
    for name, entry in facts.items():
        scale = _nvdla_scale(entry) if isinstance(entry, dict) else None
        if scale is None:
            raise _stranger(file, f'"{name}" has no scale')
        if entry.get("offset"):
            raise ConversionError(
                f'"{name}" has the offset {entry["offset"]}, expected 0',
                where=file,
                because="int8 is symmetric here",
                fix="calibrate with offsets of 0",
            )
        yield TableScale(name, scale, _line_of(name, text), named)


def _nvdla_scale(facts: Mapping[str, Any]) -> float | None:
    """As stated, or from the smallest and the largest number."""
    scale, low, high = (facts.get(key) for key in ("scale", "min", "max"))
    if _is_number(scale):
        return float(scale)
    return max(abs(low), abs(high)) / INT8 if _is_number(low) and _is_number(high) else None


def _is_number(number: Any) -> TypeGuard[float]:
    return isinstance(number, (int, float)) and not isinstance(number, bool)


def _line_of(name: str, text: str) -> int:
    return text.count("\n", 0, text.find(json.dumps(name))) + 1


def _of_ncnn(file: str, lines: Sequence[tuple[int, str]]) -> Iterator[TableScale]:
    """Every layer with a line for its reading has one for its weights, unless the names are those of blobs."""
    rows: list[tuple[int, str, list[float]]] = []
    for number, line in lines:
        name, *words = line.split()
        try:
            rows.append((number, name, [float(word) for word in words]))
        except ValueError as error:
            raise _bad_line(file, number, line, "expected a name and numbers, as in conv1 0.84") from error
        if not words:
            raise _bad_line(file, number, line, "expected a name and numbers, as in conv1 0.84")
    weights = {match["layer"] for _, name, _ in rows if (match := _WEIGHTS.fullmatch(name))}
    others = [row for row in rows if not _WEIGHTS.fullmatch(row[1])]
    named = EntryKind.BOTTOM if all(name in weights for _, name, _ in others) else EntryKind.BLOB
    for number, name, numbers in others:
        for place, factor in enumerate(numbers):
            yield TableScale(name, 1 / factor if factor else 0.0, number, named, place)


def _bad_line(file: str, number: int, line: str, expected: str) -> ConversionError:
    return UnreadableFileError(
        f'the line is "{line}", {expected}',
        where=f"{file}:{number}",
        fix="give a calibration cache of TensorRT, a table of ncnn or caffe-int8-convert-tools, or correct the line",
    )


def _stranger(file: str, because: str) -> ConversionError:
    return UnreadableFileError(
        "is neither a calibration cache nor a table of scales",
        where=file,
        because=because,
        fix="give a calibration cache of TensorRT, or a table of ncnn or caffe-int8-convert-tools",
    )


def cache_text(scales: Mapping[str, float]) -> str:
    """TensorRT's calibration cache, by the names of tensors."""
    lines = (f"{name}: {struct.pack('>f', scale).hex().lstrip('0') or '0'}" for name, scale in scales.items())
    return "\n".join([HEADER, *lines]) + "\n"


def nvdla_text(scales: Mapping[str, float]) -> str:
    """The table of NVDLA's compiler, by the names of inputs and layers."""
    facts = {name: {"scale": scale, "min": 0, "max": 0, "offset": 0} for name, scale in scales.items()}
    return json.dumps(facts, indent=4) + "\n"


def ncnn_text(weights: Mapping[str, Sequence[float]], scales: Mapping[str, float]) -> str:
    """The table of ncnn, by the names of layers. ``weights`` are largest magnitudes, by channel of the result."""
    lines = [
        f"{layer}_param_0 {' '.join(_factor(limit / INT8) for limit in limits)}"
        for layer, limits in weights.items()
    ]
    lines += [f"{layer} {_factor(scale)}" for layer, scale in scales.items()]
    return "\n".join(lines) + "\n"


def _factor(scale: float) -> str:
    """ncnn multiplies where we divide."""
    return f"{1 / scale:.9g}" if scale else "0"
