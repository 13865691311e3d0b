"""The modules of the page's script in one text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from prototrt.converter.showing.page.writing import FOLDER, join_modules

MODULES = {
    "main.js": (
        'import { twice } from "./arithmetic.js";\n'
        'import { ONE } from "./numbers.js";\n'
        "console.log(twice(ONE));\n"
    ),
    "arithmetic.js": (
        'import { ONE } from "./numbers.js";\n'
        "const hidden = 2;\n"
        "export const twice = (number) => hidden * number * ONE;\n"
        "export async function later() {}\n"
    ),
    "numbers.js": 'const hidden = "not the other";\nexport const ONE = 1;\n',
}
"""Two modules use a third one, and have a name in common."""


@pytest.fixture
def main(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "main.js"


def test_each_module_stands_once_before_its_importers(main: Path) -> None:
    assert join_modules(main) == (
        'const module_numbers = (() => {\nconst hidden = "not the other";\nconst ONE = 1;\nreturn { ONE };\n})();\n'
        "const module_arithmetic = (() => {\nconst { ONE } = module_numbers;\nconst hidden = 2;\n"
        "const twice = (number) => hidden * number * ONE;\nasync function later() {}\nreturn { twice, later };\n})();\n"
        "const { twice } = module_arithmetic;\nconst { ONE } = module_numbers;\nconsole.log(twice(ONE));\n"
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_it_computes_what_the_modules_compute(main: Path) -> None:
    for arguments in (["--input-type=module", "-e", join_modules(main)], [str(main)]):
        (main.parent / "package.json").write_text('{"type": "module"}')
        done = subprocess.run(["node", *arguments], capture_output=True, text=True, check=True)
        assert done.stdout == "2\n"


def test_all_modules_of_the_page_are_in_it() -> None:
    script = join_modules(FOLDER / "script" / "main.js")
    names = {file.stem for file in (FOLDER / "script").glob("*.js")} - {"main"}
    assert names == {name for name in names if f"const module_{name} = " in script}
    assert "import {" not in script
    assert "\nexport " not in script
