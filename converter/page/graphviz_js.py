"""Graphviz for browsers, which pages contain: a build of prototrt fetches it from the npm registry.

See docs/decisions/0035-builds-fetch-graphviz.md. This file stands alone: setup.py and ``make vendor`` run it before
anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
import threading
import urllib.request
from collections.abc import Callable
from io import BytesIO
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

_REGISTRY = "https://registry.npmjs.org"
_SECONDS = 15.0
_MOST = 16 << 20
"""Bytes of the archive, which has 1.4 MB."""


class NotFetchedError(Exception):
    """Why the files are not there."""


def provide(tell: Callable[[str], object], folder: Path = FOLDER) -> None:
    """Fetch the files unless they are there. If that fails, ``tell`` hears in one line that a build goes on without."""
    if os.environ.get(OPT_OUT) or is_there(folder):
        return
    try:
        fetch(folder)
    except NotFetchedError as error:
        tell(f"Graphviz for browsers is left out, which `prototrt dot -o net.html` needs: {error}")


def is_there(folder: Path = FOLDER) -> bool:
    """Whether the folder has the files, and they are those of this version."""
    try:
        return all(_sha256((folder / name).read_bytes()) == digest for name, (_, digest) in FILES.items())
    except OSError:
        return False


def fetch(folder: Path = FOLDER, seconds: float = _SECONDS) -> None:
    """Download the files, and compare them with their hashes before they are written. Raises ``NotFetchedError``."""
    url = f"{_registry()}/{PACKAGE}/-/{PACKAGE.rpartition('/')[2]}-{VERSION}.tgz"
    archive = _downloaded(url, seconds)
    try:
        with tarfile.open(fileobj=BytesIO(archive), mode="r:gz") as packed:
            found = {name: _member(packed, inside) for name, (inside, _) in FILES.items()}
        for name, (_, digest) in FILES.items():
            if _sha256(found[name]) != digest:
                raise NotFetchedError(f"{url} has another {name} than version {VERSION}: its SHA-256 differs")
    except (tarfile.TarError, OSError, EOFError, KeyError) as error:
        raise NotFetchedError(f"{url} is not the archive of the package: {error}") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in found.items():
            part = folder / f"{name}.{os.getpid()}.part"
            part.write_bytes(content)
            part.replace(folder / name)
    except OSError as error:
        raise NotFetchedError(f"{folder} cannot be written: {error.strerror}") from error


def _registry() -> str:
    """The registry of npm's own variable: a mirror, where a site has one."""
    variables = {name.lower(): value for name, value in os.environ.items()}
    return (variables.get("npm_config_registry") or _REGISTRY).rstrip("/")


def _downloaded(url: str, seconds: float) -> bytes:
    """What is there. Nothing holds the caller up for longer: neither a name server nor one that sends byte by byte."""
    found: list[bytes | Exception] = []

    def download() -> None:
        try:
            with urllib.request.urlopen(url, timeout=seconds) as answer:
                found.append(answer.read(_MOST))
        except Exception as error:  # urllib's errors share no base class
            found.append(error)

    thread = threading.Thread(target=download, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise NotFetchedError(f"{url} did not answer within {seconds:g} s")
    if isinstance(found[0], Exception):
        reason = str(found[0]).removeprefix("<urlopen error ").removesuffix(">")
        raise NotFetchedError(f"{url} cannot be read: {reason}") from found[0]
    return found[0]


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
