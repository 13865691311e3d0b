"""NumPy without threads: OpenBLAS starts one for each core at import, and commands that convert multiply little."""

from __future__ import annotations

import os
import sys

_THREADS = "OPENBLAS_NUM_THREADS"


def import_numpy_in_one_thread() -> None:
    """Import NumPy, unless it is there. A choice of the user stays, and processes started later hear of none."""
    if "numpy" in sys.modules or os.environ.keys() & {_THREADS, "OMP_NUM_THREADS"}:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401  # for its threads
    finally:
        del os.environ[_THREADS]
