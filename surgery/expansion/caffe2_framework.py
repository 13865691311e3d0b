"""The parts of expansion that are specific to Caffe2's nets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.caffe2.init_net import InitNet
from prototrt.caffe_proto.caffe2.loading import with_inputs
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.caffe2.shape_examples import Example, data_of, example_shapes, held_data
from prototrt.caffe_proto.common.errors import ConversionError, MissingShapesError
from prototrt.caffe_proto.common.wording import Command, Worded, listed
from prototrt.surgery.caffe2.operator_rule import NO_RULE, operator_rule
from prototrt.surgery.expansion.blob_values import BlobValues
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.ir import Value
from prototrt.surgery.options import RewriteOptions

_RECURRENT = ("InferenceLSTM", "Recurrent", "RecurrentNetwork")
"""Operators whose inputs are of shape (T, N, ...)."""
_SHAPES = ("shapes", "min_shapes", "opt_shapes", "max_shapes")
"""The options that state shapes of inputs."""


def _needs_streams(shape: Example) -> bool:
    """Whether N is the only size of a shape that weights do not tell."""
    return [size for size in shape if isinstance(size, str)] == ["N"]


def _streams(shapes: Mapping[str, Sequence[int | str]], examples: Mapping[str, Example]) -> list[int | str]:
    """N, as the first of these shapes that has it tells; nothing if none has it."""
    return [
        shape[examples[name].index("N")]
        for name, shape in shapes.items()
        if "N" in examples.get(name, ()) and len(shape) == len(examples[name])
    ][:1]


def _advise_init_net(error: ConversionError, model: Model) -> None:
    """Say why weights count as inputs: a state dict lacks those that operators of the init net compute."""
    error.because = Worded("{}; a state dict has no weights that an init net computes", error.because)
    words = [model.file, "INIT_NET.pb", str(model.weights.file), "-o", "new_init_net.pb"]
    error.fix = Worded(
        "put the state dict into the init net, and give that: {}", Command("weights set", typed=words)
    )


class Caffe2(Framework):
    """Nets of Caffe2. Weights are found by the names of blobs, which the loader has matched."""

    rules = operator_rule
    kind = "operator"
    sources = ("predict_net", "init_net")
    filler = "the init net holds"
    allows_missing_tops = True
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

    def with_implied_shapes(
        self, model: Model, layers: Sequence[Layer], options: RewriteOptions
    ) -> RewriteOptions:
        """The shapes of states and of lengths follow from weights and N, which the shape of another input tells."""
        inputs = [layer.tops[0] for layer in layers if layer.type == "Input"]
        examples = example_shapes(inputs, layers, model.stored)
        shapes_of_options = [getattr(options, field) or {} for field in _SHAPES]
        blobs_with_shapes = {name for shapes in shapes_of_options for name in shapes} | {
            *self.shapes_in_file(layers)
        }
        implied_shapes = {
            name: shape
            for name, shape in examples.items()
            if name not in blobs_with_shapes and _needs_streams(shape)
        }
        changed: dict[str, Any] = {
            field: {
                **shapes,
                **{
                    name: tuple(streams if size == "N" else size for size in shape)
                    for name, shape in implied_shapes.items()
                },
            }
            for field, shapes in zip(_SHAPES, shapes_of_options, strict=True)
            for streams in _streams(shapes, examples)
        }
        return replace(options, **changed) if implied_shapes and changed else options

    def missing_shapes(
        self, model: Model, layers: Sequence[Layer], shaped: Collection[str]
    ) -> list[ConversionError]:
        """Caffe2's files state no shapes, except of what an init net fills."""
        inputs = [layer.tops[0] for layer in layers if layer.type == "Input"]
        shapes = example_shapes(inputs, layers, model.stored)
        shapeless = [name for name in inputs if name not in {*shaped, *self.shapes_in_file(layers)}]
        tells_streams = any("N" in shapes[name] and not _needs_streams(shapes[name]) for name in shapeless)
        missing = [name for name in shapeless if not (tells_streams and _needs_streams(shapes[name]))]
        if not missing:
            return []
        because = Worded("Caffe2's nets state none; the inputs are {}", listed(inputs))
        if model.weights.file is None:
            because = Worded("{}; without an init net, weights are inputs as well", because)
        problem = Worded("no shape is given for {}", listed(missing))
        hints = {name: shapes[name] for name in missing}
        error = MissingShapesError(problem, where=model.file, because=because, shapes=hints)
        if isinstance(model.weights, InitNet) and model.weights.is_state_dict:
            data = {layer.bottoms[0] for layer in layers if layer.bottoms}
            if not data.issuperset(missing):
                _advise_init_net(error, model)
        return [error]

    def letters(self, layers: Sequence[Layer], name: str, axes: int) -> Sequence[str]:
        is_recurrent = any(layer.type in _RECURRENT for layer in layers)
        return ("T", "N") if is_recurrent and axes > 2 else ("N",)

    def outputs(self, blobs: BlobValues, values: Sequence[Value]) -> Sequence[Value]:
        return list(dict.fromkeys((*values, *blobs.final_states())))
