"""What may be said of a model: every option of loading, rewriting, building, exporting and checking."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from typing import Any, TypeVar

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError, UnreadableFileError
from prototrt.caffe_proto.common.options import (
    Options,
    one_name,
    option_fields,
    refuse_bad_value,
    type_of,
)
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.common.wording import worded
from prototrt.caffe_proto.options import LoadOptions
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile
from prototrt.caffe_proto.weights_choice import no_weights_error, two_sources_error
from prototrt.converter.files.written_values import Notation, file_of_state, notation_of, with_state_file
from prototrt.converter.front.batch.tree import Place
from prototrt.converter.front.batch.wording import list_words
from prototrt.converter.options import (
    BuildOptions,
    ConversionOptions,
    ConvertOptions,
    ExportOptions,
    VerifyOptions,
)
from prototrt.converter.product import Product
from prototrt.surgery.options import RewriteOptions

O = TypeVar("O", bound=Options)  # noqa: E741  options

OWN_KEYS = (
    "name",
    "prototxt",
    "weights",
    "format",
    "needs",
    "timeout",
    "memory",
    "cpu-time",
    "file-size",
    "matrix",
)
GROUPS = (LoadOptions, RewriteOptions, BuildOptions, ExportOptions, ConvertOptions, VerifyOptions)
FIELDS: Mapping[str, Field[Any]] = {
    each.name: each
    for kind in GROUPS
    for each in option_fields(kind)
    if each.name not in OWN_KEYS and "not_in_lists" not in each.metadata
}
FILES = tuple(name for name, each in FIELDS.items() if "reads" in each.metadata)
"""Options that name files to read: relative to the YAML file, as prototxt and weights are."""
OUTPUTS = tuple(name for name, each in FIELDS.items() if "writes" in each.metadata and name not in FILES)
"""Options that name files to write: relative to the YAML file, too."""
CONTENT = tuple(name for name in FILES if "writes" not in FIELDS[name].metadata)
"""Files that decide what is computed. What a conversion also updates changes the time that it takes."""
_CALLED = {
    called: name for name, each in FIELDS.items() for called in each.metadata.get("called", "").split()
}
"""Keys that are called as on the command line."""


def option_of(key: str, place: Place) -> str:
    """The option that a key means, whichever dashes it has; raises where there is none."""
    name = key.replace("-", "_")
    if name not in FIELDS and name not in _CALLED:
        raise place.error(
            f'there is no key "{key}"', fix=f"write {choices(key, [*OWN_KEYS, *map(shown, FIELDS)])}"
        )
    return _CALLED.get(name, name)


def shown(name: str) -> str:
    return name.replace("_", "-")


def with_files(name: str, value: Any, change: Callable[[str], str]) -> Any:
    """The option's value with other names of its files, ``change`` of each."""
    if name == "replace":
        return {layer: _with_file(place, change) for layer, place in (value or {}).items()} or None
    file = file_of_state(value) if name == "state" else value
    if file is None:
        return value
    return with_state_file(change(file)) if name == "state" else change(file)


def _with_file(place: str, change: Callable[[str], str]) -> str:
    """``FILE.py:FUNCTION`` with another file. A text without a function is refused when the file is read."""
    file, colon, function = place.rpartition(":")
    return f"{change(file)}:{function}" if colon else change(place)


def files_in(name: str, value: Any) -> list[str]:
    """The files that an option names."""
    files: list[str] = []

    def note(file: str) -> str:
        files.append(file)
        return file

    with_files(name, value, note)
    return files


def files_of(options: Mapping[str, Any]) -> list[str]:
    """All files that the options name."""
    return [file for name in FILES for file in files_in(name, options[name])]


def default_options() -> dict[str, Any]:
    """What counts where nothing is said."""
    return {name: option.default for name, option in FIELDS.items()}


def options_of(kind: type[O], values: Mapping[str, Any]) -> O:
    """Those of one step, out of all that are given."""
    own = {each.name: values[each.name] for each in option_fields(kind) if each.name in values}
    if file := file_of_state(own.get("state", "")):
        own["state"] = ArraysOfFile(file)
    return kind(**own)


def conversion_options(target: str, weights: str | None, options: Mapping[str, Any]) -> ConversionOptions:
    """What ``convert`` takes for an entry. Raises ``OptionsError``."""
    return options_of(ConversionOptions, {**options, "file": target, "weights": weights})


def option_value(name: str, place: Place) -> Any:
    """The value at this place."""
    try:
        value = _value(name, FIELDS[name], place)
        refuse_bad_value(FIELDS[name], value)
        return value
    except OptionsError as error:
        raise in_the_list(error, place) from error
    except ValueError as error:
        raise place.error(f"{shown(name)}: {error}") from error


def refuse_contradictions(
    prototxt: str,
    weights: str | None,
    target: str,
    options: Mapping[str, Any],
    place: Place,
    inherited: Sequence[str] = (),
) -> None:
    """Refuse what the commands refuse as well. ``inherited`` are the keys that the defaults set."""
    try:
        _refuse_wrong_source(prototxt, weights, options["random_weights"])
        Product.of(conversion_options(target, weights, options))
    except OptionsError as error:
        raise in_the_list(error, place, inherited) from error
    if options["expect"] and not options["inputs"]:
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


def in_the_list(error: OptionsError, place: Place, inherited: Sequence[str] = ()) -> ConversionError:
    """What is wrong with an option, said of the list. A default that is part of the problem can be undone."""
    problem = worded(error.problem, list_words)
    fixes = [] if error.fix is None else [worded(error.fix, list_words)]
    words = re.split(r"[^\w-]+", problem.replace("_", "-"))
    fixes += [f"undo the default with {key}: null" for key in inherited if key.replace("_", "-") in words]
    return place.error(problem, fix=", or ".join(fixes) or None)


def _value(name: str, option: Field[Any], place: Place) -> Any:
    kind, written, key = type_of(option), notation_of(option), shown(name)
    if kind == "bool":
        return place.truth(key)
    if kind in _NUMBERS:
        return _number(kind, key, place)
    if written is None:
        return one_name(option, place.text(key))
    if isinstance(place.content, dict) and written.pair is not None and kind != "Profiles":
        if not written.pair:
            return {name: _text(written, key, each) for name, each in place.content.items()}
        words = _pairs(written, key, place.content)
    elif kind == "Profiles" or isinstance(place.content, list):
        words = [_word(written, key, element) for element in place.elements(key)]
    else:
        text = place.text(key)
        words = [text] if written.pair is None or written.collect is None else text.split(",")
    values = map(written.read, words)
    # An empty list undoes a default.
    return next(values) if written.collect is None else written.collect(values) or option.default


_NUMBERS: Mapping[str, tuple[Callable[[str], float], str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
}


def _number(kind: str, key: str, place: Place) -> float:
    read, expected = _NUMBERS[kind]
    text = place.text(key)
    try:
        return read(text)
    except ValueError:
        raise place.error(f'{key} is "{text}", expected {expected}') from None


def _word(written: Notation, key: str, place: Place) -> str:
    """What stands for it on a command line: a text, or the pairs of a mapping."""
    if isinstance(place.content, dict) and written.pair:
        return ",".join(_pairs(written, key, place.content))
    return place.text(key)


def _pairs(written: Notation, key: str, content: Mapping[str, Place]) -> list[str]:
    return [f"{name}{written.pair}{_text(written, key, each)}" for name, each in content.items()]


def _text(written: Notation, key: str, place: Place) -> str:
    if written.join is None or not isinstance(place.content, list):
        return place.text(key)
    return written.join([element.text(key) for element in place.content])
