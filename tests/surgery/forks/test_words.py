"""The words of surgery/rules.py: those that the page about users' rules promises, and those that our own rules need."""

from __future__ import annotations

import ast
import re

from prototrt.surgery import rules
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.sources import nodes_of


def promised() -> set[str]:
    """The words in the table of docs/forks.md."""
    page = (ROOT / "docs" / "forks.md").read_text()
    table = page.partition("All of these come from `prototrt.surgery.rules`:")[2].partition("\n\nprototrt's")[
        0
    ]
    return set(re.findall(r"`(\w+)`", table))


def needed() -> set[str]:
    """What the modules of surgery/forks import."""
    paths = (ROOT / "surgery" / "forks").rglob("*.py")
    imports = [node for path in paths for node in nodes_of(path) if isinstance(node, ast.ImportFrom)]
    return {name.name for node in imports if node.module == rules.__name__ for name in node.names}


def test_the_page_promises_words_that_exist() -> None:
    assert len(promised()) > 20
    assert promised() - {*rules.__all__} == set()


def test_every_word_is_promised_or_needed() -> None:
    compatible = {"Expression", "one_layer"}  # for files of rules from before, and in what new-rule writes
    assert {*rules.__all__} - promised() - needed() == compatible
