"""How a list of models spells the options and commands that a message names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from prototrt.caffe_proto.common.wording import Command, Named, OptionValue, Together, command_words

_PLAIN = re.compile(r"[A-Za-z.][\w./-]*")


def list_words(named: Named) -> str:
    """As in YAML: ``outputs: [fc]``, ``strict: true``. A list runs no other command: these are as they are typed."""
    if isinstance(named, Command):
        return command_words(named)
    if isinstance(named, Together):
        return ", ".join(map(list_words, named.each))
    key = named.name.replace("_", "-")
    return key if named.value is None else f"{key}: {_in_yaml(named.value)}"


def _in_yaml(value: OptionValue) -> str:
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, str):
        return _word(value)
    if isinstance(value, Mapping):
        texts = {
            name: sizes if isinstance(sizes, str) else "x".join(map(str, sizes))
            for name, sizes in value.items()
        }
        pairs = [f"{_word(name)}: {text}" for name, text in texts.items()]
        return f"{{{', '.join(pairs)}}}"
    return f"[{', '.join(map(_word, value))}]"


def _word(text: str) -> str:
    """Quoted where YAML would take it for more than a word."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
