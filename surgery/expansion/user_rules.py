"""Rules that a user wrote: a Python file that registers them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from prototrt.caffe_proto.errors import UnreadableFileError
from prototrt.surgery.expansion.layer_builder import LayerRule, layer_rule
from prototrt.surgery.expansion.python_layers import python_rule
from prototrt.surgery.ir.registry import Registry

_WRITE_THEM = "write it as docs/forks.md shows"
_loaded: dict[Path, tuple[bytes, ModuleType]] = {}


def load_rules(file: str) -> None:
    """Run a file of rules, once for each content: what it registered before is forgotten.

    Raises ``UnreadableFileError``. The file is a program, which may do anything that its user may.
    """
    path = Path(file).resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"cannot be read: {error.strerror}", where=file, fix=_WRITE_THEM) from error
    if path in _loaded and _loaded[path][0] == content:
        return
    if path in _loaded:
        _forget(_loaded.pop(path)[1])
    module = ModuleType(f"rules of {file}")
    try:
        exec(compile(content, file, "exec"), module.__dict__)
    except Exception as error:
        _forget(module)
        raise UnreadableFileError(
            "is no file of rules", where=file, because=f"{type(error).__name__}: {error}", fix=_WRITE_THEM
        ) from error
    _loaded[path] = content, module


def _forget(module: ModuleType) -> None:
    registries: tuple[Registry[str, LayerRule], ...] = (layer_rule, python_rule)
    for registry in registries:
        of_file = [key for key, rule in registry.rules.items() if rule.__globals__ is module.__dict__]
        for key in of_file:
            del registry.rules[key]
