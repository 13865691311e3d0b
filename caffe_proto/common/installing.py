"""How to install what an extra adds, from where prototrt itself was installed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

from prototrt.caffe_proto.common.errors import BuildError, ConversionError

_NAME = "prototrt"
_ON_WINDOWS = os.name == "nt"
_OF_AN_EXTRA = re.compile(r"""(?P<requirement>[^;]+);\s*extra\s*==\s*["'](?P<extra>[\w.-]+)["']""")


_EXTRAS = {"PIL": "samples", "jinja2": "html", "safetensors": "torch", "torch": "torch", "yaml": "batch"}
"""By module, the extra that brings it."""


def refuse_without(
    module: str, problem: str, where: str | None = None, error: type[ConversionError] = ConversionError
) -> None:
    """Raise an error with the way to install a module that is not there, before the work for which it is needed."""
    if importlib.util.find_spec(module) is None:
        raise error(problem, where=where, fix=pip_install(_EXTRAS[module]))


def optional_module(module: str, what: str, extra: str) -> ModuleType:
    """A module that not everybody has. Raises ``BuildError`` with the way to install it; ``what`` needs it."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        raise BuildError(
            f"{what} needs the package {module.partition('.')[0]}, which cannot be imported: {error}",
            fix=pip_install(extra),
        ) from error


def pip_install(extra: str) -> str:
    """The command that installs an extra.

    It names the folder, file or repository that prototrt was installed from. Where that is not recorded, or is
    gone, it names the packages of the extra. It never names prototrt alone: pip would take whatever package of
    that name an index has.
    Source: PEP 610 (direct_url.json).
    """
    from importlib import metadata  # only messages need it

    try:
        installed = metadata.distribution(_NAME)
    except metadata.PackageNotFoundError:  # a source tree on the path
        return _command(f"{Path(__file__).resolve().parents[2]}[{extra}]")
    origin = _origin(json.loads(installed.read_text("direct_url.json") or "{}"), extra)
    return _command(*(origin or _packages(installed.requires or [], extra)))


def _origin(recorded: dict[str, Any], extra: str) -> list[str]:
    """pip's arguments for the place that prototrt was installed from; none if there is none."""
    url: str = recorded.get("url", "")
    vcs = recorded.get("vcs_info")
    if vcs and not url.startswith("file:"):
        return [f"{_NAME}[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}"]
    if not url.startswith("file:"):
        return [f"{_NAME}[{extra}] @ {url}"] if url else []
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    path = url2pathname(urlparse(url).path)
    # pip refuses "@ git+file:". The folder of a clone serves as well; a bare repository has no setup.cfg.
    if not os.path.exists(os.path.join(path, "setup.cfg") if vcs else path):
        return []
    editable = recorded.get("dir_info", {}).get("editable", False)
    return [*(["-e"] if editable else []), f"{path}[{extra}]"]


def _packages(requirements: list[str], extra: str) -> list[str]:
    matches = [match for line in requirements if (match := _OF_AN_EXTRA.fullmatch(line))]
    return [match["requirement"].strip() for match in matches if match["extra"] == extra]


def _command(*arguments: str) -> str:
    return " ".join(["pip", "install", *map(_quoted, arguments)])


def _quoted(word: str) -> str:
    """As the shell wants it. On Windows, that is also right in PowerShell."""
    if not _ON_WINDOWS:
        return shlex.quote(word)
    return word if re.fullmatch(r"[\w.-]+", word) else f'"{word}"'
