"""Pictures of a net in files; the suffix chooses the format."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import ConversionError, OptionsError, UnreadableFileError
from prototrt.caffe_proto.common.files import value_from_json
from prototrt.caffe_proto.common.memory import without_collector
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Command, Option, Surface, Worded, python_words
from prototrt.caffe_proto.recognition import read_text
from prototrt.converter.files.writing.files import atomic_write, refuse_overwriting, suffix_fault
from prototrt.converter.showing.page.facts import facts_of_unconverted, page_facts
from prototrt.converter.showing.page.writing import page
from prototrt.converter.showing.views.stages import ShownStage
from prototrt.surgery.expansion.expand import Expansion, expand
from prototrt.surgery.ir import Graph
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite_expansion
from prototrt.surgery.views.dot import dot_from_graph, dot_from_net

TEXT = (".dot", ".gv")
"""Graphviz's language."""
PAGE = ".html"
RENDERED = (".svg", ".png", ".pdf")
"""What the program ``dot`` makes."""
_CELLS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("way", "against", "blob"), lambda value: isinstance(value, str)),
    "layer": lambda value: value is None or isinstance(value, str),
    "holds": lambda value: isinstance(value, bool),
    **dict.fromkeys(
        ("max_abs", "max_rel", "rms", "cosine"),
        lambda value: value is None or (isinstance(value, float) and math.isfinite(value)),
    ),
}
"""What a page shows of each comparison; numbers that are not finite are null in JSON."""
_GIVE_VERIFICATION = Worded("give the JSON of `{}`", Command("verify"))


@dataclass(frozen=True, slots=True)
class NetPicture:
    """What was drawn: in Graphviz's language, unless it went into a file."""

    dot: str | None
    warnings: Sequence[str]


@without_collector()
def draw(
    model: Model,
    target: str | None,
    options: RewriteOptions,
    stage: ShownStage,
    verification: str | None = None,
    surface: Surface = python_words,
) -> NetPicture:
    """Draw the net, or the graph of the stage, into a file, if there is one.

    ``verification`` is a file of what ``verify`` prints as JSON, for pages. A page has the warnings in the
    ``surface``'s words. Raises ``OptionsError`` for a suffix of no format.
    """
    if target is None:
        return NetPicture(*_dot_text(model, options, stage, None))
    refuse_other_formats(target)
    suffix = _suffix(target)
    if is_page(target):
        content, warnings = _page(model, options, stage, target, verification, surface)
    else:
        text, warnings = _dot_text(model, options, stage, target)
        content = render(text, suffix, target) if suffix in RENDERED else text.encode()
    with atomic_write(target) as stream:
        stream.write(content)
    return NetPicture(None, warnings)


def _dot_text(
    model: Model, options: RewriteOptions, stage: ShownStage, target: str | None
) -> tuple[str, Sequence[str]]:
    """In Graphviz's language, and warnings. ``target`` is where it will go."""
    if stage.name == "parsed":
        return dot_from_net(model, options)
    _, graph = _rewritten(model, options, target)
    return dot_from_graph(stage.of(graph)), graph.warnings


def _rewritten(model: Model, options: RewriteOptions, target: str | None) -> tuple[Expansion, Graph]:
    """The net in primitives before and after the passes.

    Raises ``OptionsError`` if ``target`` is one of the source files.
    """
    options = replace(options, require_weights=False)
    expansion = expand(model, options=options)
    graph = rewrite_expansion(model, expansion, options)
    if target is not None:
        refuse_overwriting([(Option("file"), target)], [source.file for source in graph.sources])
    return expansion, graph


def _suffix(target: str) -> str:
    return Path(target).suffix.lower()


def is_page(target: str | None) -> bool:
    """Whether the file is to be a page for a browser."""
    return target is not None and _suffix(target) == PAGE


def refuse_other_formats(target: str) -> None:
    """Raise ``OptionsError`` for a file whose suffix says no format. A device needs none: it gets text."""
    problem = suffix_fault(target, sorted((*TEXT, PAGE, *RENDERED)))
    if problem is None:
        return
    page, image = (Option("file", str(Path(target).with_suffix(other))) for other in (PAGE, ".png"))
    raise OptionsError(problem, fix=Worded("write a page for a browser, {}, or an image, {}", page, image))


def render(text: str, suffix: str, target: str) -> bytes:
    """The output of Graphviz's program for the text."""
    program = shutil.which("dot")
    if program is None:
        raise ConversionError(
            f"{suffix} is made by Graphviz's program dot, which is not on the path",
            where=target,
            fix="install Graphviz (apt install graphviz, brew install graphviz), or write .html,"
            " which needs no program",
        )
    made = subprocess.run([program, f"-T{suffix[1:]}"], input=text.encode(), capture_output=True, check=False)
    if made.returncode:
        messages = made.stderr.decode(errors="replace").strip().splitlines()
        raise ConversionError(
            f"Graphviz's program dot failed with exit code {made.returncode}",
            where=target,
            because=messages[-1] if messages else None,
            fix="write .dot, and open it with another program",
        )
    return made.stdout


def _page(
    model: Model,
    options: RewriteOptions,
    stage: ShownStage,
    target: str,
    verification: str | None,
    surface: Surface,
) -> tuple[bytes, Sequence[str]]:
    checks = None if verification is None else read_verification(verification)
    try:
        expansion, graph = _rewritten(model, options, target)
        graph = stage.of(graph)
    except OptionsError:
        raise
    except ConversionError as error:
        facts = facts_of_unconverted(model, error, stage.title, checks)
    else:
        facts = page_facts(model, expansion, graph, options, checks, stage.title)
    warnings = [Worded("{}", text).by(surface) for text in facts["warnings"]]
    in_one_line = [re.sub(r"\n *", "; ", text) for text in warnings]  # as all warnings of a command are
    return page({**facts, "warnings": warnings}).encode(), in_one_line


def read_verification(path: str) -> Mapping[str, Any]:
    """What a page shows of the JSON that ``verify`` has printed."""
    try:
        facts = value_from_json(read_text(path, "the output of verify as JSON", _GIVE_VERIFICATION))
    except ValueError as error:
        raise UnreadableFileError(
            f"cannot be read as JSON: {error}", where=path, fix=_GIVE_VERIFICATION
        ) from error
    if not _is_verification(facts):
        raise UnreadableFileError("does not contain a verification", where=path, fix=_GIVE_VERIFICATION)
    rows = [{name: row.get(name) for name in _CELLS} for row in facts["comparisons"]]
    return {"holds": facts["holds"], "comparisons": rows}


def _is_verification(facts: object) -> bool:
    if not isinstance(facts, dict) or not isinstance(facts.get("holds"), bool):
        return False
    rows = facts.get("comparisons")
    return isinstance(rows, list) and all(
        isinstance(row, dict) and all(is_cell(row.get(name)) for name, is_cell in _CELLS.items())
        for row in rows
    )
