"""docs/design.md names the rooms that there are: every folder of code is in its table, and nothing else is.

Decisions have numbers of their own, and what names one finds it.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
DECISIONS = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
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


def test_decisions_are_numbered_without_gaps_and_say_their_number() -> None:
    expected = [f"{number:04}" for number in range(1, len(DECISIONS) + 1)]
    assert [name[:4] for name in DECISIONS] == expected
    titles = [(ROOT / "docs" / "decisions" / name).read_text().partition(":")[0] for name in DECISIONS]
    assert titles == [f"# {number}" for number in expected]


def test_decisions_that_are_named_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    code = [path for room in ("caffe_proto", "surgery", "converter") for path in (ROOT / room).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in pages + code]
    named = {name for text in texts for name in re.findall(r"\b\d{4}-[a-z][\w-]*\.md", text)}
    assert named
    assert sorted(named.difference(DECISIONS)) == []
