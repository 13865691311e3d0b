"""The calls of one sequence: what each is given, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.converter.files.signatures.signature import Signature, shape_of_step
from prototrt.converter.files.signatures.streams import cont_array, name_of_cont

Steps: TypeAlias = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""The inputs of each call; or arrays (steps, ...) with one row for each call."""


def calls_of(steps: Steps) -> tuple[Iterable[Mapping[str, Any]], int | None]:
    """The inputs of each call, and how many calls there are, if that can be told before the last one.

    Raises ``ShapeError`` for arrays with other numbers of rows.
    """
    if not isinstance(steps, Mapping):
        return steps, len(steps) if isinstance(steps, Sized) else None
    shapes = {name: _shape(array) for name, array in steps.items()}
    if scalars := [name for name, shape in shapes.items() if not shape]:
        raise ShapeError(
            f'the array for "{scalars[0]}" is a single number, expected one row for each step',
            fix="give arrays (steps, ...), or the inputs of each step one after another",
        )
    count = next((shape[0] for shape in shapes.values()), 1)
    for name, shape in shapes.items():
        shape_of_step(name, shape, count, "stream()")
    return ({name: array[step] for name, array in steps.items()} for step in range(count)), count


def with_cont(signature: Signature, calls: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The calls, with the input "cont" where the net has it and a call does not: 0 at the first step, then 1."""
    name = name_of_cont(signature)
    for number, feeds in enumerate(calls):
        if name is None or not isinstance(feeds, Mapping) or name in feeds:
            yield feeds
            continue
        sizes = signature.sizes({each: _shape(array) for each, array in feeds.items()})
        cont = cont_array(signature, name, sizes, starts=number == 0)
        yield feeds if cont is None else {**feeds, name: cont}


def _shape(array: Any) -> tuple[int, ...]:
    return tuple(array.shape) if hasattr(array, "shape") else np.shape(array)
