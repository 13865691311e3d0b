"""The page's script: its modules in one text, since a page in one file has nothing to import them from."""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r'^import \{ (?P<names>[\w, ]+) \} from "\./(?P<module>\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function) (?P<name>\w+))", re.MULTILINE)


def join_modules(main: Path) -> str:
    """The module and all that it imports, each before its importers and in a scope of its own.

    Understands what our modules use: ``import { a, b } from "./x.js";`` in one line, and ``export`` before
    ``const`` and ``function``.
    """
    texts: dict[str, str] = {}
    body = _with_imports(main, texts)
    return "".join([*texts.values(), body])


def _with_imports(module: Path, texts: dict[str, str]) -> str:
    """The text of a module without imports; the modules that it imports are added to ``texts``."""
    text = module.read_text(encoding="utf-8")
    for match in _IMPORT.finditer(text):
        name = match["module"]
        if name not in texts:
            texts[name] = _scope(name, _with_imports(module.with_name(f"{name}.js"), texts))
    return _IMPORT.sub(lambda match: f"const {{ {match['names']} }} = {_variable(match['module'])};", text)


def _scope(name: str, text: str) -> str:
    exported = ", ".join(match["name"] for match in _EXPORT.finditer(text))
    return f"const {_variable(name)} = (() => {{\n{_EXPORT.sub('', text)}return {{ {exported} }};\n}})();\n"


def _variable(module: str) -> str:
    return f"module_{module}"
