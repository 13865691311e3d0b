"""Files -> Model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, NetError, raise_all, tell
from prototrt.caffe_proto.common.memory import without_collector
from prototrt.caffe_proto.common.options import PathLike, takes_options
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.model import Layer, Model
from prototrt.caffe_proto.net.overrides import override
from prototrt.caffe_proto.net.readings import (
    NetState,
    Reading,
    advice,
    choose,
    differs_in_training,
    explain,
    other_reading_warning,
    reading_for,
    unknown_stage_warnings,
    whole_readings,
)
from prototrt.caffe_proto.net.sizes_by_weights import size_hints, with_channels
from prototrt.caffe_proto.net.untangle import UntangledNet, wrong_counts
from prototrt.caffe_proto.options import LoadOptions
from prototrt.caffe_proto.recognition import (
    HDF5,
    NPZ,
    PYTORCH,
    SAFETENSORS,
    OpenFile,
    open_input,
    text_of_prototxt,
)
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.text.findings import unknown_fields
from prototrt.caffe_proto.text.marks import marked_recurrences
from prototrt.caffe_proto.text.prototxt import ParsedNet, parse_net
from prototrt.caffe_proto.text.templates import fill_template
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry, upgraded_layers
from prototrt.caffe_proto.weights import NoWeights, RandomWeights, StoredBlob, Weights, check_count
from prototrt.caffe_proto.weights.caffemodel import open_caffemodel
from prototrt.caffe_proto.weights.sharing import find_owners, share_stored, with_places
from prototrt.caffe_proto.weights_choice import two_sources_error


@takes_options(LoadOptions)
@without_collector()
def load(prototxt: PathLike, options: LoadOptions) -> Model:
    """Read a net and, if given, its weights.

    Also reads a predict net and an init net of Caffe2, binary or text, and recognizes them by their content.
    Every mistake of a user raises a ``ConversionError``; a doubt is a ``ConversionWarning``.

    Errors inside one layer are kept in ``Layer.problems`` and raised if that layer is needed: fields that
    Caffe's messages lack, values that fit no field, bottoms that no layer writes.
    """
    net = open_input(prototxt, "a prototxt")
    model = _caffe2_model(net, options) if net.is_netdef else _caffe_model(net, options)
    tell(model.warnings)
    return model


def _caffe2_model(file: OpenFile, options: LoadOptions) -> Model:
    from prototrt.caffe_proto.caffe2.loading import load_caffe2  # most nets are Caffe's

    _refuse_for_caffe2(file.name, options)
    init = None if options.weights is None else os.fsdecode(options.weights)
    return load_caffe2(file, init, random_weights=options.random_weights, allow_unknown=options.allow_unknown)


def _caffe_model(source: OpenFile, options: LoadOptions) -> Model:
    if options.weights is not None and options.random_weights is not None:
        raise two_sources_error()
    file = source.name
    text = fill_template(text_of_prototxt(source), options.define or {}, file)
    net = parse_net(text, file)
    state = _state(net.message, options)
    written = upgraded_layers(net, file)
    if options.overrides:
        override(written, options.overrides, file)
    if not written:
        raise_all([finding.error() for finding in net.findings])  # a misspelt field may hide the layers
    _complete_layers(written, file)
    asked = reading_for(written, state, file)
    readings = whole_readings(written, asked)
    reading = readings[0] if len(readings) == 1 else choose(readings, state) or asked
    if not reading.entries:
        problem = f"none of the {len(written)} layers belongs to the net for {state}"
        raise NetError(problem, where=file, fix=advice(readings, state))
    weights = _open_weights(options.weights, options.random_weights)
    model = with_channels(_model_of(net, file, reading, weights, options.allow_unknown))
    unknown = unknown_stage_warnings(written, options.stages, file)
    warnings = (*unknown, *_unread_shapes(net, file), *model.warnings)
    model = replace(
        model, warnings=warnings, recurrences=marked_recurrences(text), size_hints=size_hints(text, file)
    )
    if reading is not asked:
        return replace(model, warnings=(other_reading_warning(reading, asked, file), *model.warnings))
    included = set(asked.entries)
    excluded = [entry for entry in written if entry not in included]
    return model.with_problems(lambda error: explain(error, excluded, readings, state)) if excluded else model


def _refuse_for_caffe2(file: str, options: LoadOptions) -> None:
    """Raise for what is said of a prototxt: a net of Caffe2 has neither fields of layers nor phases."""
    usual, names = LoadOptions(), ("define", "overrides", "phase", "level", "stages")
    if unsupported := [
        Option(name) for name in names if (getattr(options, name) or None) != (getattr(usual, name) or None)
    ]:
        is_one = len(unsupported) == 1
        raise NetError(
            Worded(
                "this is a Caffe2 net, for which {} {} nothing",
                Worded.joined(" and ", unsupported),
                "means" if is_one else "mean",
            ),
            where=file,
            fix="leave it out" if is_one else "leave them out",
        )


def _model_of(
    net: ParsedNet,
    file: str,
    reading: Reading,
    source: Weights,
    allow_unknown: bool,
) -> Model:
    miscounted = wrong_counts(reading.entries, file)
    deployed, untangled = reading.deploy_net, reading.blob_versions
    entries = deployed.entries
    problems = [
        (*untangled.errors.get(entry, ()), *miscounted.get(entry, ()), *_problems(entry, allow_unknown))
        for entry in entries
    ]
    layers, different = _layers(entries, untangled, source, file, problems)
    of_net = [finding for finding in net.findings if finding.layer is None]
    return Model(
        name=net.message.name,
        file=file,
        layers=layers,
        weights=source,
        warnings=(
            *(finding.drop_warning() for finding in of_net if allow_unknown or finding.is_of_fork_net),
            *(_unknown_field_warnings(entries) if allow_unknown else ()),
            *(warning for entry in entries for warning in entry.warnings),
            *deployed.warnings,
            *_warnings(entries, reading.state, file, source),
            *different,
        ),
        outputs=untangled.outputs,
        blobs=untangled.blobs,
        problems=tuple(
            finding.error() for finding in of_net if not (allow_unknown or finding.is_of_fork_net)
        ),
        missing=untangled.missing,
        sizes=deployed.shapes,
    )


def _problems(entry: LayerEntry, allow_unknown: bool) -> list[ConversionError]:
    """The errors in the text of a layer, except those that ``allow_unknown`` turns into warnings."""
    return [finding.error() for finding in entry.findings if not (allow_unknown and finding.can_be_dropped)]


def _unknown_field_warnings(entries: Sequence[LayerEntry]) -> list[str]:
    return [
        finding.drop_warning() for entry in entries for finding in entry.findings if finding.can_be_dropped
    ]


def _layers(
    entries: Sequence[LayerEntry],
    untangled: UntangledNet,
    weights: Weights,
    file: str,
    problems: Sequence[tuple[ConversionError, ...]],
) -> tuple[tuple[Layer, ...], Sequence[str]]:
    owners = find_owners(entries)
    stored = _stored_blobs(entries, weights, file)
    if weights.holds_shared_once:
        stored = [with_places(blobs, shared) for blobs, shared in zip(stored, owners, strict=True)]
    blobs, warnings = share_stored(entries, owners, stored, file, weights)
    origins = [entry.origin(file) for entry in entries]
    layers = tuple(
        Layer(
            name=origins[index].layer,
            type=origins[index].type,
            message=entry.message,
            bottoms=untangled.bottoms[index],
            tops=untangled.tops[index],
            origin=origins[index],
            blobs=blobs[index],
            shared=owners[index],
            problems=problems[index],
            unknown=unknown_fields(entry.findings) if entry.findings else {},
        )
        for index, entry in enumerate(entries)
    )
    return layers, warnings


def _stored_blobs(
    entries: Sequence[LayerEntry], weights: Weights, file: str
) -> list[Sequence[StoredBlob | None] | None]:
    named: set[str] = set()
    rows = []
    for entry in entries:
        name = entry.message.name
        # Of layers with one name, Caffe gives the stored blobs to the first.
        stored = weights.blobs_of(name) if name not in named else None
        named.add(name)
        rows.append(stored or _blobs_in_text(entry, file))
    return rows


def _state(net: Message, options: LoadOptions) -> NetState:
    """Caffe adds the stages it is given to those in the file, and replaces phase and level."""
    stages = frozenset(options.stages) | frozenset(net.state.stage)
    return NetState(options.phase, options.level, stages)


def _complete_layers(entries: Sequence[LayerEntry], file: str) -> None:
    if not entries:
        fix = "give the prototxt of a net, and the phase it is for"
        raise NetError("the net has no layers", where=file, fix=fix)
    for entry in entries:
        if not entry.message.type:
            fix = 'set its type, as in type: "Convolution"'
            raise NetError("the layer has no type", origin=entry.origin(file), fix=fix)
        # Caffe takes a layer without a name; messages and nodes need one.
        entry.message.name = entry.message.name or f"{entry.message.type}_{entry.line}"


def _open_weights(weights: PathLike | None, seed: int | None) -> Weights:
    if weights is None:
        return NoWeights() if seed is None else RandomWeights(seed=seed)
    file = open_input(weights, "a weights file")
    kind = file.kind
    if kind not in (HDF5, NPZ, PYTORCH, SAFETENSORS):
        return open_caffemodel(file)
    # Imported where they are needed: few weights are stored so, and reading zip files takes much code.
    if kind is HDF5:
        from prototrt.caffe_proto.weights.hdf5 import open_hdf5

        return open_hdf5(file.name)
    if kind in (PYTORCH, SAFETENSORS):
        from prototrt.caffe_proto.weights.module_state import open_module_state

        return open_module_state(file)
    from prototrt.caffe_proto.weights.array_files import open_npz

    return open_npz(file.name)


def _blobs_in_text(entry: LayerEntry, file: str) -> Sequence[StoredBlob] | None:
    """Caffe takes the blobs that a prototxt holds as the first weights of the layer."""
    blobs = entry.message.blobs
    if not blobs:
        return None
    where = str(entry.origin(file))
    return tuple(_blob_in_text(blob, where, index) for index, blob in enumerate(blobs))


def _blob_in_text(blob: Message, where: str, index: int) -> StoredBlob:
    array = np.array(blob.double_data or blob.data, np.float32)
    legacy = any(blob.HasField(name) for name in ("num", "channels", "height", "width"))
    shape = (blob.num, blob.channels, blob.height, blob.width) if legacy else tuple(blob.shape.dim)
    fix = "state a shape and as many numbers as it has, or leave blobs out of the file"
    check_count(shape, array.size, where, f"blobs {index}", fix)
    return StoredBlob(shape, legacy, lambda: array.reshape(shape))


def _warnings(entries: Sequence[LayerEntry], state: NetState, file: str, weights: Weights) -> Iterator[str]:
    if names := [entry.message.name for entry in entries if differs_in_training(entry.message, state)]:
        note = f"in phase TRAIN Caffe computes {_enumerated(names)} differently"
        yield f"{file}: {note}: computed here as in phase TEST"
    yield from weights.warnings
    counts = Counter(entry.message.name for entry in entries)
    for name in sorted(name for name, count in counts.items() if count > 1):
        yield f'{file}: two layers are called "{name}"; stored weights go to the first'
    if unused := [name for name in weights.names() if name not in counts]:
        yield f"{weights.file}: the net has no layers for the weights of {_enumerated(unused)}"


def _unread_shapes(net: ParsedNet, file: str) -> list[str]:
    fields = [name for name in ("input_shape", "input_dim") if len(getattr(net.message, name))]
    if not fields or len(net.message.input):
        return []
    return [f"{file}: {' and '.join(fields)} ignored, as in Caffe: the net states no input"]


def _enumerated(names: Sequence[str]) -> str:
    shown = [f'"{name}"' for name in names]
    if len(shown) > 6:  # never "1 others"
        shown[5:] = [f"{len(shown) - 5} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
