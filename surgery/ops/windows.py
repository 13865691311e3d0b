"""The elements under a sliding window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototrt.surgery.ir import Dim, fixed


def seen_from(place: Sequence[int], stride: Sequence[int], out: Sequence[Dim]) -> Any:
    """NumPy index of the elements that one place of the window meets, over all windows.

    ``place`` is the element's offset from the window's corner, ``out`` the number of
    windows, all with one entry a spatial axis; the spatial axes are the last ones.
    """
    ends = [p + s * (fixed(n, "a size") - 1) + 1 for p, s, n in zip(place, stride, out, strict=True)]
    return (..., *map(slice, place, ends, stride))
