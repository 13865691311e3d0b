"""docs/design.md names the rooms that there are: every folder of code is in its table, and nothing else is."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = [line for line in (ROOT / "docs" / "design.md").read_text().splitlines() if line.startswith("| `")]
ROOMS = {room.rstrip("/") for row in ROWS for room in re.findall(r"`([\w/]+/)`", row.split("|")[1])}


def test_the_rooms_are_there() -> None:
    assert [room for room in sorted(ROOMS) if not (ROOT / room).is_dir()] == []


def test_every_package_has_a_room() -> None:
    """Its own, or that of the folder it is in, but for the folders at the top."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packages = setup["options"]["packages"].split()
    folders = [name.removeprefix("prototrt.").replace(".", "/") for name in packages if "." in name]
    inner = [folder for folder in folders if "/" in folder]
    homeless = [
        folder for folder in inner if not {folder, folder.rpartition("/")[0]} & {r for r in ROOMS if "/" in r}
    ]
    assert homeless == []
