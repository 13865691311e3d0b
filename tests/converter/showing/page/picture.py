"""The picture of a page in the documentation.

python -m prototrt.tests.converter.showing.page.picture docs/page.png draws it, in the root of a clone, with Chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from prototrt.tests.converter.showing.page.opened import box, dot

SAMPLE = "samples/digits/deploy.prototxt", "samples/digits/digits.caffemodel"


def draw(target: Path) -> None:
    """The sample's net beside its graph, with the body of an LSTM unfolded."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        assert dot(*SAMPLE, "-o", f"{folder}/page.html").exit_code == 0
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 800})
        page.goto(f"file://{folder}/page.html")
        page.wait_for_selector("html[data-ready]")
        box(page, 1, "lstm1").click()
        page.mouse.move(1, 1)
        page.wait_for_timeout(1000)  # for what the click moves on both sides
        page.screenshot(path=target)
        browser.close()
    Image.open(target).convert("RGB").quantize(192, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
