"""The page in a browser: it opens without a word on the console, folds, searches, and is quick."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from prototrt.cli import main
from prototrt.converter.page.writing import GRAPHVIZ
from prototrt.tests.command_line import DEPLOY, WEIGHTS

needs_graphviz = pytest.mark.skipif(not GRAPHVIZ.exists(), reason="run `make vendor` first")


def dot(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["dot", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """``opened(path)`` is the page when it is drawn; that it told nothing is checked in the end.

    The browser reports what the page's own policy forbids.
    """
    told: list[str] = []
    asked: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, offline=True)

    def open_page(path: Path, drawn: str = "html[data-ready]") -> Any:
        page = context.new_page()
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{path}")
        page.wait_for_selector(drawn, timeout=60_000)
        return page

    yield open_page
    context.close()
    assert told == []
    assert {url.partition(":")[0] for url in asked} <= {"file", "blob", "data"}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    comparison = {"way": "network", "against": "reference", "blob": "prob", "layer": "prob", "call": 0}
    numbers = {
        "max_abs": 2.5e-7,
        "max_rel": None,
        "rms": 1e-8,
        "cosine": 1.0,
        "allowed": 1e-6,
        "holds": False,
    }
    checks = folder / "checks.json"
    checks.write_text(json.dumps({"holds": False, "comparisons": [{**comparison, **numbers}]}))
    target = folder / "digits.html"
    assert dot(DEPLOY, WEIGHTS, "-o", str(target), "--verification", str(checks)).exit_code == 0
    return target


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
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
    )  # sheets may have a new size
    counts = page.evaluate(SEEN_WHOLE)
    return all(seen == drawn > 0 for drawn, seen in (counts if drawing is None else [counts[drawing]]))


def percent(page: Any, drawing: int) -> int:
    return int(page.locator(f"#drawing-{drawing} .zoom").text_content().split()[0])


@needs_graphviz
def test_both_drawings_are_seen_whole_at_first(opened: Any, digits: Path) -> None:
    page = opened(digits)
    assert {"conv1", "lstm1", "prob"} <= set(names(page, 0))
    assert {"conv1", "lstm1_h_0", "lstm1_h_T"} <= set(names(page, 1))
    assert not any("__lstm1_gate" in name for name in names(page, 1))
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
    page.click("#drawing-1 [data-do=unfold]")
    assert frames.count() == 2
    assert whole(page, 1)
    page.keyboard.press("Escape")
    assert whole(page, 1)
    page.click("#drawing-1 [data-do=fold]")
    assert frames.count() == 0
    assert whole(page, 1)


@needs_graphviz
@pytest.mark.slow
def test_wheel_drag_double_click_buttons_and_keys(opened: Any, digits: Path) -> None:
    page = opened(digits)
    sheet = page.locator("#drawing-0 .sheet").bounding_box()
    x, y = sheet["x"] + 20, sheet["y"] + sheet["height"] - 20  # no box is there
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
@pytest.mark.parametrize(("width", "height"), [(768, 1024), (390, 844), (844, 390)])
def test_narrow_windows_show_a_drawing_at_a_time(opened: Any, digits: Path, width: int, height: int) -> None:
    page = opened(digits)
    page.set_viewport_size({"width": width, "height": height})
    page.get_by_role("tab", name="Rewritten in primitives").wait_for()
    tabs = page.locator("[role=tab]:visible")
    assert tabs.all_inner_texts()[:2] == ["As written", "Rewritten in primitives"]
    for shown in (0, 1):
        tabs.nth(shown).click()
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


@needs_graphviz
def test_names_are_only_text(opened: Any, tmp_path: Path) -> None:
    """Whatever a net is called, it does not end an element."""
    net = tmp_path / "odd.prototxt"
    name = '</script><b>\\\\\\"&lt;x&gt;&[red]\\033[31m\\u202e'
    net.write_text(
        f'name: "{name}"\n'
        f'layer {{ name: "{name}" type: "Input" top: "x" input_param {{ shape {{ dim: 2 }} }} }}\n'
        'layer { name: "y" type: "TanH" bottom: "x" top: "y" }\n'
    )
    assert dot(str(net), "-o", str(tmp_path / "odd.html")).exit_code == 0
    page = opened(tmp_path / "odd.html")
    shown = '</script><b>\\"&lt;x&gt;&[red]\\x1b[31m\\u202e'
    assert page.locator("h1").inner_text() == shown
    assert page.locator("#drawing-0 .box").first.get_attribute("aria-label") == f"{shown}, Input"
    page.locator("#drawing-0 .box").first.click()
    assert page.locator("#panel h2").inner_text() == shown


def test_a_survey(opened: Any, tmp_path: Path) -> None:
    """Its page needs no style in a tag, which its policy forbids."""
    (tmp_path / "good.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } }\n'
        'layer { name: "y" type: "TanH" bottom: "x" top: "y" }\n'
    )
    (tmp_path / "<b>&lt;.prototxt").write_text("layer {")
    result = CliRunner().invoke(main, ["survey", str(tmp_path), "-o", str(tmp_path / "survey.html")])
    assert result.exit_code == 0, result.output
    page = opened(tmp_path / "survey.html", drawn="table")
    assert [round(part.bounding_box()["width"]) > 100 for part in page.locator(".bar div").all()] == [
        True,
        False,
        True,
    ]
    assert "<b>&lt;.prototxt" in page.locator("table").last.inner_text()


@needs_graphviz
def test_a_net_that_cannot_be_converted(opened: Any, tmp_path: Path) -> None:
    net = tmp_path / "odd.prototxt"
    net.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } }\n'
        'layer { name: "y" type: "Mystery" bottom: "x" top: "y" }\n'
    )
    result = dot(str(net), "-o", str(tmp_path / "odd.html"))
    assert result.exit_code == 0
    page = opened(tmp_path / "odd.html")
    assert names(page, 0) == ["x", "y", "y"]
    assert page.locator(".pane").count() == 1
    page.get_by_role("tab", name="Warnings (1)").click()
    assert (
        f'the net cannot be rewritten: {net}:2: layer "y" (Mystery)' in page.locator("#warnings").inner_text()
    )


def residual(layers: int) -> str:
    """Blocks of seven layers with an arrow round each."""
    lines = [
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 8 dim: 9 dim: 9 } } }'
    ]
    convolution = "convolution_param { num_output: 8 kernel_size: 3 pad: 1 }"
    before = "data"
    for block in range((layers - 1) // 7):
        first, second, out = (f"{part}{block}" for part in "abc")
        steps = [("Convolution", [before], first, convolution), ("BatchNorm", [first], first, "")]
        steps += [("Scale", [first], first, ""), ("ReLU", [first], first, "")]
        steps += [("Convolution", [first], second, convolution), ("Eltwise", [before, second], out, "")]
        for type_, bottoms, top, extra in [*steps, ("ReLU", [out], out, "")]:
            read = " ".join(f'bottom: "{bottom}"' for bottom in bottoms)
            lines.append(f'layer {{ name: "l{len(lines)}" type: "{type_}" {read} top: "{top}" {extra} }}')
        before = out
    return "\n".join(lines)


@needs_graphviz
@pytest.mark.slow
def test_a_deep_net(opened: Any, tmp_path: Path) -> None:
    net = tmp_path / "deep.prototxt"
    net.write_text(residual(603))
    assert dot(str(net), "-o", str(tmp_path / "deep.html")).exit_code == 0
    page = opened(tmp_path / "deep.html")
    assert whole(page)
    sizes = page.eval_on_selector_all(".column", "all => all.map(one => one.querySelectorAll('.box').length)")
    assert max(sizes) < 120  # Graphviz needs minutes for thousands
    stubs = page.eval_on_selector_all(
        "#drawing-0 .column", "all => all.map(one => one.querySelectorAll('.stub').length)"
    )
    assert len(stubs) > 3
    assert max(stubs) == 2  # one above and one below: columns are cut between blocks
    page.fill("#search", "l595")
    page.keyboard.press("Enter")
    assert "(ReLU)" in page.locator("#drawing-0 .here text").last.text_content()
    assert percent(page, 0) >= 50
    stub = page.locator("#drawing-0 .stub").first
    far = stub.get_attribute("aria-label").partition(" ")[2].split(",")[0]
    stub.dispatch_event("click")
    page.locator(f"#panel h2:text-is('{far}')").wait_for()
    page.get_by_role("tab", name="Costs").click()
    page.click("#every")
    assert page.locator("#costs tbody tr").count() >= 600


# ---------------------------------------------------------------- without a browser


def test_graphviz_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.converter.page.writing.GRAPHVIZ", tmp_path / "graphviz.js")
    result = dot(DEPLOY, "-o", str(tmp_path / "net.html"))
    assert result.exit_code == 3
    assert result.stderr == (
        f"error: {tmp_path / 'graphviz.js'}: a page needs Graphviz for browsers, which is missing\n"
        "  fix: run `make vendor` in the repository and install it again, or install a wheel from `make wheel`\n"
    )
    assert not (tmp_path / "net.html").exists()


ROW = (
    '{"holds": true, "comparisons": [{"way": "onnx", "against": "reference", "blob": "x", "layer": null,'
    ' "max_abs": %s, "max_rel": 0.0, "rms": 0.0, "cosine": 1.0, "holds": %s}]}'
)
NO_VERIFICATION = "does not contain a verification\n  fix: give the JSON that `prototrt verify` prints"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[",
            "cannot be read as JSON: Expecting value: line 1 column 2 (char 1)\n"
            "  fix: give the JSON that `prototrt verify` prints",
        ),
        ("{}", NO_VERIFICATION),
        ('{"holds": true, "comparisons": 5}', NO_VERIFICATION),
        ('{"comparisons": []}', NO_VERIFICATION),
        (ROW % ("0.1", "1"), NO_VERIFICATION),
        (ROW % ("0.1", '"yes"'), NO_VERIFICATION),
        (ROW % ("9" * 400, "true"), NO_VERIFICATION),
        (
            ROW % ("9" * 5000, "true"),
            "cannot be read as JSON: a number in it has too many digits\n"
            "  fix: give the JSON that `prototrt verify` prints",
        ),
        ('{"holds": true, "comparisons": [1, 2]}', NO_VERIFICATION),
        ('{"holds": true, "comparisons": [{"way": "onnx", "max_abs": "large"}]}', NO_VERIFICATION),
        (
            "[" * 100_000,
            "cannot be read as JSON: it is nested too deeply\n"
            "  fix: give the JSON that `prototrt verify` prints",
        ),
    ],
)
def test_checks_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    checks = tmp_path / "checks.json"
    checks.write_text(text)
    result = dot(DEPLOY, "-o", str(tmp_path / "net.html"), "--verification", str(checks))
    assert (result.exit_code, result.stderr) == (3, f"error: {checks}: {message}\n")


def test_checks_that_are_not_there(tmp_path: Path) -> None:
    result = dot(DEPLOY, "-o", str(tmp_path / "net.html"), "--verification", "nowhere.json")
    assert (result.exit_code, result.stderr) == (
        3,
        "error: nowhere.json: there is no such file\n"
        f"  fix: check the path; the current folder is {Path.cwd()}\n",
    )
