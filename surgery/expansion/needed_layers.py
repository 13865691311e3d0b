"""The part of a net that is converted: what the outputs need, what is left of an unsupported net, and remarks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.advice import CHOOSE_ANOTHER_NET
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    NetError,
    Problems,
    ShapeError,
    UnsupportedLayerError,
    WeightsError,
)
from prototrt.caffe_proto.common.files import identity_of
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Together, Worded, listed
from prototrt.caffe_proto.weights import sha256_of
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.expansion.dynamic_sizes import sizes_text
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.ir import Graph, LeftOut, Source
from prototrt.surgery.options import RewriteOptions

ALL = "all"
"""The name of an output that stands for every blob."""


@dataclass(frozen=True, slots=True)
class NeededPart:
    """The layers to expand, in the order of the file, and the blobs to compute, by their SSA names.

    ``was_asked_for`` says whether the user named these blobs. ``left_out`` are layers that the net ends before
    in any case. ``fed`` are blobs that became inputs although the net fills them.
    """

    layers: Sequence[Layer]
    outputs: Sequence[str]
    was_asked_for: bool
    left_out: Sequence[LeftOut]
    fed: Sequence[str] = ()


def needed_part(model: Model, outputs: Sequence[str] | None, framework: Framework) -> NeededPart:
    """The part that these outputs need; without outputs, that of the framework's usual ones. Raises ``NetError``."""
    is_all = list(outputs or ()) == [ALL] and ALL not in model.blobs
    if outputs is not None and not is_all:
        named = _named_blobs(model, outputs)
        return NeededPart(needed_layers(model, named), named, True, ())
    usual, left_out = framework.usual_outputs(model, _final_blobs(model))
    _refuse_empty_net(model, usual)
    layers = needed_layers(model, usual)
    return NeededPart(layers, _every_blob(model, layers) if is_all else usual, False, left_out)


def inputs_of(model: Model) -> tuple[str, ...]:
    """The blobs that are fed into the whole net."""
    return tuple(top for layer in model.layers if layer.type == "Input" for top in layer.tops)


def _final_blobs(model: Model) -> list[str]:
    """The blobs that no layer reads."""
    inputs = inputs_of(model)
    return [name for name in model.outputs if name not in inputs]


def _refuse_empty_net(model: Model, outputs: Sequence[str]) -> None:
    if not outputs:
        inputs = inputs_of(model)
        silences = (layer for layer in model.layers if layer.type == "Silence")
        silenced = [name for layer in silences for name in layer.bottoms if name not in inputs]
        raise NetError(
            "the net computes nothing: every blob is read by another layer",
            where=model.file,
            fix=Worded("ask for what the net silences: {}", Option("outputs", silenced))
            if silenced
            else Worded("add a layer that computes something, or {}", CHOOSE_ANOTHER_NET),
        )


def _named_blobs(model: Model, outputs: Sequence[str]) -> list[str]:
    """The blobs that the user named."""
    inputs = inputs_of(model)
    written = {name for layer in model.layers for name in layer.tops}
    blobs = {asked: model.blobs.get(asked, asked) for asked in outputs}
    for asked, name in blobs.items():
        if name not in written:
            import difflib

            close = difflib.get_close_matches(asked, {*model.blobs, *written}, 5) or sorted(model.blobs)
            raise NetError(
                f'no layer writes the output "{asked}"',
                where=model.file,
                fix=Worded("ask for a blob of the net, such as {}", listed(close)),
            )
        if name in inputs:
            raise NetError(
                f'"{asked}" is an input, not an output',
                where=model.file,
                fix="ask for a blob that a layer computes",
            )
    return [*blobs.values()]


def _every_blob(model: Model, layers: Sequence[Layer]) -> list[str]:
    """All blobs that these layers compute, each by its last value."""
    last = set(model.blobs.values())
    return [top for layer in layers if layer.type != "Input" for top in layer.tops if top in last]


def needed_layers(model: Model, outputs: Sequence[str]) -> list[Layer]:
    """The layers that the wanted blobs depend on, in the order of the file."""
    needed = set(outputs)
    kept: list[Layer] = []
    for layer in reversed(model.layers):
        if needed.intersection(layer.tops):
            needed.update(layer.bottoms)
            kept.append(layer)
    return kept[::-1]


AUTO = "auto"
"""The name of an output that cuts the net before the layers that cannot be converted."""


def is_cut(model: Model, outputs: Sequence[str] | None) -> bool:
    """Whether the net is to be cut before the layers that cannot be converted."""
    return list(outputs or ()) == [AUTO] and AUTO not in model.blobs


def last_computable(
    layers: Sequence[Layer], expanded: Collection[Layer], outputs: Collection[str]
) -> list[str]:
    """The outputs of a cut net: all computed blobs that are outputs or are read by a layer that is left out.

    ``layers`` are needed for the ``outputs``; ``expanded`` are those that can be converted.
    Inputs are not included.
    """
    read = {bottom for layer in layers if layer not in expanded for bottom in layer.bottoms} | set(outputs)
    made = (top for layer in layers if layer in expanded and layer.bottoms for top in layer.tops)
    return [top for top in made if top in read]


def independent(layers: Sequence[Layer], blocked: Collection[Layer], inputs: Collection[str]) -> set[Layer]:
    """The layers that depend on nothing that is blocked. ``inputs`` are available."""
    made = set(inputs)
    kept = set()
    for layer in layers:
        if layer not in blocked and made.issuperset(layer.bottoms):
            kept.add(layer)
            made.update(layer.tops)
    return kept


def can_be_avoided(errors: Iterable[ConversionError]) -> bool:
    """Whether unsupported layers cause the errors, rather than weights or sizes that do not fit."""
    return not any(isinstance(error, (ShapeError, WeightsError)) for error in errors)


def with_advice(
    errors: Sequence[ConversionError],
    cut: Sequence[str],
    shapes: Mapping[str, Sequence[int | str]],
    rest: str = "",
) -> ConversionError:
    """All errors as one; where layers are not supported, with the options that convert the rest of the net.

    The options are the outputs in ``cut`` and the missing ``shapes``, and with ``rest``, a file, those for what comes
    after.
    """
    unsupported = [error for error in errors if isinstance(error, UnsupportedLayerError)]
    if not unsupported:
        cut = ()
    of_shapes = [Option("shapes", shapes)] if shapes else []
    command = Worded("{}", Together([Option("outputs", list(cut)), *of_shapes]))
    if rest:
        whole = Together([Option("outputs", [AUTO]), Option("remainder", rest), *of_shapes])
        command = Worded("{}; or both parts: {}", command, whole)
    if len(errors) > 1:
        return Problems(errors, fix=Worded("convert the supported part: {}", command) if cut else None)
    (error,) = errors
    if cut:
        advice = Worded("convert the part before it: {}", command)
        error.fix = Worded("{}; or {}", error.fix, advice) if error.fix else advice
    return error


def remarks(model: Model, layers: Sequence[Layer], graph: Graph, options: RewriteOptions) -> Iterator[str]:
    """Warnings about the net as a whole, of which these layers were expanded."""
    needed = {top for layer in layers for top in layer.tops}
    for name in inputs_of(model):
        if name not in needed:
            yield f'{model.file}: input "{name}" is not needed for the outputs'
    if options.dynamic and graph.symbols:
        yield Worded("{}: {}", model.file, sizes_text(options, graph.symbols))
    if options.state != "bind" and graph.recurrences:
        names = listed([pair.input.name for pair in graph.recurrences])
        yield Worded(
            "{}: these states are inputs and outputs of the net itself, so {} does not change them: {}",
            model.file,
            Option("state"),
            names,
        )


def sources_of(model: Model, framework: Framework, build: LayerBuilder) -> tuple[Source, ...]:
    """Net, weights, mean files, and the files that options name. Their contents are hashed only on demand."""
    net, stored = framework.sources
    options, weights = build.options, model.weights
    sources = [Source(net, model.file, partial(sha256_of, model.file))]
    if weights.file is not None:
        sources.append(Source(stored, weights.file, lambda: weights.sha256))
    files_of_options: dict[str, object] = {"rules": options.rules, "settings": options.settings}
    if options.is_quantized:
        files_of_options |= {"scales": options.scales, "calibration_cache": options.calibration_cache}
    replacing = dict.fromkeys(place.rpartition(":")[0] for place in (options.replace or {}).values())
    files = [
        *(("mean", file) for file in build.mean_files),
        *files_of_options.items(),
        *(("replace", file) for file in replacing),
    ]
    sources += [Source(role, file, partial(sha256_of, file)) for role, file in files if isinstance(file, str)]
    return tuple(replace(source, identity=identity_of(source.file)) for source in sources)
