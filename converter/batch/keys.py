"""What may be said of a model: every option of the commands, as click knows it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import click

from prototrt.caffe_proto.suggestions import choices
from prototrt.converter.batch.tree import Place
from prototrt.converter.commandline.options.building import build_options
from prototrt.converter.commandline.options.checking import check_options
from prototrt.converter.commandline.options.model import model_options
from prototrt.converter.commandline.options.rewriting import rewrite_options

OWN_KEYS = ("name", "prototxt", "weights", "format", "needs", "timeout", "memory", "matrix")
FILES = ("inputs", "expect", "state")
"""Options that name files: relative to the YAML file, as prototxt and weights are."""
_STATE_FILE = "const:"

_NOT_OPTIONS = ("model", "weights", "target")


@click.command()
@model_options
@rewrite_options
@build_options
@check_options
def _all_options(**given: Any) -> None:
    """Never run: it is read for its parameters."""


PARAMETERS: dict[str, click.Parameter] = {
    str(parameter.name): parameter for parameter in _all_options.params if parameter.name not in _NOT_OPTIONS
}


def _spellings() -> dict[str, str]:
    """``shape`` and ``shapes``, ``min-shapes`` and ``min_shapes``: the option a key means."""
    names = {name: name for name in PARAMETERS}
    for name, parameter in PARAMETERS.items():
        names |= {option.lstrip("-").replace("-", "_"): name for option in parameter.opts}
    return names


_SPELLINGS = _spellings()


def option_of(key: str, place: Place) -> str:
    """The option that a key means; raises where there is none."""
    name = key.replace("-", "_")
    if name not in _SPELLINGS:
        raise place.error(
            f'there is no key "{key}"', fix=f"write {choices(key, [*OWN_KEYS, *map(shown, PARAMETERS)])}"
        )
    return _SPELLINGS[name]


def shown(name: str) -> str:
    return max(PARAMETERS[name].opts, key=len).lstrip("-")


def file_of(name: str, value: Any) -> str | None:
    """The file that an option names, if it does."""
    if name == "state":
        return str(value).removeprefix(_STATE_FILE) if str(value).startswith(_STATE_FILE) else None
    return None if value is None else str(value)


def naming_file(name: str, file: str) -> str:
    """The option's value with that file."""
    return f"{_STATE_FILE}{file}" if name == "state" else file


@functools.cache
def default_options() -> Mapping[str, Any]:
    """What the commands take where nothing is said."""
    context = _all_options.make_context("", ["net.prototxt", "-o", os.devnull])
    return {name: context.params[name] for name in PARAMETERS}


def option_value(name: str, place: Place) -> Any:
    """The value as click would read it from the command line."""
    parameter = PARAMETERS[name]
    try:
        if getattr(parameter, "is_flag", False):
            return place.truth(shown(name))
        if parameter.multiple:
            return tuple(parameter.type(text, parameter) for text in _texts(name, place))
        return parameter.type(",".join(_texts(name, place)), parameter)
    except click.BadParameter as error:
        raise place.error(f"{shown(name)}: {error.message}") from error


def _texts(name: str, place: Place) -> list[str]:
    """A scalar, a list, or a mapping of shapes, as words of a command line."""
    if isinstance(place.content, dict):
        return [f"{blob}:{_sizes(name, sizes)}" for blob, sizes in place.content.items()]
    if isinstance(place.content, list):
        return [element.text(shown(name)) for element in place.content]
    text = place.text(shown(name))
    if name == "state" and text.startswith("const "):  # as it is written on the command line
        text = _STATE_FILE + text.removeprefix("const ").strip()
    return [text]


def _sizes(name: str, place: Place) -> str:
    if isinstance(place.content, list):
        return "x".join(element.text(shown(name)) for element in place.content)
    return place.text(shown(name))


def refuse_contradictions(
    prototxt: str, weights: str | None, options: Mapping[str, Any], place: Place
) -> None:
    """What the commands refuse, too."""
    from prototrt.caffe_proto.caffe2.files import is_database, is_netdef

    seed = options["random_weights"]
    if weights is None and seed is None and not is_database(prototxt):
        raise place.error(
            "the model has no weights", fix="give weights: FILE, or random-weights: SEED to try the topology"
        )
    if weights is not None and seed is not None and not is_netdef(prototxt):
        raise place.error("the model has weights and random-weights", fix="leave one of them out")
    if options["expect"] and not options["inputs"]:
        raise place.error("expected outputs are given without inputs", fix="also give inputs: FILE.npz")
