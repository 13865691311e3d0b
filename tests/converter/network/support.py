"""Building small networks, evaluating them, and comparing them with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from prototrt.converter.network.registry import Array

trt: Any = pytest.importorskip("tensorrt_rtx", reason="needs TensorRT for RTX")

Network: TypeAlias = Any  # TensorRT's bindings carry no types
Layer: TypeAlias = Any
ITensor: TypeAlias = Any

# The same sum of float32 numbers in another order differs by one part in 10^6 or so.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}

_LOGGER = trt.Logger(trt.Logger.ERROR)
_BUILDER = trt.Builder(_LOGGER)


def new_network() -> Network:
    return _BUILDER.create_network(0)


def add_input(network: Network, name: str, like: Array, shape: Sequence[int] | None = None) -> ITensor:
    return network.add_input(name, trt.DataType(trt.nptype_of(like)), shape or like.shape)


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
