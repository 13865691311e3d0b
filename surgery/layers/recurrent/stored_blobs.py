"""Reading the stored blobs of a recurrent layer, in Caffe's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.layer_builder import LayerBuilder, field_if_set
from prototrt.surgery.ir import Dim, Value
from prototrt.surgery.ir.uniform_constants import is_repeated
from prototrt.surgery.recurrent.stacks import InputWeights


class StoredBlobs:
    """Returns the layer's blobs one after the other."""

    def __init__(self, build: LayerBuilder, layer: Layer, param: Any | None = None) -> None:
        self.build, self.layer = build, layer
        self.param = layer.param if param is None else param
        self._next = 0

    def weights(self, shape: tuple[Dim, ...], what: str) -> Value:
        """The next stored blob, as a matrix."""
        self._next += 1
        return self.build.parameter(self.layer, shape, what, filler=field_if_set(self.param, "weight_filler"))

    def bias(self, shape: tuple[Dim, ...], what: str) -> Value:
        """The next stored blob, as a bias."""
        self._next += 1
        filler = field_if_set(self.param, "bias_filler")
        return self.build.parameter(self.layer, shape, what, filler=filler, kind="bias")

    def inputs(self, rows: int, inputs: int, statics: Sequence[int], names: Sequence[str]) -> InputWeights:
        """The weights of x and of the static inputs; ``names`` of W_x, b, and the static ones."""
        matrix = self.weights((rows, inputs), names[0])
        bias = self.bias((rows,), names[1])
        static = [self.weights((rows, size), name) for size, name in zip(statics, names[2:], strict=False)]
        return InputWeights(matrix, bias, tuple(static))

    def has_rows(self, rows: int) -> bool:
        """Whether the next blob, if it is stored, has this number of rows."""
        blobs = self.layer.blobs
        if blobs is None or self._next >= len(blobs):
            return False
        sizes = [size for size in blobs[self._next].shape if size != 1]
        return bool(sizes) and blobs[self._next].shape[0] == rows

    def rewritten(self, value: Value, array: np.ndarray[Any, np.dtype[Any]], what: str) -> Value:
        """A constant instead of a stored blob."""
        return self.build.constant(array if is_repeated(array) else np.ascontiguousarray(array), what)
