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


def drawn(page: Any, drawing: int) -> list[str]:
    """The first line of each node of a drawing."""
    texts: list[str] = page.eval_on_selector_all(
        f'.pane[data-drawing="{drawing}"] g.node',
        "all => all.map(one => one.querySelector('text').textContent)",
    )
    return texts


@needs_graphviz
def test_both_drawings_are_shown(opened: Any, digits: Path) -> None:
    page = opened(digits)
    assert {"conv1", "lstm1", "prob"} <= set(drawn(page, 0))
    assert {"conv1", "lstm1_h_0", "lstm1_h_T"} <= set(drawn(page, 1))
    assert not any("__lstm1_gate" in name for name in drawn(page, 1))


@needs_graphviz
def test_scans_fold_and_unfold(opened: Any, digits: Path) -> None:
    page = opened(digits)
    right = '.pane[data-drawing="1"]'
    assert page.locator(f"{right} g.cluster").count() == 0
    page.locator(f"{right} g.node", has_text="Scan of 40 steps").first.click()
    assert page.locator(f"{right} g.cluster").count() == 1
    assert "__lstm1_gate_f" in drawn(page, 1)
    page.locator(f"{right} g.cluster text").first.click()
    assert page.locator(f"{right} g.cluster").count() == 0
    page.click(f"{right} [data-do=unfold]")
    assert page.locator(f"{right} g.cluster").count() == 2
    page.click(f"{right} [data-do=fold]")
    assert page.locator(f"{right} g.cluster").count() == 0


@needs_graphviz
def test_search_finds_and_unfolds(opened: Any, digits: Path) -> None:
    page = opened(digits)
    page.keyboard.press("/")
    page.keyboard.type("GATE_F")
    assert page.locator("#results button").count() == 4  # two are called so, two read them
    page.keyboard.press("Enter")
    here = page.locator('.pane[data-drawing="1"] g.here')
    assert here.locator("text").first.text_content() == "__lstm1_gate_f"
    sheet, node = page.locator('.pane[data-drawing="1"] .sheet').bounding_box(), here.bounding_box()
    assert sheet["y"] < node["y"] < sheet["y"] + sheet["height"]
    page.fill("#search", "no such thing")
    assert page.locator("#results").text_content() == "nothing found"


@needs_graphviz
def test_hovering_tells_shapes_weights_and_costs(opened: Any, digits: Path) -> None:
    page = opened(digits)
    page.locator('.pane[data-drawing="0"] g.node', has_text="conv1").first.hover()
    text = page.locator("#hint").text_content()
    for told in (f"{DEPLOY}:22", "top conv1  40x12x32x16", "weights 0  12x1x3x3", "2,211,840 multiply-adds"):
        assert told in text
    same = page.locator('.pane[data-drawing="1"] g.same text')
    assert same.first.text_content() == "conv1"


@needs_graphviz
def test_a_click_shows_the_layer_on_the_other_side(opened: Any, digits: Path) -> None:
    page = opened(digits)
    page.locator('.pane[data-drawing="0"] g.node', has_text="score").click()
    assert page.locator('.pane[data-drawing="1"] g.here text').first.text_content() == "__score_mat_mul"


@needs_graphviz
def test_tables(opened: Any, digits: Path) -> None:
    page = opened(digits)
    pairs = page.locator("#pairs tbody tr").all_inner_texts()
    assert pairs[0].split() == ["lstm1_h_T", "→", "lstm1_h_0", "1x1x64"]
    assert len(pairs) == 4
    assert page.locator("#costs tbody tr").count() == 19
    page.click("[data-sort=multiply_adds]")
    first = page.locator("#costs tbody tr").first.inner_text().split()
    assert first[:3] == ["conv2", "Convolution", "13,271,040"]
    assert page.locator("#verification h2").inner_text() == "Verification: does not hold"
    (row,) = page.locator("#verification tbody tr").all_inner_texts()
    assert row.split() == [
        "network",
        "reference",
        "prob",
        "prob",
        "2.50e-07",
        "∞",
        "1.00e-08",
        "1.0000000",
        "differs",
    ]


@needs_graphviz
def test_names_are_only_text(opened: Any, tmp_path: Path) -> None:
    """Whatever a net is called, it neither ends an element nor Graphviz's text."""
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
    assert shown in drawn(page, 0)


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
    assert drawn(page, 0) == ["x", "y", "y"]
    assert page.locator(".pane").count() == 1
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
def test_a_net_of_1500_layers_opens_in_three_seconds(opened: Any, tmp_path: Path) -> None:
    net = tmp_path / "deep.prototxt"
    net.write_text(residual(1506))
    assert net.read_text().count("layer {") >= 1500
    assert dot(str(net), "-o", str(tmp_path / "deep.html")).exit_code == 0
    page = opened(tmp_path / "deep.html")
    assert int(page.locator("html").get_attribute("data-ready")) < 3000
    page.fill("#search", "l1499")  # far below, not drawn yet
    page.keyboard.press("Enter")
    assert page.locator('.pane[data-drawing="0"] g.here text').first.text_content() == "l1499"
    page.click("#every")
    assert page.locator("#costs tbody tr").count() >= 1500


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
        "error: nowhere.json: there is no such file\n",
    )
