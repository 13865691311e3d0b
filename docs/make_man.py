"""Writes a man page for each command into the folder that is given: `make man`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from click_man.core import write_man_pages

import prototrt
from prototrt.cli import main
from prototrt.converter.front.commandline.frame import EXIT_CODES


def write(folder: str) -> None:
    """Pages as click-man makes them, and the exit codes, which it leaves out."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_man_pages("prototrt", main, version=prototrt.__version__, target_dir=folder)
    rows = re.findall(r"^ +(\d+) +(.*)$", EXIT_CODES, re.MULTILINE)
    status = "\n".join(f".TP\n\\fB{code}\\fP\n{meaning}" for code, meaning in rows)
    for page in Path(folder).glob("prototrt*.1"):
        page.write_text(f"{page.read_text().rstrip()}\n.SH EXIT STATUS\n{status}\n")


if __name__ == "__main__":
    write(sys.argv[1])
