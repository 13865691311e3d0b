"""The sources and destinations of the states of a recurrent Caffe layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import Array, OpenSize, Shape
from prototrt.surgery.ops import ADD
from prototrt.surgery.recurrent.stacks import zero_column, zeros


class LayerStates:
    """The states of a recurrent layer as the caller of the net sees them: (directions, N, ...) arrays by name.

    They are inputs and outputs of the net itself (``exposed``, with expose_hidden), recurrent I/O bindings, or
    constants: from the option ``state``, or zero if the dialect requires it.
    """

    def __init__(
        self,
        build: LayerBuilder,
        shapes: Mapping[str, Sequence[Shape]],
        x: Value,
        exposed: Sequence[Value] = (),
        *,
        always_zero: bool = False,
    ) -> None:
        self.build, self.x, self.streams = build, x, x.shape[1]
        self.names, self.is_exposed = list(shapes), bool(exposed)
        self.is_always_zero = always_zero
        self.fixed_to = "zero" if always_zero else build.options.state
        self.initial = [[value] for value in exposed] or [
            [
                self._input(self._name(name, "0", place, len(arrays)), shape)
                for place, shape in enumerate(arrays)
            ]
            for name, arrays in shapes.items()
        ]

    def leave(self, last: Sequence[Sequence[Value]]) -> list[Value]:
        """Output the states after the last step: as tops with expose_hidden, otherwise through bindings."""
        if self.is_exposed:
            tops = [top for (top,) in last]
            for (before,), top in zip(self.initial, tops, strict=True):
                self.build.expose_state(before, top)
            return tops
        if self.fixed_to == "bind":
            for name, initial, after in zip(self.names, self.initial, last, strict=True):
                for place, (before, top) in enumerate(zip(initial, after, strict=True)):
                    self.build.state(self._name(name, "T", place, len(initial)), before, top)
        return []

    def _name(self, state: str, when: str, place: int, count: int) -> str:
        number = f"_{place}" if count > 1 else ""
        return f"{self.build.origin.layer}_{state}{number}_{when}"

    def _input(self, name: str, shape: Shape) -> Value:
        if not self.is_always_zero:
            self.build.used_states.add(name)
        if self.fixed_to == "bind":
            return self.build.state_input(name, shape)
        if self.fixed_to == "zero":
            return zeros(self.build, self.x, shape)
        array = self._stored_state(name, shape)
        if isinstance(self.streams, int):
            every = np.broadcast_to(array, (array.shape[0], self.streams, *array.shape[2:]))
            return self.build.constant(np.ascontiguousarray(every), "initial")
        column = zero_column(self.build, self.x, len(shape))
        return self.build.add(ADD, column, self.build.constant(array, "initial"), hint="every_stream")

    def _stored_state(self, name: str, shape: Shape) -> Array:
        """An initial state from the user's file: (directions, N or 1, ...); 1 means the same for all streams."""
        arrays = self.build.options.state_arrays
        if name not in arrays:
            raise NetError(
                f'no initial state "{name}" is given',
                because=Worded("{} with arrays takes every state from them", Option("state")),
                fix=f"add an array of shape {shape} under this name",
            )
        from prototrt.caffe_proto.weights.named_arrays import shape_in  # few nets have states in files

        dims = shape_in(arrays, name)
        stored_shape = (1, *dims) if shape[0] == 1 and len(dims) == len(shape) - 1 else dims
        for_all = (shape[0], 1, *shape[2:])
        if stored_shape not in (shape, for_all):
            raise NetError(
                f'the initial state "{name}" has the shape {dims}, expected {shape}',
                because=None if isinstance(self.streams, int) else f"{self.streams} may vary",
                fix=f"give it the shape {for_all}, for all streams",
            )
        return np.ascontiguousarray(arrays[name], np.float32).reshape(stored_shape)


def share_single_step(build: LayerBuilder, layer: Layer, tops: list[Value], state: int) -> None:
    """With T = 1 the first top shares the memory of the state h: an in-place layer on it changes the state.

    The top is a Concat of the h of all steps, and a Concat of one blob copies nothing. ``state``
    is the number of the recurrence of h. With expose_hidden there is none, and the second top, h_T, also
    shares that memory. An RNN does not do this: it computes its top from h.
    If T varies, the graph chooses in each call.
    Source: caffe ``lstm_layer.cpp``, ``recurrent_layer.cpp``, ``concat_layer.cpp``.
    """
    steps, *rest = tops[0].shape
    of_step = (1, *rest)
    carried = state < len(build.recurrences) and build.recurrences[state].output.shape == of_step
    if isinstance(steps, OpenSize) and steps.range.min == 1:
        if len(tops) > 1:
            build.memory.share_where_one(steps, layer.tops[0], tops[0].shape, layer.tops[1], of_step)
        elif carried:
            build.memory.share_where_one(steps, layer.tops[0], tops[0].shape, state, of_step)
    if steps != 1:
        return
    if len(tops) > 1:
        build.memory.share(layer.tops[:2])
    elif carried:
        build.memory.share(layer.tops[:1], [state])
