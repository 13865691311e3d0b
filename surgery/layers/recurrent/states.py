"""Where the states of a recurrent layer come from, and where they go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototrt.caffe_proto.errors import NetError
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.ir import Array, Value
from prototrt.surgery.ops import ADD, Concat, Gather, Reduce, ReduceKind, Select


class States:
    """The states of all passes over the steps, (N, size) each. A pass is a direction of a layer of the stack.

    ``sizes`` has, for each state (h, c), its size in each pass.
    To a caller a state of all passes is one array (passes, N, size), layer by layer and forward
    before backward, as cuDNN has it; where sizes differ, it is one array (1, N, size) a pass.
    It is given and taken by the net itself (``initial``, with expose_hidden), by recurrent I/O
    bindings, or it is constant: what the option ``state`` says, or zero where the dialect says so.
    """

    def __init__(
        self,
        build: LayerBuilder,
        names: Sequence[str],
        sizes: Sequence[Sequence[int]],
        x: Value,
        initial: Sequence[Value] = (),
        *,
        always_zero: bool = False,
    ) -> None:
        self.build, self.sizes, self.x, self.streams = build, sizes, x, x.shape[1]
        self.names, self.exposed = names, bool(initial)
        self.fixed_to = "zero" if always_zero else build.options.state
        self.given = [
            [initial[index]] if initial else self._inputs(name, size)
            for index, (name, size) in enumerate(zip(names, sizes, strict=True))
        ]
        self.last: list[list[Value]] = [[] for _ in names]
        self._places: dict[int, Value] = {}

    def before(self, index: int) -> list[Value]:
        """The states that pass ``index`` starts with."""
        return [self._cut(given, size, index) for given, size in zip(self.given, self.sizes, strict=True)]

    def zeros(self, size: int) -> Value:
        """What a pass starts with where it has to hold something that is no state: zeros (N, size)."""
        return self.build.reshape(self._zeros(1, size), (self.streams, size), hint="initial")

    def after(self, states: Sequence[Value]) -> None:
        """Note the states that the next pass ends with."""
        for last, state in zip(self.last, states, strict=True):
            last.append(state)

    def exposed_tops(self) -> list[Value]:
        """The states as tops, if the net asks for them; else they leave through bindings."""
        joined = [self._joined(last, size) for last, size in zip(self.last, self.sizes, strict=True)]
        if self.exposed:
            for given, (top,) in zip(self.given, joined, strict=True):
                self.build.expose_state(given[0], top)
            return [top for (top,) in joined]
        if self.fixed_to == "bind":
            for name, given, tops in zip(self.names, self.given, joined, strict=True):
                for place, (before, top) in enumerate(zip(given, tops, strict=True)):
                    self.build.state(self._name(name, "T", place, len(given)), before, top)
        return []

    def _inputs(self, name: str, sizes: Sequence[int]) -> list[Value]:
        stacked = len(set(sizes)) == 1
        shapes = [(len(sizes), sizes[0])] if stacked else [(1, size) for size in sizes]
        return [
            self._input(self._name(name, "0", place, len(shapes)), passes, size)
            for place, (passes, size) in enumerate(shapes)
        ]

    def _name(self, state: str, when: str, place: int, count: int) -> str:
        number = f"_{place}" if count > 1 else ""
        return f"{self.build.origin.layer}_{state}{number}_{when}"

    def _input(self, name: str, passes: int, size: int) -> Value:
        shape = (passes, self.streams, size)
        if self.fixed_to == "bind":
            return self.build.state_input(name, shape)
        if self.fixed_to == "zero":
            return self._zeros(passes, size)
        array = self._stored(name, passes, size)
        if isinstance(self.streams, int):
            every = np.broadcast_to(array, (passes, self.streams, size))
            return self.build.constant(np.ascontiguousarray(every), "initial")
        return self.build.add(
            ADD, self._zero_column(), self.build.constant(array, "initial"), hint="every_stream"
        )

    def _zeros(self, passes: int, size: int) -> Value:
        """Zeros (passes, N, size)."""
        build = self.build
        if isinstance(self.streams, int):
            return build.constant(np.broadcast_to(np.float32(0), (passes, self.streams, size)), "initial")
        zeros = self._zero_column()
        for axis, copies in ((0, passes), (2, size)):
            zeros = build.tile(zeros, axis, copies, hint="initial") if copies > 1 else zeros
        return zeros

    def _zero_column(self) -> Value:
        """Zeros (1, N, 1) where N is known later: as many as x has streams, whatever x holds."""
        build = self.build
        others = tuple(axis for axis in range(len(self.x.shape)) if axis != 1)
        sums = build.add(Reduce(ReduceKind.SUM, others), self.x, hint="streams")
        column = build.reshape(sums, (1, self.streams, 1), hint="streams")
        never = build.constant(np.zeros((1, 1, 1), np.bool_), "never")
        return build.add(Select(), never, column, build.scalar(0, 3), hint="zeros")

    def _stored(self, name: str, passes: int, size: int) -> Array:
        """What the user's file holds for an initial state: (passes, N, size), or (passes, 1, size) for all streams."""
        arrays = self.build.options.state_arrays
        self.build.used_states.add(name)
        shape = (passes, self.streams, size)
        if name not in arrays:
            raise NetError(
                f'no initial state "{name}" is given',
                because=Worded("{} with arrays takes every state from them", Option("state")),
                fix=f"add an array of shape {shape} under this name",
            )
        array = arrays[name]
        if passes == 1 and array.ndim == 2:
            array = array[None]
        if array.shape not in (shape, (passes, 1, size)):
            raise NetError(
                f'the initial state "{name}" has the shape {arrays[name].shape}, expected {shape}',
                because=None if isinstance(self.streams, int) else f"{self.streams} may vary",
                fix=f"give it the shape {(passes, 1, size)}, for all streams",
            )
        return np.ascontiguousarray(array, np.float32)

    def _cut(self, given: Sequence[Value], sizes: Sequence[int], index: int) -> Value:
        if len(given) > 1 or len(sizes) == 1:
            return self.build.reshape(given[index], (self.streams, sizes[index]), hint="initial")
        if index not in self._places:
            self._places[index] = self.build.constant(np.array(index, np.int32), "place")
        return self.build.add(Gather(), given[0], self._places[index], hint="initial")

    def _joined(self, last: Sequence[Value], sizes: Sequence[int]) -> list[Value]:
        if len(last) > 1 and len(set(sizes)) == 1 and isinstance(self.streams, int):
            rows = self.build.add(Concat(0), *last, hint="last_rows")
            return [self.build.reshape(rows, (len(last), self.streams, sizes[0]), hint="last")]
        each = [
            self.build.reshape(state, (1, self.streams, size), hint="last")
            for state, size in zip(last, sizes, strict=True)
        ]
        if len(each) == 1 or len(set(sizes)) > 1:
            return each
        return [self.build.add(Concat(0), *each, hint="last_states")]
