"""A net becomes a graph: every layer is expanded into primitives by its rule."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.data_layers import transformation
from prototrt.caffe_proto.errors import (
    ConversionError,
    NetError,
    UnsupportedLayerError,
    WeightsError,
    raise_all,
)
from prototrt.caffe_proto.weights import sha256_of
from prototrt.surgery import layers as _rules  # noqa: F401  registers the rules
from prototrt.surgery import recurrent as _recurrent_rules  # noqa: F401  registers the rules
from prototrt.surgery.ir import Array, Graph, Source, Value
from prototrt.surgery.layer_builder import LayerBuilder, LayerRule, Options, layer_rule
from prototrt.surgery.limits import refuse_oversized
from prototrt.surgery.profiles import Profile


@dataclass(frozen=True, slots=True)
class Expansion:
    """A net in primitives, before any pass.

    ``tops`` maps the blobs of the expanded layers to their values, ``parameters`` the
    layers to how many numbers they have read from the weights file.
    """

    graph: Graph
    tops: Mapping[str, Value]
    parameters: Mapping[str, int]


def expand(
    model: Model,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    profile: Profile | None = None,
    outputs: Sequence[str] | None = None,
    cont: str = "keep",
    state: str | Mapping[str, Array] = "bind",
    preprocess: bool = False,
    strict: bool = False,
    require_weights: bool = True,
) -> Expansion:
    """Expand the layers that the outputs need.

    ``shapes`` override those of inputs, ``profile`` gives ranges; ``outputs`` are blobs of the net,
    by default those that nobody reads; ``cont`` ``"drop"`` takes cont as 1 everywhere; ``state`` is
    ``"bind"``, ``"zero"``, or the initial states by the names of their bindings; ``preprocess`` folds
    mean and scale of the data layers into the graph; ``strict`` refuses weights that are NaN or
    infinite. Without
    ``require_weights`` a net without weights gets zeros, to look at its shapes.
    Raises ``ConversionError`` with all the problems that can be told apart.
    """
    assert cont in ("keep", "drop"), cont
    wanted = _wanted(model, outputs)
    wanted, cuts = (wanted, []) if outputs is not None else _before_code(model, wanted)
    layers = _needed(model, wanted)
    _refuse_unknown(model, layers)
    given = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    ranges = profile or Profile()
    _refuse_shapes_of_nothing(model, {*given, *ranges.names()})
    reserved = {name for layer in model.layers for name in layer.tops}
    arrays = {} if isinstance(state, str) else state
    mode = state if isinstance(state, str) else "const"
    options = Options(given, ranges, cont == "drop", mode, arrays, _whole_numbers(layers), preprocess, strict)
    build = LayerBuilder(reserved, model.weights, options)
    values: dict[str, Value] = {}
    errors: list[ConversionError] = []
    for layer in layers:
        # What an unsound layer writes is unknown: its readers are left out, not blamed.
        if all(bottom in values for bottom in layer.bottoms):
            try:
                values.update(_expand_layer(build, layer, [values[bottom] for bottom in layer.bottoms]))
                build.memory.write_through(build, layer, values)
            except ConversionError as error:
                error.origin = error.origin or layer.origin
                errors.append(error)
    needs_weights = bool(errors or build.parameters)
    if needs_weights and all(isinstance(error, WeightsError) for error in errors):
        _refuse_strange_weights(model)  # rather than one error for each layer
    raise_all(errors)
    _refuse_states_of_nothing(model, arrays, build.used_states)
    if require_weights:
        _refuse_missing_weights(model, build.without_weights)
    unread = [layer.tops[0] for layer in model.layers if layer.type == "Input" and layer not in layers]
    build.warnings += [f'{model.file}: input "{name}" is not needed for the outputs' for name in unread]
    if preprocess and not any(transformation(layer.message) for layer in layers if layer.type == "Input"):
        build.warnings.append(f"{model.file}: nothing to preprocess: no data layer states a mean or a scale")
    build.warnings[:0] = [*model.warnings, *cuts]
    graph = build.graph(model.name, [values[name] for name in wanted])
    return Expansion(replace(graph, sources=_sources(model, build.mean_files)), values, build.parameters)


def _sources(model: Model, mean_files: Sequence[str]) -> tuple[Source, ...]:
    sources = [Source("prototxt", model.file, lambda: sha256_of(model.file))]
    weights = model.weights
    if weights.file is not None:
        sources.append(Source("weights", weights.file, lambda: weights.sha256))
    sources += [Source("mean", file, partial(sha256_of, file)) for file in mean_files]
    return tuple(sources)


def _wanted(model: Model, outputs: Sequence[str] | None) -> list[str]:
    """SSA names of the blobs to compute."""
    inputs = {top for layer in model.layers if layer.type == "Input" for top in layer.tops}
    if outputs is None:
        names = [name for name in model.outputs if name not in inputs]
        if not names:
            raise NetError(
                "the net computes nothing: no layer writes a blob that is left over", where=model.file
            )
        return names
    written = {name for layer in model.layers for name in layer.tops}
    wanted = [model.blobs.get(name, name) for name in dict.fromkeys(outputs)]
    for asked, name in zip(dict.fromkeys(outputs), wanted, strict=True):
        if name not in written:
            close = difflib.get_close_matches(asked, {*model.blobs, *written}, 5) or sorted(model.blobs)
            raise NetError(
                f'no layer writes the output "{asked}"',
                where=model.file,
                fix=f"ask for a blob of the net, such as {', '.join(close)}",
            )
        if name in inputs:
            raise NetError(f'"{asked}" is an input, not an output', where=model.file)
    return wanted


def _before_code(model: Model, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The wanted blobs, or where Python code that the file does not hold makes them, what it reads.

    Also the warnings that say so.
    """
    makers = {top: layer for layer in model.layers for top in layer.tops}
    kept: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for name in wanted:
        layer = makers[name]
        read = [bottom for bottom in layer.bottoms if makers[bottom].type != "Input"]
        if layer.type != "Python" or not read:
            kept[name] = None
            continue
        kept |= dict.fromkeys(read)
        warnings[f"{layer.origin}: is code, not kept in the file: the net ends before it"] = None
    return list(kept), list(warnings)


def _needed(model: Model, wanted: Sequence[str]) -> list[Layer]:
    """The layers that the wanted blobs depend on, in the order of the file."""
    needed = set(wanted)
    kept: list[Layer] = []
    for layer in reversed(model.layers):
        if needed.intersection(layer.tops):
            needed.update(layer.bottoms)
            kept.append(layer)
    return kept[::-1]


def _refuse_unknown(model: Model, layers: Sequence[Layer]) -> None:
    """Tell all types without a rule and all unknown fields at once, in the order of the file.

    The fields of a type without a rule are not told: they are unknown because the type is.
    """
    types = [layer for layer in layers if layer.type not in layer_rule.rules]
    errors: list[ConversionError] = [
        UnsupportedLayerError(
            "there is no rule for this layer type", origin=layer.origin, fix=_similar(layer.type)
        )
        for layer in types
    ]
    explained = {layer.name for layer in types}
    errors += [error for error in model.unknown if _layer_of(error) not in explained]
    if not model.unknown:  # the user goes on without what is unknown
        errors += [_of_needed(error) for layer in layers if layer not in types for error in layer.unknown]
    raise_all(sorted(errors, key=lambda error: error.origin.line if error.origin else 0))


def _layer_of(error: ConversionError) -> str | None:
    return error.origin.layer if error.origin else None


def _of_needed(error: ConversionError) -> ConversionError:
    """The error for a field that --allow-unknown cannot drop."""
    return UnsupportedLayerError(
        error.problem,
        origin=error.origin,
        where=error.where,
        blob=error.blob,
        because="the outputs need this layer, and without the field it may compute something else",
        fix="remove the field if it changes no result, or cut the net before the layer with --output BLOB",
    )


def _similar(name: str) -> str:
    close = difflib.get_close_matches(name, layer_rule.rules, 3)
    cut = "cut the net before it with --output BLOB"
    return (
        f"write {' or '.join(close)} if that is meant, or {cut}" if close else f"{cut}; see `prototrt layers`"
    )


def _refuse_shapes_of_nothing(model: Model, names: Collection[str]) -> None:
    inputs = [top for layer in model.layers if layer.type == "Input" for top in layer.tops]
    for name in sorted(names):
        if name not in inputs:
            raise NetError(
                f'a shape is given for "{name}", which is no input',
                where=model.file,
                fix=f"the inputs are {', '.join(inputs) or 'none'}",
            )


def _whole_numbers(layers: Sequence[Layer]) -> frozenset[str]:
    """The values that recurrent layers may read the lengths of sequences from."""
    read = [
        bottom
        for layer in layers
        if layer.message.recurrent_param.sequence_lengths
        for bottom in layer.bottoms[1:]
    ]
    return frozenset(read)


def _refuse_states_of_nothing(model: Model, given: Mapping[str, Array], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise NetError(
                f'an initial state is given for "{name}", which is no state',
                where=model.file,
                fix=f"the states are {', '.join(sorted(known)) or 'none'}",
            )


def _refuse_strange_weights(model: Model) -> None:
    """Caffe would go on with fillers where not one layer of the weights file is in the net."""
    stored = list(model.weights.names())
    if stored and not {layer.name for layer in model.layers}.intersection(stored):
        shown = ", ".join(f'"{name}"' for name in stored[:5]) + (", ..." if len(stored) > 5 else "")
        raise WeightsError(
            f"none of its layers is in the net {model.file}: it has weights for {shown}",
            where=model.weights.file,
            because="layers are matched by name",
            fix="use the prototxt that these weights were trained with",
        )


def _refuse_missing_weights(model: Model, names: Sequence[str]) -> None:
    if names:
        raise WeightsError(
            f"no weights are given, but {len(names)} layers need them: {', '.join(names)}",
            where=model.file,
            fix="give the .caffemodel, or --random-weights SEED to try the topology alone",
        )


def _expand_layer(build: LayerBuilder, layer: Layer, bottoms: Sequence[Value]) -> dict[str, Value]:
    rule = layer_rule.rules[layer.type]
    _check_bottoms(rule, layer)
    build.begin(layer)
    since = len(build.nodes)
    results = rule(build, layer, *bottoms)
    build.end(layer)
    if len(results) != len(layer.tops):
        raise NetError(
            f"has {counted(len(layer.tops), 'top')}, expected {len(results)}",
            origin=layer.origin,
            fix="list as many tops as the layer makes",
        )
    for index, value in enumerate(results):
        refuse_oversized(layer, index, value, build.symbols)
    if layer.type == "Input":
        return dict(zip(layer.tops, results, strict=True))
    names = [layer.name if index == 0 else f"{layer.name}:{index}" for index in range(len(results))]
    return {
        top: build.named(value, top, name, since)
        for top, value, name in zip(layer.tops, results, names, strict=True)
    }


def _check_bottoms(rule: LayerRule, layer: Layer) -> None:
    """The rule's signature says which bottoms a layer has."""
    _, _, *parameters = inspect.signature(rule).parameters.values()
    named = [item for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
    least = sum(item.default is item.empty for item in named)
    most = len(named) if len(named) == len(parameters) else None
    count = len(layer.bottoms)
    if count < least or (most is not None and count > most):
        span = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        names = ", ".join(item.name for item in named)
        raise NetError(
            f"has {counted(count, 'bottom')}, expected {span}",
            origin=layer.origin,
            fix=f"give it the bottoms {names}" if names else "remove its bottoms",
        )


def counted(count: int, thing: str) -> str:
    """As in ``1 bottom`` and ``2 bottoms``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
