"""Weights in the state dict of a PyTorch module that prototrt wrote, maybe trained since.

The module holds a table: which tensor is which blob of Caffe. ``converter/backends/torch/blobs.py`` writes it. A
tensor that was exchanged has its own shape, which the rule of its layer judges.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import value_from_json
from prototrt.caffe_proto.common.wording import listed
from prototrt.caffe_proto.recognition import SAFETENSORS, OpenFile
from prototrt.caffe_proto.weights import Array, StoredBlob, StoredWeights, check_count
from prototrt.caffe_proto.weights.linked_arrays import Place, fill, view_at

TABLE = "caffe_blobs"
"""The buffer of a module that holds the table, as bytes of JSON."""
_TYPES = {"b": np.bool_, "f": np.float32, "i": np.int32}
"""Of blobs, by the kind of number; those of Caffe2 may be whole numbers."""
_COUNT = "num_batches_tracked"
"""What a BatchNorm of PyTorch counts, and nothing reads."""
_LEAST_LIMIT, _MOST_TIMES = 1 << 26, 64
"""Of the memory for a group: bytes, and times the bytes of its tensors. A damaged table could ask for any size."""


def is_of_module(names: Iterable[str]) -> bool:
    """Whether a state dict with these names has a table."""
    return bool(_places(names))


def open_module_state(source: OpenFile) -> StoredWeights:
    """The blobs in a file: safetensors, or one that torch.save wrote, of which nothing is run."""
    # Imported where they are needed: whoever writes a module reads none.
    if source.kind is SAFETENSORS:
        from prototrt.caffe_proto.weights.safetensors import read_safetensors

        return weights_of_module(read_safetensors(source.name), source.name)
    from prototrt.caffe_proto.weights.state_dict import read_state_dict

    return weights_of_module(read_state_dict(source.name), source.name)


def weights_of_module(state: Mapping[str, Array], file: str | None) -> StoredWeights:
    """The blobs of a state dict. Raises ``UnreadableFileError`` for one that has no table, or several."""
    places = _places(state)
    if len(places) != 1:
        raise UnreadableFileError(
            f"the state dict has {len(places) or 'no'} tensor{'s' * bool(places)} {TABLE}, expected one",
            where=file,
            because="it says which blob of Caffe each tensor is, in a module that prototrt wrote",
            fix=f"convert the net to a module, name these tensors as it does, and add its tensor {TABLE}",
        )
    prefix = places[0].removesuffix(TABLE)
    own = {name.removeprefix(prefix): name for name in state if name.startswith(prefix)}
    try:
        table = value_from_json(np.asarray(state[places[0]], np.uint8).tobytes())
        state_blobs = _BlobsOfState(state, own, table.get("groups", {}), file)
        layers = {name: state_blobs.blobs(name, blobs) for name, blobs in table["layers"].items()}
        others = {TABLE, *state_blobs.read, *table["others"]}
        trained = [
            name
            for name, number in table["others"].items()
            if name in own and not name.endswith(_COUNT) and checksum(state[own[name]]) != number
        ]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise UnreadableFileError(
            f"the tensor {places[0]} is no table of blobs",
            where=file,
            because=f"of {type(error).__name__}: {error}",
            fix="save the state dict again",
        ) from error
    if trained:
        state_blobs.notes.append(f"not read, since Caffe has no blobs for them: {listed(trained, most=6)}")
    outside = [name for name in state if name.removeprefix(prefix) not in others or name not in own.values()]
    if outside:
        state_blobs.notes.append(f"not read, since they were added to the module: {listed(outside, most=6)}")
    functions = {name: partial(tuple, blobs) for name, blobs in layers.items() if blobs is not None}
    warnings = tuple(f"{file}: {note}" if file else note for note in state_blobs.notes)
    return StoredWeights(file, functions, warnings=warnings)


def checksum(array: Array) -> int:
    """Of the numbers of a tensor that is no blob."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)


def without_unit_axes(shape: Iterable[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _places(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.rpartition(".")[2] == TABLE]


class _BlobsOfState:
    """Reads the blobs of layers. ``own`` are the names in the state dict by those in the table."""

    def __init__(
        self,
        state: Mapping[str, Array],
        own: Mapping[str, str],
        groups: Mapping[str, Mapping[str, Any]],
        file: str | None,
    ) -> None:
        self._state, self._own, self._groups, self._file = state, own, groups, file
        self._filled: dict[int, tuple[Sequence[Array], str]] = {}
        self.read = {key for group in groups.values() for keys, *_ in group["tensors"] for key in keys}
        self.notes: list[str] = []

    def blobs(self, layer: str, facts: Sequence[Mapping[str, Any]] | None) -> list[StoredBlob] | None:
        """The blobs of a layer; None, with a note, if they cannot be read."""
        if facts is None:
            self._note(layer, "the module holds numbers that were computed of them")
            return None
        self.read.update(key for fact in facts for each in fact.get("keys", ()) for key in each)
        blobs = [self._blob(layer, index, fact) for index, fact in enumerate(facts)]
        return None if None in blobs else [blob for blob in blobs if blob is not None]

    def _blob(self, layer: str, index: int, fact: Mapping[str, Any]) -> StoredBlob | None:
        shape = tuple(map(int, fact["shape"]))
        where = f'{self._file}: layer "{layer}"'
        if "keys" not in fact:
            check_count(shape, prod(shape), where, f"blob {index}")
        if "fill" in fact:
            numbers = np.array(fact["fill"])
            array: Array = numbers.astype(_TYPES[numbers.dtype.kind]).reshape(shape if numbers.ndim else ())
            return StoredBlob(shape, False, lambda: np.broadcast_to(array, shape))
        if "place" in fact:
            number, place = fact["place"]
            return self._blob_of_group(layer, number, place, shape)
        keys = next((each for each in fact["keys"] if all(key in self._own for key in each)), None)
        if keys is None:
            self._note(layer, self._lost(key for each in fact["keys"] for key in each))
            return None
        arrays = [self._state[self._own[key]] for key in keys]
        stored = arrays[0].shape
        if list(stored) == fact.get("from") or without_unit_axes(stored) == without_unit_axes(shape):
            stored = shape
        else:
            self.notes.append(
                f'"{layer}" was changed: {keys[0]} has the shape {stored}, and blob {index} had {shape}'
            )
        if len({array.size for array in arrays}) > 1:
            raise ValueError(f"{' and '.join(keys)} differ in size")
        check_count(stored, arrays[0].size, where, f"blob {index}")
        return StoredBlob(stored, False, partial(_in_caffes_form, arrays, stored, fact.get("order")))

    def _note(self, layer: str, problem: str) -> None:
        note = f'the weights of "{layer}" are not read: {problem}'
        self.notes += [note] * (note not in self.notes)

    def _lost(self, keys: Iterable[str]) -> str:
        return f"there is no {listed([key for key in keys if key not in self._own], most=6)}"

    def _blob_of_group(
        self, layer: str, number: int, place: Place, shape: tuple[int, ...]
    ) -> StoredBlob | None:
        """A blob that follows from a group of tensors; None, with a note, if they do not fit."""
        if number not in self._filled:
            self._filled[number] = self._fill(self._groups[str(number)])
        memory, problem = self._filled[number]
        blob = view_at(memory, place, shape) if memory else None
        if blob is None or (problem and np.isnan(blob).any()):
            self._note(layer, problem)
            return None
        return StoredBlob(shape, False, lambda: blob)

    def _fill(self, group: Mapping[str, Any]) -> tuple[Sequence[Array], str]:
        """The memory behind a group, and what is wrong with it; none where tensors have other shapes or differ."""
        fills = [
            (place, np.broadcast_to(np.float32(number), shape)) for number, shape, place in group["fills"]
        ]
        facts: list[tuple[Place, Array]] = []
        lost = [key for keys, *_ in group["tensors"] for key in keys if key not in self._own]
        for keys, shape, place in group["tensors"]:
            arrays = [self._state[self._own[key]] for key in keys if key in self._own]
            if any([*array.shape] != shape for array in arrays):
                return (), f"{keys[0]} has the shape {arrays[0].shape}, and had {tuple(shape)}"
            if len(arrays) == len(keys):
                facts.append((place, _sum(arrays)))
        if sum(group["sizes"]) > _LEAST_LIMIT + _MOST_TIMES * sum(array.nbytes for _, array in facts):
            raise ValueError("a group takes more memory than its tensors need")
        memory, agree = fill(group["sizes"], [*fills, *facts], group["links"])
        if not agree:
            names = listed([key for keys, *_ in group["tensors"] for key in keys], most=6)
            return (), f"Caffe has one blob for parts of {names}, which differ"
        return memory, self._lost(lost) if lost else ""


def _in_caffes_form(arrays: Sequence[Array], shape: Sequence[int], order: Sequence[int] | None) -> Array:
    """The sum of arrays, with blocks of rows in this order."""
    total = _sum(arrays).reshape(shape)
    if order is not None and len(total) % len(order) == 0:
        total = np.concatenate([np.split(total, len(order))[place] for place in order])
    return total


def _sum(arrays: Sequence[Array]) -> Array:
    typed: list[Array] = [
        array.astype(_TYPES.get(array.dtype.kind, np.float32), copy=False) for array in arrays
    ]
    return sum(typed[1:], start=typed[0])
