"""Pages that show a way to go, run as they stand: commands and Python in the order of the page.

What other programs do is in blocks of another kind.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from prototrt.tests.command_line import run, without_measures

_INCLUDED = re.compile(r"^```{literalinclude} (.*)\n```$", re.MULTILINE)
_BLOCK = re.compile(r"^```(console|protobuf|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run_page(page: Path) -> dict[str, Any]:
    """Run a page in the current folder; the names that its Python has defined.

    Included files of Python run, too. A file that is written begins with its name, as a comment or, in Python, as a
    docstring; a command that shows an error must fail.
    """
    names: dict[str, Any] = {}
    shown = _INCLUDED.sub(
        lambda file: f"```python\n{(page.parent / file[1]).read_text()}```", page.read_text()
    )
    for kind, text in _BLOCK.findall(shown):
        if named := re.match(r'"""(\w+\.py)"""\n', text):
            Path(named[1]).write_text(text)
        elif kind == "python":
            exec(compile(text, page.name, "exec"), names)
        elif kind == "protobuf":
            Path(text.partition("\n")[0].removeprefix("# ")).write_text(text)
        else:
            for part in text.split("$ ")[1:]:
                _run_command(*part.partition("\n")[::2])
    return names


def _run_command(command: str, shown: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "prototrt"
    result = run(*arguments)
    assert (result.exit_code != 0) == shown.startswith("error: "), result.output
    assert without_measures(shown) in ("", without_measures(result.output))
