"""The inputs and outputs of a graph or an engine, and the outputs that are fed back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.caffe_proto.common.memory import refuse_beyond_memory
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.converter.files.signatures.arrays import cast, host_array
from prototrt.converter.files.signatures.indices import IndexRange, index_ranges
from prototrt.surgery.ir import (
    Array,
    DataSize,
    Dim,
    Graph,
    Range,
    Recurrence,
    Shape,
    Value,
    computable,
    range_of,
    size_at,
    symbols_of,
)
from prototrt.surgery.ir.layout import stream_axis
from prototrt.surgery.ir.range_words import another_range
from prototrt.surgery.ir.shapes import SymbolSource, ranges, symbol_sources

SymbolSizes = Mapping[str, int]
"""The values of symbols in one call."""

STREAM_AXIS = 1
"""States in Caffe's layout are (passes, N, H): the streams of a batch are along this axis."""


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a net that is called again and again.

    All checks of a caller's arrays are here, whatever computes the outputs.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    recurrences: tuple[Recurrence, ...]
    indices: tuple[IndexRange, ...] = ()
    unread_inputs: tuple[str, ...] = ()
    """Inputs of the net that no output needs: they may be given, and change nothing."""
    stream_axes: Mapping[str, int] = field(default_factory=dict)
    """The axis of the streams, by the name of an input or output; ``STREAM_AXIS`` for states that are not listed."""

    @classmethod
    def of_graph(cls, graph: Graph) -> Signature:
        """The signature of a graph, in the layout that the graph has."""
        names = {name: layout.names for name, layout in graph.layout.bindings.items()}
        return cls(
            graph.inputs,
            graph.outputs,
            graph.recurrences,
            index_ranges(graph),
            graph.unread_inputs,
            stream_axes_of(names),
        )

    @cached_property
    def symbols(self) -> dict[str, Range]:
        """The ranges of all sizes that vary, by the name of their symbol."""
        shapes = (value.shape for value in (*self.inputs, *self.outputs))
        return {symbol: span for shape in shapes for dim in shape for symbol, span in symbols_of(dim).items()}

    @cached_property
    def states(self) -> dict[str, Value]:
        """The inputs for state, by name."""
        return {pair.input.name: pair.input for pair in self.recurrences}

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """The outputs that a caller gets. Outputs that only feed state back are left out."""
        hidden = {pair.output.name for pair in self.recurrences if not pair.exposed}
        return tuple(value for value in self.outputs if value.name not in hidden)

    @cached_property
    def exposed_states(self) -> tuple[Value, ...]:
        """The outputs that feed state back and that a caller also gets."""
        fed_back = {pair.output.name for pair in self.recurrences}
        return tuple(value for value in self.results if value.name in fed_back)

    @cached_property
    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        """Those that must be given, and those that may be."""
        names = frozenset(value.name for value in self.inputs)
        return names - self.states.keys(), names.union(self.unread_inputs)

    def stream_axis(self, state: str) -> int:
        """The axis of a state along which its streams are."""
        return self.stream_axes.get(state, STREAM_AXIS)

    def refuse_names(self, arrays: Mapping[str, object]) -> None:
        """Raise ``NetError`` for a name that is not an input, and for a missing input that is not state.

        Raises ``TypeError`` if ``arrays`` is not a mapping.
        """
        necessary, possible = self._names
        if isinstance(arrays, Mapping) and necessary <= arrays.keys() <= possible:
            return
        choices_of_names = [value.name for value in self.inputs]
        if not isinstance(arrays, Mapping):
            example = choices_of_names[0] if choices_of_names else "NAME"
            raise TypeError(
                f'the inputs are of the type {type(arrays).__name__}, expected a dictionary: {{"{example}": array}}'
            )
        if unknown := sorted(arrays.keys() - possible):
            close = close_names(unknown[0], choices_of_names)
            fix = f"did you mean {' or '.join(close)}?" if close else "leave it out"
            raise NetError(
                f'there is no input "{unknown[0]}"',
                because=Worded("the inputs are {}", listed(choices_of_names) or "none"),
                fix=fix,
            )
        missing = [value for value in self.inputs if value.name in necessary - arrays.keys()]
        shapes_text = listed([f"{value.name} {value.shape}" for value in missing])
        raise NetError(
            Worded("inputs are missing: {}", shapes_text),
            fix="give an array for each of them, under its name",
        )

    def sizes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """The values of the symbols for inputs of these shapes, as ``{"T": 20, "N": 4}``.

        Raises ``ShapeError`` for a value outside its range, and for shapes that do not agree on the values.
        """
        values = [value for value in self.inputs if len(shapes.get(value.name, ())) == len(value.shape)]
        sizes: dict[str, int] = {}
        for name, source in symbol_sources(values).items():
            size = shapes[source.input.name][source.axis]
            self._refuse_outside(source, size)
            sizes[name] = source.solve(size)
        for value in self.inputs:
            if value.name in shapes:
                self._refuse_misfit(value, shapes[value.name], sizes)
        return sizes

    def _refuse_misfit(self, value: Value, shape: tuple[int, ...], sizes: SymbolSizes) -> None:
        """Raise ``ShapeError`` unless the shape is the input's, for these sizes of the symbols."""
        expected = concrete(value.shape, sizes)
        if shape == expected:
            return
        symbols = {name: span for dim in value.shape for name, span in symbols_of(dim).items()}
        fits_alone = (
            symbols.keys() <= sizes.keys()
            and len(shape) == len(expected)
            and all(isinstance(dim, str) or size == dim for size, dim in zip(shape, value.shape, strict=True))
        )
        if fits_alone:
            sizes_text = " and ".join(f"{name} is {sizes[name]}" for name in symbols)
            raise ShapeError(
                f'input "{value.name}" has the shape {shape}, expected {expected}',
                because=f"its shape is {value.shape}, and the other inputs say that {sizes_text}",
                fix="give arrays that agree on these sizes",
            )
        raise ShapeError(
            f'input "{value.name}" has the shape {shape}, expected {value.shape}',
            because=ranges(symbols) or None,
            fix=_fix_of_shape(shape, expected) if value.name not in self.states else None,
        )

    def refuse_indices(self, arrays: Mapping[str, Array], sizes: SymbolSizes) -> None:
        """Raise ``ShapeError`` for numbers of inputs that pick no row of their table."""
        for indices in self.indices:
            if indices.input in arrays:
                indices.refuse(arrays[indices.input], sizes)

    def checked_state(self, state: Mapping[str, Any]) -> dict[str, Array]:
        """State that a caller gives, in the types of the net; the caller's own arrays where they have these.

        Raises ``NetError`` unless all states are given, or none; ``ShapeError`` for an array that does not fit.
        """
        arrays, states = {name: host_array(array, name) for name, array in state.items()}, self.states
        for name in arrays:
            if name not in states:
                raise NetError(
                    f'there is no state "{name}"', fix=f"the states are {', '.join(states) or 'none'}"
                )
        missing = [name for name in states if name not in arrays]
        if arrays and missing:
            raise NetError(
                f"states are missing: {', '.join(missing)}", fix="give all states; or none, to start at zero"
            )
        self.sizes({name: array.shape for name, array in arrays.items()})
        return {name: cast(states[name], array) for name, array in arrays.items()}

    @staticmethod
    def _refuse_outside(source: SymbolSource, size: int) -> None:
        dim = source.input.shape[source.axis]
        span = range_of(computable(dim))
        is_step = (size - source.summand) % source.factor == 0
        if not (span.min <= size <= span.max and is_step):
            steps = f", in steps of {source.factor}" if source.factor > 1 else ""
            raise ShapeError(
                f'input "{source.input.name}" has {dim} = {size}, expected {span.min} to {span.max}{steps}',
                because=None if source.is_plain else ranges(symbols_of(dim)),
                fix=Worded("give it such a size, or {}", another_range(symbols_of(dim))),
            )


def stream_axes_of(names: Mapping[str, Sequence[str | None]]) -> dict[str, int]:
    """The axis of the streams of each input and output that has one, from the names of the axes."""
    axes = {name: stream_axis(each) for name, each in names.items()}
    return {name: axis for name, axis in axes.items() if axis is not None}


def concrete(shape: Shape, sizes: SymbolSizes) -> tuple[int, ...]:
    """The shape with numbers for its symbols. A size becomes -1, which fits nothing, if its symbols are unknown."""
    return tuple([dim if isinstance(dim, int) else _size(dim, sizes) for dim in shape])


def _size(dim: Dim, sizes: SymbolSizes) -> int:
    try:
        return size_at(dim, sizes)
    except KeyError:
        return -1


def fillable(value: Value, sizes: SymbolSizes, what: str = "state") -> tuple[int, ...]:
    """The shape of an input that no caller gives: of a state that begins at zero, for one.

    Raises ``ShapeError`` if the inputs of the call do not give it one, and ``NetError`` if memory cannot hold it.
    """
    shape = concrete(value.shape, sizes)
    if min(shape, default=0) < 0:
        raise ShapeError(
            f'the {what} "{value.name}" would have the shape {shape}',
            because="the inputs of this call give one of its sizes no number, or a negative one",
            fix=f"give the {what} with the inputs, or convert the net again if its manifest was changed",
        )
    refuse_beyond_memory(f'the {what} "{value.name}"', prod(shape) * value.dtype.numpy.itemsize)
    return shape


def zeros(value: Value, sizes: SymbolSizes) -> Array:
    """A state that begins at zero. Raises what ``fillable`` raises."""
    return np.zeros(fillable(value, sizes), value.dtype.numpy)


def _fix_of_shape(shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    return _rearrangement(shape, expected) or Worded(
        "give an array of this shape, or change the input of the net with {}", Option("shapes")
    )


def _rearrangement(shape: tuple[int, ...], expected: tuple[int, ...]) -> str | None:
    """How to turn an array (N, H, W, C), (H, W, C) or without its first axis into the wanted shape; None if unknown."""
    if len(expected) == 4 and shape == (expected[0], *expected[2:], expected[1]):
        return "put the channels before height and width: array.transpose(0, 3, 1, 2)"
    if expected[:1] != (1,):
        return None
    if len(expected) == 4 and shape == (*expected[2:], expected[1]):
        return "put the channels first, and add the axis of images: array.transpose(2, 0, 1)[None]"
    return "add the first axis, which has size 1: array[None]" if shape == expected[1:] else None


def largest(value: Value) -> tuple[int, ...]:
    """The largest shape of an input or an output; -1 for a size that depends on the data."""
    return tuple(-1 if isinstance(dim, DataSize) else range_of(computable(dim)).max for dim in value.shape)


def refuse_lost(value: Value, carried: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise ``ShapeError`` unless the state of the last call fits this one."""
    if carried != expected:
        raise lost_state_error(
            value, carried, expected, "call reset() first, or give the state with the inputs"
        )


def lost_state_error(
    value: Value, carried: tuple[int, ...], expected: tuple[int, ...], fix: str
) -> ShapeError:
    """The error for state of the last call that does not fit this call."""
    return ShapeError(
        f'the state "{value.name}" of the last call has the shape {carried}, expected {expected}',
        because="the inputs of this call have another number of streams",
        fix=fix,
    )


def refuse_streams(streams: Sequence[int], name: str, shape: tuple[int, ...], axis: int) -> None:
    """Raise ``ShapeError`` unless a state of this shape has all of these streams, along this axis."""
    if len(shape) <= axis:
        raise ShapeError(f'the state "{name}" has the shape {shape}, and no axis of streams')
    count = shape[axis]
    wrong = [stream for stream in streams if not 0 <= stream < count]
    if wrong:
        raise ShapeError(f"there is no stream {wrong[0]}: the streams are 0 to {count - 1}")


def refuse_fed_states(signature: Signature, feeds: Mapping[str, object], to: str = "run_steps()") -> None:
    """Raise ``NetError`` for state among the inputs: each step takes it from the step before."""
    fed = [name for name in signature.states if name in feeds]
    if fed:
        raise NetError(
            f'the state "{fed[0]}" is given to {to}, which feeds it back itself',
            fix="give it to set_state() before",
        )


def shape_of_step(name: str, shape: tuple[int, ...], steps: int, to: str = "run_steps()") -> tuple[int, ...]:
    """The shape of one step of an array (steps, ...). Raises ``ShapeError`` if it has another number of rows."""
    if shape[:1] != (steps,):
        raise ShapeError(
            f'the array for "{name}" has the shape {shape}, expected {steps} as its first size',
            because=f"{to} runs {steps} steps and needs one row for each",
        )
    return shape[1:]


def refuse_no_steps(steps: int) -> None:
    """Raise ``ValueError`` for a number of steps below 1."""
    if steps < 1:
        raise ValueError(f"steps is {steps}, expected 1 or more")
