"""Showing a file in the user's browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from prototrt.converter.commandline.printing import warn


def open_in_browser(file: str) -> None:
    """Show the file. If there is no browser, as on a server, a warning says so: the file is written."""
    if not webbrowser.open(Path(file).resolve().as_uri()):
        warn([f"no browser was found: open {file} yourself"])
