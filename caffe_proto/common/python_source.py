"""Names and texts of any origin in Python source."""

from __future__ import annotations

import builtins
import keyword

WORDS = frozenset({*dir(builtins), *keyword.kwlist})
"""What no name in a file may be: it could not be written, or other lines of the file would mean it."""


def literal(text: str) -> str:
    """The text as Python has it, in double quotes and ASCII."""
    return '"' + text.encode("unicode_escape", "surrogatepass").decode("ascii").replace('"', '\\"') + '"'
