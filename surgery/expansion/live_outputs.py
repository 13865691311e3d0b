"""Outputs must depend on an input. If no output does, blobs that the net fills become inputs.

Programs write into such blobs before each call: into those of DummyData, and of Caffe2's init nets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError, OptionsError
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.net.shape_examples import shape_option
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.expansion.needed_layers import NeededPart, needed_layers, needed_part
from prototrt.surgery.options import RewriteOptions


def fed_net(
    model: Model, options: RewriteOptions, framework: Framework, shaped: Collection[str]
) -> tuple[Model, NeededPart]:
    """The net with all of its inputs, and its part that the outputs need. Raises ``ConversionError``.

    Inputs are also blobs in ``shaped``, whose shapes the user states, and those that programs write into.
    """
    _check_constants(model, options, framework, shaped)
    named = framework.with_inputs(model, shaped)
    part = needed_part(named, options.outputs, framework)
    fed = _blobs_of_programs(model, part.outputs, framework, options.keep_constant)
    if {*shaped}.issuperset(fed):
        return named, part
    whole = framework.with_inputs(model, {*shaped, *fed})
    part = needed_part(whole, options.outputs, framework)
    read = {top for layer in part.layers for top in layer.tops}
    return whole, replace(part, fed=[name for name in fed if name in read and name not in shaped])


def _blobs_of_programs(
    model: Model, outputs: Sequence[str], framework: Framework, kept: Collection[str]
) -> Sequence[str]:
    """The blobs that become inputs because no output depends on one.

    Numbers that the net states stay constants if the outputs depend on others: those are the data.
    """
    if _live_outputs(model, outputs, framework, ()):
        return ()
    layers = needed_layers(model, outputs)
    free = {
        name: is_number for name, is_number in framework.fillable(model, layers).items() if name not in kept
    }
    computed = [name for name in outputs if name not in free]
    if not computed:
        return ()
    plain = [name for name, is_number in free.items() if not is_number or name in outputs]
    return plain if len(_live_outputs(model, computed, framework, plain)) == len(computed) else [*free]


def _live_outputs(
    model: Model, outputs: Sequence[str], framework: Framework, fed: Collection[str]
) -> list[str]:
    """The outputs that depend on an input that is not a state, or on a blob in ``fed``."""
    states = {pair.input for pair in model.recurrences if not pair.exposed}
    live = {*model.missing, *fed} - states
    for layer in model.layers:
        is_fed = layer.type == "Input" and states.isdisjoint(layer.tops)
        if is_fed or not live.isdisjoint(framework.data_bottoms(layer)):
            live.update(layer.tops)
    return [name for name in outputs if name in live]


def refuse_dead_end(model: Model, part: NeededPart, options: RewriteOptions, framework: Framework) -> None:
    """Raise ``NetError`` if no output depends on an input, unless the user keeps blobs constant."""
    if options.keep_constant or _live_outputs(model, part.outputs, framework, ()):
        return
    sources = _sources(part.layers)
    raise NetError(
        "no output depends on an input that is not a state",
        where=model.file,
        because=Worded(
            "their data come from {}", listed([f'layer "{layer.name}" ({layer.type})' for layer in sources])
        )
        if sources
        else None,
        fix=_fix(model, [top for layer in sources for top in layer.tops], part.outputs, framework),
    )


def _fix(model: Model, filled: Sequence[str], outputs: Sequence[str], framework: Framework) -> str:
    constant = Worded("{} if a constant result is meant", Option("keep_constant", filled))
    read = [name for name in filled if name not in outputs]
    if not read or framework.with_inputs(model, read[:1]) is model:
        return Worded("add an input to the net; or {}", constant) if filled else "add an input to the net"
    return Worded("make an input: {}; or {}", _shape(model, read[0], framework), constant)


def _shape(model: Model, name: str, framework: Framework) -> Option:
    """The option that makes a blob an input, with its shape if the file states one."""
    made = framework.with_inputs(model, [name])
    number = framework.shapes_in_file(made.layers).get(name)
    return Option("shapes", {name: number}) if number else shape_option(name, model.layers)


def _sources(layers: Sequence[Layer]) -> list[Layer]:
    """The layers that read nothing."""
    return [layer for layer in layers if not layer.bottoms and layer.tops and layer.type != "Input"]


def _check_constants(
    model: Model, options: RewriteOptions, framework: Framework, shaped: Collection[str]
) -> None:
    """Raise ``OptionsError`` for names in ``keep_constant`` that the net does not fill, or that also have a shape."""
    if not options.keep_constant:
        return
    names = [
        *framework.fillable(model, model.layers),
        *(top for layer in _sources(model.layers) for top in layer.tops),
    ]
    for name in options.keep_constant:
        if name not in names:
            raise OptionsError(
                Worded('{} names "{}", which the net does not fill', Option("keep_constant"), name),
                fix=f"use {choices(name, [*dict.fromkeys(names)])}" if names else "leave it out",
            )
        if name in shaped:
            raise OptionsError(
                Worded('{} names "{}", which has a shape of an input', Option("keep_constant"), name),
                fix="leave out one of the two options",
            )


def remarks_on_inputs(
    model: Model, part: NeededPart, options: RewriteOptions, framework: Framework
) -> Iterator[str]:
    """Warnings about blobs that became inputs, and about outputs that depend on none."""
    if part.fed:
        yield Worded(
            "{}: no output depends on an input, so {}, which {}, became {}; {} keeps {} constant",
            model.file,
            _quote(part.fed),
            framework.filler,
            _one_or_more(part.fed, "an input", "inputs"),
            Option("keep_constant", [*part.fed]),
            _one_or_more(part.fed, "it", "them"),
        )
    live = _live_outputs(model, part.outputs, framework, ())
    if constant := [name for name in part.outputs if name not in live]:
        fillable = framework.fillable(model, needed_layers(model, constant))
        free = [name for name in fillable if name not in options.keep_constant]
        warning = Worded(
            "{}: {} {} on no input",
            model.file,
            _one_or_more(constant, f"output {_quote(constant)}", f"outputs {_quote(constant)}"),
            _one_or_more(constant, "depends", "depend"),
        )
        makes = Worded("; {} makes one", _shape(model, free[0], framework)) if free else ""
        yield Worded(
            "{}, so {} always the same{}", warning, _one_or_more(constant, "it is", "they are"), makes
        )


def _quote(names: Sequence[str]) -> str:
    return listed([f'"{name}"' for name in names])


def _one_or_more(items: Sequence[object], one: str, more: str) -> str:
    return one if len(items) == 1 else more
