"""Random weights as blobs of layers, which can be written."""

from __future__ import annotations

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.common.wording import Option
from prototrt.caffe_proto.weights import Array, Purpose, RandomWeights, StoredBlob, UnpickledWeights
from prototrt.converter.backends.caffe.expansion import expand_for
from prototrt.surgery.options import RewriteOptions


@dataclass(frozen=True, eq=False)
class _RecordingWeights(RandomWeights):
    """Random weights that remember what each layer's rule asked for."""

    drawn: dict[str, dict[int, Array]] = field(default_factory=dict)

    def draw(self, layer: str, index: int, shape: tuple[int, ...], kind: Purpose = "weight") -> Array:
        array = RandomWeights.draw(self, layer, index, shape, kind)
        return self.drawn.setdefault(layer, {}).setdefault(index, array)


def with_drawn_blobs(model: Model, weights: RandomWeights, options: RewriteOptions) -> Model:
    """The net whose layers hold the numbers that their rules draw. Raises ``ConversionError``."""
    recorded = _RecordingWeights(seed=weights.seed)
    expand_for(Option("random_weights"), replace(model, weights=recorded), options)
    layers = tuple(replace(layer, blobs=_blobs(layer, recorded.drawn)) for layer in model.layers)
    return replace(model, layers=layers, weights=UnpickledWeights())


def _blobs(layer: Layer, drawn: dict[str, dict[int, Array]]) -> list[StoredBlob] | None:
    """Those of the layer, and those that it shares with another."""
    arrays = dict(drawn.get(layer.name, {}))
    arrays |= {
        index: drawn[owner[0]][owner[1]]
        for index, owner in enumerate(layer.shared)
        if owner is not None and owner[1] in drawn.get(owner[0], {})
    }
    if not arrays:
        return None
    assert sorted(arrays) == [*range(len(arrays))], f"{layer} skips a blob"
    return [_in_memory(arrays[index]) for index in range(len(arrays))]


def _in_memory(array: Array) -> StoredBlob:
    return StoredBlob(array.shape, False, lambda: array)
