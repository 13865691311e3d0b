"""The streams of a batch: the inputs and outputs of one of them, put together and taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.files.signatures.arrays import cast, host_array
from prototrt.converter.files.signatures.signature import (
    Signature,
    SymbolSizes,
    concrete,
    fillable,
    refuse_fed_states,
)
from prototrt.surgery.ir import Array, Dim, Range, Value, computable, range_of, symbols_of

Arrays: TypeAlias = Mapping[str, Array]
Sizes: TypeAlias = tuple[tuple[str, int], ...]
"""The values of symbols, by name. Inputs of equal sizes have equal shapes."""

REMEMBERED_AT_MOST = 64
"""Combinations of shapes that are known to fit."""


class StreamRows:
    """Where the streams of a net lie. Raises ``NetError`` for a net whose streams cannot be told apart.

    ``signature`` is that of one stream: N is 1. ``cont`` is the name of the input that is 0 where a sequence begins;
    None if the net has none. ``sizes`` are the numbers of streams that a call may have.
    """

    def __init__(self, signature: Signature, cont: str | None) -> None:
        if not signature.recurrences:
            raise NetError(
                "the net has no state",
                because="each stream needs a state of its own",
                fix="call it with a Session; a plan without a manifest has no state, either",
            )
        names = [value.name for value in signature.inputs]
        if cont is not None and cont not in names:
            raise NetError(f'there is no input "{cont}"', fix=f"the inputs are {', '.join(names)}")
        self.cont = cont or name_of_cont(signature)
        self.axes = {value.name: _axis(value, signature) for value in _values(signature)}
        pair = signature.recurrences[0]
        streams = pair.input.shape[self.axes[pair.input.name]]
        self.sizes: Range = range_of(computable(streams))
        self.signature = _of_one_stream(signature, self.axes, streams)
        self._fitting: dict[tuple[tuple[str, tuple[int, ...]], ...], Sizes] = {}
        self._conts: dict[tuple[Sizes, bool], Array] = {}

    def check_inputs(self, feeds: Mapping[str, object]) -> tuple[dict[str, Array], Sizes]:
        """Copies of the inputs of one stream, in the types of the net, and the sizes of what varies.

        cont may be missing. Raises as ``run()`` does.
        """
        if not isinstance(feeds, Mapping):
            self.signature.refuse_names(feeds)
        arrays = {name: np.array(host_array(array, name)) for name, array in feeds.items()}
        shapes = tuple((name, array.shape) for name, array in arrays.items())
        sizes = self._fitting.get(shapes)
        if sizes is None:
            sizes = self._sizes_of(dict(shapes))
            if len(self._fitting) < REMEMBERED_AT_MOST:
                self._fitting[shapes] = sizes
        arrays = {
            value.name: cast(value, arrays[value.name])
            for value in self.signature.inputs
            if value.name in arrays
        }
        self.signature.refuse_indices(arrays, dict(sizes))
        return arrays, sizes

    def _sizes_of(self, shapes: Mapping[str, tuple[int, ...]]) -> Sizes:
        signature = self.signature
        signature.refuse_names(shapes if self.cont is None else {self.cont: (), **shapes})
        refuse_fed_states(signature, shapes, "a stream")
        return tuple(signature.sizes(shapes).items())

    def with_cont(self, feeds: Arrays, sizes: Sizes, starts: bool) -> Arrays:
        """The inputs, and cont if it is missing: 0 at the first step of a stream that ``starts``, else 1."""
        if self.cont is None or self.cont in feeds:
            return feeds
        cont = self._conts.get((sizes, starts))
        if cont is None:
            cont = cont_array(self.signature, self.cont, dict(sizes), starts)
            assert cont is not None, "each input of a stream has an axis of streams, and fits its sizes"
            self._conts[sizes, starts] = cont
        return {**feeds, self.cont: cont}

    def join(self, streams: Sequence[Arrays], size: int) -> dict[str, Array]:
        """The inputs of a call of ``size`` streams. The last one fills it up."""
        filled = [*streams, *[streams[-1]] * (size - len(streams))]
        return {name: np.concatenate([each[name] for each in filled], self.axes[name]) for name in streams[0]}

    def split(self, results: Arrays, count: int) -> list[dict[str, Array]]:
        """The outputs of each of the first streams, as arrays of their own."""
        before = {name: (slice(None),) * self.axes[name] for name in results}
        return [
            {name: array[(*before[name], slice(place, place + 1))].copy() for name, array in results.items()}
            for place in range(count)
        ]


def cont_array(signature: Signature, name: str, sizes: SymbolSizes, starts: bool) -> Array | None:
    """The input cont of a call in which all streams go on: 1, but 0 at the first of its steps if it ``starts``.

    None if its axis of streams or one of its sizes is unknown.
    """
    (value,) = (value for value in signature.inputs if value.name == name)
    axis = signature.stream_axes.get(name)
    if axis is None or -1 in concrete(value.shape, sizes):
        return None
    cont = np.ones(fillable(value, sizes, "input"), value.dtype.numpy)
    np.moveaxis(cont, axis, -1)[(0,) * (cont.ndim - 1)] = not starts
    return cont


def name_of_cont(signature: Signature) -> str | None:
    """The input that is 0 where a sequence begins: by its name, unless a caller gives another."""
    return "cont" if any(value.name == "cont" for value in signature.inputs) else None


def _values(signature: Signature) -> tuple[Value, ...]:
    return (*signature.inputs, *signature.outputs)


def _axis(value: Value, signature: Signature) -> int:
    states = {
        name: pair.input.name
        for pair in signature.recurrences
        for name in (pair.input.name, pair.output.name)
    }
    axis = signature.stream_axes.get(value.name)
    if axis is None and value.name in states:
        axis = signature.stream_axis(states[value.name])
    if axis is None or axis >= len(value.shape):
        raise NetError(
            f'"{value.name}" {value.shape} has no axis of streams',
            because="each stream needs its own part of all inputs and outputs",
            fix="call the net with a Session",
        )
    return axis


def _of_one_stream(signature: Signature, axes: Mapping[str, int], streams: Dim) -> Signature:
    """The signature with N = 1. Raises ``NetError`` where N is more than the size of these axes."""
    names = set(symbols_of(streams))

    def one(value: Value) -> Value:
        axis = axes[value.name]
        others = (*value.shape[:axis], *value.shape[axis + 1 :])
        if value.shape[axis] != streams or any(names & set(symbols_of(dim)) for dim in others):
            raise NetError(
                f'"{value.name}" {value.shape} has another number of streams than {streams}, that of the states',
                fix="call the net with a Session",
            )
        is_state = value.name in states
        if is_state and not all(isinstance(dim, int) for dim in others):
            raise NetError(
                f'the state "{value.name}" {value.shape} varies in size',
                fix=Worded("fix its sizes with {}", Option("shapes")),
            )
        return replace(value, shape=(*value.shape[:axis], 1, *value.shape[axis + 1 :]))

    states = {*signature.states, *(pair.output.name for pair in signature.recurrences)}
    ones = {value.name: one(value) for value in _values(signature)}
    for index in signature.indices:
        if names & set(symbols_of(index.below)):
            raise NetError(f'the input "{index.input}" picks streams', fix="call the net with a Session")
    return Signature(
        tuple(ones[value.name] for value in signature.inputs),
        tuple(ones[value.name] for value in signature.outputs),
        tuple(
            replace(pair, input=ones[pair.input.name], output=ones[pair.output.name])
            for pair in signature.recurrences
        ),
        signature.indices,
        signature.unread_inputs,
        signature.stream_axes,
    )
