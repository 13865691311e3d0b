"""Graphviz for browsers, which pages contain: a build of prototrt lets npm fetch it.

See docs/decisions.md, 0035. This file stands alone: setup.py and ``make vendor`` run it before
anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PACKAGE, VERSION = "@hpcc-js/wasm-graphviz", "1.29.2"
FILES = {
    "LICENSE": ("package/LICENSE", "1eb85fc97224598dad1852b5d6483bbcf0aa8608790dcc657a5a2a761ae9c8c6"),
    "graphviz.js": (
        "package/dist/index.js",
        "550d9cd6ff429f5bd225316fe1faed4f852038c3e1ec609ce113af1f9379ce25",
    ),
}
"""By name, the name in npm's archive and the SHA-256."""
FOLDER = Path(__file__).with_name("vendor")
OPT_OUT = "PROTOTRT_BUILD_WITHOUT_GRAPHVIZ"
"""The variable of the environment that lets a build leave it out."""

_SECONDS = 15.0
_MOST = 16 << 20
"""Bytes of a file, the larger of which has 0.8 MB."""


class NotFetchedError(Exception):
    """Why the files are not there."""


def provide(tell: Callable[[str], object], folder: Path = FOLDER) -> None:
    """Fetch the files unless they are there. If that fails, ``tell`` hears in one line that a build goes on without."""
    if os.environ.get(OPT_OUT) or is_there(folder):
        return
    try:
        fetch(folder)
    except NotFetchedError as error:
        tell(f"Graphviz for browsers is left out, which pages of nets need: {error}")


def is_there(folder: Path = FOLDER) -> bool:
    """Whether the folder has the files, and they are those of this version."""
    try:
        return all(_sha256((folder / name).read_bytes()) == digest for name, (_, digest) in FILES.items())
    except OSError:
        return False


def fetch(folder: Path = FOLDER, seconds: float = _SECONDS) -> None:
    """Let npm download the files, and compare them with their hashes before they are written.

    npm knows the registry or the mirror, the proxy and the certificates of its user. Raises ``NotFetchedError``.
    """
    with tempfile.TemporaryDirectory() as packed_in:
        _pack(Path(packed_in), seconds)
        unpacked = _unpack(Path(packed_in))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in unpacked.items():
            part = folder / f"{name}.{os.getpid()}.part"
            with part.open("xb") as stream:  # it follows no link
                stream.write(content)
            part.replace(folder / name)
    except OSError as error:
        raise NotFetchedError(f"{folder} cannot be written: {error.strerror}") from error


def _pack(into: Path, seconds: float) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetchedError("npm, which fetches it, is not installed")
    arguments = [npm, "pack", "--silent", "--pack-destination", str(into), f"{PACKAGE}@{VERSION}"]
    with subprocess.Popen(
        arguments,
        cwd=into,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise NotFetchedError(f"`npm pack` took more than {seconds:g} s") from None
    if status:
        raise NotFetchedError(f"`npm pack {PACKAGE}@{VERSION}` failed with exit code {status}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """npm starts others, which wait for the same server."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _unpack(folder: Path) -> dict[str, bytes]:
    try:
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive, mode="r:gz") as packed:
            content = {name: _member(packed, inside) for name, (inside, _) in FILES.items()}
    except (tarfile.TarError, OSError, EOFError, KeyError, ValueError) as error:
        raise NotFetchedError(f"npm did not bring the archive of the package: {error}") from error
    for name, (_, digest) in FILES.items():
        if _sha256(content[name]) != digest:
            raise NotFetchedError(
                f"npm brought another {name} than that of version {VERSION}: its SHA-256 differs"
            )
    return content


def _member(packed: tarfile.TarFile, name: str) -> bytes:
    member = packed.getmember(name)
    stream = packed.extractfile(member) if member.size <= _MOST else None
    if stream is None:
        raise tarfile.TarError(f"{name} is not a plain file, or is too large")
    return stream.read()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> int:
    """``make vendor``: the exit code."""
    try:
        if not is_there():
            fetch()
    except NotFetchedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
