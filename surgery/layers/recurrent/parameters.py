"""The names of the blobs that recurrent layers store, and the gates in their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from prototrt.caffe_proto import Layer
from prototrt.surgery.layers.recurrent.options import directions, hidden_sizes
from prototrt.surgery.layers.recurrent.recurrent_types import RECURRENT_TYPES

_STATICS = ("static", "topic")


@dataclass(frozen=True, slots=True)
class NamedBlob:
    """A stored blob: its name, the gates of its blocks of rows, none if it has a single block, and its axes."""

    name: str
    gates: str = ""
    axes: int = 2


def named_blobs(layer: Layer) -> list[NamedBlob]:
    """The blobs of a recurrent layer in their order; none for another type, or if their number is not expected."""
    count = len(layer.blobs or ())
    stacks: Iterator[Sequence[NamedBlob]] = iter([_WHOLE.get(layer.type, ())])
    if layer.type in RECURRENT_TYPES:
        statics = range(RECURRENT_TYPES[layer.type].statics + 1)
        stacks = (_stack(layer, each) for each in statics)
    return next(([*blobs] for blobs in stacks if len(blobs) == count), [])


def _stack(layer: Layer, statics: int) -> list[NamedBlob]:
    """Layer by layer, forward before backward, as in PyTorch's names: ``W_xc_l0``, ``W_xc_l0_reverse``."""
    sizes, ways = hidden_sizes(layer.param), directions(layer.param)
    named: list[NamedBlob] = []
    for level, hidden in enumerate(sizes):
        for way in range(len(ways)):
            suffix = f"_l{level}{'_reverse' if way else ''}" if len(sizes) * len(ways) > 1 else ""
            for blob in _DIRECTIONS[layer.type](layer, hidden, len(named), 0 if level else statics):
                named.append(replace(blob, name=blob.name + suffix))
    return named


def _rows(layer: Layer, index: int) -> int:
    """The rows of a stored matrix; 0 if there is no such blob."""
    blobs = layer.blobs or ()
    shape = blobs[index].shape if index < len(blobs) else ()
    return shape[-2] if len(shape) > 1 else 0


def _inputs(letter: str, gates: str, statics: int) -> Iterator[NamedBlob]:
    yield NamedBlob(f"W_x{letter}", gates)
    yield NamedBlob(f"b_{letter}", gates, 1)
    for name in _STATICS[:statics]:
        yield NamedBlob(f"W_x{letter}_{name}", gates)


def _lstm(layer: Layer, hidden: int, first: int, statics: int) -> Iterator[NamedBlob]:
    gates = "iog" if layer.param.coupled_input_forget and _rows(layer, first) == 3 * hidden else "ifog"
    yield from _inputs("c", gates, statics)
    yield NamedBlob("W_hc", gates)
    if layer.param.peephole:
        yield NamedBlob("peephole", "ifo")
    if layer.param.num_proj:
        yield NamedBlob("W_proj")
    if layer.param.num_nonrecurrent_proj:
        yield NamedBlob("W_nproj")


def _gru(layer: Layer, hidden: int, first: int, statics: int) -> Iterator[NamedBlob]:
    """Ours has gates r, z, n in one matrix of h; synopsys-caffe z, r, n in two or three."""
    pieces = {2 * hidden: ("W_zr",), hidden: ("W_z", "W_r")}.get(_rows(layer, first + 2 + statics), ())
    yield from _inputs("c", "zrn" if pieces else "rzn", statics)
    for name in pieces:
        yield NamedBlob(name, "zr" if len(pieces) == 1 else "")
    yield NamedBlob("W_n") if pieces else NamedBlob("W_hc", "rzn")
    if layer.param.linear_before_reset:
        yield NamedBlob("b_n", "", 1) if pieces else NamedBlob("b_hc", "rzn", 1)


def _rnn(layer: Layer, hidden: int, first: int, statics: int) -> Iterator[NamedBlob]:
    yield from _inputs("h", "", statics)
    yield from (NamedBlob("W_hh"), NamedBlob("W_ho"), NamedBlob("b_o", "", 1))


def _vanilla_rnn(layer: Layer, hidden: int, first: int, statics: int) -> Iterator[NamedBlob]:
    yield from _inputs("c", "", statics)
    yield NamedBlob("W_hc")


_DIRECTIONS: Mapping[str, Callable[[Layer, int, int, int], Iterator[NamedBlob]]] = {
    **dict.fromkeys(("LSTM", "LSTMController", "LSTMNew", "LSTMTopic"), _lstm),
    "GRU": _gru,
    "RNN": _rnn,
    "VanillaRNN": _vanilla_rnn,
}
"""By type: the blobs of a direction of so many hidden units, of which ``first`` is the first, with static inputs."""
_WHOLE: Mapping[str, Sequence[NamedBlob]] = {
    "Lstm": (NamedBlob("W_x", "ifog"), NamedBlob("W_h", "ifog"), NamedBlob("b", "ifog", 1)),
    "LstmUnit": tuple(NamedBlob(f"W_{gate}", "", 4) for gate in "gifo"),
}
"""By type: all blobs."""
