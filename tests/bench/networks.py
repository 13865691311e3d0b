"""The networks that are measured: their topologies are stored, their weights are drawn here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import prototrt
from prototrt.caffe_proto import RandomWeights
from prototrt.caffe_proto.weights import Purpose
from prototrt.surgery.ir import Array
from prototrt.tests.tools.caffemodel_writer import write

MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True, eq=False)
class KeptWeights(RandomWeights):
    """Random weights that remember what they gave to which layer."""

    drawn: dict[str, list[Array]] = field(default_factory=dict)

    def draw(self, layer: str, index: int, shape: tuple[int, ...], kind: Purpose = "weight") -> Array:
        array = RandomWeights.draw(self, layer, index, shape, kind)
        self.drawn.setdefault(layer, []).append(array)
        return array


def prototxt(name: str) -> Path:
    return MODELS / f"{name}.prototxt"


def caffemodel(name: str, folder: Path) -> Path:
    """The weights file of a network, drawn and written when there is none yet."""
    path = folder / f"{name}.caffemodel"
    if not path.exists():
        weights = KeptWeights(seed=1)
        prototrt.rewrite(replace(prototrt.load(prototxt(name)), weights=weights))
        folder.mkdir(parents=True, exist_ok=True)
        write(path, weights.drawn)
    return path
