"""The calls of TensorRT that made a network, recorded to be repeated by hand.

Two files: ``NAME.json`` holds the calls in their order, ``NAME.weights`` the arrays one
after the other. ``by_hand.py`` plays them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.lowering import lower
from prototrt.converter.backends.tensorrt.network import Network
from prototrt.surgery.ir import Graph
from prototrt.surgery.pipeline import lowered

_PLAIN = (bool, int, float, str, type(None))


class Tape:
    """Calls and settings, one entry each. Objects are numbered as they appear; 0 is the network."""

    def __init__(self, trt: Any, weights: Path) -> None:
        self.trt, self.stream = trt, weights.open("wb")
        self.entries: list[dict[str, Any]] = []
        self.objects: list[Any] = []

    def follow(self, item: Any) -> Followed:
        self.objects.append(item)
        return Followed(self, item, len(self.objects) - 1)

    def encoded(self, item: Any) -> Any:
        """An argument as JSON can hold it."""
        if isinstance(item, Followed):
            return {"object": item._number}
        if isinstance(item, self.trt.Weights):
            return self._weights(item)
        if isinstance(item, _PLAIN):
            return item
        if hasattr(item, "name") and hasattr(self.trt, type(item).__name__):
            return {"enum": [type(item).__name__, item.name]}
        return [self.encoded(element) for element in item]

    def _weights(self, item: Any) -> Any:
        if item.size == 0:
            return {"nothing of": item.dtype.name}
        offset = self.stream.tell()
        item.numpy().tofile(self.stream)
        return {"weights": [offset, item.size, item.dtype.name]}


class Followed:
    """An object of TensorRT. Every call of its methods and every setting goes onto the tape."""

    def __init__(self, tape: Tape, item: Any, number: int) -> None:
        object.__setattr__(self, "_tape", tape)
        object.__setattr__(self, "_item", item)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._item, name)
        if not callable(found) or hasattr(type(found), "name"):
            return found

        def call(*arguments: Any) -> Any:
            # Calls come in the order of their beginning: none is made inside another.
            encoded = [self._tape.encoded(argument) for argument in arguments]
            result = found(*map(_plain, arguments))
            followed = None if result is None else self._tape.follow(result)
            gives = getattr(followed, "_number", None)
            entry = {"call": name, "of": self._number, "with": encoded, "gives": gives}
            self._tape.entries.append(entry)
            return followed

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        self._tape.entries.append({"set": name, "of": self._number, "to": self._tape.encoded(value)})
        setattr(self._item, name, _plain(value))


def _plain(item: Any) -> Any:
    if isinstance(item, Followed):
        return item._item
    return [_plain(element) for element in item] if isinstance(item, list) else item


def record(graph: Graph, path: Path) -> None:
    """Lower a graph, and record the calls of TensorRT."""
    network = Network(find_backend("rtx"))
    tape = Tape(network.trt, path.with_suffix(".weights"))
    network.definition = tape.follow(network.definition)
    with tape.stream:
        lower(lowered(graph, "tensorrt"), network)
    path.with_suffix(".json").write_text(json.dumps(tape.entries))
