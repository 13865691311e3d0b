"""The arguments of a RecurrentNetwork: its step net, states, links and aliases.

Source: caffe2 ``operators/rnn/recurrent_network_op.h``, as observed.
"""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.caffe2.advice import EXPORT_AGAIN, EXPORT_LINKS_AGAIN, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.operators import Alias, Link, StateBuffer
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import NetError, Origin, UnreadableFileError, raise_all
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.text.prototxt import parse_net


def step_net_of(arguments: Arguments, origin: Origin) -> Message:
    """The step net: a NetDef, or in files of 2017 its text."""
    if not arguments.has("step_net"):
        raise NetError("has no step_net", origin=origin, fix=EXPORT_AGAIN)
    if not arguments.is_text("step_net"):
        net = arguments.net("step_net")
    else:
        net = message_class("NetDef")()
        parsed = parse_net(arguments.text("step_net", ""), f"{origin}, step_net", net)
        raise_all([finding.error() for finding in parsed.findings])
    assert net is not None
    if not net.op:
        raise UnreadableFileError("its step_net has no operators", origin=origin, fix=EXPORT_AGAIN)
    return net


def states_of(arguments: Arguments, inputs: Sequence[str]) -> tuple[StateBuffer, ...]:
    """The states, each with its initial input."""
    buffers = arguments.texts("recurrent_states")
    initial = arguments.integers("initial_recurrent_state_ids")
    _same_lengths(recurrent_states=buffers, initial_recurrent_state_ids=initial)
    if twice := [name for name in buffers if buffers.count(name) > 1]:
        raise NetError(f'recurrent_states lists "{twice[0]}" more than once', fix=MEND_ARGUMENTS)
    for index in initial:
        if not 0 <= index < len(inputs):
            raise NetError(
                f"initial_recurrent_state_ids has {index}, expected an input from 0 to {len(inputs) - 1}",
                because=f"the operator has {len(inputs)} inputs",
                fix=MEND_ARGUMENTS,
            )
    return tuple(map(StateBuffer, buffers, initial))


def links_of(arguments: Arguments) -> tuple[Link, ...]:
    """The links. Without ``link_window``, each reads or writes one row."""
    inside, outside = arguments.texts("link_internal"), arguments.texts("link_external")
    offsets, windows = arguments.integers("link_offset"), arguments.integers("link_window")
    windows = windows or (1,) * len(inside)
    _same_lengths(link_internal=inside, link_external=outside, link_offset=offsets, link_window=windows)
    for link in map(Link, inside, outside, offsets, windows):
        if link.window < 1 or link.offset < 0:
            raise NetError(
                f'the link of "{link.inside}" to "{link.outside}" has offset {link.offset} and window'
                f" {link.window}, expected at least 0 and 1",
                fix=EXPORT_LINKS_AGAIN,
            )
    return tuple(map(Link, inside, outside, offsets, windows))


def aliases_of(arguments: Arguments) -> tuple[Alias, ...]:
    sources, targets = arguments.texts("alias_src"), arguments.texts("alias_dst")
    offsets = arguments.integers("alias_offset")
    _same_lengths(alias_src=sources, alias_dst=targets, alias_offset=offsets)
    return tuple(map(Alias, sources, targets, offsets))


def _same_lengths(**lists: Sequence[object]) -> None:
    if len({len(values) for values in lists.values()}) > 1:
        counts = ", ".join(f"{name} {len(values)}" for name, values in lists.items())
        raise NetError(f"parallel lists have different lengths: {counts}", fix=EXPORT_AGAIN)
