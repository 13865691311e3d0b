"""Checks of a whole net: types without a rule, unknown blobs, missing weights, shapes that cause errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    MissingBlobError,
    NetError,
    Origin,
    Problems,
    ShapeError,
    UnsupportedLayerError,
    WeightsError,
    lacks_computed_blobs,
    raise_all,
)
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.net.shape_examples import shape_option
from prototrt.surgery.building.input_sizes import profile_of, shapes_of_options
from prototrt.surgery.expansion.frameworks import Framework, framework_by_name
from prototrt.surgery.expansion.needed_layers import inputs_of
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ir.profiles import Sizes
from prototrt.surgery.options import RewriteOptions

_MOST_ADVISED = 100
"""Advice is worked out for this many errors. A message lists fewer of them."""


def blocked_layers(
    model: Model, layers: Sequence[Layer], framework: Framework
) -> dict[Layer, list[ConversionError]]:
    """The layers that cannot be expanded with any bottoms, and why: no rule, or an error in the text.

    The fields of a type without a rule are not reported: they are unknown because the type is. Bottoms that no layer
    makes are. A type without a rule is reported once, not for each of its layers, and so is an unknown field.
    """
    blocked: dict[Layer, Sequence[ConversionError]] = {}
    without_rule: dict[tuple[str, str], list[Layer]] = {}
    for layer in layers:
        problems = layer.problems
        if framework.rule_of(layer) is None:
            without_rule.setdefault((layer.type, framework.kind_of(layer)), []).append(layer)
            problems = tuple(error for error in problems if isinstance(error, MissingBlobError))
        elif framework.user_rule_of(layer) is not None:  # it may read fields that the framework lacks
            problems = tuple(error for error in problems if not error.is_unknown_field)
        if problems:
            blocked[layer] = problems
    if not blocked and not without_rule:
        return {}
    advised = _with_shape_options(blocked, model, layers)
    for number, (first, *others) in enumerate(without_rule.values()):
        error = _without_rule(first, others, framework, is_advised=number < _MOST_ADVISED)
        advised[first] = [error, *advised.get(first, ())]
        advised.update((layer, advised.get(layer, [])) for layer in others)
    return _without_duplicates(advised)


def _without_duplicates(blocked: Mapping[Layer, list[ConversionError]]) -> dict[Layer, list[ConversionError]]:
    lacking = Counter(
        error.lacking
        for errors in blocked.values()
        for error in errors
        if isinstance(error, UnsupportedLayerError)
    )
    reported: dict[Layer, list[ConversionError]] = {}
    seen: set[str] = set()
    for layer, errors in blocked.items():
        reported[layer] = []
        for error in errors:
            name = error.lacking if isinstance(error, UnsupportedLayerError) else None
            if name is None or lacking[name] == 1:
                reported[layer].append(error)
            elif name not in seen:
                seen.add(name)
                reported[layer].append(_with_others(error, lacking[name] - 1))
    return reported


def _with_others(error: ConversionError, others: int) -> ConversionError:
    more = copy(error)
    more.problem = f"{error.problem}{_other_layers_text(others)}"
    return more


def _other_layers_text(count: int) -> str:
    return {0: "", 1: ", which one other layer has"}.get(count, f", which {count} other layers have")


_SHORTEST = 3
"""Letters of a type that is no misspelling of another one: Odd is not Add."""


def _without_rule(
    first: Layer, others: Sequence[Layer], framework: Framework, *, is_advised: bool
) -> ConversionError:
    more = _other_layers_text(len(others))
    problem = f"there is no rule for this {framework.kind_of(first)}{more}"
    because = framework.cause_of(first)
    error: ConversionError
    fix: str | None
    may_be_misspelt = because is None and is_advised and not first.problems and len(first.type) > _SHORTEST
    types = framework.types_like(first) if may_be_misspelt else [first.type]
    close = [] if first.type in types else close_names(first.type, types)
    fitting = {} if first.problems or not is_advised else framework.types_by_weights(first)
    if fitting:
        ways = [
            Worded("if it computes what {} does, whose blobs it has: {}", kind, Option("overrides", settings))
            for kind in fitting
            for settings in [_settings(kind, (first, *others), framework)]
        ]
        fix = Worded.joined("; or ", [*ways, *filter(None, [framework.advice(first)])])
        error = UnsupportedLayerError(problem, origin=first.origin, because=because, fix=fix)
    elif close:
        fix = f"write {' or '.join(close)}, if that is meant"
        if len(close) == 1 and framework.takes_overrides:
            types = {f"{layer.name}.type": close[0] for layer in (first, *others)}
            fix = Worded("{}: {}", fix, Option("overrides", types))
        error = NetError(problem, origin=first.origin, fix=fix)
    else:
        error = UnsupportedLayerError(
            problem, origin=first.origin, because=because, fix=framework.advice(first)
        )
    error.lacking = framework.name_of(first)
    return error


def _settings(kind: str, layers: Sequence[Layer], framework: Framework) -> dict[str, str]:
    """The fields by which those of the layers that may be of this type become layers of it."""
    return {
        f"{layer.name}.{field}": value
        for layer in layers
        for field, value in framework.types_by_weights(layer).get(kind, {}).items()
    }


def _with_shape_options(
    blocked: Mapping[Layer, Sequence[ConversionError]], model: Model, layers: Sequence[Layer]
) -> dict[Layer, list[ConversionError]]:
    """The errors, the first of them with advice."""
    every = [error for errors in blocked.values() for error in errors]
    advised = iter([*map(copy, every[:_MOST_ADVISED]), *every[_MOST_ADVISED:]])
    result = {layer: [next(advised) for _ in errors] for layer, errors in blocked.items()}
    advise_inputs([error for errors in result.values() for error in errors], model, layers)
    return result


def advise_inputs(errors: Sequence[ConversionError], model: Model, layers: Sequence[Layer]) -> None:
    """Show how to make inputs of bottoms that no layer writes, in the fixes of the first errors."""
    if lacks_computed_blobs(errors):
        return
    for error in errors[:_MOST_ADVISED]:
        if isinstance(error, MissingBlobError) and error.bottom in model.missing:
            advice = Worded("make it an input: {}", shape_option(error.bottom, layers, model.sizes))
            error.fix = Worded("{}; or {}", error.fix, advice) if error.fix else advice


def unknown_input_errors(model: Model, names: Collection[str]) -> list[ConversionError]:
    """An error for each shape of a name that is not an input."""
    inputs = inputs_of(model)
    return [
        NetError(
            f'a shape is given for "{name}", which is not an input',
            where=model.file,
            fix=Worded("name one of the inputs: {}", listed(inputs))
            if inputs
            else "remove it: the net has no inputs",
        )
        for name in sorted(names)
        if name not in inputs
    ]


def refuse_unknown_rules(model: Model, options: RewriteOptions) -> None:
    """Raise for rules of layers, and plugins for types, that the net does not have."""
    layers = [layer.name for layer in model.layers]
    types = [*dict.fromkeys(layer.type for layer in model.layers)]
    raise_all(
        [
            NetError(
                Worded("{} names {}, which is no {} of the net", Option(option), f'"{name}"', what),
                where=model.file,
                fix=Worded(
                    "name one of {}: {}", f"its {what}s", listed(close_names(name, present) or present)
                ),
            )
            for option, what, names, present in (
                ("replace", "layer", options.replace or {}, layers),
                ("plugin", "layer type", options.plugin or {}, types),
            )
            for name in names
            if name not in present
        ]
    )


def refuse_cut_net(graph: Graph) -> None:
    """Raise if the graph ends before layers of the net, and so has outputs that the user did not choose."""
    outputs = [value.name for value in graph.outputs if value not in graph.state_outputs]
    because = Worded("{} allows this only if you choose the outputs", Option("strict"))
    fix = Worded("choose the outputs: {}", Option("outputs", outputs))
    problem = "the net would end before this layer"
    raise_all(
        [
            UnsupportedLayerError(problem, origin=layer.origin, because=because, fix=fix)
            for layer in graph.left_out
        ]
    )


def refuse_unknown_states(model: Model, arrays: Mapping[str, Array], states: Collection[str]) -> None:
    for name in arrays:
        if name not in states:
            raise NetError(
                f'an initial state is given for "{name}", which is not a state',
                where=model.file,
                fix=Worded("name one of the states: {}", listed(sorted(states)))
                if states
                else "remove it: the net has no states",
            )


def refuse_missing_weights(model: Model, names: Collection[str]) -> None:
    """Raise ``WeightsError``: these layers need weights."""
    need = "layer needs" if len(names) == 1 else "layers need"
    raise WeightsError(
        Worded("no weights are given, but {} {} them: {}", f"{len(names):,}", need, listed([*names])),
        where=model.file,
        fix=Worded("give the .caffemodel, or {} to try the topology alone", Option("random_weights", 0)),
    )


def tell_of_namesakes(model: Model, errors: Sequence[ConversionError]) -> None:
    """Say of weights that are missing or do not fit that other layers have the same name, which Caffe permits."""
    origins: dict[str, list[Origin]] = {}
    for layer in model.layers:
        origins.setdefault(layer.name, []).append(layer.origin)
    for error in errors:
        origin = error.origin
        if not isinstance(error, WeightsError) or error.because or origin is None or origin.operator:
            continue
        alike = [*origins.get(origin.layer, ())]
        if len(alike) > 1:
            alike.remove(origin)  # once: two layers may be in one line
            others = listed([f"{other.subject} in line {other.line}" for other in alike])
            error.because = f"it has the name of {others}: Caffe gives stored weights to the first of them"
            error.fix = "give each of these layers the name under which its weights are stored"


def refuse_unsuited_shapes(
    model: Model, options: RewriteOptions, error: ConversionError, is_sound: Callable[[RewriteOptions], bool]
) -> None:
    """An error about the user's shapes if the net is correct without them; otherwise ``error``.

    Shapes with other sizes but the same number of axes are reported only if weights do not fit.
    """
    shapes, profile = shapes_of_options(options), profile_of(options)
    asked = {**profile.max, **profile.min, **profile.opt, **shapes}
    framework = framework_by_name(model.framework)
    layer_shapes = framework.shapes_in_file(model.layers) if model.framework == "caffe" else {}
    errors = error.errors if isinstance(error, Problems) else [error]
    of_weights = all(isinstance(each, WeightsError) for each in errors)
    others = {
        name: asked[name]
        for name, shape in layer_shapes.items()
        if name in asked and (len(asked[name]) != len(shape) or (of_weights and asked[name] != shape))
    }
    if not others or any(each.origin and each.origin.type == "Input" for each in errors):
        return
    try:
        is_shapes_fault = is_sound(_without_shapes(options, others))
    except ConversionError:
        return
    if is_shapes_fault:
        because = Worded("with it, {}", _text(errors[0]))
        makers = {top: layer for layer in model.layers for top in layer.tops}
        raise_all(
            [
                _shape_error(makers[name], layer_shapes[name], name, shape, because)
                for name, shape in others.items()
            ]
        )


def _without_shapes(options: RewriteOptions, names: Mapping[str, Sizes]) -> RewriteOptions:
    """The options without the shapes of these blobs."""
    shapes, profile = shapes_of_options(options), profile_of(options)
    options_by_name = {
        "shapes": shapes,
        "min_shapes": profile.min,
        "opt_shapes": profile.opt,
        "max_shapes": profile.max,
    }
    others: dict[str, Any] = {
        option: {name: shape for name, shape in each.items() if name not in names}
        for option, each in options_by_name.items()
    }
    return replace(options, **others)


def _text(error: ConversionError) -> str:
    place = [error.origin.subject] if error.origin else []
    place += [error.blob] if error.blob else []
    return Worded("{}: {}", ", ".join(place), error.problem) if place else error.problem


def _shape_error(layer: Layer, sizes: Sizes, name: str, shape: Sizes, because: str) -> ConversionError:
    own = Option("shapes", {name: sizes})
    has_other_axes = len(shape) != len(sizes)
    return ShapeError(
        f"the shape given is {shape}, but the file states {sizes}",
        origin=layer.origin,
        blob=f'top "{name}"',
        because=because,
        fix=Worded("give {} axes, as in {}", len(sizes), own)
        if has_other_axes
        else Worded("give the size of the file, {}", own),
    )
