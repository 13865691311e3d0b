"""The file that calibration writes: a scale for each value, what it was made from, and what was counted."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import ascii_json, read_regular, value_from_json
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wording import Command, Option, Worded

FORMAT = 1
INT8 = 127
"""The largest magnitude of int8, which a range becomes."""
_WRITE_IT = Worded("write it with {}", Command("calibrate"))


@dataclass(frozen=True, slots=True)
class Counts:
    """A histogram of magnitudes: ``counts[k]`` are in the bin from ``k * width``."""

    width: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ValueScale:
    """What the file says of a value. ``scale`` is what one step of int8 stands for; 0 if the value was always zero.

    ``largest`` is the largest magnitude that was seen, ``clipped`` the share of numbers beyond the scale's range.
    """

    scale: float
    largest: float | None = None
    clipped: float | None = None
    histogram: Counts | None = None

    @property
    def range(self) -> float:
        """The largest magnitude that int8 represents."""
        return self.scale * INT8


@dataclass(frozen=True, slots=True)
class DataSet:
    """``samples`` are calls of the net; ``sha256`` is that of their inputs, in hexadecimal."""

    samples: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Scales:
    """A file of scales. ``sources`` are names and hashes of the model's files, by role, as in a manifest.

    ``kept`` are the layers that stay in 16 bits, by the type of 8 bits: ``int8`` or ``fp8``.
    """

    records: Mapping[str, ValueScale]
    network: str = ""
    method: str = ""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: tuple[DataSet, ...] = ()
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def weights(self) -> Mapping[str, Any]:
        """Name and hash of the file of weights, if they are known."""
        return self.sources.get("weights") or self.sources.get("init_net") or {}

    def text(self) -> str:
        """As it stands in the file: a line for each value, then one for each histogram."""
        head = {
            "format": FORMAT,
            "network": self.network,
            "method": self.method,
            "sources": self.sources,
            "data": [{"samples": each.samples, "sha256": each.sha256} for each in self.data],
            "kept": self.kept,
        }
        histograms = {
            name: {"width": record.histogram.width, "counts": [*record.histogram.counts]}
            for name, record in self.records.items()
            if record.histogram is not None
        }
        blobs = {name: _facts(record) for name, record in self.records.items()}
        members = [f"  {ascii_json(key)}: {ascii_json(item)}" for key, item in head.items()]
        members += [_lines("blobs", blobs), _lines("histograms", histograms)]
        return "{\n" + ",\n".join(members) + "\n}\n"


def _facts(record: ValueScale) -> dict[str, float]:
    facts = {"scale": record.scale, "largest": record.largest, "clipped": record.clipped}
    return {name: fact for name, fact in facts.items() if fact is not None}


def _lines(key: str, members: Mapping[str, object]) -> str:
    if not members:
        return f'  "{key}": {{}}'
    lines = (f"    {ascii_json(name)}: {ascii_json(item)}" for name, item in members.items())
    return f'  "{key}": {{\n' + ",\n".join(lines) + "\n  }"


def read_scales(file: str) -> Scales:
    """Raises ``UnreadableFileError`` for a file that is no file of scales, ``ConversionError`` for a wrong scale."""
    try:
        text = read_regular(file, "a file of scales").decode()
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise UnreadableFileError(problem, where=file, fix="give a file of scales") from error
    except UnicodeDecodeError as error:
        raise UnreadableFileError("is not a file of scales", where=file, fix=_WRITE_IT) from error
    try:
        facts = value_from_json(text)
    except ValueError as error:
        fix: str = _WRITE_IT
        if not text.lstrip().startswith("{"):
            other = Option("calibration_cache", file), Option("scales")
            fix = Worded("for a table of TensorRT, ncnn, Caffe: use {} instead of {}", *other)
        raise UnreadableFileError(
            "is not a file of scales", where=file, because=f"it is not JSON: {error}", fix=fix
        ) from error
    return _ScalesReader(file).scales(facts)


class _ScalesReader:
    """JSON becomes scales. All problems name the file."""

    def __init__(self, file: str) -> None:
        self.file = file

    def scales(self, facts: Any) -> Scales:
        version = facts.get("format") if isinstance(facts, dict) else None
        blobs = facts.get("blobs") if isinstance(facts, dict) else None
        if not isinstance(blobs, dict):
            raise self.error('has no "blobs"', _WRITE_IT)
        if version != FORMAT:
            raise self.error(
                f'"format" is {json.dumps(version)}, expected {FORMAT}', "install a newer prototrt"
            )
        histograms = self.mapping(facts, "histograms")
        records = {name: self.record(name, facts, histograms.get(name)) for name, facts in blobs.items()}
        sources = {
            role: file for role, file in self.mapping(facts, "sources").items() if isinstance(file, dict)
        }
        return Scales(
            records,
            str(facts.get("network", "")),
            str(facts.get("method", "")),
            sources,
            tuple(self.data(facts.get("data", []))),
            {eight: self.names(eight, kept) for eight, kept in self.mapping(facts, "kept").items()},
        )

    def mapping(self, facts: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        member = facts.get(key, {})
        if not isinstance(member, dict):
            raise self.error(f'"{key}" is not an object', _WRITE_IT)
        return member

    def names(self, eight: str, kept: Any) -> tuple[str, ...]:
        if not isinstance(kept, list) or not all(isinstance(name, str) for name in kept):
            raise self.error(f'"kept": {eight} is not a list of layers', _WRITE_IT)
        return tuple(kept)

    def record(self, name: str, facts: Any, histogram: Any) -> ValueScale:
        record = facts if isinstance(facts, dict) else {}
        return ValueScale(
            self.number(name, "scale", record.get("scale")),
            self.number(name, "largest", record["largest"]) if "largest" in record else None,
            self.number(name, "clipped", record["clipped"]) if "clipped" in record else None,
            None if histogram is None else self.counts(name, histogram),
        )

    def number(self, name: str, key: str, value: Any) -> float:
        """A number of a blob that is finite and not negative."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= sys.float_info.max:
            raise self.error(
                f'"{name}": {key} is {json.dumps(value)}, expected a number of 0 or more',
                "calibrate again, or correct the number",
            )
        return float(value)

    def counts(self, name: str, histogram: Any) -> Counts:
        entries = histogram if isinstance(histogram, dict) else {}
        counts, width = entries.get("counts"), entries.get("width")
        is_sound = isinstance(counts, list) and all(isinstance(count, int) and count >= 0 for count in counts)
        if not is_sound or not isinstance(width, float) or math.frexp(width)[0] != 0.5:
            raise self.error(
                f'"{name}": the histogram is damaged',
                f'remove "{name}" from "histograms": only merging needs it',
            )
        return Counts(width, tuple(counts or ()))

    def data(self, facts: Any) -> Iterator[DataSet]:
        for each in facts if isinstance(facts, list) else []:
            if isinstance(each, dict) and isinstance(each.get("samples"), int):
                yield DataSet(each["samples"], str(each.get("sha256", "")))

    def error(self, problem: str, fix: str) -> ConversionError:
        return ConversionError(problem, where=self.file, fix=fix)
