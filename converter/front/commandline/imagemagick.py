"""Calls of ImageMagick's ``convert``, which ours hides while the environment of prototrt is active."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

_IMAGE = re.compile(
    r".+\.(avif|bmp|eps|gif|heic|ico|jpe?g|miff|pdf|pgm|png|ppm|psd|svg|tga|tiff?|webp|xpm)(\[[^\[\]]*\])?",
    re.IGNORECASE,
)
"""The file name of an image, also with a selection of frames, as in ``movie.gif[0]``."""


def message_for_images(arguments: Sequence[str]) -> str | None:
    """What to tell whoever wanted ImageMagick; nothing if the call is ours.

    A call of ImageMagick names images, and neither ``-o`` nor a long option: its options have one dash.
    """
    if any(argument == "-o" or argument.startswith("--") for argument in arguments):
        return None
    if not any(_IMAGE.fullmatch(argument) for argument in arguments):
        return None
    call = shlex.join(arguments)
    others = [f"`{program} {call}`" for program in _others()]
    return (
        "error: this is prototrt's `convert`, which converts Caffe models, not images\n"
        f"  because {Path(sys.argv[0]).parent} comes first in PATH\n"
        f"  fix: {'run ' if others else ''}{', or '.join([*others, 'deactivate the environment of prototrt'])}"
    )


def _others() -> list[str]:
    """ImageMagick's own commands on this machine."""
    ours = Path(sys.argv[0]).parent.resolve()
    folders = [folder for folder in os.get_exec_path() if Path(folder).resolve() != ours]
    programs = {name: shutil.which(name, path=os.pathsep.join(folders)) for name in ("magick", "convert")}
    return [
        *(["magick"] if programs["magick"] else []),
        *([programs["convert"]] if programs["convert"] else []),
    ]
