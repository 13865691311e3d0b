"""The parts of expansion that are specific to Caffe2's nets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.caffe2.held_data import data_of, held_data
from prototrt.caffe_proto.caffe2.loading import with_inputs
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import ConversionError, MissingShapesError
from prototrt.caffe_proto.common.wording import Worded, listed
from prototrt.surgery.caffe2.operator_rule import NO_RULE, operator_rule
from prototrt.surgery.expansion.blob_values import BlobValues
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.ir import Value

_RECURRENT = ("InferenceLSTM", "Recurrent", "RecurrentNetwork")
"""Operators whose inputs are of shape (T, N, ...)."""


class Caffe2(Framework):
    """Nets of Caffe2. Weights are found by the names of blobs, which the loader has matched."""

    rules = operator_rule
    kind = "operator"
    sources = ("predict_net", "init_net")
    filler = "the init net holds"
    lets_tops_be_absent = True
    computes_with_constants = True

    def advice(self, layer: Layer) -> str:
        return NO_RULE

    def with_inputs(self, model: Model, names: Collection[str]) -> Model:
        """A blob that the init net fills becomes an input if the user gives its shape."""
        return with_inputs(model, names)

    def fillable(self, model: Model, layers: Sequence[Layer]) -> Mapping[str, bool]:
        return dict.fromkeys(held_data(layers, model.stored), False)

    def data_bottoms(self, layer: Layer) -> Sequence[str]:
        return data_of(layer)

    def shapes_in_file(self, layers: Sequence[Layer]) -> Mapping[str, tuple[int, ...]]:
        """Those of blobs that an init net fills."""
        inputs = (layer for layer in layers if isinstance(layer, Operator) and layer.type == "Input")
        return {
            layer.tops[0]: layer.arguments.integers("shape")
            for layer in inputs
            if layer.arguments.has("shape")
        }

    def missing_shapes(
        self, model: Model, layers: Sequence[Layer], shaped: Collection[str]
    ) -> list[ConversionError]:
        """Caffe2's files state no shapes, except of what an init net fills."""
        inputs = [layer.tops[0] for layer in layers if layer.type == "Input"]
        missing = [name for name in inputs if name not in {*shaped, *self.shapes_in_file(layers)}]
        if not missing:
            return []
        because = Worded("Caffe2's nets state none; the inputs are {}", listed(inputs))
        if model.weights.file is None:
            because = Worded("{}; without an init net, weights are inputs as well", because)
        problem = Worded("no shape is given for {}", listed(missing))
        shapes = dict.fromkeys(missing, ("SIZE", "SIZE"))
        return [MissingShapesError(problem, where=model.file, because=because, shapes=shapes)]

    def letters(self, layers: Sequence[Layer], name: str, axes: int) -> Sequence[str]:
        is_recurrent = any(layer.type in _RECURRENT for layer in layers)
        return ("T", "N") if is_recurrent and axes > 2 else ("N",)

    def outputs(self, blobs: BlobValues, values: Sequence[Value]) -> Sequence[Value]:
        return list(dict.fromkeys((*values, *blobs.final_states())))
