"""From a model to a graph: each needed layer is expanded by its rule, and its tops get their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    MissingShapesError,
    NetError,
    UnreadableFileError,
    WeightsError,
    distinct,
)
from prototrt.caffe_proto.common.options import takes_options
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.common.wording import Worded, plural
from prototrt.caffe_proto.options import TEXT_SUFFIXES
from prototrt.surgery.building.input_sizes import profile_of, refuse_unknown_sizes, shapes_of_options
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.building.layer_rules import check_bottoms, replacement, rules_of
from prototrt.surgery.building.limits import refuse_size
from prototrt.surgery.expansion.blob_values import BlobValues
from prototrt.surgery.expansion.frameworks import Framework, framework_by_name
from prototrt.surgery.expansion.idle_options import ExpandedNet, idle_options
from prototrt.surgery.expansion.live_outputs import fed_net, refuse_dead_end, remarks_on_inputs
from prototrt.surgery.expansion.needed_layers import (
    NeededPart,
    can_be_avoided,
    independent,
    inputs_of,
    is_cut,
    last_computable,
    remarks,
    sources_of,
    with_advice,
)
from prototrt.surgery.expansion.recurrences import (
    outputs_and_states,
    with_recurrences,
    with_recurrences_of_user,
)
from prototrt.surgery.expansion.refusals import (
    advise_inputs,
    blocked_layers,
    refuse_cut_net,
    refuse_missing_weights,
    refuse_unknown_rules,
    refuse_unknown_states,
    refuse_unsuited_shapes,
    tell_of_namesakes,
    unknown_input_errors,
)
from prototrt.surgery.ir import Graph, LeftOut, Shape, Value, element_count
from prototrt.surgery.ops import Identity
from prototrt.surgery.options import RewriteOptions


@dataclass(frozen=True, slots=True)
class Expansion:
    """A net in primitives, before any pass.

    ``tops`` maps the blobs of the expanded layers to their values, ``parameters`` the
    layers to how many numbers they have read from the weights file.
    """

    graph: Graph
    tops: Mapping[str, Value]
    parameters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class UnexpandedNet:
    """Why a net cannot be expanded, and the blobs at which to cut it; ``shapes`` are the missing shapes.

    ``left_out`` are layers that it would end before in any case, ``rest`` is a file for others that come after some.
    """

    errors: Sequence[ConversionError]
    cut: Sequence[str]
    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
    rest: str = ""

    def error(self) -> ConversionError:
        return with_advice(distinct(self.errors), self.cut, self.shapes, self.rest)


@takes_options(RewriteOptions)
def expand(model: Model, options: RewriteOptions) -> Expansion:
    """Expand the layers that the outputs need. Passes rewrite the graph afterwards.

    Raises ``ConversionError`` with all independent problems.
    """
    is_auto = is_cut(model, options.outputs)
    asked = replace(options, outputs=None) if is_auto else options
    result = attempt(model, asked)
    if is_auto and isinstance(result, UnexpandedNet) and result.cut:
        result = _cut(model, options, result)
    if isinstance(result, UnexpandedNet):
        error = result.error()
        refuse_unsuited_shapes(
            model, asked, error, lambda changed: isinstance(attempt(model, changed), Expansion)
        )
        _advise_shapes(model, asked, error)
        raise error
    if options.strict:
        refuse_cut_net(result.graph)
    return result


def advise_other_shapes(model: Model, shapes: Mapping[str, Sequence[int]], error: ConversionError) -> None:
    """Add to an error that asks for further shapes of inputs some with which all layers fit."""
    advise_inputs(distinct([error]), model, model.layers)
    inputs = inputs_of(model)
    shapes = {name: tuple(shape) for name, shape in shapes.items() if name in inputs}
    _advise_shapes(model, RewriteOptions(shapes=shapes), error)


def _advise_shapes(model: Model, options: RewriteOptions, error: ConversionError) -> None:
    from prototrt.surgery.expansion.shape_trials import advise_shapes  # few nets need it

    advise_shapes(model, options, attempt, error)


def _cut(model: Model, options: RewriteOptions, whole: UnexpandedNet) -> Expansion | UnexpandedNet:
    """The net up to the layers that cannot be converted; the graph lists them as left out."""
    result = attempt(model, replace(options, outputs=whole.cut))
    if isinstance(result, UnexpandedNet):
        return result
    cut = [
        LeftOut(error.origin, Worded("the net ends before this layer: {}", error.headline))
        for error in whole.errors
        if error.origin is not None
    ]
    left_out = (*whole.left_out, *cut)
    warnings = (*(layer.warning for layer in left_out), *result.graph.warnings)
    return replace(result, graph=replace(result.graph, warnings=warnings, left_out=left_out))


def attempt(model: Model, options: RewriteOptions) -> Expansion | UnexpandedNet:
    """The expansion, or the failure. Raises ``ConversionError`` if no part of the net can be expanded."""
    shaped = _inputs_with_shapes(options)
    framework = _framework(model, options)
    model = with_recurrences_of_user(model, options)
    outputs = outputs_and_states(model, options.outputs)
    model, part = fed_net(model, replace(options, outputs=outputs), framework, shaped)
    blocked = blocked_layers(model, part.layers, framework)
    options = framework.with_implied_shapes(model, part.layers, options)
    shapeless = framework.missing_shapes(model, part.layers, _inputs_with_shapes(options))
    if unknown := [*unknown_input_errors(model, shaped), *shapeless]:
        return _failure(model, part, independent(part.layers, blocked, model.stored), blocked, unknown)
    build = LayerBuilder(model, options, framework.sizes_of_inputs(part.layers, options))
    expander = Expander(build, framework, BlobValues(build, model.stored), part.outputs)
    expanded, errors = expander.expand(part.layers, blocked)
    if (errors or build.parameters) and all(isinstance(error, WeightsError) for error in errors):
        framework.refuse_strange_weights(model)  # rather than one error for each layer
    tell_of_namesakes(model, errors)
    if errors or blocked or model.problems:
        return _failure(model, part, expanded, blocked, errors)
    return Expansion(_graph(model, part, expander), expander.blobs.values, build.parameters)


def _inputs_with_shapes(options: RewriteOptions) -> set[str]:
    """The inputs whose shapes are given."""
    return {*shapes_of_options(options), *profile_of(options).names()}


def _framework(model: Model, options: RewriteOptions) -> Framework:
    """The framework of the model, with the user's rules."""
    framework = framework_by_name(model.framework)
    if options.rules is not None:
        framework.user_rules = rules_of(options.rules)
    if options.replace or options.plugin:
        refuse_unknown_rules(model, options)
    framework.replacements = {
        name: replacement(name, place) for name, place in (options.replace or {}).items()
    }
    framework.plugins = options.plugin or {}
    return framework


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a net can be computed, whatever its outputs: the ``expanded`` and the ``blocked`` layers, and shapes."""

    model: Model
    expanded: Collection[Layer]
    blocked: Collection[Layer]
    shapes: Mapping[str, Shape]


def reach(model: Model, options: RewriteOptions, end: Layer | None = None) -> Reach:
    """Expand what can be expanded of the layers before ``end``, or of all."""
    framework = _framework(model, options)
    model = framework.with_inputs(model, _inputs_with_shapes(options))
    layers = model.layers[: model.layers.index(end)] if end in model.layers else model.layers
    options = framework.with_implied_shapes(model, model.layers, options)
    blocked = blocked_layers(model, layers, framework)
    build = LayerBuilder(model, options, framework.sizes_of_inputs(layers, options))
    expander = Expander(build, framework, BlobValues(build, model.stored), ())
    expanded, _ = expander.expand(layers, blocked)
    shapes = {name: value.shape for name, value in expander.blobs.values.items()}
    return Reach(model, expanded, blocked, shapes)


def _graph(model: Model, part: NeededPart, expander: Expander) -> Graph:
    """The graph of a net whose layers are all expanded. Raises ``ConversionError``."""
    build, blobs, framework = expander.build, expander.blobs, expander.framework
    options = build.options
    refuse_dead_end(model, part, options, framework)
    if options.require_weights and build.without_weights:
        refuse_missing_weights(model, build.without_weights)
    build.warnings[:0] = [*model.warnings, *(layer.warning for layer in part.left_out)]
    results = blobs.outputs(part.outputs, model.file, was_asked_for=part.was_asked_for)
    graph = build.graph(model.name, framework.outputs(blobs, results))
    if graph.symbols:
        refuse_unknown_sizes(graph)
    graph = with_recurrences(graph, model, options, build.used_states)
    if options.state_arrays:
        refuse_unknown_states(model, options.state_arrays, build.used_states)
    return replace(
        graph,
        sources=sources_of(model, framework, build),
        warnings=(
            *graph.warnings,
            *remarks_on_inputs(model, part, options, framework),
            *remarks(model, part.layers, graph, options),
            *idle_options(ExpandedNet(part.layers, framework, build, graph)),
        ),
        left_out=tuple(part.left_out),
        net_inputs=inputs_of(model),
        learned=build.learned_blobs(),
    )


def _failure(
    model: Model,
    part: NeededPart,
    expanded: Collection[Layer],
    blocked: Mapping[Layer, Sequence[ConversionError]],
    errors: Sequence[ConversionError],
) -> UnexpandedNet:
    """All errors, in the order of the file."""
    of_layers = [error for each in blocked.values() for error in each]
    errors_in_order = sorted(
        (*model.problems, *of_layers, *errors), key=lambda error: error.origin.line if error.origin else 0
    )
    shapeless = [error for error in errors if isinstance(error, MissingShapesError)]
    in_the_way = [error for error in errors_in_order if error not in shapeless]
    if model.problems or not can_be_avoided(in_the_way):
        return UnexpandedNet(errors_in_order, (), left_out=part.left_out)
    shapes = {name: sizes for error in shapeless for name, sizes in error.shapes.items()}
    cut = last_computable(part.layers, expanded, part.outputs)
    origins = {error.origin for error in errors_in_order}
    left = (layer for layer in part.layers if layer not in expanded and layer not in blocked)
    has_rest = any(layer.origin not in origins for layer in left)
    # Named after the net: the remainder may have a remainder, whose file must be another one.
    rest = f"rest_of_{Path(model.file).stem}{TEXT_SUFFIXES[model.framework]}" if has_rest else ""
    return UnexpandedNet(errors_in_order, cut, shapes, part.left_out, rest)


@dataclass(frozen=True, slots=True)
class Expander:
    """Expands layers into the nodes of ``build`` and the values of ``blobs``, whose ``outputs`` are needed."""

    build: LayerBuilder
    framework: Framework
    blobs: BlobValues
    outputs: Collection[str]

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
            refuse_size(layer, index, value, self.build.symbols)
        self._limit_constants(layer, bottoms, results)
        self._name(layer, results, since)
        if self.build.made.issuperset(results):
            self.build.made.update(self.blobs.values[top] for top in layer.tops[: len(results)])
        self.framework.end(self.build, layer, bottoms, results, self.blobs.values)

    def _refuse_other_tops(self, layer: Layer, expected: int) -> None:
        """Raise ``NetError`` unless the layer has as many tops as its rule returns values."""
        is_short = expected < len(layer.tops)
        if expected > len(layer.tops) or (is_short and not self.framework.allows_missing_tops):
            raise NetError(
                f"has {plural(len(layer.tops), layer.top_word)}, expected {expected}",
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
                value.is_constant and self.framework.computes_with_constants and top not in self.outputs
            )
            if layer.type == "Input" or stays_constant:
                self.blobs.values[top] = value
                continue
            name = layer.name if index == 0 else f"{layer.name}:{index}"
            if value in named:  # two tops that are one value
                value = self.build.add(Identity(), named[value])
            named[value] = self.blobs.values[top] = self.build.named(value, top, name, since)
