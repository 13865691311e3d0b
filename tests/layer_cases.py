"""One layer "op" by itself: the cases that the modules of surgery/layers/families list.

Its bottoms are ``b0``, ``b1``, ..., its top is ``y``. Its fields are on a separate line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from prototrt.surgery.ir import Array, Graph
from prototrt.tests.small_nets import float32, op, rewritten, stored


@dataclass(frozen=True, eq=False)
class Case:
    """The inputs of the layer, and the results of Caffe's formula."""

    note: str
    type: str
    fields: str
    bottoms: Sequence[Any]
    expected: Any
    blobs: Sequence[Any] = ()
    rtol: float = 1e-5
    atol: float = 1e-6

    def __str__(self) -> str:
        return f"{self.type}-{self.note.replace(' ', '_')}"

    @property
    def inputs(self) -> dict[str, Array]:
        return {f"b{index}": float32(bottom) for index, bottom in enumerate(self.bottoms)}

    def graph(self, batches: tuple[int, int] | None = None) -> Graph:
        """With ``batches`` the first axis of ``b0`` is known only when it runs: a size between the two."""
        return _graph_of(self, batches)


@lru_cache(maxsize=8)  # one case after the other runs in several ways
def _graph_of(case: Case, batches: tuple[int, int] | None) -> Graph:
    shapes = [array.shape for array in case.inputs.values()]
    least, most = ({"b0": (size, *shapes[0][1:])} for size in batches) if batches else (None, None)
    return _graph(case.type, case.fields, shapes, case.blobs, min_shapes=least, max_shapes=most)


@dataclass(frozen=True)
class Message:
    """What the user reads about the layer for bottoms of these shapes."""

    type: str
    fields: str
    shapes: Sequence[Sequence[int]]
    text: str
    blobs: Sequence[Any] = ()

    def __str__(self) -> str:
        return f"{self.type}-{self.fields}"

    def graph(self) -> Graph:
        return _graph(self.type, self.fields, self.shapes, self.blobs)


def _graph(
    kind: str, fields: str, shapes: Sequence[Sequence[int]], blobs: Sequence[Any], **options: Any
) -> Graph:
    inputs = {f"b{index}": shape for index, shape in enumerate(shapes)}
    return rewritten(op(kind, f"\n{fields}", inputs), inputs, stored("op", blobs), **options)
