"""Results with room for more than was found: the first elements of an axis count, and an output holds their number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from prototrt.surgery.ir import AtMost, Value


def what_counts(values: Iterable[Value], results: Mapping[str, Any]) -> dict[str, Any]:
    """The results without the elements that do not count, as views. Other objects than NumPy arrays stay unchanged."""
    cut = dict(results)
    for value in values:
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, AtMost) and isinstance(cut[value.name], np.ndarray):
                count = int(np.asarray(results[dim.count])[0])
                cut[value.name] = cut[value.name][(slice(None),) * axis + (slice(count),)]
    return cut
