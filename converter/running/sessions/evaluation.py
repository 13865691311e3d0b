"""Running a graph on the CPU. State is kept in NumPy arrays: of one stream, or of many, of which a call takes some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.converter.files.signatures.arrays import cast, host_array, host_target
from prototrt.converter.files.signatures.signature import (
    Signature,
    concrete,
    largest,
    refuse_lost,
    refuse_streams,
    shape_of_step,
    zeros,
)
from prototrt.converter.files.signatures.streams import StreamRows
from prototrt.converter.showing.views.notebook import notebook_progress
from prototrt.surgery.ir import Array, Value

Results: TypeAlias = dict[str, Array]


class Evaluator(Protocol):
    """Computes all outputs of a graph from all its inputs. The inputs and outputs for state are among them."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]: ...


class EvaluatorRunner:
    """Keeps state from call to call for an evaluator, which has none. The methods are those of ``Session``."""

    def __init__(self, signature: Signature, evaluator: Evaluator) -> None:
        self.signature = signature
        self._evaluator: Evaluator | None = evaluator
        self._state: dict[str, Array] = {}

    def _active(self) -> Evaluator:
        """Raises ``ValueError`` once the session is closed."""
        if self._evaluator is None:
            raise ValueError("the session is closed")
        return self._evaluator

    @property
    def state(self) -> dict[str, Array]:
        self._active()
        return self._state

    @state.setter
    def state(self, state: dict[str, Array]) -> None:
        self._active()
        self._state = state

    def run(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        before = self.state
        self.signature.refuse_names(feeds)
        returned, state = self._evaluate(self._arrays(feeds), before)
        _fill(outputs, returned)
        self.state = state
        return {**returned, **outputs}

    def run_steps(self, feeds: Mapping[str, Any], steps: int, outputs: Mapping[str, Any]) -> dict[str, Any]:
        self.signature.refuse_names(feeds)
        arrays, state = self._arrays(feeds), self.state
        for name, array in arrays.items():
            shape_of_step(name, array.shape, steps)
        rows: list[dict[str, Array]] = []
        advance = notebook_progress("steps")(steps)
        for step in range(steps):
            row, state = self._evaluate({name: array[step] for name, array in arrays.items()}, state)
            rows.append(row)
            advance()
        returned = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        _fill(outputs, returned)
        self.state = state
        return {**returned, **outputs}

    def prepare(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Callable[[], Results]:
        """The call, which is checked again each time: on the CPU this costs little."""
        self._active()
        self.signature.refuse_names(feeds)
        return partial(self.run, dict(feeds), dict(outputs))

    def _arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """The given arrays, in the order of the inputs."""
        names = [value.name for value in self.signature.inputs]
        return {name: host_array(feeds[name], name) for name in names if name in feeds}

    def _evaluate(self, fed: Mapping[str, Array], state: Mapping[str, Array]) -> tuple[Results, Results]:
        """The results of one call, and the state after it. Missing state is zero.

        Raises ``ShapeError`` for arrays that do not fit, and for state of another number of streams.
        """
        signature = self.signature
        sizes = signature.sizes({name: array.shape for name, array in fed.items()})
        arrays: dict[str, Array] = {}
        for value in signature.inputs:
            if value.name in fed:
                arrays[value.name] = cast(value, fed[value.name])
            elif value.name in state:
                refuse_lost(value, state[value.name].shape, concrete(value.shape, sizes))
                arrays[value.name] = state[value.name]
            else:
                arrays[value.name] = zeros(value, sizes)
        signature.refuse_indices(arrays, sizes)
        results = self._active().run(arrays)
        # Copies: an evaluator may return one of its inputs, or an array that the caller gets as well.
        return (
            {value.name: results[value.name] for value in signature.results},
            {pair.input.name: results[pair.output.name].copy() for pair in signature.recurrences},
        )

    @property
    def replays(self) -> bool:
        return False

    def profile(self, feeds: Mapping[str, Any]) -> list[tuple[str, float]]:
        self.run(feeds, {})
        return []

    def reset(self, streams: Sequence[int] | None) -> None:
        if streams is None:
            self.state = {}
            return
        for name, value in self.signature.states.items():
            shape = self.state[name].shape if name in self.state else largest(value)
            refuse_streams(streams, name, shape, self.signature.stream_axis(name))
        for name, array in self.state.items():
            array[(slice(None),) * self.signature.stream_axis(name) + (list(streams),)] = 0

    def get_state(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self.state.items()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        self.state = {name: array.copy() for name, array in state.items()}

    def store(self, streams: StreamRows, count: int) -> HostStateStore:
        return HostStateStore(self, streams, count)

    def close(self) -> None:
        self._state, self._evaluator = {}, None


def _fill(targets: Mapping[str, Any], results: Mapping[str, Array]) -> None:
    views = {name: _fitting_target(name, target, results) for name, target in targets.items()}
    for name, view in views.items():
        np.copyto(view, results[name])


def _fitting_target(name: str, target: Any, results: Mapping[str, Array]) -> Array:
    if name not in results:
        raise ShapeError(f'there is no output "{name}"', fix=f"the outputs are {', '.join(results)}")
    view, result = host_target(target, name), results[name]
    if (view.shape, view.dtype) != (result.shape, result.dtype):
        raise ShapeError(
            f'output "{name}" is to be written to {view.dtype} {view.shape},'
            f" expected {result.dtype} {result.shape}"
        )
    return view


class HostStateStore:
    """The states of streams, one in each row of NumPy arrays, for a net that runs on the CPU."""

    def __init__(self, runner: EvaluatorRunner, streams: StreamRows, count: int) -> None:
        self._runner, self._axes = runner, streams.axes
        self._arrays = {
            name: zeros(_of_streams(value, count, self._axes[name]), {})
            for name, value in streams.signature.states.items()
        }

    def zero(self, rows: Sequence[int]) -> None:
        for name, array in self._arrays.items():
            self._rows(name, array)[list(rows)] = 0

    def load(self, rows: Sequence[int], size: int) -> None:
        """Make these rows, in ascending order, the state of the next call, which has ``size`` streams."""
        filled = [*rows, *[rows[-1]] * (size - len(rows))]
        self._runner.state = {
            name: np.take(array, filled, self._axes[name]) for name, array in self._arrays.items()
        }

    def keep(self, rows: Sequence[int]) -> None:
        """The state of the last call goes back to these rows."""
        for name, array in self._arrays.items():
            self._rows(name, array)[list(rows)] = self._rows(name, self._runner.state[name])[: len(rows)]

    def get(self, row: int) -> dict[str, Array]:
        return {name: np.take(array, [row], self._axes[name]) for name, array in self._arrays.items()}

    def set(self, row: int, state: Mapping[str, Array]) -> None:
        for name, array in state.items():
            self._rows(name, self._arrays[name])[[row]] = self._rows(name, array)

    def _rows(self, name: str, array: Array) -> Array:
        """A view with the streams first."""
        return np.moveaxis(array, self._axes[name], 0)


def _of_streams(state: Value, count: int, axis: int) -> Value:
    return replace(state, shape=(*state.shape[:axis], count, *state.shape[axis + 1 :]))
