"""Sizes that vary, computed inside an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from prototrt.converter.tensorrt.network import Network


@dataclass(frozen=True, slots=True, eq=False)
class SizeTensor:
    """A size as an int32 tensor (1,). It is added, multiplied and divided as a number is."""

    network: Network
    tensor: Any

    def __add__(self, other: SizeTensor | int) -> SizeTensor:
        return self if other == 0 else self._with(other, "SUM")

    def __mul__(self, other: SizeTensor | int) -> SizeTensor:
        return self if other == 1 else self._with(other, "PROD")

    def __floordiv__(self, divisor: int) -> SizeTensor:
        return self if divisor == 1 else self._with(divisor, "FLOOR_DIV")

    __radd__, __rmul__ = __add__, __mul__

    def _with(self, other: SizeTensor | int, kind: str) -> SizeTensor:
        network = self.network
        right = (
            network.constant_array(np.array([other], np.int32)) if isinstance(other, int) else other.tensor
        )
        operation = network.enum("ElementWiseOperation", kind)
        return SizeTensor(network, network.add("elementwise", self.tensor, right, operation).get_output(0))
