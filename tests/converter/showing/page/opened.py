"""Asking an open page what it shows."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result

from prototrt.cli import main
from prototrt.converter.showing.page.writing import GRAPHVIZ

needs_graphviz = pytest.mark.skipif(not GRAPHVIZ.exists(), reason="run `make vendor` first")


def dot(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["dot", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def names(page: Any, drawing: int) -> list[str]:
    """The first line of each box of a drawing."""
    texts: list[str] = page.eval_on_selector_all(
        f"#drawing-{drawing} .box", "all => all.map(one => one.querySelector('text').textContent)"
    )
    return texts


def box(page: Any, drawing: int, name: str) -> Any:
    """The box whose first line is this name."""
    named = page.locator(f"#drawing-{drawing} .box:not(.stub)")
    return named.filter(has=page.get_by_text(name, exact=True)).first


SEEN_WHOLE = """() => [...document.querySelectorAll(".pane:not([hidden])")].map(pane => {
  const sheet = pane.querySelector(".sheet").getBoundingClientRect();
  const boxes = [...pane.querySelectorAll(".box .face")].map(face => face.getBoundingClientRect());
  return [boxes.length, boxes.filter(({ left, top, right, bottom }) => left >= sheet.left && top >= sheet.top
    && right <= sheet.right && bottom <= sheet.bottom).length];
})"""
"""Of each drawing in view, how many boxes there are, and how many of them are in view."""


def whole(page: Any, drawing: int | None = None) -> bool:
    """Whether all that is drawn can be seen: of one drawing, or of those in view."""
    page.wait_for_selector(".pane:not([hidden]) .sheet[aria-busy]", state="detached")
    settle_sheets(page)
    counts = page.evaluate(SEEN_WHOLE)
    return all(seen == drawn > 0 for drawn, seen in (counts if drawing is None else [counts[drawing]]))


def settle_sheets(page: Any) -> None:
    """Wait for a frame. A map that comes or goes resizes its sheet, whose view follows before the frame is shown."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


def percent(page: Any, drawing: int) -> int:
    settle_sheets(page)
    return int(page.locator(f"#drawing-{drawing} .zoom").text_content().split()[0])


def in_view(page: Any, drawing: int, name: str) -> bool:
    sheet = page.locator(f"#drawing-{drawing} .sheet").bounding_box()
    place = box(page, drawing, name).bounding_box()
    return bool(
        sheet["y"] <= place["y"] <= sheet["y"] + sheet["height"]
        and sheet["x"] <= place["x"] <= sheet["x"] + sheet["width"]
    )
