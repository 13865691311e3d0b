"""The loop over the layers of a net: each is expanded by its rule, and its tops get their names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import ConversionError, NetError, UnreadableFileError
from prototrt.caffe_proto.common.wording import counted
from prototrt.surgery.expansion.arity import check_bottoms
from prototrt.surgery.expansion.blob_values import BlobValues
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.expansion.limits import refuse_oversized
from prototrt.surgery.ir import Value, element_count
from prototrt.surgery.ops import Identity


@dataclass(frozen=True, slots=True)
class Expander:
    """Expands layers into the nodes of ``build`` and the values of ``blobs``; ``wanted`` blobs become outputs."""

    build: LayerBuilder
    framework: Framework
    blobs: BlobValues
    wanted: Collection[str]

    def expand(
        self, layers: Sequence[Layer], blocked: Collection[Layer]
    ) -> tuple[set[Layer], list[ConversionError]]:
        """Expand all layers that can be expanded. Returns them and the errors of the others."""
        expanded: set[Layer] = set()
        errors: list[ConversionError] = []
        for layer in layers:
            # The tops of a layer with an error are unknown: skip its readers without reporting them.
            if layer in blocked or not all(bottom in self.blobs for bottom in layer.bottoms):
                continue
            try:
                self._expand(layer)
                expanded.add(layer)
            except ConversionError as error:
                if not (isinstance(error, UnreadableFileError) and error.where):  # which names its file
                    error.origin = error.origin or layer.origin
                errors.append(error)
        return expanded, errors

    def _expand(self, layer: Layer) -> None:
        rule = self.framework.rule_of(layer)
        assert rule is not None, f"{layer.type} is blocked"
        check_bottoms(rule, layer)
        self.build.begin(layer)
        self.framework.begin(self.build, layer)
        bottoms = [self.blobs.read(layer, index) for index in range(len(layer.bottoms))]
        since = len(self.build.nodes)
        results = rule(self.build, layer, *bottoms)
        self.build.end(layer)
        self._refuse_other_tops(layer, len(results))
        for index, value in enumerate(results):
            refuse_oversized(layer, index, value, self.build.symbols)
        self._limit_constants(layer, bottoms, results)
        self._name(layer, results, since)
        if self.build.made.issuperset(results):
            self.build.made.update(self.blobs.values[top] for top in layer.tops[: len(results)])
        self.framework.end(self.build, layer, bottoms, results, self.blobs.values)

    def _refuse_other_tops(self, layer: Layer, expected: int) -> None:
        """Raise ``NetError`` unless the layer has as many tops as its rule returns values."""
        is_short = expected < len(layer.tops)
        if expected > len(layer.tops) or (is_short and not self.framework.lets_tops_be_absent):
            raise NetError(
                f"has {counted(len(layer.tops), layer.top_word)}, expected {expected}",
                origin=layer.origin,
                fix=f"list as many {layer.top_word}s as the layer makes",
            )

    def _limit_constants(self, layer: Layer, bottoms: Sequence[Value], results: Sequence[Value]) -> None:
        """Count what the net computes without its inputs: passes will do so, and keep it in memory."""
        if layer.type != "Input" and all(
            bottom.is_constant or bottom in self.build.made for bottom in bottoms
        ):
            for index, value in enumerate(results):
                self.build.limit.take(element_count(value.shape), f'top "{layer.top_blob(index)}"')
            self.build.made.update(results)

    def _name(self, layer: Layer, results: Sequence[Value], since: int) -> None:
        """Give the tops to the values that nodes from ``since`` on made."""
        self.blobs.absent.update(layer.tops[len(results) :])
        named: dict[Value, Value] = {}
        for index, (top, value) in enumerate(zip(layer.tops, results, strict=False)):
            stays_constant = (
                value.is_constant and self.framework.computes_with_constants and top not in self.wanted
            )
            if layer.type == "Input" or stays_constant:
                self.blobs.values[top] = value
                continue
            name = layer.name if index == 0 else f"{layer.name}:{index}"
            if value in named:  # two tops that are one value
                value = self.build.add(Identity(), named[value])
            named[value] = self.blobs.values[top] = self.build.named(value, top, name, since)
