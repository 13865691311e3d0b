"""What expansion must know of Caffe, and of Caffe2; each is imported only for a net that it made."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.errors import ConversionError
from prototrt.surgery.expansion.blob_values import BlobValues
from prototrt.surgery.expansion.layer_builder import LayerBuilder, LayerRule
from prototrt.surgery.expansion.user_rules import UserRules
from prototrt.surgery.ir import Value
from prototrt.surgery.ir.registry import Registry


class Framework:
    """Whose layers a model has. What is asked here of any net does nothing where a framework has no answer.

    ``kind`` is its word for a type of layer, ``sources`` are the roles of its two files in a manifest.
    """

    rules: Registry[str, LayerRule]
    kind: str
    sources: tuple[str, str]
    lets_tops_be_absent = False
    """Whether a rule may make less than the layer has tops: the last are no tensors."""
    computes_with_constants = False
    """Whether layers take shapes and sizes from blobs: what is known must stay known."""

    user_rules = UserRules()
    """What a user adds to the rules, for this net."""

    def rule_of(self, layer: Layer) -> LayerRule | None:
        """What makes primitives of the layer, if anything does."""
        return self.user_rules.layers.get(layer.type) or self.rules.rules.get(layer.type)

    def kind_of(self, layer: Layer) -> str:
        """What a message calls layers that have no rule, as this one."""
        return self.kind

    def name_of(self, layer: Layer) -> str:
        """The type, as rules are found by it."""
        return layer.type

    def cause_of(self, layer: Layer) -> str | None:
        """Why a type has no rule, where that is known."""
        return None

    def advice(self, layer: Layer) -> str | None:
        """What to do about a layer without a rule, but for cutting the net before it."""
        return None

    def usual_outputs(self, model: Model, left_over: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """The blobs to compute where the user names none, and warnings."""
        return left_over, ()

    def with_inputs(self, model: Model, names: Collection[str]) -> Model:
        """The net, where blobs that are no inputs by themselves are, since they are given a shape."""
        raise NotImplementedError

    def missing_shapes(
        self, model: Model, layers: Sequence[Layer], given: Collection[str]
    ) -> list[ConversionError]:
        """One error for all inputs that have no shape, neither in the file nor ``given``; none where all have."""
        raise NotImplementedError

    def whole_numbers(self, layers: Sequence[Layer]) -> frozenset[str]:
        """The inputs that hold int32, as far as the layers that read them can tell."""
        return frozenset()

    def transforms(self, layer: Layer) -> bool:
        """Whether the layer brings data, and does something to them."""
        return False

    def begin(self, build: LayerBuilder, layer: Layer) -> None:
        """Look at a layer before its rule does."""

    def end(
        self,
        build: LayerBuilder,
        layer: Layer,
        bottoms: Sequence[Value],
        tops: Sequence[Value],
        values: dict[str, Value],
    ) -> None:
        """Look at a layer that has become primitives; ``values`` are those of all blobs so far."""

    def refuse_strange_weights(self, model: Model) -> None:
        """Raise where nothing of the weights file is in the net."""

    def outputs(self, blobs: BlobValues, wanted: Sequence[Value]) -> Sequence[Value]:
        """The outputs that are wanted, and those that are there whoever asked for others."""
        return wanted


def framework_named(name: str) -> Framework:
    """The one that ``Model.framework`` names, ``"caffe"`` or ``"caffe2"``, with all of its rules."""
    if name == "caffe2":
        from prototrt.surgery.caffe2.framework import Caffe2

        return Caffe2()
    from prototrt.surgery.expansion.caffe_framework import Caffe

    return Caffe()
