"""A browser, and a page that is opened in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.converter.showing.page.opened import dot


@pytest.fixture(scope="session")
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
        page.on("dialog", lambda dialog: told.append(dialog.message))
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
