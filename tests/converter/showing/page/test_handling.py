"""The page in a hand: wheel, fingers, keys, search, and what a click opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prototrt.tests.command_line import DEPLOY
from prototrt.tests.converter.showing.page.opened import box, in_view, names, needs_graphviz, percent, whole


@needs_graphviz
@pytest.mark.slow
def test_scans_fold_and_unfold(opened: Any, digits: Path) -> None:
    page = opened(digits)
    frames = page.locator("#drawing-1 .box.open")
    assert frames.count() == 0
    box(page, 1, "lstm1").click()
    assert frames.count() == 1
    assert "__lstm1_gate_f" in names(page, 1)
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    frames.first.locator("text").first.click()
    assert frames.count() == 0
    page.keyboard.press("Escape")
    page.click("#drawing-1 [data-do=unfold]")
    page.wait_for_selector("#drawing-1 .sheet[aria-busy]", state="detached")
    assert frames.count() == 2
    assert in_view(page, 1, "__lstm1_delta_product_h")
    page.click("#drawing-1 [data-do=fit]")
    assert whole(page, 1)
    page.keyboard.press("Escape")
    assert whole(page, 1)
    page.click("#drawing-1 [data-do=fold]")
    assert frames.count() == 0


@needs_graphviz
@pytest.mark.slow
def test_wheel_drag_double_click_buttons_and_keys(opened: Any, digits: Path) -> None:
    page = opened(digits)
    sheet = page.locator("#drawing-0 .sheet").bounding_box()
    x, y = sheet["x"] + 20, sheet["y"] + sheet["height"] - 130  # no box is there, nor the map
    fitted = percent(page, 0)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.locator(f"#drawing-0 .zoom:not(:text-is('{fitted} %'))").wait_for()
    assert percent(page, 0) > fitted
    page.keyboard.press("f")
    assert percent(page, 0) == fitted
    before = box(page, 0, "conv1").bounding_box()
    page.mouse.down()
    page.mouse.move(x + 60, y - 40, steps=4)
    page.mouse.up()
    after = box(page, 0, "conv1").bounding_box()
    assert (round(after["x"] - before["x"]), round(after["y"] - before["y"])) == (60, -40)
    assert page.locator("#panel").is_hidden()
    page.mouse.dblclick(x, y)
    assert percent(page, 0) > fitted
    page.click("#drawing-0 [data-do=fit]")
    assert percent(page, 0) == fitted
    page.click("#drawing-0 [data-do=larger]")
    page.keyboard.press("+")
    assert percent(page, 0) > 1.5 * fitted
    page.click("#drawing-0 [data-do=smaller]")
    page.keyboard.press("-")
    assert percent(page, 0) == fitted


@needs_graphviz
@pytest.mark.slow
def test_pinch(opened: Any, digits: Path) -> None:
    page = opened(digits)
    sheet = page.locator("#drawing-0 .sheet").bounding_box()
    x, y, fitted = sheet["x"] + 100, sheet["y"] + 100, percent(page, 0)
    touch = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 60), ("touchEnd", None)):
        points = (
            [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        )
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert percent(page, 0) == pytest.approx(3 * fitted, rel=0.05)


@needs_graphviz
@pytest.mark.slow
def test_search_finds_and_unfolds(opened: Any, digits: Path) -> None:
    page = opened(digits)
    page.keyboard.press("/")
    page.keyboard.type("GATE_F")
    assert page.locator("#results button").count() == 4  # two are called so, two read them
    page.keyboard.press("Enter")
    here = page.locator("#drawing-1 .here")
    assert here.locator("text").first.text_content() == "__lstm1_gate_f"
    assert "found" in here.get_attribute("class")
    sheet, found = page.locator("#drawing-1 .sheet").bounding_box(), here.bounding_box()
    assert sheet["y"] < found["y"] < sheet["y"] + sheet["height"]
    page.fill("#search", "no such thing")
    assert page.locator("#results").text_content() == "nothing found"


@needs_graphviz
@pytest.mark.slow
def test_hovering_marks_the_layer_on_both_sides(opened: Any, digits: Path) -> None:
    page = opened(digits)
    box(page, 0, "conv1").hover()
    hint = page.locator("#hint").text_content()
    assert "conv1: 2,211,840 multiply-adds, weights 432 B" in hint
    same = page.locator("#drawing-1 .same")
    assert same.first.locator("text").first.text_content() == "conv1"
    assert same.count() == 4  # and what works in place
    page.mouse.move(1, 1)
    assert page.locator("#hint").is_hidden()
    assert same.count() == 0


@needs_graphviz
@pytest.mark.slow
def test_a_click_opens_all_about_the_layer_and_shows_the_other_side(opened: Any, digits: Path) -> None:
    page = opened(digits)
    box(page, 0, "ip1").click()
    assert box(page, 1, "ip1").get_attribute("class").split()[-2:] == ["same", "here"]
    assert page.locator("#drawing-1 .same").count() == 4  # of ip1, and of what works in place
    panel = page.locator("#panel")
    assert panel.locator("summary").all_inner_texts() == [
        "ip1 InnerProduct",
        "relu3 (ReLU)".replace("(", "").replace(")", ""),
    ]
    layer = panel.locator("details").first
    text = layer.inner_text()
    for told in (
        f"{DEPLOY}, line 101",
        "bottom\tpool2\t40x24x8x4",
        "top\tip1\t40x64",
        "weights as float32\t196.9 kB",
    ):
        assert told in text, told
    assert layer.locator("tr.stated").all_inner_texts() == ["num_output\t64\t"]
    assert "bias_term\ttrue\tdefault" in layer.locator("tr.default").all_inner_texts()
    assert layer.locator(".blob").count() == 2
    bars = layer.locator(".blob svg").first.locator("rect")
    assert bars.count() == 24
    assert max(float(bar.get_attribute("height")) for bar in bars.all()) == 36
    assert layer.locator(".blob p").first.inner_text() == "blobs[0] 64x768"
    primitives = layer.locator("li button").all_inner_texts()
    assert primitives == ["__ip1_rows", "__ip1_mat_mul", "ip1"]
    layer.locator("li button").nth(1).click()
    assert panel.locator("h2").inner_text() == "__ip1_mat_mul"
    assert box(page, 0, "ip1").get_attribute("class").split()[-1] == "here"
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert page.locator(".here").count() == 0


@needs_graphviz
@pytest.mark.slow
def test_the_keyboard_reaches_every_box(opened: Any, digits: Path) -> None:
    page = opened(digits)
    assert page.locator(".box:not([role=button])").count() == 0
    assert page.locator(".box:not([aria-label])").count() == 0
    assert page.locator("#drawing-0 .box[tabindex='0']").count() == 1
    page.focus("#drawing-0 [data-do=fit]")
    spoken = "document.activeElement.getAttribute('aria-label')"
    page.keyboard.press("Tab")
    assert page.evaluate(spoken) == "data, Input"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(spoken).startswith("conv1, Convolution, num_output 12, bias_term false,, pad 1")
    page.keyboard.press("Enter")
    assert page.locator("#panel h2").inner_text() == "conv1"
