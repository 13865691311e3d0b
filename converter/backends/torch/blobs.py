"""Which blobs of Caffe the weights of a module are: a table in its state dict, by which trained weights come back.

``caffe_proto/weights/module_state.py`` reads it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from prototrt.caffe_proto.weights.linked_arrays import fill, view_at
from prototrt.caffe_proto.weights.module_state import checksum, without_unit_axes
from prototrt.surgery.ir import Array, Graph, Node, Value, walk
from prototrt.surgery.ir.made_arrays import links_of, owner_of
from prototrt.surgery.ir.uniform_constants import is_broadcast, unbroadcast

MOST_KEPT = 4096
"""The most numbers of a blob that the table holds itself: anchors, scales and others of which tensors are computed."""


class TableOfBlobs:
    """What the table says of the blobs of a graph, once all tensors of its module are added."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._facts: dict[object, dict[str, Any]] = {}
        self._tensors: list[tuple[Sequence[str], Array]] = []

    def add(self, array: Array, *keys: str) -> None:
        """The array is the sum of these tensors."""
        self._tensors.append((keys, array))
        self._add_facts(_numbers_of(array), keys, shape=array.shape)
        if (blocks := _blocks_of(array)) is not None:
            self._add_facts(blocks[0], keys, shape=array.shape, order=blocks[1])

    def _add_facts(self, numbers: object, keys: Sequence[str], **more: object) -> None:
        self._facts.setdefault(numbers, {"keys": [], **more})["keys"].append(keys)

    @cached_property
    def _groups(self) -> tuple[_MemoryOfArrays, dict[int, _Group]]:
        """The tensors behind blobs that none holds as a whole."""
        blobs = [blob.array for layer in self._graph.learned.values() for blob in layer]
        blobs = [blob for blob in blobs if self._whole(blob) is None]
        arrays = [array for _, array in self._tensors] if blobs else []
        memory = _MemoryOfArrays([*arrays, *blobs])
        numbers = dict.fromkeys(map(memory.group, blobs))
        return memory, {number: _Group(memory, number, self._tensors, blobs) for number in numbers}

    @cached_property
    def layers(self) -> dict[str, list[dict[str, Any]] | None]:
        """The facts of the blobs of each layer; None if one of them does not come back."""
        facts = {
            layer: [
                self._whole(each.array) or self._in_group(each.array) or _few(each.array) for each in blobs
            ]
            for layer, blobs in self._graph.learned.items()
        }
        return {
            layer: None if None in each else [fact for fact in each if fact] for layer, each in facts.items()
        }

    def as_array(self, arrays: Mapping[str, Array]) -> Array:
        """The table as bytes of JSON: the blobs of each layer, null if they do not come back; groups of tensors that
        hold blobs in other forms; and the checksum of each other tensor, which Caffe computes itself."""
        facts = [fact for each in self.layers.values() for fact in each or ()]
        groups = {fact["place"][0]: self._groups[1][fact["place"][0]] for fact in facts if "place" in fact}
        held = {key for fact in facts for keys in fact.get("keys", ()) for key in keys}
        held.update(key for group in groups.values() for key in group.keys)
        others = {name: checksum(array) for name, array in arrays.items() if name not in held}
        of_groups = {number: group.facts() for number, group in groups.items()}
        table = {"layers": self.layers, "others": others} | ({"groups": of_groups} if groups else {})
        return np.frombuffer(json.dumps(table, separators=(",", ":")).encode(), np.uint8)

    def _whole(self, array: Array) -> dict[str, Any] | None:
        """What the table says of a blob that tensors hold as a whole, or that repeats a number; else None."""
        facts = self._facts.get(_numbers_of(array))
        if facts is None:
            return _numbers(array) if is_broadcast(array) else None
        alike = without_unit_axes(facts["shape"]) == without_unit_axes(array.shape)
        return {**facts, "shape": array.shape} | ({} if alike else {"from": facts["shape"]})

    def _in_group(self, array: Array) -> dict[str, Any] | None:
        memory, groups = self._groups
        number = memory.group(array)
        place = groups[number].place_of(array)
        return None if place is None else {"shape": array.shape, "place": (number, place)}


def _few(blob: Array) -> dict[str, Any] | None:
    """A blob that no tensor holds: its own numbers, if they are few."""
    return _numbers(blob) if blob.size <= MOST_KEPT else None


def _numbers(blob: Array) -> dict[str, Any]:
    return {"shape": blob.shape, "fill": unbroadcast(blob).squeeze().tolist()}


class _MemoryOfArrays:
    """The pieces of memory that arrays view, and the groups of those that are made of one another."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.links = [*links_of(arrays)]
        ends = [end for link in self.links for end in (link.made, *link.sources)]
        self._first: list[int] = []
        self.sizes: list[int] = []
        last = -1
        for first, end in sorted(_bounds(array) for array in (*arrays, *ends)):
            if first >= last:
                self._first.append(first)
                self.sizes.append(0)
            last = max(last, end)
            self.sizes[-1] = last - self._first[-1]
        self._joined = [*range(len(self.sizes))]
        for link in self.links:
            for source in link.sources:
                self._joined[self.group(link.made)] = self.group(source)

    def group(self, array: Array) -> int:
        number = self.place(array)[0]
        while self._joined[number] != number:
            number = self._joined[number]
        return number

    def place(self, array: Array) -> list[int]:
        """As ``linked_arrays`` has them."""
        start = array.__array_interface__["data"][0]
        number = bisect_right(self._first, _bounds(array)[0]) - 1
        return [number, start - self._first[number], *array.strides]


class _Group:
    """Tensors and blobs of which one was made of another, in the words of ``linked_arrays``."""

    def __init__(
        self,
        memory: _MemoryOfArrays,
        number: int,
        tensors: Iterable[tuple[Sequence[str], Array]],
        blobs: Iterable[Array],
    ) -> None:
        self._memory, self._indices = memory, dict[int, int]()
        own = [(keys, array) for keys, array in tensors if memory.group(array) == number]
        self.keys = {key for keys, _ in own for key in keys}
        self._tensors = [(keys, array, self._place(array)) for keys, array in own]
        held = {*self._indices}
        links = [link for link in memory.links if memory.group(link.made) == number]
        numbers = {
            memory.place(source)[0]: source
            for link in links
            for source in link.sources
            if is_broadcast(source)
        }
        self._fills = [(each, self._place(each)) for number, each in numbers.items() if number not in held]
        self._links = [
            (
                link.made.shape,
                self._place(link.made),
                [*map(self._place, link.sources)],
                link.factor,
                link.summand,
            )
            for link in links
        ]
        for blob in blobs:
            if memory.group(blob) == number:
                self._place(blob)

    def place_of(self, blob: Array) -> list[int] | None:
        """Where the numbers of a blob are; None if they do not follow from those of the tensors."""
        place = self._place(blob)
        numbers = view_at(self._content, place, blob.shape)
        return place if np.array_equal(numbers, blob, equal_nan=True) else None

    @cached_property
    def _content(self) -> Sequence[Array]:
        facts = [(place, array) for _, array, place in self._tensors]
        facts += [(place, array) for array, place in self._fills]
        return fill(self._sizes, facts, self._links)[0]

    def facts(self) -> dict[str, Any]:
        return {
            "sizes": self._sizes,
            "tensors": [(keys, array.shape, place) for keys, array, place in self._tensors],
            "fills": [(unbroadcast(array).item(), array.shape, place) for array, place in self._fills],
            "links": self._links,
        }

    @property
    def _sizes(self) -> list[int]:
        return [self._memory.sizes[number] for number in self._indices]

    def _place(self, array: Array) -> list[int]:
        number, *place = self._memory.place(array)
        return [self._indices.setdefault(number, len(self._indices)), *place]


def is_learned(graph: Graph) -> Callable[[Node, Value], bool]:
    """Whether a constant of a node is a weight: a blob is made of it, or it of a blob; or its layer has a blob of which
    no constant is known to be made."""
    constants = [value.array for node in walk(graph) for value in node.inputs if value.is_constant]
    blobs = {
        layer: [blob.array for blob in read if not _is_number(blob.array)]
        for layer, read in graph.learned.items()
    }
    memory = _MemoryOfArrays([*constants, *(blob for each in blobs.values() for blob in each)])
    groups = {layer: {memory.group(blob) for blob in each} for layer, each in blobs.items()}
    learned, of_constants = (
        {group for each in groups.values() for group in each},
        {*map(memory.group, constants)},
    )

    def is_weight(node: Node, value: Value) -> bool:
        return (
            memory.group(value.array) in learned
            or not groups.get(node.origin.layer, of_constants) <= of_constants
        )

    return is_weight


def _is_number(blob: Array) -> bool:
    """Whether a blob is one number, or was made of such ones."""
    owner = owner_of(blob)
    return unbroadcast(blob).size == 1 or (owner is not None and all(map(is_broadcast, owner.sources)))


def _blocks_of(array: Array) -> tuple[object, list[int]] | None:
    """For an array of blocks of rows of another one: that one, and which block here each of its blocks is."""
    owner = owner_of(array)
    if owner is None or owner.axis != 0 or _numbers_of(owner) != _numbers_of(array):
        return None
    first, *_ = owner.sources
    starts = [source.__array_interface__["data"][0] for source in owner.sources]
    order = sorted(range(len(starts)), key=starts.__getitem__)
    is_whole = [starts[place] for place in order] == [
        min(starts) + n * first.nbytes for n in range(len(starts))
    ]
    are_rows = all(each.flags.c_contiguous and each.shape == first.shape for each in owner.sources)
    return ((min(starts), owner.size, "C"), order) if is_whole and are_rows else None


def _bounds(array: Array) -> tuple[int, int]:
    """The first address of an array and the one behind its last."""
    start = array.__array_interface__["data"][0]
    spans = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    return start + sum(min(span, 0) for span in spans), start + sum(
        max(span, 0) for span in spans
    ) + array.itemsize


def _numbers_of(array: Array) -> object:
    """The same for arrays that view the same numbers in the same order, whatever their axes of size 1."""
    strides = [step for step, size in zip(array.strides, array.shape, strict=True) if size > 1]
    order = "C" if array.flags.c_contiguous else (*strides,)
    return array.__array_interface__["data"][0], array.size, order
