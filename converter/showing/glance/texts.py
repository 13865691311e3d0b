"""Text that is not a net: manifests, files of scales, calibration tables, solvers, lists of models."""

from __future__ import annotations

import re
from typing import Any

from prototrt.caffe_proto.common.files import value_from_json
from prototrt.caffe_proto.recognition import OpenFile, text_of
from prototrt.caffe_proto.text.outline import is_net, is_solver, nets_of_solver
from prototrt.caffe_proto.text.scalars import text_from_bytes
from prototrt.converter.showing.glance.facts import Fact, FileFacts, FileKind, Rows
from prototrt.converter.showing.glance.manifests import facts_of
from prototrt.converter.showing.glance.written import result
from prototrt.surgery.scales.scales_file import read_scales
from prototrt.surgery.scales.tables import read_table

_LIST = re.compile(r"^models\s*:", re.MULTILINE)
_TABLE = re.compile(r"\S.*? [-+]?[0-9][-+.0-9eE]*")
_CACHE = "TRT-"


def text(file: OpenFile) -> FileFacts | None:
    """The facts of a text file. None for a net, and for unknown text, which is then read as a net and refused there.

    Raises ``ConversionError`` for a file of scales or a table with mistakes.
    """
    content = text_from_bytes(text_of(file, "a prototxt", "give a file that prototrt reads"))
    if content.lstrip().startswith("{"):
        return _json(file, content)
    if content.startswith(_CACHE) or _is_table(content):
        return _table(file)
    if is_solver(content):
        return _solver(file, content)
    if not is_net(content) and _LIST.search(content):
        return FileFacts.of(file, FileKind.MODEL_LIST)
    return None


def _is_table(content: str) -> bool:
    """Whether each line has a name and numbers, as in the tables of several programs."""
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    return bool(lines) and all(map(_TABLE.fullmatch, lines))


def _json(file: OpenFile, content: str) -> FileFacts | None:
    """The facts of a JSON object, whose keys say what it is; None if the text is not a JSON object."""
    try:
        value: Any = value_from_json(content)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if {"recurrences", "inputs", "tool"} <= value.keys():
        facts = facts_of(file.content[:])
        of = file.name.removesuffix(".json")
        return FileFacts.of(file, FileKind.MANIFEST, facts, mentions={"of": of})
    if "blobs" in value and "bottoms" not in value:
        return _scales(file)
    if "comparisons" in value and "holds" in value:
        facts = {"holds": "yes" if value["holds"] else "no", "comparisons": len(value["comparisons"])}
        return FileFacts.of(file, FileKind.VERIFICATION, facts)
    if value and all(isinstance(each, dict) and {"scale", "min"} & each.keys() for each in value.values()):
        return _table(file)
    keys, advice = {"keys": [*map(str, value)]}, "it is not one that prototrt writes"
    return result(file, value) or FileFacts.of(file, FileKind.OTHER, keys, other="a JSON file", advice=advice)


def _scales(file: OpenFile) -> FileFacts:
    scales = read_scales(file.name)
    facts: dict[str, Fact] = {
        "net": scales.network or "(no name)",
        "method": scales.method or "(not stated)",
        "calls": sum(each.samples for each in scales.data),
        "weights": str(scales.weights.get("file", "(not stated)")),
    }
    rows = [(name, f"{record.scale:g}") for name, record in scales.records.items()]
    return FileFacts.of(file, FileKind.SCALES, facts, Rows("scales", ("blob", "scale"), rows))


def _table(file: OpenFile) -> FileFacts:
    entries = read_table(file.name)
    rows = [(entry.name, f"{entry.scale:g}") for entry in entries]
    facts: dict[str, Fact] = {"each name is": entries[0].named.value}
    return FileFacts.of(file, FileKind.TABLE, facts, Rows("scales", ("name", "scale"), rows))


def _solver(file: OpenFile, content: str) -> FileFacts:
    nets = nets_of_solver(content)
    facts: dict[str, Fact] = {"net": nets[0] if nets else "(not stated)"}
    return FileFacts.of(file, FileKind.SOLVER, facts, mentions={"net": nets[0]} if nets else {})
