"""The map of a whole drawing, repeated blocks on both sides, and the address of what is open, selected and in view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prototrt.tests.converter.showing.page.opened import box, dot, in_view, names, needs_graphviz, percent
from prototrt.tests.converter.showing.page.test_pages_of_nets import residual

pytestmark = [needs_graphviz, pytest.mark.slow]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("address")
    (folder / "deep.prototxt").write_text(residual(141))
    assert dot(str(folder / "deep.prototxt"), "-o", str(folder / "deep.html")).exit_code == 0
    return folder / "deep.html"


RUN = "l1 … l139"  # of twenty blocks
ADDRESS = "decodeURIComponent(location.hash).replaceAll('+', ' ')"


def settled(page: Any, *words: str) -> str:
    """The address, when it has all these words."""
    page.wait_for_function(f"words => words.every(word => {ADDRESS}.includes(word))", arg=list(words))
    address: str = page.evaluate(ADDRESS)
    return address


def test_the_map_moves_the_view_and_hides_when_all_is_seen(opened: Any, digits: Path) -> None:
    page = opened(digits)
    left, right = page.locator(".map").all()
    assert (left.is_visible(), right.is_visible()) == (False, True)
    assert in_view(page, 1, "data")
    assert not in_view(page, 1, "prob")
    place = right.bounding_box()
    page.mouse.click(place["x"] + place["width"] - 5, place["y"] + 5)
    assert not in_view(page, 1, "data")
    page.mouse.down()
    page.mouse.move(place["x"] + 5, place["y"] + place["height"] - 5)
    page.mouse.up()
    assert in_view(page, 1, "ip1")
    right.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert in_view(page, 1, "data")
    assert percent(page, 1) == 90
    page.click("#drawing-1 [data-do=fit]")
    assert not right.is_visible()


UNDER_MAPS = """() => [...document.querySelectorAll(".pane:not([hidden])")].flatMap(pane => {
  const map = pane.querySelector(".map:not([hidden])"), sheet = pane.querySelector(".sheet");
  if (!map) return [];
  const place = map.getBoundingClientRect(), end = sheet.getBoundingClientRect().bottom;
  return [...pane.querySelectorAll(".box .face")].map(face => face.getBoundingClientRect())
    .filter(face => face.right > place.left && face.left < place.right && Math.min(face.bottom, end) > place.top);
})"""


@pytest.mark.parametrize(
    "width", [*(pytest.param(width, marks=pytest.mark.exhaustive) for width in (1400, 768)), 390]
)
def test_the_map_covers_no_box(opened: Any, digits: Path, width: int) -> None:
    page = opened(digits)
    page.set_viewport_size({"width": width, "height": 800})
    for _ in range(3):
        page.keyboard.press("+")
    page.locator(".map:not([hidden])").first.wait_for()
    assert page.evaluate(UNDER_MAPS) == []


def test_a_word_stands_there_until_the_net_is_drawn(opened: Any, digits: Path, browser: Any) -> None:
    assert opened(digits).get_by_text("Drawing the net").count() == 0
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(digits.as_uri())
        assert page.get_by_text("Drawing the net").count() == 2


def test_a_run_opens_and_closes_on_both_sides(opened: Any, deep: Path) -> None:
    page = opened(deep)
    bar = box(page, 0, RUN).locator(".work").bounding_box()
    assert bar["width"] == pytest.approx(box(page, 0, RUN).locator(".face").bounding_box()["width"], abs=4)
    box(page, 1, RUN).click()
    for drawing in (0, 1):
        assert "l8 … l13" in names(page, drawing)
        assert in_view(page, drawing, "l8 … l13")
    assert "1,866,240 (100 % of the net)" in page.locator("#panel").inner_text()
    page.locator("#drawing-0 .box.open text").first.click()
    assert [names(page, drawing) for drawing in (0, 1)] == [["data", RUN, "c19"]] * 2


def test_the_search_marks_the_run_that_hides_a_layer(opened: Any, deep: Path) -> None:
    page = opened(deep)
    page.fill("#search", "l75")
    assert page.locator(".box.found text:first-of-type").all_text_contents() == [RUN] * 2
    page.keyboard.press("Enter")
    for drawing in (0, 1):
        assert "l75" in box(page, drawing, "l71").text_content() or "l75" in names(page, drawing)
    page.locator("#drawing-0 .box.found.here").wait_for()


def test_an_address_shows_the_same_place(opened: Any, deep: Path) -> None:
    page = opened(deep)
    page.fill("#search", "l99")
    page.keyboard.press("Enter")
    page.locator("#drawing-1 .here").wait_for()
    page.click("#drawing-0 [data-do=larger]")
    address = settled(page, f"open=0:{RUN}&open=0:l99 … l104", "box=0:l99", "view=1.625,")
    again = page.context.new_page()
    again.goto(page.url)
    again.wait_for_selector(".here")
    assert settled(again, "view=1.625,") == address
    assert again.locator("#panel h2").inner_text() == "l99"
    assert percent(again, 0) == 163
    assert in_view(again, 0, "l99")
    assert in_view(again, 1, "l99")
    assert [names(again, drawing) for drawing in (0, 1)] == [names(page, drawing) for drawing in (0, 1)]
    again.evaluate("location.hash = 'box=0:l8'")  # it unfolds what hides the box
    again.locator("#drawing-0 .here text:text-is('l8')").wait_for()
    assert "l99" not in names(again, 0)


def test_back_and_forward_go_from_selection_to_selection(opened: Any, deep: Path) -> None:
    page = opened(deep)
    box(page, 0, "data").click()
    settled(page, "box=0:data")
    box(page, 0, RUN).click()
    settled(page, f"box=0:{RUN}", "open=")
    page.click("#drawing-0 [data-do=larger]")
    settled(page, "view=1.6")
    panel = page.locator("#panel h2")
    page.go_back()
    panel.get_by_text("data").wait_for()
    assert names(page, 0) == names(page, 1) == ["data", RUN, "c19"]
    page.go_back()
    page.locator("#panel").wait_for(state="hidden")
    assert page.evaluate("location.hash") == ""
    page.go_forward()
    page.go_forward()
    panel.get_by_text(RUN).wait_for()
    assert "l8 … l13" in names(page, 0)
    page.locator("#drawing-0 .zoom:text-is('163 %')").wait_for()


@pytest.mark.parametrize(
    ("address", "unknown"),
    [
        ("open=0:gone&box=1:<b>&view=0.9,1,2,0:off", "gone, <b>, off"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                ("box=0:data&__proto__=1&view=x&all=7&part=theme", "__proto__, x, 7"),
                ("%E0%A4%A&open=0:data", "\ufffd%A, data"),
            )
        ),
    ],
)
def test_what_an_address_names_wrongly_is_ignored(
    opened: Any, deep: Path, address: str, unknown: str
) -> None:
    page = opened(Path(f"{deep}#{address}"))
    notice = page.locator("#notice")
    assert notice.inner_text() == f"Not on this page, but in its address: {unknown}"
    assert "data" in names(page, 0)
    notice.click()
    assert notice.is_hidden()


@pytest.mark.exhaustive
def test_all_unfolded_and_a_table_are_in_the_address(opened: Any, deep: Path) -> None:
    page = opened(deep)
    page.click("#drawing-1 [data-do=unfold]")
    page.get_by_role("tab", name="Costs").click()
    settled(page, "part=costs&all=1")
    again = page.context.new_page()
    again.goto(page.url)
    again.locator("#costs tbody tr").first.wait_for()
    again.get_by_role("tab", name="Graphs").click()
    again.locator("#drawing-1 .sheet[aria-busy]").wait_for(state="detached")
    assert "l8" in names(again, 1)
    assert names(again, 0) == ["data", RUN, "c19"]
