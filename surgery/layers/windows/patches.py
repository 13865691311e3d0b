"""What sliding windows see, side by side, over sizes that vary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Size, computable
from prototrt.surgery.ops.windows import windows_that_fit


def gather_windows(
    build: Builder, x: Value, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Value:
    """x (N, C, ...) as (N, C, places of the window, windows, ...): two axes for each axis that the window slides along.

    A primitive that slides over a known size needs no such picture: its backends know which elements it sees.
    """
    for axis in reversed(range(2, len(x.shape))):
        places, step, apart = window[axis - 2], stride[axis - 2], dilation[axis - 2]
        count = windows_that_fit(computable(x.shape[axis]), apart * (places - 1) + 1, step, axis)
        x = build.gathered(x, window_elements(build, places, count, step, apart), axis)
    return x


def window_elements(build: Builder, places: int, windows: Size, stride: int, dilation: int = 1) -> Value:
    """Which element of an axis each place of each window meets: int32 (places, windows)."""
    corners = build.counted_numbers(windows, "windows").reshape(1, windows) * stride
    offsets = (np.arange(places, dtype=np.int32) * dilation).reshape(places, 1)
    return corners + build.constant(offsets, "places")
