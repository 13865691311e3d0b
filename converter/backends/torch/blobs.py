"""Which blobs of Caffe the weights of a module are: a table in its state dict, by which trained weights come back.

``caffe_proto/weights/module_state.py`` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto.weights.module_state import checksum, without_unit_axes
from prototrt.surgery.ir import Array, Graph, Node, Value, walk
from prototrt.surgery.ir.uniform_constants import is_broadcast, unbroadcast


class KeysOfArrays:
    """Under which keys of the state dict the numbers of each array are."""

    def __init__(self) -> None:
        self._facts: dict[object, dict[str, Any]] = {}

    def add(self, array: Array, keys: Sequence[str], **more: object) -> None:
        """The array is the sum of these tensors. ``order``: where its blocks of rows are among theirs."""
        facts = self._facts.setdefault(_numbers_of(array), {"keys": [], **more})
        facts["keys"].append([*keys])

    def add_as_they_are(self, arrays: Mapping[str, Array]) -> None:
        """The arrays of a module by key, which hold blobs in another shape at most."""
        for key, array in arrays.items():
            self.add(array, [key], shape=array.shape)

    def facts(self, array: Array) -> dict[str, Any] | None:
        """What the table says of a blob; None if the module holds its numbers in no tensor."""
        facts = self._facts.get(_numbers_of(array))
        if facts is None:
            return {"shape": array.shape, "fill": unbroadcast(array).item()} if is_broadcast(array) else None
        shape = facts.get("shape", array.shape)
        alike = without_unit_axes(shape) == without_unit_axes(array.shape)
        return {**facts, "shape": array.shape} | ({} if alike else {"from": shape})


def table_of_blobs(graph: Graph, keys: KeysOfArrays, arrays: Mapping[str, Array]) -> Array:
    """The table as bytes of JSON: the blobs of each layer, null if they were rearranged; and the checksum of each other
    tensor, which Caffe computes itself."""
    layers = {layer: facts_of_layer(graph, layer, keys) for layer in graph.learned}
    facts = [fact for each in layers.values() for fact in each or ()]
    held = {key for fact in facts for summands in fact.get("keys", ()) for key in summands}
    others = {name: checksum(array) for name, array in arrays.items() if name not in held}
    table = json.dumps({"layers": layers, "others": others}, separators=(",", ":"))
    return np.frombuffer(table.encode(), np.uint8)


def facts_of_layer(graph: Graph, layer: str, keys: KeysOfArrays) -> list[dict[str, Any]] | None:
    """What the table says of each blob of a layer; None if the module holds one of them in no tensor."""
    facts = [keys.facts(blob.array) for blob in graph.learned[layer]]
    return None if None in facts else [fact for fact in facts if fact is not None]


def is_learned(graph: Graph) -> Callable[[Node, Value], bool]:
    """Whether a constant of a node is a weight: a blob of its layer, or made of those that are no constants."""
    constants = {_numbers_of(each.array) for node in walk(graph) for each in node.inputs if each.is_constant}
    blobs = {layer: {_numbers_of(each.array) for each in read} for layer, read in graph.learned.items()}

    def is_weight(node: Node, value: Value) -> bool:
        own = blobs.get(node.origin.layer)
        return own is not None and (_numbers_of(value.array) in own or not own <= constants)

    return is_weight


def _numbers_of(array: Array) -> object:
    """The same for arrays that view the same numbers in the same order, whatever their axes of size 1."""
    strides = [step for step, size in zip(array.strides, array.shape, strict=True) if size > 1]
    order = "C" if array.flags.c_contiguous else (*strides,)
    return array.__array_interface__["data"][0], array.size, order
