"""The page itself: a template, its style and script, Graphviz for browsers, and the facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import prototrt
from prototrt.caffe_proto.errors import ConversionError

FOLDER = Path(__file__).parent
GRAPHVIZ = FOLDER / "vendor" / "graphviz.js"
"""Fetched by `make vendor`, with its licence beside it; part of wheels, not of the repository."""


def page(facts: Mapping[str, Any]) -> str:
    """The HTML file."""
    try:
        import jinja2
    except ImportError as error:
        raise ConversionError("a page needs Jinja2", fix="pip install 'prototrt[html]'") from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("page.html.j2").render(
        facts=facts, graphviz=_graphviz(), version=prototrt.__version__
    )


def _graphviz() -> str:
    """Graphviz as a JavaScript module that holds its WebAssembly."""
    try:
        text = GRAPHVIZ.read_text(encoding="utf-8")
    except OSError as error:
        raise ConversionError(
            "a page needs Graphviz for browsers, which is missing",
            where=str(GRAPHVIZ),
            fix="run `make vendor` in the repository and install it again, or install a wheel from `make wheel`",
        ) from error
    assert "</script" not in text.lower(), "it would end the element that holds it"
    return text
