"""NVIDIA's driver library. Whoever needs the driver loads it here."""

from __future__ import annotations

import ctypes
import sys

LIBCUDA = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def load_libcuda(library: str = LIBCUDA) -> ctypes.CDLL:
    """Load the library. Raises ``OSError`` without a driver."""
    return ctypes.CDLL(library)
