"""Running a graph on the CPU, its state held as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from prototrt.caffe_proto.errors import ShapeError
from prototrt.converter.sessions.signature import STREAM_AXIS, Signature, Sizes, concrete, refuse_streams
from prototrt.surgery.ir import Array, Value


class Evaluator(Protocol):
    """Computes all outputs of a graph, states included, from all its inputs."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]: ...


class EvaluatorRunner:
    """Carries state from call to call around an evaluator, which has none."""

    def __init__(self, signature: Signature, evaluator: Evaluator) -> None:
        self.signature = signature
        self._evaluator = evaluator
        self._state: dict[str, Array] = {}

    def run(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        signature = self.signature
        signature.refuse_missing(feeds)
        fed = {name: np.asarray(array) for name, array in feeds.items()}
        sizes = signature.sizes({name: array.shape for name, array in fed.items()})
        given = {**self._state, **fed}
        for name, value in signature.states.items():
            if name not in given:
                given[name] = np.zeros(concrete(value.shape, sizes), value.dtype.numpy)
            elif name not in fed:
                signature.refuse_lost(value, given[name].shape, sizes)
        arrays = {value.name: self._fitting(value, given[value.name], sizes) for value in signature.inputs}
        results = self._evaluator.run(arrays)
        returned = {value.name: results[value.name] for value in signature.results}
        _fill(outputs, returned)
        # Copies: an evaluator may give an array that it was given, or the caller gets it, too.
        self._state = {pair.input.name: results[pair.output.name].copy() for pair in signature.recurrences}
        return {**returned, **outputs}

    def reset(self, streams: Sequence[int] | None) -> None:
        if streams is None:
            self._state = {}
            return
        for name, array in self._state.items():
            refuse_streams(list(streams), name, array.shape)
        for array in self._state.values():
            array[(slice(None),) * STREAM_AXIS + (list(streams),)] = 0

    def get_state(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self._state.items()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        self.signature.refuse_state({name: array.shape for name, array in state.items()})
        dtypes = {name: value.dtype.numpy for name, value in self.signature.states.items()}
        self._state = {name: np.array(array, dtypes[name]) for name, array in state.items()}

    def close(self) -> None:
        self._state = {}

    def _fitting(self, value: Value, array: Array, sizes: Sizes) -> Array:
        """The array in the input's type; its shape must be the input's."""
        self.signature.refuse_misfit(value, array.shape, sizes)
        return converted(value, array)


def converted(value: Value, array: Array) -> Array:
    """Numbers, or truth values, in the type of the input that they are for."""
    dtype = value.dtype.numpy
    if array.dtype.kind not in "bfiu":
        raise ShapeError(
            f'input "{value.name}" holds {array.dtype}, expected {dtype}', fix=f"give it as {dtype}"
        )
    if dtype.kind != "b" and not np.can_cast(array.dtype, dtype):
        _refuse_beyond(value, array)
    return array.astype(dtype, copy=False)


def _refuse_beyond(value: Value, array: Array) -> None:
    """A number that the type cannot hold would become another one, or infinity."""
    dtype = value.dtype.numpy
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    held = (array >= limits.min) & (array <= limits.max)
    if dtype.kind == "f":
        held |= ~np.isfinite(array)
    if beyond := array[~held].tolist():
        raise ShapeError(
            f'input "{value.name}" holds {beyond[0]}, which {dtype} cannot hold',
            fix="mend the number, or scale the input",
        )


def _fill(targets: Mapping[str, Any], results: Mapping[str, Array]) -> None:
    """Write results into the arrays that the caller gave for them."""
    for name, target in targets.items():
        refuse_target(name, target, results)
        np.copyto(target, results[name])


def refuse_target(name: str, target: Any, results: Mapping[str, Array]) -> None:
    """Raise ``ShapeError`` unless this array can take that result."""
    if name not in results:
        raise ShapeError(f'there is no output "{name}"', fix=f"the outputs are {', '.join(results)}")
    wanted = results[name]
    if not isinstance(target, np.ndarray):
        raise ShapeError(
            f'output "{name}" is to be written to a {type(target).__name__}, expected a NumPy array'
        )
    if (target.shape, target.dtype) != (wanted.shape, wanted.dtype):
        raise ShapeError(
            f'output "{name}" is to be written to {target.dtype} {target.shape},'
            f" expected {wanted.dtype} {wanted.shape}"
        )
