"""Caffe's nets: which rule a layer has, what becomes of data and Python layers, and what to do about the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import prototrt.surgery.forks
import prototrt.surgery.layers  # noqa: F401  both say where their rules are
from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    MissingBlobError,
    MissingShapesError,
    NetError,
    WeightsError,
    raise_all,
)
from prototrt.caffe_proto.common.wording import Command, Option, Worded, listed
from prototrt.caffe_proto.forks import TYPES
from prototrt.caffe_proto.layer_types import LAYER_TYPES, Role, layer_type
from prototrt.caffe_proto.model import input_layer
from prototrt.caffe_proto.net.data_layers import FILLED_ALIKE, transformation
from prototrt.caffe_proto.net.shape_examples import example_shape, missing_shapes_error
from prototrt.caffe_proto.net.sizes_by_weights import placeholders
from prototrt.caffe_proto.schema import Message, is_read_by, message_class, parameter_fields
from prototrt.surgery.building.layer_builder import GIVE_THEIR_NET, LayerBuilder, LayerRule, layer_rule
from prototrt.surgery.building.layer_rules import names_of_bottoms, python_name, python_rule_of, takes_bottoms
from prototrt.surgery.building.limits import refuse_overflow
from prototrt.surgery.building.shared_memory import warn_of_overwriting
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.ir import LeftOut, Value
from prototrt.surgery.layers.inputs.data import dummy_shapes
from prototrt.surgery.layers.recurrent.recurrent_types import types_by_blobs


class Caffe(Framework):
    rules = layer_rule
    kind = "layer type"
    takes_overrides = True
    sources = ("prototxt", "weights")
    filler = "DummyData fills"

    def rule_of(self, layer: Layer) -> LayerRule | None:
        if layer.type != "Python":
            return super().rule_of(layer)
        rule = python_rule_of(layer)
        is_namesake = rule is not None and not takes_bottoms(rule, layer)
        return self.user_rule_of(layer) or (None if is_namesake else rule)

    def rule_in_file(self, layer: Layer) -> LayerRule | None:
        of_class = self.user_rules.python.get(python_name(layer)) if layer.type == "Python" else None
        return super().rule_in_file(layer) or of_class

    def name_of(self, layer: Layer) -> str:
        return f"Python {python_name(layer)}" if layer.type == "Python" else layer.type

    def kind_of(self, layer: Layer) -> str:
        return f'Python layer, "{python_name(layer)}"' if layer.type == "Python" else self.kind

    def types_like(self, layer: Layer) -> Collection[str]:
        """Those that read the parameters which the layer states, losses and measures among them."""
        fields = [field.name for field, _ in layer.message.ListFields()]
        types = {**dict.fromkeys(self.rules.rules), **LAYER_TYPES}
        return [name for name in types if all(is_read_by(name, field) for field in fields)]

    def types_by_weights(self, layer: Layer) -> Mapping[str, Mapping[str, str]]:
        """Recurrent types, which forks give other names."""
        types: dict[str, Mapping[str, str]] = {}
        for kind, hidden in types_by_blobs(layer).items():
            field = parameter_fields(kind)[0]
            has_num_output = getattr(layer.message, field).num_output
            types[kind] = {"type": kind} | ({} if has_num_output else {f"{field}.num_output": str(hidden)})
        return types

    def cause_of(self, layer: Layer) -> str | None:
        namesake = python_rule_of(layer) if layer.type == "Python" else None
        if namesake is not None:
            names = names_of_bottoms(namesake)
            word = "bottom" if len(names) == 1 else "bottoms"
            return f"the known layer of this name has the {word} {', '.join(names)}"
        return f"it is a layer of {TYPES[layer.type]}" if layer.type in TYPES else None

    def advice(self, layer: Layer) -> str | None:
        typed = [layer.origin.file, layer.name, "-o", "rules.py"]
        rule = Worded("write a rule for it, which `{}` begins", Command("new-rule", typed=typed))
        if not layer.type.isidentifier() or layer.type == "Python":
            return rule
        plugin = Option("plugin", {layer.type: f"{layer.type}:1"})
        return Worded("{}; or name your TensorRT plugin, as in {}", rule, plugin)

    def usual_outputs(
        self, model: Model, left_over: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[LeftOut]]:
        has_code = any(layer.type == "Python" for layer in model.layers)
        outputs = self._before_code(model, left_over) if has_code else (left_over, ())
        self._refuse_layers_without_tops(model)
        return outputs

    def with_inputs(self, model: Model, names: Collection[str]) -> Model:
        """Blobs that no layer writes, and tops of layers that read nothing, as inputs."""
        fed = [name for name in model.missing if name in names]
        is_changed = any(
            _is_constant(layer) and not {*layer.tops}.isdisjoint(names) for layer in model.layers
        )
        if not fed and not is_changed:
            return model

        def is_solved(error: ConversionError) -> bool:
            return isinstance(error, MissingBlobError) and error.bottom in fed

        layers = [
            replace(part, problems=tuple(error for error in part.problems if not is_solved(error)))
            for layer in model.layers
            for part in (_with_inputs(layer, names) if _is_constant(layer) else (layer,))
        ]
        missing = tuple(name for name in model.missing if name not in fed)
        blobs = {**model.blobs, **{name: name for name in fed}}
        inputs = [input_layer(name, model.file) for name in fed]
        return replace(model, layers=(*inputs, *layers), missing=missing, blobs=blobs)

    def fillable(self, model: Model, layers: Sequence[Layer]) -> Mapping[str, bool]:
        return {
            # Zeros are left, or drawn numbers, where no number is stated.
            top: any(filler.type in FILLED_ALIKE for filler in _filler(layer, index))
            for layer in layers
            if layer.type == "DummyData" and _shapes_in_layer(layer)
            for index, top in enumerate(layer.tops)
        }

    def data_bottoms(self, layer: Layer) -> Sequence[str]:
        states = layer_type(layer.type).states
        return layer.bottoms[:-states] if states and layer.param.expose_hidden else layer.bottoms

    def missing_shapes(
        self, model: Model, layers: Sequence[Layer], inputs: Collection[str]
    ) -> list[ConversionError]:
        tiny = [
            _placeholder_error(model, name, shape)
            for name, shape in placeholders(layers).items()
            if name not in inputs
        ]
        missing = missing_shapes_error(model, layers, inputs)
        return tiny if missing is None else [missing, *tiny]

    def shapes_in_file(self, layers: Sequence[Layer]) -> Mapping[str, tuple[int, ...]]:
        return {
            top: tuple(shape.dim)
            for layer in layers
            if layer.type == "Input" and (shapes := layer.param.shape)
            for top, shape in zip(layer.tops, [*shapes] * (len(layer.tops) // len(shapes)), strict=False)
        }

    def letters(self, layers: Sequence[Layer], name: str, axes: int) -> Sequence[str]:
        example = example_shape(name, layers)
        if len(example) != axes and example[:2] != ["T", "N"]:
            return ()
        return [str(letter) if letter in ("T", "N") else "" for letter in example[:axes]]

    def steps_and_streams(self, layers: Sequence[Layer]) -> tuple[int, ...] | None:
        """As the Reshape before the first recurrent layer states them."""
        read = next((layer.bottoms[0] for layer in layers if layer_type(layer.type).states), None)
        sizes = next((layer.message.reshape_param.shape.dim for layer in layers if read in layer.tops), ())
        return tuple(sizes[:2]) if len(sizes) > 1 and min(sizes[:2]) > 0 else None

    def whole_numbers(self, layers: Sequence[Layer]) -> frozenset[str]:
        """Recurrent layers read the lengths of sequences from one of their bottoms."""
        read = [
            bottom
            for layer in layers
            if layer.message.recurrent_param.sequence_lengths
            for bottom in layer.bottoms[1:]
        ]
        return frozenset(read)

    def transforms(self, layer: Layer) -> bool:
        return layer.type == "Input" and bool(transformation(layer.message))

    def begin(self, build: LayerBuilder, layer: Layer) -> None:
        refuse_overflow(layer)
        if self.user_rule_of(layer) is not None:
            return
        for field, _ in layer.message.ListFields():  # as pooling_param in a ReLU: its contents change nothing
            if not is_read_by(layer.type, field.name):
                own = " and ".join(parameter_fields(layer.type)) or "no parameters"
                build.warn(
                    f"{field.name} is not for this type of layer, which reads {own}: it is ignored, as in Caffe"
                )

    def end(
        self,
        build: LayerBuilder,
        layer: Layer,
        bottoms: Sequence[Value],
        tops: Sequence[Value],
        values: dict[str, Value],
    ) -> None:
        warn_of_overwriting(build, layer, bottoms, tops)
        build.memory.write_through(build, layer, values)

    def refuse_strange_weights(self, model: Model) -> None:
        """If no layer of the weights file is in the net, Caffe would use only fillers: refuse that."""
        stored = list(model.weights.names())
        if stored and not {layer.name for layer in model.layers}.intersection(stored):
            names = listed([f'"{name}"' for name in stored], most=5)
            raise WeightsError(
                Worded("no layer of this file is in the net {}: it has weights for {}", model.file, names),
                where=model.weights.file,
                because="layers are matched by name",
                fix=GIVE_THEIR_NET,
            )

    def _refuse_layers_without_tops(self, model: Model) -> None:
        """Refuse a layer that computes something but has no top: usually an in-place layer without its top."""
        fix = "give it a top; a layer in place has its bottom as its top"
        raise_all(
            [
                NetError("has no top", origin=layer.origin, fix=fix)
                for layer in model.layers
                if not layer.tops and layer.type not in ("Input", "Silence") and self.rules.find(layer.type)
            ]
        )

    def _before_code(self, model: Model, outputs: Sequence[str]) -> tuple[list[str], list[LeftOut]]:
        """The wanted blobs, and the layers that are left out.

        If a Python layer without a rule writes a wanted blob, its bottoms are the outputs instead.
        """
        makers = {top: layer for layer in model.layers for top in layer.tops}
        kept: dict[str, None] = {}
        left_out: dict[str, LeftOut] = {}
        for name in outputs:
            layer = makers[name]
            is_fed = {*layer.bottoms} <= makers.keys()  # else it is refused, for the bottom that is missing
            read = [bottom for bottom in layer.bottoms if is_fed and makers[bottom].type != "Input"]
            if layer.type != "Python" or self.rule_of(layer) or not read:
                kept[name] = None
                continue
            kept |= dict.fromkeys(read)
            warning = f"{layer.origin}: its Python code is not in the file: the net ends before it"
            left_out[layer.name] = LeftOut(layer.origin, warning, self.name_of(layer))
        return list(kept), list(left_out.values())


def _placeholder_error(model: Model, name: str, shape: Sequence[int]) -> ConversionError:
    """The error for an input whose pixels the file leaves to the program."""
    error = MissingShapesError(
        f'the file states the shape {tuple(shape)} for the input "{name}", expected more than 1x1 pixels',
        where=model.file,
        because="windows of several pixels slide over it: programs set its size when they run",
        shapes={name: (*shape[:2], "H", "W")},
    )
    error.fix = Worded("give the size of your images: {}", Option("shapes", error.shapes))
    return error


def _is_constant(layer: Layer) -> bool:
    """Whether the layer reads nothing, and makes what it holds."""
    return layer_type(layer.type).role is Role.CONSTANT and layer.type != "Input"


def _with_inputs(layer: Layer, names: Collection[str]) -> Iterator[Layer]:
    """The layer with these of its tops as inputs, of the shapes that it states."""
    shapes = _shapes_in_layer(layer)
    if {*layer.tops}.isdisjoint(names) or not (shapes or {*layer.tops} <= {*names}):
        yield layer
        return
    for index, top in enumerate(layer.tops):
        made = input_layer(top, layer.origin.file)
        if top not in names:
            yield _alone(layer, index, shapes[index])
            continue
        if shapes:
            made.message.input_param.shape.add().dim.extend(shapes[index])
        yield replace(made, origin=replace(made.origin, line=layer.origin.line), problems=layer.problems)


def _alone(layer: Layer, index: int, shape: Sequence[int]) -> Layer:
    """A DummyData that fills only one of its tops."""
    message = message_class("LayerParameter")(name=layer.name, type=layer.type, top=[layer.top_blob(index)])
    message.dummy_data_param.shape.add().dim.extend(shape)
    message.dummy_data_param.data_filler.extend(_filler(layer, index))
    return replace(layer, message=message, tops=(layer.tops[index],))


def _filler(layer: Layer, index: int) -> Sequence[Message]:
    """What fills a top of a DummyData; nothing where zeros are left."""
    fillers = layer.param.data_filler
    return [fillers[min(index, len(fillers) - 1)]] if fillers else []


def _shapes_in_layer(layer: Layer) -> Sequence[tuple[int, ...]]:
    """The shapes of a DummyData or a Parameter; none where the layer is refused, or states none."""
    if layer.type == "Parameter":
        return [tuple(layer.param.shape.dim)] if layer.param.shape.dim else ()
    try:
        return dummy_shapes(layer) if layer.type == "DummyData" else ()
    except ConversionError:
        return ()
