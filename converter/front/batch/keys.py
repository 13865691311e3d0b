"""What may be said of a model: every option of loading, rewriting, building, exporting and checking."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from typing import Any, TypeVar

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError
from prototrt.caffe_proto.common.options import Options, one_name, option_fields, refuse_bad_value, type_of
from prototrt.caffe_proto.common.suggestions import choices, close_names
from prototrt.caffe_proto.common.wording import worded
from prototrt.converter.files import written_values
from prototrt.converter.files.written_values import Notation, notation_of
from prototrt.converter.front.batch.tree import Place
from prototrt.converter.front.batch.wording import list_words
from prototrt.converter.options import ConversionOptions, VerifyOptions

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
FIELDS: Mapping[str, Field[Any]] = {
    each.name: each
    for each in (*option_fields(ConversionOptions), *option_fields(VerifyOptions))
    if each.name not in OWN_KEYS and "not_in_lists" not in each.metadata
}
FILES = tuple(name for name, each in FIELDS.items() if "reads" in each.metadata)
"""Options that name files to read: relative to the YAML file, as prototxt and weights are."""
OUTPUTS = tuple(name for name, each in FIELDS.items() if "writes" in each.metadata and name not in FILES)
"""Options that name files to write: relative to the YAML file, too."""
CONTENT = tuple(name for name in FILES if "writes" not in FIELDS[name].metadata)
"""Files that decide what is computed. What a conversion also updates changes the time that it takes."""
_CALLED = {
    called: name
    for name, each in FIELDS.items()
    for called in (*each.metadata.get("called", "").split(), each.metadata.get("once", name))
}
"""Keys that are called as on the command line."""


def is_key(key: str) -> bool:
    """Whether a model may have it."""
    name = key.replace("-", "_")
    return key in OWN_KEYS or name in FIELDS or name in _CALLED


def option_of(key: str, place: Place) -> str:
    """The option that a key means, whichever dashes it has; raises where there is none."""
    if not is_key(key):
        raise place.error(f'there is no key "{key}"', fix=_fix_of_key(key))
    name = key.replace("-", "_")
    return _CALLED.get(name, name)


def _fix_of_key(key: str) -> str:
    """Similar keys; otherwise those of lists alone, because the options are too many to name."""
    names = [*OWN_KEYS, *map(shown, FIELDS)]
    if close_names(key, names):
        return f"write {choices(key, names)}"
    return f"write {', '.join(OWN_KEYS)} or an option of convert or verify"


def shown(name: str) -> str:
    return name.replace("_", "-")


def with_files(name: str, value: Any, change: Callable[[str], str]) -> Any:
    """The option's value with other names of its files, ``change`` of each."""
    return written_values.with_files(type_of(FIELDS[name]), value, change)


def files_in(name: str, value: Any) -> list[str]:
    """The files that an option names."""
    return written_values.files_in(type_of(FIELDS[name]), value)


def files_of(options: Mapping[str, Any]) -> list[str]:
    """All files that the options name."""
    return [file for name in FILES for file in files_in(name, options[name])]


def default_options() -> dict[str, Any]:
    """What counts where nothing is said."""
    return {name: option.default for name, option in FIELDS.items()}


def options_of(kind: type[O], values: Mapping[str, Any]) -> O:
    """Those of one step, out of all that are given."""
    return kind(**{each.name: values[each.name] for each in option_fields(kind) if each.name in values})


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


def in_the_list(error: OptionsError, place: Place, inherited: Sequence[str] = ()) -> ConversionError:
    """What is wrong with an option, said of the list. A default that is part of the problem can be undone."""
    problem = worded(error.problem, list_words)
    words = re.split(r"[^\w-]+", problem.replace("_", "-"))
    fixes = [f"undo the default with {key}: null" for key in inherited if key.replace("_", "-") in words]
    if error.fix is not None:
        fixes.append(worded(error.fix, list_words))
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
