"""The states of many streams, of which a call takes some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from prototrt.converter.files.signatures.signature import zeros
from prototrt.converter.files.signatures.streams import StreamRows
from prototrt.surgery.ir import Array, Value


class KeepsState(Protocol):
    """A runner whose state can be read and replaced between calls."""

    state: dict[str, Array]


class HostStateStore:
    """The states of streams, one in each row of NumPy arrays, for a net that runs on the CPU."""

    def __init__(self, runner: KeepsState, streams: StreamRows, count: int) -> None:
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
