"""The page itself: a template, its style and script, Graphviz for browsers, and the facts."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prototrt import __version__
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.installing import refuse_without
from prototrt.caffe_proto.common.visible import visible, visible_line

FOLDER = Path(__file__).parent
GRAPHVIZ = FOLDER / "vendor" / "graphviz.js"
"""Fetched by builds, with its licence beside it; part of wheels, not of the repository."""
_OF_LINES = ("warnings",)
"""Facts whose texts have several lines; in each line, a name is visible already."""
_VISIBLE = ("drawings",)
"""Facts whose texts are visible already: those of a ``Drawing``."""
_GRAPHVIZ_SOURCES = ("blob:", "'wasm-unsafe-eval'")
"""Graphviz is a module that the page makes from its own text, and that compiles WebAssembly."""
_IMPORT = re.compile(r'^import \{ (?P<names>[\w, ]+) \} from "\./(?P<module>\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function) (?P<name>\w+))", re.MULTILINE)


def refuse_without_jinja() -> None:
    """Raise ``ConversionError`` where no page can be made."""
    refuse_without("jinja2", "a page needs Jinja2")


def page(facts: Mapping[str, Any]) -> str:
    """The HTML file."""
    refuse_without_jinja()
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    style, script = _text(FOLDER / "page.css"), join_modules(FOLDER / "script" / "main.js")
    return environment.get_template("page.html.j2").render(
        facts={
            name: fact if name in _VISIBLE else _visible(fact, name in _OF_LINES)
            for name, fact in facts.items()
        },
        graphviz=_graphviz(),
        policy=policy([style], [script], _GRAPHVIZ_SOURCES),
        script=script,
        style=style,
        version=__version__,
    )


def _visible(facts: Any, has_lines: bool) -> Any:
    """The facts with no hidden characters in any text, each on one line unless it ``has_lines``."""
    if isinstance(facts, str):
        return visible(facts) if has_lines else visible_line(facts)
    if isinstance(facts, dict):
        return {name: _visible(fact, has_lines) for name, fact in facts.items()}
    if isinstance(facts, (list, tuple)):
        return [_visible(fact, has_lines) for fact in facts]
    return facts


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _graphviz() -> str:
    """Graphviz as a JavaScript module that holds its WebAssembly."""
    try:
        text = _text(GRAPHVIZ)
    except OSError as error:
        raise ConversionError(
            "a page needs Graphviz for browsers, which is missing",
            where=str(GRAPHVIZ),
            fix="install npm, and then prototrt again, with pip's --force-reinstall and --no-cache-dir; in a clone,"
            " run `make vendor`",
        ) from error
    assert "</script" not in text.lower(), "it would end the element that holds it"
    return text


def policy(styles: Sequence[str], scripts: Sequence[str] = (), modules: Sequence[str] = ()) -> str:
    """The policy of a page with these style and script elements, by their texts.

    ``modules`` are further sources of scripts. A page that breaks out of its escapes, by a mistake of ours,
    still loads nothing, sends nothing, and runs no script but these.
    """
    directives = {
        "default-src": ["'none'"],
        "style-src": list(map(_source, styles)),
        "script-src": [*map(_source, scripts), *modules],
        "img-src": ["data:"],  # the empty icon
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(sources)}" for name, sources in directives.items() if sources)


def _source(text: str) -> str:
    """The element with exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
