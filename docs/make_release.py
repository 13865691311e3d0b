"""Checks and packs a release: ``make release``.

python docs/make_release.py check           whether the commit can be released
python docs/make_release.py repack ARCHIVE  a tar.gz, as the same bytes wherever it was made
python docs/make_release.py pack FOLDER     the site and the checksums, into the folder with the wheel
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import prototrt

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "docs" / "site"
CHECKSUMS = "SHA256SUMS"


def check() -> str | None:
    """Why the commit cannot be released; None if it can."""
    if changes := _git("status", "--porcelain"):
        return f"the working tree has changes that no commit has:\n{changes}"
    return changelog_fault((ROOT / "CHANGELOG.md").read_text(), prototrt.__version__)


def changelog_fault(text: str, version: str) -> str | None:
    """What is wrong with the section of a version; None if it begins with at most ten entries and has a date."""
    section = re.search(rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    if section is None:
        return f"CHANGELOG.md has no section '## {version}, YYYY-MM-DD'"
    entries = re.findall(r"^- ", section[1], re.M)
    return (
        None
        if 1 <= len(entries) <= 10
        else f"CHANGELOG.md sums {version} up in {len(entries)} entries, not 1 to 10"
    )


def repack(archive: Path) -> None:
    """Replace times, owners and the order of a tar.gz by those of the commit."""
    with tarfile.open(archive) as packed:
        members = [(member, _content(packed, member)) for member in packed.getmembers()]
    _write(archive, members)


def pack(folder: Path) -> None:
    """``prototrt-VERSION-site.tar.gz`` and ``SHA256SUMS``, which ``sha256sum -c`` reads."""
    name = f"prototrt-{prototrt.__version__}-site"
    _write(folder / f"{name}.tar.gz", [*_files(SITE, name)])
    files = sorted(path for path in folder.iterdir() if path.name != CHECKSUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / CHECKSUMS).write_text("".join(lines))


def _content(packed: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = packed.extractfile(member) if member.isfile() else None
    return b"" if stream is None else stream.read()


def _files(folder: Path, name: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """What Sphinx keeps for its next run is left out."""
    for path in folder.rglob("*"):
        place = path.relative_to(folder)
        if path.is_file() and not place.parts[0].startswith("."):
            content = path.read_bytes()
            member = tarfile.TarInfo(f"{name}/{place.as_posix()}")
            member.size = len(content)
            yield member, content


def _write(archive: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    time = int(_git("log", "-1", "--format=%ct"))
    with gzip.GzipFile(archive, "wb", mtime=time) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for member, content in sorted(members, key=lambda each: each[0].name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            tar.addfile(member, io.BytesIO(content))


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def main(command: str, *paths: str) -> str | None:
    if command == "check":
        return check()
    {"repack": repack, "pack": pack}[command](Path(paths[0]))
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
