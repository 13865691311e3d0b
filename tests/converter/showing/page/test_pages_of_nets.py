"""Pages of odd and of deep nets, and of a survey."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prototrt.tests.converter.showing.page.opened import dot, names, needs_graphviz, percent, whole


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


@pytest.mark.exhaustive
@needs_graphviz
@pytest.mark.slow
def test_a_deep_net(opened: Any, tmp_path: Path) -> None:
    net = tmp_path / "deep.prototxt"
    net.write_text(residual(603))
    assert dot(str(net), "-o", str(tmp_path / "deep.html")).exit_code == 0
    page = opened(tmp_path / "deep.html")
    assert whole(page)
    for drawing in (0, 1):
        assert len(names(page, drawing)) < 20  # equal blocks are one box
        page.click(f"#drawing-{drawing} [data-do=unfold]")
        page.click(f"#drawing-{drawing} [data-do=fit]")
        assert whole(page, drawing)
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
