"""Inputs whose numbers pick rows of a table, or are lengths. A number outside its range is refused before a call.

The ways to run a net disagree on such a number: an engine reads zeros beyond the last row, and ONNX counts negative
numbers from the end. Some of them accept a length above the number of steps, or lengths that do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping

from prototrt.caffe_proto.common.errors import ConversionError, Origin
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, Dim, Graph, Node, Value, size_at
from prototrt.surgery.ir.lengths import SEGMENTS, LengthsRule
from prototrt.surgery.ops import Cast, Gather, Identity, Reshape, ReverseSequence, Scatter, Slice, Transpose


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Numbers of an input that must be from 0 to ``below - 1``. ``below`` is a size, which may vary.

    Lengths (``reader`` is a ``LengthsRule``) may also be ``below`` itself. With ``every`` and ``start`` only some
    numbers are meant, in the order of memory: of rois (R, 5), the first of each 5.
    """

    input: str
    below: Dim
    every: int = 1
    start: int = 0
    reader: Gather | Scatter | LengthsRule = Gather()
    origin: Origin | None = None

    @property
    def are_lengths(self) -> bool:
        """Whether the numbers are lengths, which count steps, rather than rows."""
        return isinstance(self.reader, LengthsRule)

    def refuse(self, array: Array, sizes: Mapping[str, int]) -> None:
        """Raise ``ShapeError`` for a number of the array that is out of range, at these sizes of the symbols."""
        numbers = array.reshape(-1)[self.start :: self.every]
        try:
            self.reader.refuse_outside(numbers, size_at(self.below, sizes))
        except ConversionError as error:
            error.origin, error.where = self.origin, f'input "{self.input}"'
            raise


def index_ranges(graph: Graph) -> tuple[IndexRange, ...]:
    """The ranges of inputs that are indices or lengths as they are. Indices that the net computes have no range."""
    ranges = []
    writers = graph.writers()
    for node in graph.nodes:
        if isinstance(node.op, (Gather, Scatter, ReverseSequence)):
            origin = _source(node.inputs[1], writers)
            if origin is not None and origin[0] in graph.inputs:
                source, every, start = origin
                below = node.op.size if isinstance(node.op, Scatter) else node.inputs[0].shape[0]
                reader = LengthsRule() if isinstance(node.op, ReverseSequence) else node.op
                ranges.append(IndexRange(source.name, below, every, start, reader, node.origin))
    inputs = {value.name for value in graph.inputs}
    lengths = [each for each in graph.segments if each.input in inputs]
    ranges += [IndexRange(each.input, each.size, reader=SEGMENTS, origin=each.origin) for each in lengths]
    return tuple(ranges)


def _source(index: Value, writers: Mapping[Value, Node]) -> tuple[Value, int, int] | None:
    """The value that an index is a copy or a column of, with ``every`` and ``start``; None if it is computed."""
    every, start = 1, 0
    while index in writers:
        node = writers[index]
        if not node.inputs:
            return None
        op, shape = node.op, node.inputs[0].shape
        if isinstance(op, Slice) and every == 1:
            row, first = shape[op.axis :], op.start
            if op.size != 1 or any(dim != 1 for dim in row[1:]):
                return None
            if not isinstance(row[0], int) or not isinstance(first, int):
                return None
            every, start = row[0], first
        elif not isinstance(op, (Cast, Identity, Reshape)) and not (isinstance(op, Transpose) and every == 1):
            return None
        index = node.inputs[0]
    return index, every, start
