"""The page itself: a template, its style and script, Graphviz for browsers, and the facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prototrt import __version__
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.installing import refuse_without
from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.converter.showing.page.policy import policy
from prototrt.converter.showing.page.script import join_modules

FOLDER = Path(__file__).parent
GRAPHVIZ = FOLDER / "vendor" / "graphviz.js"
"""Fetched by builds, with its licence beside it; part of wheels, not of the repository."""
_OF_LINES = ("warnings",)
"""Facts whose texts have several lines; in each line, a name is visible already."""
_VISIBLE = ("drawings",)
"""Facts whose texts are visible already: those of a ``Drawing``."""
_GRAPHVIZ_SOURCES = ("blob:", "'wasm-unsafe-eval'")
"""Graphviz is a module that the page makes from its own text, and that compiles WebAssembly."""


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
