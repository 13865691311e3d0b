"""The user's rules: a Python file that registers them, only for the nets that are converted with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.recognition import read_text
from prototrt.surgery.expansion.layer_builder import LayerRule, layer_rule
from prototrt.surgery.expansion.python_layers import python_rule

_WRITE_THEM = "write it as docs/forks.md shows"
_lock = Lock()
_known: dict[tuple[Path, bytes], UserRules] = {}


@dataclass(frozen=True, slots=True)
class UserRules:
    """Rules by layer type, and for layers written in Python by ``MODULE.LAYER``."""

    layers: Mapping[str, LayerRule] = field(default_factory=dict)
    python: Mapping[str, LayerRule] = field(default_factory=dict)


def rules_of(file: str) -> UserRules:
    """Run a file of rules, once for each content. It is a program with all the rights of its user.

    Raises ``UnreadableFileError``.
    """
    content = read_text(file, "a Python file with rules", _WRITE_THEM)
    path = Path(file).resolve()
    with _lock:
        if (path, content) not in _known:
            _known[path, content] = _registered(file, content)
        return _known[path, content]


def _registered(file: str, content: bytes) -> UserRules:
    """The rules that the file adds. The registries are restored afterwards."""
    try:
        with layer_rule.apart() as layers, python_rule.apart() as python:
            exec(compile(content, file, "exec"), {"__name__": f"rules of {file}"})
    except Exception as error:
        raise UnreadableFileError(
            "is not a file of rules", where=file, because=f"{type(error).__name__}: {error}", fix=_WRITE_THEM
        ) from error
    return UserRules(layers, python)
