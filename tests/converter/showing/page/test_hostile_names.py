"""Pages and notebooks of a net with hostile names, in a browser: nothing runs, nothing is loaded, names are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.tests.converter.showing.page.opened import dot, needs_graphviz

NAMES = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</script><b>",
    "</text></svg><iframe src=https://example.com>",
    "<link rel=stylesheet href=https://example.com/a.css>",
    "javascript:alert(1)",
    "url(https://example.com/a.png)",
    "{{7*7}}",
    "`${alert(1)}`",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "<!--",
    "]]>",
    "&lt;b&gt;&#60;",
    "\u202egnp.exe\u200b",
    "a\nb\r\tc\x00\x1b[31m\u2028d",
    "$x^2$ \\(y\\)",
    "W" * 300,
]
SHOWN = [visible_line(name) for name in NAMES]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A chain of layers with these names."""
    octal = ["".join(f"\\{byte:03o}" for byte in name.encode()) for name in NAMES]
    lines = [
        f'name: "{octal[0]}"',
        'layer { name: "in" type: "Input" top: "in" input_param { shape { dim: 2 } } }',
    ]
    for bottom, name in zip(["in", *octal], octal, strict=False):
        lines.append(f'layer {{ name: "{name}" type: "TanH" bottom: "{bottom}" top: "{name}" }}')
    path = tmp_path / f"{NAMES[1]}.prototxt"
    path.write_text("\n".join(lines))
    return path


@needs_graphviz
@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "height"),
    [
        (390, 844),
        *(pytest.param(*size, marks=pytest.mark.exhaustive) for size in ((768, 1024), (1400, 1000))),
    ],
)
def test_a_page_of_hostile_names(opened: Any, net: Path, width: int, height: int) -> None:
    assert dot(str(net), "-o", str(net.with_name("net.html"))).exit_code == 0
    page = opened(net.with_name("net.html"))
    page.set_viewport_size({"width": width, "height": height})
    assert page.locator("h1").inner_text() == SHOWN[0]
    boxes = page.locator("#drawing-0 .box:not(.stub)")
    assert [boxes.nth(index + 1).get_attribute("aria-label") for index in range(20)] == [
        f"{name}, TanH" for name in SHOWN
    ]
    for index, name in enumerate(SHOWN):
        page.fill("#search", name)
        page.keyboard.press("Enter")
        assert page.locator("#drawing-0 .here").count() >= 1, name
        boxes.nth(index + 1).dispatch_event("click")
        assert page.locator("#panel h2").inner_text() == name
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    for button in page.locator("#drawing-0 [data-do]").all():
        if button.is_visible():
            button.click()
    assert page.locator("img, iframe, [onload], [onerror]").count() == 0


@pytest.mark.slow
def test_a_notebook_of_hostile_names(opened: Any, net: Path) -> None:
    """A browser is given what a notebook is: it has no policy that forbids scripts."""
    model = prototrt.load(net)
    graph = prototrt.rewrite(model)
    subjects: list[Any] = [model, graph, prototrt.draw(model), prototrt.verify(model), prototrt.inspect(net)]
    path = net.with_name("notebook.html")
    shown = "".join(f"<section>{subject._repr_html_()}</section>" for subject in subjects)
    path.write_text(f'<html data-ready><meta charset="utf-8">{shown}</html>')
    page = opened(path)
    assert page.locator("section").count() == len(subjects)
    assert page.locator("script, img, iframe, svg, link").count() == 0
    for section in page.locator("section").all()[:2]:
        texts = section.inner_text()
        assert [name for name in SHOWN if name not in texts] == []
