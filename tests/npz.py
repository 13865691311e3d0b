"""Files of arrays for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from prototrt.surgery.ir import Array


def write_npz(file: str | Path, arrays: Mapping[str, Array]) -> None:
    """The arrays under their names, which NumPy's annotations take for other arguments.

    NumPy before 2.1 takes ``allow_pickle`` for a name as well.
    """
    np.savez(file, **arrays)  # type: ignore[arg-type]
