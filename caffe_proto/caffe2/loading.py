"""A predict net and an init net -> Model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from prototrt.caffe_proto.caffe2.advice import EXPORT_AGAIN, GIVE_BOTH_NETS
from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.database import read_database
from prototrt.caffe_proto.caffe2.files import ReadNet, read_net, types_of
from prototrt.caffe_proto.caffe2.fills import origin_of
from prototrt.caffe_proto.caffe2.init_net import FILLS, InitNet, open_init_net
from prototrt.caffe_proto.caffe2.integers import integer_blobs
from prototrt.caffe_proto.caffe2.operators import Operator, RecurrentArguments
from prototrt.caffe_proto.caffe2.recurrence import aliases_of, links_of, states_of, step_net_of
from prototrt.caffe_proto.caffe2.schema import INT32, message_class
from prototrt.caffe_proto.caffe2.untangle import (
    Access,
    ReadBlob,
    UntangledOperators,
    refuse_unwritten_blobs,
    untangle,
)
from prototrt.caffe_proto.common.errors import ConversionError, NetError, Origin, raise_all
from prototrt.caffe_proto.common.wording import Worded, listed
from prototrt.caffe_proto.model import Model
from prototrt.caffe_proto.recognition import DATABASE, PYTORCH, SAFETENSORS, OpenFile, open_input
from prototrt.caffe_proto.schema import Message

_MOST_LOOKED_AT = 1000  # operators, of a file that may be an init net of gigabytes
_DEEPEST = 8  # nets inside nets; real ones reach 2


def load_caffe2(
    source: OpenFile, init: str | None, *, random_weights: int | None = None, allow_unknown: bool = False
) -> Model:
    """Read a net of Caffe2 and, if given, its weights. Raises ``ConversionError``."""
    predict = source.name
    net, weights = _read(source, init, random_weights, allow_unknown=allow_unknown)
    computing = [_draft(fill.message, fill.origin, 0) for fill in weights.operators]
    drafts = [*computing, *_drafts(net, predict)]
    accesses = [_access(draft) for draft in drafts]
    computed = {blob for draft in computing for blob in draft.tops}
    external = [blob for blob in net.message.external_input if blob not in computed]
    versions = untangle(accesses, {*external, *weights.names()})
    if net.message.external_input:
        refuse_unwritten_blobs(versions, accesses, lambda access: access.origin.subject)
    operators = _with_names(drafts, versions)
    inputs = _inputs([*external, *versions.strangers], operators, weights, predict)
    return Model(
        name=net.message.name,
        file=predict,
        layers=(*inputs, *operators),
        weights=weights,
        warnings=(*net.warnings, *weights.warnings),
        outputs=_outputs(net.message, operators, versions, predict),
        blobs=versions.last,
        framework="caffe2",
        stored={name: weights.blobs[name] for name in weights.names()},
    )


def with_inputs(model: Model, names: Collection[str]) -> Model:
    """The net with these blobs as inputs, although the init net fills them."""
    fed = [name for name in model.stored if name in names]
    if not fed:
        return model
    stored = {name: blob for name, blob in model.stored.items() if name not in fed}
    operators = [layer for layer in model.layers if isinstance(layer, Operator)]
    integers = integer_blobs(
        operators, lambda blob: model.stored[blob].array.dtype.kind == "i" if blob in model.stored else None
    )
    inputs = [_input(name, name in integers, model.file, model.stored[name].shape) for name in fed]
    blobs = {**model.blobs, **{name: name for name in fed}}
    return replace(model, layers=(*inputs, *model.layers), blobs=blobs, stored=stored)


def _read(
    predict: OpenFile, init: str | None, random_weights: int | None, *, allow_unknown: bool
) -> tuple[ReadNet, InitNet]:
    file = predict.name
    if predict.kind is DATABASE:
        if init is not None:
            raise NetError(
                f"holds its weights, but {init} is also given", where=file, fix="give this file alone"
            )
        return read_database(predict)
    _refuse_init_net(types_of(predict, most=_MOST_LOOKED_AT), file)
    net = read_net(predict, "a predict net", allow_unknown=allow_unknown)
    _refuse_init_net([message.type for message in net.message.op], file)
    if init is None:
        return net, InitNet(None, {})
    weights = open_input(init, "an init net")
    if weights.kind is DATABASE:
        return net, read_database(weights)[1]
    if weights.kind in (PYTORCH, SAFETENSORS):
        return net, _init_net_of_module(weights)
    return net, open_init_net(weights, random_weights, allow_unknown=allow_unknown)


def _init_net_of_module(file: OpenFile) -> InitNet:
    """The blobs in the state dict of a module that prototrt wrote for the net."""
    from prototrt.caffe_proto.weights.module_state import open_module_state  # few nets were trained there

    trained = open_module_state(file)
    blobs = {name: blob for name in trained.names() for blob in trained.blobs_of(name) or () if blob}
    return InitNet(file.name, blobs, is_state_dict=True, warnings=trained.warnings)


def _refuse_init_net(types: Sequence[str] | None, file: str) -> None:
    """Raise if these are the operators of an init net. ``types`` is None if they are not known yet."""
    if types is None:
        return
    if not types:
        raise NetError("the net has no operators", where=file, fix="give the predict net")
    if {*types} <= {*FILLS, "RecurrentParamSet"}:
        raise NetError("this is an init net: all its operators fill weights", where=file, fix=GIVE_BOTH_NETS)


def _drafts(net: ReadNet, file: str) -> list[Operator]:
    """The operators, with the user's names of blobs. Raises all errors at once."""
    drafts: list[Operator] = []
    errors: list[ConversionError] = []
    for index, message in enumerate(net.message.op):
        origin = origin_of(file, net.line(index), index, message)
        try:
            drafts.append(_draft(message, origin, 0))
        except ConversionError as error:
            if error.where is None:
                error.origin = error.origin or origin
            errors.append(error)
    raise_all(errors)
    return drafts


def _draft(message: Message, origin: Origin, depth: int) -> Operator:
    if not message.type:
        raise NetError("the operator has no type", origin=origin, fix="export the net again: it is damaged")
    recurrence = None
    reads = tuple(message.input)
    if message.type == "RecurrentNetwork":
        recurrence = _recurrence(message, origin, depth)
        reads = (*reads, *_outside(recurrence, reads))
    return Operator(
        name=origin.layer,
        type=message.type,
        message=message,
        bottoms=reads,
        tops=tuple(message.output),
        origin=origin,
        blobs=None,
        reads=reads,
        recurrence=recurrence,
    )


def _recurrence(message: Message, origin: Origin, depth: int) -> RecurrentArguments:
    if depth == _DEEPEST:
        raise NetError(
            f"step nets are nested more than {_DEEPEST} deep",
            origin=origin,
            fix="export the net with fewer of them",
        )
    arguments = Arguments(message)
    net = step_net_of(arguments, origin)
    drafts = [
        _draft(inner, _inner_origin(origin, index, inner), depth + 1) for index, inner in enumerate(net.op)
    ]
    versions = untangle([_access(draft) for draft in drafts], ())
    return RecurrentArguments(
        operators=tuple(_with_names(drafts, versions)),
        timestep=arguments.text("timestep", "timestep"),
        states=states_of(arguments, message.input),
        links=links_of(arguments),
        aliases=aliases_of(arguments),
        written={
            blob: value
            for blob, value in versions.last.items()
            if blob not in versions.strangers or value != blob
        },
        read=tuple(versions.strangers),
    )


def _inner_origin(outer: Origin, index: int, message: Message) -> Origin:
    inner = origin_of(outer.file, outer.line, index, message)
    return replace(inner, operator=f"{outer.subject}, step net {inner.operator}")


def _outside(recurrence: RecurrentArguments, inputs: Sequence[str]) -> list[str]:
    """The blobs that a RecurrentNetwork reads by name although they are not its inputs."""
    buffers = {state.buffer for state in recurrence.states}
    inside = {link.inside for link in recurrence.links} | {recurrence.timestep}
    read = [blob for blob in recurrence.read if blob not in inside]
    read += [link.outside for link in recurrence.links if link.outside not in buffers]
    read += [alias.source for alias in recurrence.aliases if alias.source not in buffers]
    return [blob for blob in dict.fromkeys(read) if blob not in inputs]


def _access(draft: Operator) -> Access:
    listed = len(draft.message.input)
    reads = [ReadBlob(blob, draft.origin) for blob in draft.reads[:listed]]
    reads += [_outer_read(draft, blob) for blob in draft.reads[listed:]]
    return Access(draft.origin, tuple(reads), draft.tops)


def _outer_read(draft: Operator, blob: str) -> ReadBlob:
    """How a RecurrentNetwork reads an outer blob: by a link, by an alias, or by an operator of its step net."""
    recurrence = draft.recurrence
    assert recurrence is not None
    if blob in (link.outside for link in recurrence.links):
        return ReadBlob(blob, draft.origin, "link_external")
    if blob in (alias.source for alias in recurrence.aliases):
        return ReadBlob(blob, draft.origin, "alias_src")
    reader = next(inner for inner in recurrence.operators if blob in inner.reads)
    return ReadBlob(blob, reader.origin)


def _with_names(drafts: Sequence[Operator], versions: UntangledOperators) -> list[Operator]:
    """The operators over values that are written once; each operator has its own name."""
    named: list[Operator] = []
    taken: set[str] = set()
    for draft, bottoms, tops in zip(drafts, versions.bottoms, versions.tops, strict=True):
        name = draft.message.name or (tops[0] if tops else draft.name)
        if name in taken:
            name = f"{name}@{len(named)}"
        taken.add(name)
        origin = replace(draft.origin, layer=name)
        named.append(replace(draft, name=name, bottoms=bottoms, tops=tops, origin=origin))
    return named


def _inputs(
    names: Sequence[str], operators: Sequence[Operator], weights: InitNet, file: str
) -> list[Operator]:
    def is_integer(blob: str) -> bool | None:
        stored = weights.blobs.get(blob)
        return None if stored is None else stored.array.dtype.kind == "i"

    integers = integer_blobs(operators, is_integer)
    fed = [name for name in dict.fromkeys(names) if name not in weights.blobs]
    return [_input(name, name in integers, file) for name in fed]


def _input(name: str, is_integer: bool, file: str, shape: Sequence[int] | None = None) -> Operator:
    message = message_class("OperatorDef")(type="Input", output=[name])
    if is_integer:
        message.arg.add(name="dtype", i=INT32)
    if shape is not None:
        message.arg.add(name="shape", ints=shape)
    origin = Origin(file, 0, name, "Input", f'external input "{name}"')
    return Operator(name, "Input", message, (), (name,), origin, None)


def _outputs(
    net: Message, operators: Sequence[Operator], versions: UntangledOperators, file: str
) -> tuple[str, ...]:
    """The external outputs in their order. If the net lists none, the blobs that no operator reads."""
    if not net.external_output:
        read = {bottom for operator in operators for bottom in operator.bottoms}
        last = {*versions.last.values()}
        written = [top for operator in operators for top in operator.tops]
        return tuple(name for name in written if name in last and name not in read)
    missing = [name for name in net.external_output if name not in versions.last]
    if missing:
        raise NetError(
            Worded("no operator makes the external outputs {}", listed(missing)),
            where=file,
            fix=EXPORT_AGAIN,
        )
    return tuple(dict.fromkeys(versions.last[name] for name in net.external_output))
