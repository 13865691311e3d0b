"""The parts of expansion that differ between Caffe and Caffe2. Each module is imported only for its own nets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.net.shape_examples import shape_option
from prototrt.surgery.building.input_sizes import (
    InputSizes,
    open_shapes,
    profile_of,
    ranges_of,
    shapes_of_options,
)
from prototrt.surgery.building.layer_builder import LayerBuilder, LayerRule
from prototrt.surgery.building.layer_rules import UserRules
from prototrt.surgery.building.plugin_rules import PluginRule
from prototrt.surgery.expansion.blob_values import BlobValues
from prototrt.surgery.expansion.dynamic_sizes import with_dynamic_sizes
from prototrt.surgery.ir import LeftOut, Shape, Value
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.options import RewriteOptions


class Framework(ABC):
    """The framework of a model. A framework overrides the methods in which it differs from what they do here.

    ``kind`` is the framework's word for a layer; ``sources`` are the roles of its two files in a manifest.
    """

    rules: Registry[str, LayerRule]
    kind: str
    sources: tuple[str, str]
    allows_missing_tops = False
    """Whether a rule may return fewer values than the layer has tops. The remaining tops are not tensors."""
    takes_overrides = False
    """Whether a user can set the fields of a layer, its type among them."""
    computes_with_constants = False
    """Whether layers read shapes and sizes from blobs: constants must then stay constants."""

    user_rules = UserRules()
    """The user's additional rules for this net."""
    replacements: Mapping[str, LayerRule] = {}
    """The user's rules for single layers, by their names."""
    plugins: Collection[str] = ()
    """The types whose layers become plugins of the user."""

    def rule_of(self, layer: Layer) -> LayerRule | None:
        """The rule that expands the layer, or None."""
        return self.user_rule_of(layer) or self.rules.find(layer.type)

    def user_rule_of(self, layer: Layer) -> LayerRule | None:
        """The rule that the user gives for the layer or for its type, if there is one."""
        of_type = self.rule_in_file(layer)
        if layer.type in self.plugins and not isinstance(of_type, PluginRule):
            of_type = PluginRule(layer.type)
        return self.replacements.get(layer.name) or of_type

    def rule_in_file(self, layer: Layer) -> LayerRule | None:
        """The rule that the user's file has for the layer, or None."""
        return self.user_rules.layers.get(layer.type)

    def kind_of(self, layer: Layer) -> str:
        """The name in messages for layers without a rule, such as this one."""
        return self.kind

    def name_of(self, layer: Layer) -> str:
        """The key under which the rule of the layer is registered."""
        return layer.type

    def types_like(self, layer: Layer) -> Collection[str]:
        """The types that the layer may be meant to have."""
        return self.rules.rules

    def types_by_weights(self, layer: Layer) -> Mapping[str, Mapping[str, str]]:
        """The types that the stored blobs of a layer suggest, and the fields to set for each."""
        return {}

    def cause_of(self, layer: Layer) -> str | None:
        """Why a type has no rule, where that is known."""
        return None

    def advice(self, layer: Layer) -> str | None:
        """The fix for a layer without a rule, apart from cutting the net before it."""
        return None

    def usual_outputs(
        self, model: Model, left_over: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[LeftOut]]:
        """The blobs to compute if the user names none, and the layers before which that ends the net."""
        return left_over, ()

    @abstractmethod
    def with_inputs(self, model: Model, names: Collection[str]) -> Model:
        """The net, in which further blobs are inputs because the user states their shapes."""

    filler: str
    """What fills the blobs that programs may write into, as in "which DummyData fills"."""

    @abstractmethod
    def fillable(self, model: Model, layers: Sequence[Layer]) -> Mapping[str, bool]:
        """The blobs that these layers read and the net itself fills, although programs may write into them.

        For each, whether the net states its numbers.
        """

    def data_bottoms(self, layer: Layer) -> Sequence[str]:
        """The bottoms of a layer without those that hold states."""
        return layer.bottoms

    def with_implied_shapes(
        self, model: Model, layers: Sequence[Layer], options: RewriteOptions
    ) -> RewriteOptions:
        """The options, with the shapes of inputs that weights and the shapes of other inputs tell."""
        return options

    @abstractmethod
    def missing_shapes(
        self, model: Model, layers: Sequence[Layer], inputs: Collection[str]
    ) -> list[ConversionError]:
        """One error for all inputs without a shape in the file or among ``inputs``; none if all inputs have shapes."""

    def whole_numbers(self, layers: Sequence[Layer]) -> frozenset[str]:
        """The inputs that hold int32, according to the layers that read them."""
        return frozenset()

    def shapes_in_file(self, layers: Sequence[Layer]) -> Mapping[str, tuple[int, ...]]:
        """The shapes of inputs that the file states."""
        return {}

    @abstractmethod
    def letters(self, layers: Sequence[Layer], name: str, axes: int) -> Sequence[str]:
        """T and N, or "" for others, of the first axes of an input with this number of axes."""

    def steps_and_streams(self, layers: Sequence[Layer]) -> tuple[int, ...] | None:
        """The steps and streams into which the net cuts the rows that a recurrent layer reads; None if it does not."""
        return None

    def sizes_of_inputs(self, layers: Sequence[Layer], options: RewriteOptions) -> InputSizes:
        """What the user and the file say about the inputs that these layers read. Raises ``OptionsError``."""
        shapes, formulas = shapes_of_options(options), open_shapes(options)
        sizes, letters = self.shapes_in_file(layers), partial(self.letters, layers)
        fixed = {name: shape for name, shape in {**sizes, **shapes}.items() if name not in formulas}
        profile, dynamic = profile_of(options), dict[str, Shape]()
        if options.dynamic:
            profile, dynamic = with_dynamic_sizes(
                profile, options, fixed, letters, ranges_of(options), self.steps_and_streams(layers)
            )
        return InputSizes(
            shapes,
            profile,
            self.whole_numbers(layers),
            partial(shape_option, layers=layers),
            letters,
            {**formulas, **dynamic},
            sizes,
        )

    def transforms(self, layer: Layer) -> bool:
        """Whether the layer reads data and transforms them."""
        return False

    def begin(self, build: LayerBuilder, layer: Layer) -> None:
        """Check a layer before its rule runs."""
        return

    def end(
        self,
        build: LayerBuilder,
        layer: Layer,
        bottoms: Sequence[Value],
        tops: Sequence[Value],
        values: dict[str, Value],
    ) -> None:
        """Check a layer after its expansion; ``values`` are those of all blobs so far."""
        return

    def refuse_strange_weights(self, model: Model) -> None:
        """Raise if no layer of the weights file is in the net."""
        return

    def outputs(self, blobs: BlobValues, values: Sequence[Value]) -> Sequence[Value]:
        """The wanted outputs, and the outputs that every graph of this framework has."""
        return values


def framework_by_name(name: str) -> Framework:
    """The framework that ``Model.framework`` names, ``"caffe"`` or ``"caffe2"``, with all of its rules."""
    if name == "caffe2":
        from prototrt.surgery.expansion.caffe2_framework import Caffe2

        return Caffe2()
    from prototrt.surgery.expansion.caffe_framework import Caffe

    return Caffe()
