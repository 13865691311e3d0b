"""Layers that become TensorRT plugins of the user: their rules, and what they mean in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import (
    BuildError,
    NetError,
    OptionsError,
    ShapeError,
    UnsupportedLayerError,
)
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wording import Option, Worded, excerpt, plural
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.building.user_code import errors_of_user, file_of, place_of, wrong_function
from prototrt.surgery.ir import Array, Shape, Value
from prototrt.surgery.ops import Plugin
from prototrt.surgery.ops.plugin import FieldNumber, FieldValue

_SEE = "docs/plugins.md shows it"
_STATE_THEM = f"state them in the rule, plugin_rule(..., shape=...): {_SEE}"
_MOST_OF_INT = 2**31
_ASKING = "prototrt.converter.backends.tensorrt.plugin"
"""Where TensorRT asks a plugin. Imported by this name when it is needed: other imports only go down."""


class PluginQueryError(BuildError):
    """A plugin cannot be asked for its shapes on this machine."""


class PluginId(NamedTuple):
    """How TensorRT's registry of plugins knows one."""

    name: str
    version: str
    namespace: str

    @classmethod
    def from_text(cls, kind: str, text: str) -> PluginId:
        """``NAME:VERSION`` or ``NAME:VERSION:NAMESPACE``. Raises ``OptionsError``."""
        name, _, rest = text.partition(":")
        version, _, namespace = rest.partition(":")
        if not (name.isidentifier() and version):
            example = Option("plugin", {kind: f"{name if name.isidentifier() else kind}:1"})
            problem = f'"{text}" is not a plugin: its name, a colon and its version are expected'
            raise OptionsError(problem, fix=Worded("write it as in {}", example))
        return cls(name, version, namespace)


@dataclass(frozen=True, slots=True, eq=False)
class PluginRule:
    """The rule of a layer type that the user's plugin computes; ``meaning`` says what, in NumPy.

    ``plugin`` is ``NAME:VERSION:NAMESPACE``, unless an option says it. Blobs of the layer are inputs of the plugin
    after the bottoms, or fields, if ``weights`` names them.
    """

    kind: str
    plugin: str | None = None
    meaning: Callable[..., Sequence[Array]] | None = None
    shape: Callable[..., Sequence[Shape]] | None = None
    fields: Callable[[Layer], Mapping[str, FieldValue]] | None = None
    weights: tuple[str, ...] = ()

    def __call__(self, build: LayerBuilder, layer: Layer, *bottoms: Value) -> list[Expression]:
        blobs = [
            build.parameter(layer, blob.shape, f"blob {index}")
            for index, blob in enumerate(layer.blobs or ())
        ]
        if self.weights and len(self.weights) != len(blobs):
            named = ", ".join(self.weights)
            raise NetError(
                f"the layer has {plural(len(blobs), 'blob')}, but the rule names {len(self.weights)}: {named}",
                fix="name each blob in the weights of the rule",
            )
        inputs = [*bottoms, *blobs]
        if not inputs:
            raise NetError("has no bottoms, which a plugin needs", fix="make its top an input of the net")
        op = self._op(build, layer, len(inputs))
        if self.shape is None and self.meaning is None:
            self._ask(build, op, [value.shape for value in inputs])
        return build.add_all(op, *inputs)

    def _ask(self, build: LayerBuilder, op: Plugin, inputs: Sequence[Shape]) -> None:
        """Let the plugin itself say its shapes; warn where it cannot be asked."""
        assert isinstance(op.meaning, UserMeaning)
        try:
            op.meaning.keep(op, inputs, _shapes_from_plugin(op, inputs))
        except PluginQueryError as error:
            build.warn(
                Worded(
                    "each top is taken to have the shape of the first bottom, as the plugin cannot be asked for its"
                    " shapes ({}); if it has another, {}",
                    error.problem,
                    _STATE_THEM,
                )
            )

    def _op(self, build: LayerBuilder, layer: Layer, inputs: int) -> Plugin:
        text = (build.options.plugin or {}).get(layer.type) or self.plugin
        if text is None:
            fix = Worded("name it: {}", Option("plugin", {layer.type: f"{layer.type}:1"}))
            raise OptionsError("no plugin is named for this layer", fix=fix)
        fields = fields_of_plugin(layer) if self.fields is None else self._own_fields(layer)
        return Plugin(
            *PluginId.from_text(layer.type, text),
            fields=tuple(fields.items()),
            tensors=inputs - len(self.weights),
            outputs=len(layer.tops),
            array_fields=self.weights,
            meaning=UserMeaning(self, len(layer.tops)),
        )

    def _own_fields(self, layer: Layer) -> dict[str, FieldValue]:
        assert self.fields is not None
        with errors_of_user(file_of(self.fields)):
            return {name: _plain(name, value) for name, value in self.fields(layer).items()}


@dataclass(frozen=True, slots=True, eq=False)
class UserMeaning:
    """Shapes and numbers of a plugin, as its rule says them; ``outputs`` are how many it has."""

    rule: PluginRule
    outputs: int
    shapes_of_inputs: dict[object, list[Shape]] = field(default_factory=dict)

    def shapes(self, fields: Mapping[str, FieldValue], *inputs: Shape) -> list[Shape]:
        """By the rule's own function; or those of its meaning's results, or those of the first bottom."""
        key = (tuple(fields.items()), inputs)
        if key not in self.shapes_of_inputs:
            self.shapes_of_inputs[key] = self._shapes(fields, inputs)
        return self.shapes_of_inputs[key]

    def keep(self, op: Plugin, inputs: Sequence[Shape], shapes: list[Shape]) -> None:
        """Note the shapes that the plugin has for these inputs."""
        self.shapes_of_inputs[op.fields, tuple(inputs)] = shapes

    def _shapes(self, fields: Mapping[str, FieldValue], inputs: Sequence[Shape]) -> list[Shape]:
        if self.rule.shape is None and self.rule.meaning is None:
            return [inputs[0]] * self.outputs
        if self.rule.shape is not None:
            with errors_of_user(file_of(self.rule.shape)):
                shapes = [tuple(shape) for shape in self.rule.shape(fields, *inputs)]
            self._refuse_count(self.rule.shape, len(shapes))
            return shapes
        if any(not isinstance(dim, int) for shape in inputs for dim in shape):
            raise ShapeError("the shapes of its tops depend on sizes that vary", fix=_STATE_THEM)
        zeros = (np.zeros([int(dim) for dim in shape], np.float32) for shape in inputs)
        return [array.shape for array in self.evaluate(fields, *zeros)]

    def evaluate(self, fields: Mapping[str, FieldValue], *inputs: Array) -> list[Array]:
        """What the rule's function returns, in float32."""
        meaning = self.rule.meaning
        if meaning is None:
            raise UnsupportedLayerError(
                "only the plugin computes this layer",
                because="no rule says what it means in NumPy",
                fix=f"say it in a file of rules, with plugin_rule: {_SEE}",
            )
        with errors_of_user(file_of(meaning)), np.errstate(all="ignore"):
            results = meaning(fields, *inputs)
        if isinstance(results, np.ndarray) and self.outputs == 1:
            results = [results]
        if not isinstance(results, list | tuple):
            problem = f"it returns {type(results).__name__}, expected a list of arrays"
            raise wrong_function(place_of(meaning), problem)
        self._refuse_count(meaning, len(results))
        return [np.asarray(result, np.float32) for result in results]

    def _refuse_count(self, function: Callable[..., Any], count: int) -> None:
        if count != self.outputs:
            problem = f"it returns {count} of them, but the layer has {plural(self.outputs, 'top')}"
            raise wrong_function(place_of(function), problem)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a place in a file of rules, which is run again where it is unpickled."""
        from prototrt.surgery.building.layer_rules import meaning_from  # it reads such files

        functions = (self.rule.meaning, self.rule.shape)
        file = next((file_of(function) for function in functions if function is not None), None)
        return meaning_from, (file, self.rule.kind, self.outputs, self.shapes_of_inputs)


def _shapes_from_plugin(op: Plugin, inputs: Sequence[Shape]) -> list[Shape]:
    """What the plugin says. Raises ``PluginQueryError`` if it cannot be asked."""
    if any(not isinstance(dim, int) for shape in inputs for dim in shape):
        raise PluginQueryError("the shapes of its bottoms vary")
    shapes: list[Shape] = import_module(_ASKING).shapes_from_plugin(op, inputs)
    return shapes


def plugin_rule(
    kind: str,
    plugin: str | None = None,
    *,
    shape: Callable[..., Sequence[Shape]] | None = None,
    fields: Callable[[Layer], Mapping[str, FieldValue]] | None = None,
    weights: Sequence[str] = (),
) -> Callable[[Callable[..., Sequence[Array]]], PluginRule]:
    """A decorator: layers of this type become a plugin, and the function is what it means in NumPy.

    ``plugin`` is ``"NAME:VERSION"`` or ``"NAME:VERSION:NAMESPACE"``. The function gets the fields of the plugin, and an
    array for each bottom and each blob; it returns an array for each top. ``shape`` gets the fields and the
    shapes, and returns the shapes of the tops; by default the function is called with zeros. ``fields`` makes the
    fields of a layer; by default they are what its prototxt states. ``weights`` are names for its blobs as fields.
    """

    def decorate(meaning: Callable[..., Sequence[Array]]) -> PluginRule:
        rule = PluginRule(kind, plugin, meaning, shape, fields, tuple(weights))
        layer_rule(kind)(rule)
        return rule

    return decorate


def fields_of_plugin(layer: Layer) -> dict[str, FieldValue]:
    """What a layer states as fields of a plugin: ``roi_param { size { h: 3 } }`` is the field ``size_h``."""
    fields: dict[str, FieldValue] = {}
    for block, value in layer.fields.items():
        inside = value.items() if isinstance(value, dict) else [(block, value)]
        for name, each in _flat(inside):
            if name in fields:
                raise NetError(
                    f"two blocks state the field {name}",
                    fix=f"choose in the rule, plugin_rule(..., fields=...): {_SEE}",
                )
            fields[name] = _plain(name, each)
    return fields


def _flat(fields: Any) -> Iterator[tuple[str, Any]]:
    for name, value in fields:
        if isinstance(value, dict):
            yield from ((f"{name}_{inner}", each) for inner, each in _flat(value.items()))
        else:
            yield name, value


def _plain(name: str, value: Any) -> FieldValue:
    """A number, a text or a list of numbers. Raises ``NetError`` for anything else, which no plugin takes."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, str | bool | int | float) and not _is_large(value):
        return value
    if isinstance(value, list | tuple) and all(_is_number(each) for each in value):
        return tuple(value)
    raise NetError(
        f"the field {name} is {excerpt(repr(value))}, which a plugin does not take",
        because="a plugin takes numbers, lists of numbers, and text",
        fix=f"make such fields in the rule, plugin_rule(..., fields=...): {_SEE}",
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, FieldNumber) and not _is_large(value)


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not -_MOST_OF_INT <= value < _MOST_OF_INT
