"""Sizes as people write them."""

from __future__ import annotations

import math
import re

_UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def bytes_from_text(text: str) -> int | None:
    """``4GB`` or ``500 MiB`` in bytes; None if the text is not a size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\w*)", text)
    if not match or match[2] not in _UNITS:
        return None
    count = float(match[1]) * _UNITS[match[2]]
    return int(count) if math.isfinite(count) else None


def text_of_bytes(count: int) -> str:
    """``2.5 GB``, ``800.0 MB``, ``3.1 kB``, ``12 bytes``: with the unit that leaves few digits."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
