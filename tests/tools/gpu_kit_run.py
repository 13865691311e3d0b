"""Unpack the kit that lies beside this file, and run the check with the same options.

    python3 run.py --budget 540 > results.md

Needs nothing but Python, of the version that the kit was packed with.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
UNPACKED = HERE / "unpacked"


class Joined(io.RawIOBase):
    """The parts, read as one file."""

    def __init__(self, paths: list[Path]) -> None:
        self._streams = [path.open("rb") for path in paths]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._streams:
            count = self._streams[0].readinto(buffer)
            if count:
                return count
            self._streams.pop(0).close()
        return 0


def unpack() -> None:
    """Once: a second run finds what the first has unpacked."""
    done = UNPACKED / "done"
    if done.exists():
        return
    parts = sorted(HERE.glob("kit.tar.xz.*"))
    if not parts:
        sys.exit(f"there is no part of the kit beside {__file__}: copy kit.tar.xz.00 and all others here")
    with tarfile.open(fileobj=io.BufferedReader(Joined(parts)), mode="r|xz") as archive:
        # What later versions of Python do by default: nothing comes to lie outside of the folder.
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(UNPACKED, **safely)
    done.touch()


def packages() -> list[str]:
    """Folders of the packages that this machine lacks."""
    return [
        str(folder) for folder in sorted((UNPACKED / "packages").iterdir()) if not is_installed(folder.name)
    ]


def is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    unpack()
    tree = UNPACKED / "tree"
    paths = [str(tree / ".dev"), *packages(), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    check = str(tree / "tests" / "gpu" / "check.py")
    os.execv(sys.executable, [sys.executable, check, *sys.argv[1:]])


if __name__ == "__main__":
    main()
