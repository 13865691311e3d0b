"""What may be said of a model: every option of loading, rewriting, building, exporting and checking."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError, UnreadableFileError
from prototrt.caffe_proto.common.options import (
    Names,
    OpenShapes,
    Options,
    Shapes,
    SizeRanges,
    one_name,
    option_fields,
    refuse_bad_value,
)
from prototrt.caffe_proto.common.suggestions import choices as written
from prototrt.caffe_proto.common.wording import worded
from prototrt.caffe_proto.options import Definitions, LoadOptions, Overrides
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile
from prototrt.caffe_proto.weights_choice import no_weights_error, two_sources_error
from prototrt.converter.files.written_values import (
    definition_from_text,
    file_of_state,
    open_shape_from_text,
    override_from_text,
    pools_from_text,
    profile_from_text,
    range_from_text,
    shape_from_text,
    state_from_text,
    with_state_file,
    words_from_text,
)
from prototrt.converter.front.batch.tree import Place
from prototrt.converter.front.batch.wording import list_words
from prototrt.converter.options import (
    BuildOptions,
    ConversionOptions,
    ConvertOptions,
    ExportOptions,
    PoolSizes,
    Profiles,
    VerifyOptions,
)
from prototrt.converter.product import Product
from prototrt.surgery.options import RewriteOptions, States

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
FILES = (
    "inputs",
    "expect",
    "state",
    "rules",
    "replace",
    "settings",
    "scales",
    "calibration_cache",
    "timing_cache_file",
)
"""Options that name files to read: relative to the YAML file, as prototxt and weights are."""
UPDATED_FILES = ("timing_cache_file",)
"""Those that a conversion also writes: what they hold changes the time that it takes, and not what is computed."""

GROUPS = (LoadOptions, RewriteOptions, BuildOptions, ExportOptions, ConvertOptions, VerifyOptions)
FIELDS: Mapping[str, Field[Any]] = {
    each.name: each
    for kind in GROUPS
    for each in option_fields(kind)
    if each.name not in OWN_KEYS and "not_in_lists" not in each.metadata
}
_ALSO = {
    "net_stage": "stages",
    "on": "ways",
    "profile": "profiles",
    "recurrence": "recurrences",
    "output": "outputs",
    "set": "overrides",
    "shape": "shapes",
    "size": "sizes",
    "stage": "stages",
}
"""Keys that are called as on the command line."""


def option_of(key: str, place: Place) -> str:
    """The option that a key means, whichever dashes it has; raises where there is none."""
    name = key.replace("-", "_")
    if name not in FIELDS and name not in _ALSO:
        raise place.error(
            f'there is no key "{key}"', fix=f"write {written(key, [*OWN_KEYS, *map(shown, FIELDS)])}"
        )
    return _ALSO.get(name, name)


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
        value = _READERS[_types()[name]](name, place)
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


@cache
def _types() -> Mapping[str, Any]:
    """The type of each option. None is the absence of a key; ``States`` is a word there, inputs, scales and
    settings are files."""
    hints = {name: hint for kind in GROUPS for name, hint in _hints(kind).items() if name in FIELDS}
    return {**hints, "inputs": str, "scales": str, "settings": str, "state": States}


def _hints(kind: type[Options]) -> dict[str, Any]:
    # A list cannot hold NumPy arrays. Python 3.10 takes dataclasses' mark for no type.
    types = {"Array": object, "KW_ONLY": object}
    return {name: _plain(hint) for name, hint in get_type_hints(kind, localns=types).items()}


def _plain(hint: Any) -> Any:
    """The type that a list states: without None, and any word for one of a ``Literal``."""
    if get_origin(hint) is Literal:
        return str
    if get_origin(hint) is Sequence and get_origin(get_args(hint)[0]) is Literal:
        return Names
    if get_origin(hint) not in (Union, UnionType):
        return hint
    others = {_plain(each) for each in get_args(hint) if each is not type(None)}
    return others.pop() if len(others) == 1 else hint


def _flag(name: str, place: Place) -> bool:
    return place.truth(shown(name))


def _number(name: str, place: Place) -> int:
    text = place.text(shown(name))
    try:
        return int(text)
    except ValueError:
        raise place.error(f'{shown(name)} is "{text}", expected a whole number') from None


def _share(name: str, place: Place) -> float:
    text = place.text(shown(name))
    try:
        return float(text)
    except ValueError:
        raise place.error(f'{shown(name)} is "{text}", expected a number') from None


def _word(name: str, place: Place) -> str:
    return one_name(FIELDS[name], place.text(shown(name)))


def _names(name: str, place: Place) -> Any:
    """An empty list undoes a default."""
    if isinstance(place.content, list):
        return tuple(element.text(shown(name)) for element in place.content) or FIELDS[name].default
    text = place.text(shown(name))
    return words_from_text(text) if "choices" in FIELDS[name].metadata else (text,)


def _shapes(name: str, place: Place) -> dict[str, tuple[int, ...]]:
    return dict(map(shape_from_text, _texts(name, place, "x")))


def _open_shapes(name: str, place: Place) -> dict[str, tuple[int | str, ...]]:
    if isinstance(place.content, dict):
        return dict(
            open_shape_from_text(f"{blob}:{_open_shape(name, sizes)}")
            for blob, sizes in place.content.items()
        )
    return dict(map(open_shape_from_text, _texts(name, place, "x")))


def _open_shape(name: str, place: Place) -> str:
    """A text as on the command line, or a list, in which sizes that vary need no brackets."""
    if not isinstance(place.content, list):
        return place.text(shown(name))
    sizes = [element.text(shown(name)) for element in place.content]
    return "x".join(
        size if size.lstrip("-").isdecimal() or size.startswith("[") else f"[{size}]" for size in sizes
    )


def _ranges(name: str, place: Place) -> dict[str, tuple[int, ...]]:
    if isinstance(place.content, dict):
        return dict(
            range_from_text(f"{size}={_joined(name, span, '..')}") for size, span in place.content.items()
        )
    return dict(map(range_from_text, _texts(name, place, "..")))


def _overrides(name: str, place: Place) -> dict[str, str]:
    if isinstance(place.content, dict):
        return {path: _joined(name, value, ",") for path, value in place.content.items()}
    return dict(map(override_from_text, _texts(name, place, ",")))


def _definitions(name: str, place: Place) -> dict[str, str]:
    if isinstance(place.content, dict):
        return {placeholder: value.text(shown(name)) for placeholder, value in place.content.items()}
    return dict(map(definition_from_text, _texts(name, place, ",")))


def _pools(name: str, place: Place) -> dict[str, str]:
    if isinstance(place.content, dict):
        return {pool: value.text(shown(name)) for pool, value in place.content.items()}
    return pools_from_text(place.text(shown(name)))


def _profiles(name: str, place: Place) -> tuple[dict[str, tuple[int, ...]], ...]:
    return tuple(
        profile_from_text(
            element.text(shown(name))
            if not isinstance(element.content, dict)
            else ",".join(f"{size}={_joined(name, range_, '..')}" for size, range_ in element.content.items())
        )
        for element in place.elements(shown(name))
    )


def _state(name: str, place: Place) -> str:
    return state_from_text(place.text(shown(name)))


def _texts(name: str, place: Place, separator: str) -> list[str]:
    """A scalar, a list, or a mapping of shapes, as words of a command line."""
    if isinstance(place.content, dict):
        return [f"{blob}:{_joined(name, sizes, separator)}" for blob, sizes in place.content.items()]
    if isinstance(place.content, list):
        return [element.text(shown(name)) for element in place.content]
    return place.text(shown(name)).split(",")


def _joined(name: str, place: Place, separator: str) -> str:
    if isinstance(place.content, list):
        return separator.join(element.text(shown(name)) for element in place.content)
    return place.text(shown(name))


_READERS: Mapping[Any, Callable[[str, Place], Any]] = {
    bool: _flag,
    int: _number,
    float: _share,
    str: _word,
    Names: _names,
    Shapes: _shapes,
    OpenShapes: _open_shapes,
    SizeRanges: _ranges,
    Overrides: _overrides,
    Definitions: _definitions,
    PoolSizes: _pools,
    Profiles: _profiles,
    States: _state,
}
