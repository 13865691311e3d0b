"""From a net to a graph: the rule of each layer expands it into primitives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.errors import (
    ConversionError,
    MissingShapesError,
    NetError,
    UnreadableFileError,
    WeightsError,
    distinct,
)
from prototrt.caffe_proto.files import identity_of
from prototrt.caffe_proto.net.shape_examples import shape_option
from prototrt.caffe_proto.options import takes_options
from prototrt.caffe_proto.weights import sha256_of
from prototrt.caffe_proto.wording import Option, Worded, listed
from prototrt.surgery.expansion.arity import check_bottoms, counted
from prototrt.surgery.expansion.blob_values import BlobValues
from prototrt.surgery.expansion.cutting import AUTO, can_be_avoided, independent, last_computable, with_advice
from prototrt.surgery.expansion.dynamic_sizes import told_sizes, with_dynamic_sizes
from prototrt.surgery.expansion.frameworks import Framework, framework_named
from prototrt.surgery.expansion.known_inputs import KnownInputs, given_shapes, profile_of
from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.expansion.limits import refuse_oversized
from prototrt.surgery.expansion.needed_layers import asks_for_all, every_blob, needed_layers, wanted_blobs
from prototrt.surgery.expansion.refusals import (
    blocked_layers,
    refuse_left_out,
    refuse_missing_weights,
    refuse_states_of_nothing,
    shapes_of_nothing,
)
from prototrt.surgery.expansion.stated_sizes import open_shapes, refuse_untold_sizes
from prototrt.surgery.expansion.unsuited_shapes import refuse_unsuited_shapes
from prototrt.surgery.expansion.user_rules import rules_of
from prototrt.surgery.ir import Graph, LeftOut, Source, Value, element_count
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


@takes_options(RewriteOptions)
def expand(model: Model, options: RewriteOptions) -> Expansion:
    """Expand the layers that the outputs need. Passes rewrite the graph afterwards.

    Raises ``ConversionError`` with all independent problems.
    """
    is_auto = list(options.outputs or ()) == [AUTO] and AUTO not in model.blobs
    asked = replace(options, outputs=None) if is_auto else options
    result = attempt(model, asked)
    if isinstance(result, Failure) and is_auto and result.cut:
        cut = [
            LeftOut(error.origin, Worded("the net ends before this layer: {}", error.text))
            for error in result.errors
            if error.origin is not None
        ]
        left_out = (*result.left_out, *cut)
        result = attempt(model, replace(options, outputs=result.cut))
        if isinstance(result, Expansion):
            warnings = (*(layer.warning for layer in left_out), *result.graph.warnings)
            graph = replace(result.graph, warnings=warnings, left_out=left_out)
            result = replace(result, graph=graph)
    if isinstance(result, Failure):
        error = result.error()
        refuse_unsuited_shapes(
            model, asked, error, lambda changed: isinstance(attempt(model, changed), Expansion)
        )
        raise error
    if options.strict:
        refuse_left_out(result.graph)
    return result


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a net cannot be expanded, and the blobs at which to cut it; ``shapes`` are the missing shapes.

    ``left_out`` are layers that it would end before in any case.
    """

    errors: Sequence[ConversionError]
    cut: Sequence[str]
    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()

    def error(self) -> ConversionError:
        return with_advice(distinct(self.errors), self.cut, self.shapes)


def attempt(model: Model, options: RewriteOptions) -> Expansion | Failure:
    """The expansion, or the failure. Raises ``ConversionError`` if no part of the net can be expanded."""
    given, profile = given_shapes(options), profile_of(options)
    shaped = {*given, *profile.names()}
    framework = framework_named(model.framework)
    model = framework.with_inputs(model, shaped)
    if options.rules is not None:
        framework.user_rules = rules_of(options.rules)
    is_all = asks_for_all(model, options.outputs)
    asked = None if is_all else options.outputs
    wanted: Sequence[str] = wanted_blobs(model, asked)
    left_out: Sequence[LeftOut] = ()
    if asked is None:
        wanted, left_out = framework.usual_outputs(model, wanted)
    layers = needed_layers(model, wanted)
    if is_all:
        wanted = every_blob(model, layers)
    blocked = blocked_layers(model, layers, framework)
    shapeless = framework.missing_shapes(model, layers, shaped)
    stray = shapes_of_nothing(model, shaped)
    if shapeless or stray:
        kept = independent(layers, blocked, model.stored)
        failure = _failure(model, layers, kept, wanted, blocked, [*stray, *shapeless])
        return replace(failure, left_out=left_out)
    reserved = {name for layer in model.layers for name in layer.tops}
    example = partial(shape_option, layers=layers)
    letters = partial(framework.letters, layers)
    formulas = open_shapes(options)
    stated = {**framework.stated_shapes(layers), **given}
    profile = with_dynamic_sizes(
        profile, options, {name: shape for name, shape in stated.items() if name not in formulas}, letters
    )
    inputs = KnownInputs(given, profile, framework.whole_numbers(layers), example, letters, formulas)
    names = inputs.size_names(framework.stated_shapes(layers))
    build = LayerBuilder(
        reserved, [layer.name for layer in model.layers], model.weights, options, inputs, names
    )
    blobs = BlobValues(build, model.stored)
    expanded, errors = _expand_layers(build, framework, layers, blocked, blobs, wanted)
    if (errors or build.parameters) and all(isinstance(error, WeightsError) for error in errors):
        framework.refuse_strange_weights(model)  # rather than one error for each layer
    if errors or blocked or model.problems:
        failure = _failure(model, layers, expanded, wanted, blocked, errors)
        return replace(failure, left_out=left_out)
    refuse_states_of_nothing(model, options.state_arrays, build.used_states)
    if options.require_weights:
        refuse_missing_weights(model, build.without_weights)
    kept_layers = set(layers)
    not_kept = [layer for layer in model.layers if layer.type == "Input" and layer not in kept_layers]
    unread = [top for layer in not_kept for top in layer.tops]
    build.warnings += [f'{model.file}: input "{name}" is not needed for the outputs' for name in unread]
    if options.dynamic:
        build.warnings.append(Worded("{}: {}", model.file, told_sizes(options, build.symbols)))
    if options.preprocess and not any(map(framework.transforms, layers)):
        build.warnings.append(f"{model.file}: nothing to preprocess: no data layer states a mean or a scale")
    build.warnings[:0] = [*model.warnings, *(each.warning for each in left_out)]
    if not build.inputs:
        build.warnings.append(_without_inputs(model))
    results = blobs.outputs(wanted, model.file, was_asked_for=asked is not None)
    graph = build.graph(model.name, framework.outputs(blobs, results))
    sources = _sources(model, framework, build.mean_files, options)
    warnings = (*graph.warnings, *(_kept_states(model, graph) if options.state != "bind" else ()))
    graph = replace(
        graph, sources=sources, warnings=warnings, left_out=tuple(left_out), net_inputs=_net_inputs(model)
    )
    refuse_untold_sizes(graph)
    return Expansion(graph, blobs.values, build.parameters)


def _net_inputs(model: Model) -> tuple[str, ...]:
    return tuple(top for layer in model.layers if layer.type == "Input" for top in layer.tops)


def _without_inputs(model: Model) -> str:
    """The warning that the net has no inputs. It says how to turn a blob that DummyData fills into an input."""
    told = f"{model.file}: the net has no inputs: its outputs are always the same"
    dummies = [top for layer in model.layers if layer.type == "DummyData" for top in layer.tops]
    if not dummies:
        return told
    return Worded("{}; {} makes an input", told, shape_option(dummies[0], model.layers))


def _kept_states(model: Model, graph: Graph) -> Iterator[str]:
    if graph.recurrences:
        names = listed([pair.input.name for pair in graph.recurrences])
        yield Worded(
            "{}: these states are inputs and outputs of the net itself, so {} does not change them: {}",
            model.file,
            Option("state"),
            names,
        )


def _failure(
    model: Model,
    layers: Sequence[Layer],
    expanded: Collection[Layer],
    wanted: Collection[str],
    blocked: Mapping[Layer, Sequence[ConversionError]],
    errors: Sequence[ConversionError],
) -> Failure:
    """All errors, in the order of the file."""
    of_layers = [error for found in blocked.values() for error in found]
    found = sorted(
        (*model.problems, *of_layers, *errors), key=lambda error: error.origin.line if error.origin else 0
    )
    shapeless = [error for error in errors if isinstance(error, MissingShapesError)]
    in_the_way = [error for error in found if error not in shapeless]
    if model.problems or not can_be_avoided(in_the_way):
        return Failure(found, ())
    shapes = {name: sizes for error in shapeless for name, sizes in error.shapes.items()}
    return Failure(found, last_computable(layers, expanded, wanted), shapes)


def _expand_layers(
    build: LayerBuilder,
    framework: Framework,
    layers: Sequence[Layer],
    blocked: Collection[Layer],
    blobs: BlobValues,
    wanted: Collection[str],
) -> tuple[set[Layer], list[ConversionError]]:
    """Expand all layers that can be expanded. Returns them and the errors of the others."""
    expanded: set[Layer] = set()
    errors: list[ConversionError] = []
    for layer in layers:
        # The tops of a layer with an error are unknown: skip its readers without reporting them.
        if layer not in blocked and all(bottom in blobs for bottom in layer.bottoms):
            try:
                _expand_layer(build, framework, layer, blobs, wanted)
                expanded.add(layer)
            except ConversionError as error:
                if not (isinstance(error, UnreadableFileError) and error.where):  # which names its file
                    error.origin = error.origin or layer.origin
                errors.append(error)
    return expanded, errors


def _expand_layer(
    build: LayerBuilder, framework: Framework, layer: Layer, blobs: BlobValues, wanted: Collection[str]
) -> None:
    rule = framework.rule_of(layer)
    assert rule is not None, f"{layer.type} is blocked"
    check_bottoms(rule, layer)
    build.begin(layer)
    framework.begin(build, layer)
    bottoms = [blobs.read(layer, index) for index in range(len(layer.bottoms))]
    since = len(build.nodes)
    results = rule(build, layer, *bottoms)
    build.end(layer)
    is_short = len(results) < len(layer.tops)
    if len(results) > len(layer.tops) or (is_short and not framework.lets_tops_be_absent):
        raise NetError(
            f"has {counted(len(layer.tops), layer.top_word)}, expected {len(results)}",
            origin=layer.origin,
            fix=f"list as many {layer.top_word}s as the layer makes",
        )
    for index, value in enumerate(results):
        refuse_oversized(layer, index, value, build.symbols)
    if layer.type != "Input" and all(bottom.is_constant or bottom in build.made for bottom in bottoms):
        for index, value in enumerate(results):
            build.limit.take(element_count(value.shape), f'top "{layer.top_blob(index)}"')
        build.made.update(results)
    keeps = {top for top in layer.tops if framework.computes_with_constants and top not in wanted}
    _name(build, layer, blobs, results, since, keeps)
    if build.made.issuperset(results):
        build.made.update(blobs.values[top] for top in layer.tops[: len(results)])
    framework.end(build, layer, bottoms, results, blobs.values)


def _name(
    build: LayerBuilder,
    layer: Layer,
    blobs: BlobValues,
    results: Sequence[Value],
    since: int,
    keeps: Collection[str],
) -> None:
    """Give the tops to the values that nodes from ``since`` on made; constants in ``keeps`` stay constants."""
    blobs.absent.update(layer.tops[len(results) :])
    named: dict[Value, Value] = {}
    for index, (top, value) in enumerate(zip(layer.tops, results, strict=False)):
        if layer.type == "Input" or (value.is_constant and top in keeps):
            blobs.values[top] = value
        else:
            name = layer.name if index == 0 else f"{layer.name}:{index}"
            if value in named:  # two tops that are one value
                value = build.add(Identity(), named[value])
            named[value] = blobs.values[top] = build.named(value, top, name, since)


def _sources(
    model: Model, framework: Framework, mean_files: Sequence[str], options: RewriteOptions
) -> tuple[Source, ...]:
    net, stored = framework.sources
    sources = [Source(net, model.file, lambda: sha256_of(model.file))]
    weights = model.weights
    if weights.file is not None:
        sources.append(Source(stored, weights.file, lambda: weights.sha256))
    sources += [Source("mean", file, partial(sha256_of, file)) for file in mean_files]
    given = {"rules": options.rules, "settings": options.settings}
    if options.is_quantized:
        given |= {"scales": options.scales, "calibration_cache": options.calibration_cache}
    sources += [
        Source(role, file, partial(sha256_of, file)) for role, file in given.items() if isinstance(file, str)
    ]
    return tuple(replace(source, identity=identity_of(source.file)) for source in sources)
