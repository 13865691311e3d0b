"""The page in a browser: it opens without a word on the console, folds, searches, and is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prototrt.tests.converter.showing.page.opened import box, names, needs_graphviz, percent, whole


@needs_graphviz
def test_drawings_open_whole_if_they_can_be_read_then(opened: Any, digits: Path) -> None:
    page = opened(digits)
    assert whole(page, 0)
    assert percent(page, 1) == 90
    assert box(page, 1, "data").bounding_box()["y"] < 200  # the first box
    assert {"conv1", "lstm1", "prob"} <= set(names(page, 0))
    assert {"conv1", "lstm1_h_0", "lstm1_h_T"} <= set(names(page, 1))
    assert not any("__lstm1_gate" in name for name in names(page, 1))
    page.click("#drawing-1 [data-do=fit]")
    assert whole(page)


@needs_graphviz
@pytest.mark.slow
def test_boxes_show_settings_and_layers_in_place(opened: Any, digits: Path) -> None:
    page = opened(digits)
    assert box(page, 0, "conv1").locator("text").all_text_contents() == [
        "conv1",
        "Convolution",
        "num_output 12, bias_term false,",
        "pad 1, kernel_size 3",
        "bn1 (BatchNorm)",
        "use_global_stats true",
        "scale1 (Scale)",
        "bias_term true",
        "relu1 (ReLU)",
    ]
    assert "relu1" not in names(page, 0)


@needs_graphviz
@pytest.mark.slow
def test_texts_fit_their_boxes_and_labels_stand_beside_arrows(opened: Any, digits: Path) -> None:
    page = opened(digits)
    page.click("#drawing-1 [data-do=unfold]")
    page.click("#drawing-1 [data-do=fit]")
    assert whole(page)
    outside = """() => [...document.querySelectorAll(".box:not(.stub)")].filter(box => {
      const face = box.querySelector(".face").getBBox();
      return [...box.querySelectorAll("text")].some(text => {
        const { x, y, width, height } = text.getBBox();
        return x < face.x || x + width > face.x + face.width || y < face.y || y + height > face.y + face.height + 1;
      });
    }).map(box => box.textContent)"""
    assert page.evaluate(outside) == []
    crossed = """() => [...document.querySelectorAll(".arrow:not(.fed)")].filter(arrow => {
      const path = arrow.querySelector("path"), length = path.getTotalLength();
      return [...arrow.querySelectorAll("text")].some(text => {
        const { x, y, width, height } = text.getBBox();
        return [...Array(200).keys()].some(step => {
          const at = path.getPointAtLength(length * step / 199);
          return at.x > x && at.x < x + width && at.y > y && at.y < y + height;
        });
      });
    }).map(arrow => arrow.textContent)"""
    assert page.locator(".arrow:not(.fed) text").count() > 50
    assert page.evaluate(crossed) == []


LAYOUT = """() => ({
  scrolls: document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight,
  panes: [...document.querySelectorAll(".pane")].map(pane => Math.round(pane.getBoundingClientRect().height)),
})"""


LEGEND_ROWS_TOUCH = """() => {
  const spans = [...document.querySelectorAll(".legend span")].map(span => span.getBoundingClientRect());
  return spans.some(one => spans.some(other => other.top > one.top + 2 && other.top < one.bottom + 2));
}"""


@needs_graphviz
@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "height"),
    [
        (390, 844),
        *(pytest.param(*size, marks=pytest.mark.exhaustive) for size in ((768, 1024), (844, 390))),
    ],
)
def test_narrow_windows_show_a_drawing_at_a_time(opened: Any, digits: Path, width: int, height: int) -> None:
    page = opened(digits)
    page.set_viewport_size({"width": width, "height": height})
    page.get_by_role("tab", name="Rewritten in primitives").wait_for()
    tabs = page.locator("[role=tab]:visible")
    assert tabs.all_inner_texts()[:2] == ["As written", "Rewritten in primitives"]
    for shown in (0, 1):
        tabs.nth(shown).click()
        page.keyboard.press("f")
        assert whole(page)
        layout = page.evaluate(LAYOUT)
        assert not layout["scrolls"]
        assert layout["panes"][shown] > height / 3
        assert layout["panes"][1 - shown] == 0
    box(page, 1, "score").dispatch_event("click")
    panel = page.locator("#panel").bounding_box()
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= width
    assert panel["y"] + panel["height"] <= height
    page.get_by_role("tab", name="Costs").click()
    assert page.locator("#panel").is_hidden()  # the table has all the room
    tabs.nth(1).click()
    page.locator("#panel .other").click()
    assert page.locator("#drawing-0 .here text").first.text_content() == "score"
    assert page.evaluate(LEGEND_ROWS_TOUCH) is False
    page.set_viewport_size({"width": 1400, "height": 900})
    page.get_by_role("tab", name="Graphs").wait_for()
    assert min(page.evaluate(LAYOUT)["panes"]) > 500


CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = getComputedStyle(document.querySelector(".pane")).backgroundColor;
  const ratio = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const opaque = color => /^none$|, 0\\)|\\/ /.test(color) ? paper : color;
  return [...document.querySelectorAll(".box text, .arrow text")].map(text => {
    const face = text.parentNode.querySelector(".face");
    return ratio(getComputedStyle(text).fill, face ? opaque(getComputedStyle(face).fill) : paper);
  }).reduce((a, b) => Math.min(a, b));
}"""


@needs_graphviz
@pytest.mark.slow
def test_light_and_dark(opened: Any, digits: Path) -> None:
    page = opened(digits)
    background = "getComputedStyle(document.querySelector('.pane')).backgroundColor"
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate(CONTRASTS) > 4.5
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(background)
    assert dark == "rgb(27, 33, 42)"
    box(page, 0, "conv1").click()
    assert page.evaluate(CONTRASTS) > 4.5
    page.click("#theme")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.click("#theme")
    assert page.evaluate(background) == dark


@needs_graphviz
@pytest.mark.slow
def test_tables_and_colours_of_the_verification(opened: Any, digits: Path) -> None:
    page = opened(digits)
    tabs = page.locator("[role=tab]:visible")
    assert tabs.all_inner_texts() == ["Graphs", "Costs", "Recurrent pairs (4)", "Verification"]
    assert page.locator("#drawing-0 .differs").count() == 1
    assert "differs" in box(page, 0, "prob").get_attribute("class")
    tabs.nth(2).click()
    pairs = page.locator("#pairs tbody tr").all_inner_texts()
    assert pairs[0].split() == ["lstm1_h_T", "→", "lstm1_h_0", "1x1x64"]
    assert len(pairs) == 4
    tabs.nth(3).click()
    assert page.locator("#verification h2").inner_text() == "Verification: does not hold"
    (row,) = page.locator("#verification tbody tr").all_inner_texts()
    cells = ["network", "reference", "prob", "prob", "2.50e-07", "∞", "1.00e-08", "1.0000000", "differs"]
    assert row.split() == cells
    tabs.nth(1).click()
    assert page.locator("#costs tbody tr").count() == 19
    page.click("[data-sort=multiply_adds]")
    first = page.locator("#costs tbody tr").first
    assert first.inner_text().split()[:3] == ["conv2", "Convolution", "13,271,040"]
    first.locator("button").click()
    assert page.locator("#drawing-0 .here text").first.text_content() == "conv2"
