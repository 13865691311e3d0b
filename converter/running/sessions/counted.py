"""Results with room for more rows than were found: an output says how many of the first ones count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from prototrt.surgery.ir import AtMost, Value


def what_counts(values: Iterable[Value], results: Mapping[str, Any]) -> dict[str, Any]:
    """The results, cut to the elements that count, as views. ``values`` are the outputs that they belong to.

    Objects that are not NumPy arrays stay as they are.
    """
    cut = dict(results)
    for value in values:
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, AtMost) and isinstance(cut[value.name], np.ndarray):
                count = int(np.asarray(results[dim.count])[0])
                cut[value.name] = cut[value.name][(slice(None),) * axis + (slice(count),)]
    return cut
