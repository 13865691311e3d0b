"""Random weights in a file, for nets that come without."""

from __future__ import annotations

from pathlib import Path

import prototrt
from prototrt.caffe_proto import RandomWeights
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.weights import Purpose
from prototrt.surgery.ir import Array
from prototrt.tests.tools.caffemodel_writer import write


@dataclass(frozen=True, slots=True, eq=False)
class RecordedWeights(RandomWeights):
    """Random weights that remember what they gave to which layer."""

    drawn: dict[str, list[Array]] = field(default_factory=dict)

    def draw(self, layer: str, index: int, shape: tuple[int, ...], kind: Purpose = "weight") -> Array:
        array = RandomWeights.draw(self, layer, index, shape, kind)
        self.drawn.setdefault(layer, []).append(array)
        return array


def write_random(path: Path, net: Path, seed: int = 1) -> bool:
    """Write a caffemodel with random numbers for each parameter of the net; False, and no file, if it has none.

    The rules of the layers say which parameters there are. Raises ``ConversionError``.
    """
    weights = RecordedWeights(seed=seed)
    prototrt.rewrite(replace(prototrt.load(net), weights=weights))
    if weights.drawn:
        write(path, weights.drawn)
    return bool(weights.drawn)
