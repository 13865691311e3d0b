"""models.yaml: defaults, models, globs and matrices become a list of entries."""

from __future__ import annotations

import glob
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError, UnreadableFileError, raise_all
from prototrt.caffe_proto.common.memory import bytes_from_text
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.weights_choice import no_weights_error, two_sources_error
from prototrt.converter.checking.machines.targets import find_target
from prototrt.converter.files.writing.ownership import DerivedPath
from prototrt.converter.front.batch import keys
from prototrt.converter.front.batch.entry import Entry
from prototrt.converter.front.batch.tree import Place, read_yaml
from prototrt.converter.front.batch.watch import memory_of
from prototrt.converter.product import Product

MOST_MODELS = 100_000
"""Of one matrix: a list of more would take longer to read than anyone waits."""
_TOP_KEYS = ("defaults", "models")
_FORMATS = {"plan": ".plan", "onnx": ".onnx", "torch": ".py"}  # a program has a target
_MOST_SECONDS, _MOST_BYTES = 10**9, 2**62  # what systems can count
_GLOB = re.compile(r"[*?\[]")

Fields = Mapping[str, Place]


def read_models(path: str, folder: str) -> list[Entry]:
    """The entries of a list of models, to be written into ``folder``. Raises with all that is wrong."""
    root = read_yaml(path)
    top = root.items("the file")
    problems = [
        place.error(f'there is no key "{key}"', fix=_fix_of_top_key(key))
        for key, place in top.items()
        if key not in _TOP_KEYS
    ]
    if "models" not in top:
        problems.append(root.error("there are no models", fix="write models: and a list of models"))
    raise_all(problems)
    defaults = top["defaults"].items("defaults") if "defaults" in top else {}
    entries: list[Entry] = []
    for place in top["models"].elements("models"):
        try:
            entries += _entries(_fields(defaults, place), place, path, folder)
        except ConversionError as error:
            problems.append(error)
    if not entries and not problems:
        problems.append(top["models"].error("the list has no models", fix="add models to the list"))
    written = [entry for entry in entries if not entry.fault]
    raise_all([*problems, *_same_names(written), *_same_outputs(written)])
    return entries


def _fix_of_top_key(key: str) -> str:
    if keys.is_key(key):
        return f"indent {key}, so that it belongs to a model or to defaults"
    return f"write {choices(key, _TOP_KEYS)}"


def _fields(defaults: Fields, place: Place) -> Fields:
    """The keys of one model; an empty value undoes a default."""
    own = place.items("a model")
    undone = {key for key, value in own.items() if key in defaults and value.is_null}
    return {key: value for key, value in {**defaults, **own}.items() if key not in undone}


def _entries(fields: Fields, place: Place, path: str, folder: str) -> Iterator[Entry]:
    """The entries of one model: one for each file its glob finds, times each cell of its matrix."""
    raise_all(list(_mistakes(fields, place)))
    base = Path(path).parent
    prototxts = _matches(fields["prototxt"], base)
    for prototxt in prototxts:
        for cell in _cells(fields):
            yield _entry({**fields, **cell}, cell, prototxt, place, base, folder)
    if not prototxts:
        yield from _entry_without_files(fields, place, base, folder)


def _entry_without_files(fields: Fields, place: Place, base: Path, folder: str) -> Iterator[Entry]:
    """What stands in the report for a model whose pattern fits no file, with the pattern as its name."""
    pattern = fields["prototxt"].text("prototxt")
    error = fields["prototxt"].error(
        f'no file is called "{base / pattern}"',
        fix="correct the pattern, which begins at the folder of the list",
    )
    for cell in itertools.islice(_cells(fields), 1):
        entry = _entry({**fields, **cell}, cell, str(base / pattern), place, base, folder)
        yield replace(entry, name=pattern, fault=str(error))


def _mistakes(fields: Fields, place: Place) -> Iterator[ConversionError]:
    """Mistakes in a key that do not depend on the file, so that all are reported at once."""
    if "prototxt" not in fields:
        yield place.error("the model has no prototxt", fix="give prototxt: FILE")
    for key, value in fields.items():
        try:
            _read(key, value)
        except ConversionError as error:
            yield error


def _read(key: str, place: Place) -> object:
    """The value of a key; of names and files only when they are filled in."""
    if key in _READERS:
        return _READERS[key](place)
    if key in keys.OWN_KEYS:
        return None
    return keys.option_value(keys.option_of(key, place), place)


def _matches(place: Place, base: Path) -> list[str]:
    text = str(base / place.text("prototxt"))
    return sorted(glob.glob(text, recursive=True)) if _GLOB.search(text) else [text]


def _cells(fields: Fields) -> Iterator[dict[str, Place]]:
    """Each combination of the matrix; one empty cell where there is none."""
    matrix = fields["matrix"].items("matrix") if "matrix" in fields else {}
    for key, place in matrix.items():
        if key in ("name", "prototxt", "matrix"):
            raise place.error(f"a matrix cannot vary {key}")
        if key not in keys.OWN_KEYS:
            keys.option_of(key, place)
    columns = [place.elements(f"matrix: {key}") for key, place in matrix.items()]
    count = math.prod(map(len, columns))
    if count > MOST_MODELS:
        raise fields["matrix"].error(
            f"the matrix makes {count:,} models, expected at most {MOST_MODELS:,}",
            fix="give its keys fewer values, or split the list",
        )
    for row in itertools.product(*columns):
        yield dict(zip(matrix, row, strict=True))


def _entry(fields: Fields, cell: Fields, prototxt: str, place: Place, base: Path, folder: str) -> Entry:
    words = {"stem": Path(prototxt).stem, "folder": os.path.relpath(Path(prototxt).parent, base)}
    weights, fault = _weights(fields["weights"], words, base) if "weights" in fields else (None, "")
    name = _name(fields, cell, prototxt, base)
    options = _options(fields, words, name, base)
    suffix = _suffix(fields["format"]) if "format" in fields else _usual_suffix(options)
    target = DerivedPath(os.path.join(folder, name + suffix))
    inherited = [key for key in fields if key not in place.items("a model") and key not in cell]
    limits = {key.replace("-", "_"): read(fields[key]) for key, read in _LIMITS.items() if key in fields}
    entry = Entry(name, place.where, prototxt, weights, target, options, fault=fault, **limits)
    _refuse_contradictions(entry, place, inherited)
    return entry


def _refuse_contradictions(entry: Entry, place: Place, inherited: Sequence[str]) -> None:
    """Refuse what the commands refuse as well. ``inherited`` are the keys that the defaults set."""
    try:
        _refuse_wrong_source(entry.prototxt, entry.weights, entry.options["random_weights"])
        Product.of(entry.conversion)
    except OptionsError as error:
        raise keys.in_the_list(error, place, inherited) from error
    if entry.options["expect"] and not entry.options["inputs"]:
        raise place.error("expected outputs are given without inputs", fix="also give inputs: FILE.npz")


def _refuse_wrong_source(prototxt: str, weights: str | None, seed: int | None) -> None:
    """Raise for weights with a seed, and for neither. Caffe2's nets may hold weights, or state the shapes to draw."""
    if (weights is None) == (seed is None) and not _may_be_caffe2(prototxt):
        raise no_weights_error(prototxt) if weights is None else two_sources_error()


def _may_be_caffe2(file: str) -> bool:
    try:
        # The message for a file that is not there names what is like it in its folder: long, for each of many models.
        return not os.path.exists(file) or open_input(file, "a prototxt").is_netdef
    except UnreadableFileError:
        return True  # its own conversion says why it cannot be read


def _options(fields: Fields, words: Mapping[str, str], model: str, base: Path) -> dict[str, Any]:
    """The options; ``words`` are filled into the names of files, and ``{name}`` into those of files to write."""
    places = {keys.option_of(key, place): place for key, place in fields.items() if key not in keys.OWN_KEYS}
    values = {name: keys.option_value(name, place) for name, place in places.items()}
    for name in keys.FILES:
        if name in values:
            values[name] = keys.with_files(name, values[name], partial(_file, places[name], base, words))
    for name in keys.OUTPUTS:
        if file := values.get(name):
            values[name] = _file(places[name], base, {**words, "name": model}, file)
    return {**keys.default_options(), **values}


def _file(place: Place, base: Path, words: Mapping[str, str], text: str) -> str:
    return str(base / _text_with_names(place, text, words))


def _weights(place: Place, words: Mapping[str, str], base: Path) -> tuple[str | None, str]:
    """The file, and why there is none where a pattern fits no file or several."""
    if place.is_null:
        return None, ""
    text = str(base / _text_with_names(place, place.text("weights"), words))
    if not _GLOB.search(text):
        return text, ""
    matches = sorted(glob.glob(text, recursive=True))
    if len(matches) == 1:
        return matches[0], ""
    error = place.error(
        f'{len(matches) or "no"} files are called "{text}", expected one',
        fix="use a pattern that fits one file for each prototxt, or give such a model its own entry",
    )
    return text, str(error)


def _text_with_names(place: Place, text: str, words: Mapping[str, str]) -> str:
    """The text with {stem} and the like replaced. Only names stand in braces: a width would make any length."""
    try:
        pieces = list(Formatter().parse(text))
        if all(not spec and conversion is None for _, _, spec, conversion in pieces):
            return "".join(before + (words[name] if name is not None else "") for before, name, *_ in pieces)
    except (KeyError, ValueError):
        pass
    placeholders = ", ".join(f"{{{word}}}" for word in words)
    raise place.error(f'"{text}" cannot be filled in', fix=f"use some of {placeholders}")


def _name(fields: Fields, cell: Fields, prototxt: str, base: Path) -> str:
    """As given, or after the prototxt's path; what the matrix varies is added unless the name says it."""
    path = Path(os.path.splitext(os.path.relpath(prototxt, base))[0])
    labels = {key: _label(place) for key, place in cell.items()}
    words = {"stem": path.name, "folder": path.parent.name, **labels}
    if "name" not in fields:
        return _plain("-".join([*(part for part in path.parts if part != ".."), *labels.values()]))
    place = fields["name"]
    text = place.text("name")
    placed = [key for key in labels if f"{{{key}}}" in text]
    return _plain(
        "-".join(
            [_text_with_names(place, text, words), *(labels[key] for key in labels if key not in placed)]
        )
    )


def _label(place: Place) -> str:
    if isinstance(place.content, str):
        return place.content or "none"
    if isinstance(place.content, list):
        return "x".join(map(_label, place.content))
    return "-".join(f"{key}-{_label(inner)}" for key, inner in place.content.items())


def _plain(name: str) -> str:
    """What every file system takes."""
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.") or "model"


def _same_names(entries: list[Entry]) -> Iterator[ConversionError]:
    first: dict[str, Entry] = {}
    for entry in entries:
        other = first.setdefault(entry.target.lower(), entry)  # some file systems fold case
        if other is not entry:
            yield ConversionError(
                f'two models are called "{entry.name}"',
                where=entry.where,
                because=f"the first is in {other.where}",
                fix="give each a name: of its own, such as {folder}-{stem}",
            )


def _same_outputs(entries: list[Entry]) -> Iterator[ConversionError]:
    first: dict[str, Entry] = {}
    for entry in entries:
        for name, file in entry.outputs.items():
            other = first.setdefault(os.path.normpath(file).lower(), entry)
            if other is not entry:
                key = keys.shown(name)
                yield ConversionError(
                    f'two models would write "{file}"',
                    where=entry.where,
                    because=f"the first is in {other.where}",
                    fix=f'put the name of the model into {key}:, as in {key}: "{{name}}{Path(file).suffix}"',
                )


def _usual_suffix(options: Mapping[str, Any]) -> str:
    return _FORMATS["plan"] if options["target"] is None else find_target(options["target"]).suffix


def _suffix(place: Place) -> str:
    text = place.text("format")
    if text not in _FORMATS:
        raise place.error(f'format is "{text}", expected {" or ".join(_FORMATS)}')
    return _FORMATS[text]


def _needs(place: Place) -> tuple[str, ...]:
    if isinstance(place.content, list):
        return tuple(element.text("needs") for element in place.content)
    return (place.text("needs"),)


def _seconds(place: Place, key: str = "timeout") -> float:
    text = place.text(key)
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not 0 < float(text) < _MOST_SECONDS:
        raise place.error(f'{key} is "{text}", expected seconds, more than 0')
    return float(text)


def _memory(place: Place) -> int:
    if memory_of(os.getpid()) is None:
        raise place.error("memory cannot be limited on this system", fix="use timeout: alone")
    return _bytes(place, "memory")


def _bytes(place: Place, key: str) -> int:
    text = place.text(key)
    count = bytes_from_text(text)
    if not count or count > _MOST_BYTES:
        raise place.error(f'{key} is "{text}", expected a size such as 4GB or 500MiB')
    return count


_LIMITS: Mapping[str, Callable[[Place], Any]] = {
    "needs": _needs,
    "timeout": _seconds,
    "memory": _memory,
    "cpu-time": partial(_seconds, key="cpu-time"),
    "file-size": partial(_bytes, key="file-size"),
}
_READERS = {"format": _suffix, **_LIMITS}
