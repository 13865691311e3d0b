"""Passes: compute constant values, and constant outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from prototrt.surgery import ops
from prototrt.surgery.ir import Array, Graph, Node, Value, bodies, element_count, read
from prototrt.surgery.ir.made_arrays import join_of

LARGEST = 1 << 20
"""The most elements that a folded node may read or write: a Tile of a small constant must not enlarge a plan."""
_SLIDING = (
    ops.AveragePool,
    ops.Deconvolution,
    ops.MaxPool,
    ops.MaxPoolIndex,
    ops.Patches,
    ops.StochasticPool,
)
"""Sliding windows over a constant image take time in proportion to the product of both sizes."""
MOST = 1 << 22
"""The most elements to fold in all: a net of a few lines must not take gigabytes."""


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes whose inputs are all constant by their results.

    Before: ``y = Concat(const a, const b)``, ``z = Add(x, y)``
    After:  ``z = Add(x, const y)``
    Left alone: Scans, sliding windows but for short Convolutions, plugins, weights of 8 bits, values larger than
    ``LARGEST``, nodes that write a graph output, and all nodes after ``MOST`` elements.
    """
    stands_for: dict[Value, Value] = {}
    kept: list[Node] = []
    room = MOST
    for node in graph.nodes:
        node = node.with_replacements(stands_for)
        if _is_foldable(node, graph) and (written := _count(node.outputs)) <= room:
            room -= written
            for value, data in zip(node.outputs, _results(node), strict=True):
                stands_for[value] = replace(value, data=np.asarray(data))
        else:
            kept.append(node)
    return graph.with_nodes(kept)


def _results(node: Node) -> list[Array]:
    arrays = [read(value, {}) for value in node.inputs]
    if isinstance(node.op, ops.Concat):
        return [join_of(arrays, node.op.axis)]  # the same, and it remembers the arrays
    with np.errstate(all="ignore"):  # Caffe continues with infinity and NaN
        return node.evaluate(*arrays)


def _is_foldable(node: Node, graph: Graph) -> bool:
    return (
        bool(node.inputs)  # what reads nothing is made of sizes
        and all(value.is_constant for value in node.inputs)
        and not bodies(node.op)
        and all(isinstance(dim, int) for value in node.outputs for dim in value.shape)
        and not isinstance(node.op, (*_SLIDING, ops.Dequantize, ops.Plugin))
        and _multiplications(node) <= LARGEST
        and not node.op.data_dependent
        and not any(value in graph.outputs for value in node.outputs)
        and max(_count(node.inputs), _count(node.outputs)) <= LARGEST
    )


def _multiplications(node: Node) -> int:
    """Of a Convolution, as of the zero state of a convolutional LSTM, which OpenCV does not read; else 0."""
    if not isinstance(node.op, ops.Convolution):
        return 0
    return _count(node.outputs) * element_count(node.inputs[1].shape[1:])


def _count(values: Sequence[Value]) -> int:
    return sum(element_count(value.shape) for value in values)


def fold_constant_outputs(graph: Graph) -> Graph:
    """Replace the nodes that compute an output only from constants by a copy of the result.

    TensorRT for RTX 1.7.1 crashes where a convolution of constants is an output.

    Before: ``y = Convolution(const x)``, ``return y``
    After:  ``y = Identity(const x)``, ``return y``
    Left alone: outputs that depend on an input, copies of constants, and sizes that depend on data.
    """
    return _with_copies(
        graph,
        lambda node: (
            not isinstance(node.op, ops.Identity) and any(value in graph.outputs for value in node.outputs)
        ),
    )


def fold_constant_windows(graph: Graph) -> Graph:
    """Replace windows that slide over a constant image by a copy of the result, however large.

    OpenCV 5.0 fails where it computes them: it folds the image, which then has another layout.

    Before: ``y = MaxPool(const x)``, ``z = Add(y, data)``
    After:  ``y = Identity(const x)``, ``z = Add(y, data)``
    Left alone: windows over what depends on an input, and sizes that depend on data.
    """
    return _with_copies(graph, lambda node: isinstance(node.op, (ops.Convolution, *_SLIDING)))


def _with_copies(graph: Graph, is_meant: Callable[[Node], bool]) -> Graph:
    """The graph with copies of results in the place of the nodes that are meant, as far as they are constant."""
    computable = _computable_nodes(graph)
    writers = [node for node in computable if is_meant(node)]
    if not writers:
        return graph
    results = [value for node in writers for value in node.outputs]
    alone = replace(graph, inputs=(), nodes=tuple(computable), outputs=tuple(results), recurrences=())
    arrays = dict(zip(results, alone.evaluate(), strict=True))
    nodes = [copy for node in graph.nodes for copy in (_copies(node, arrays) if node in writers else (node,))]
    return graph.with_nodes(nodes)


def _computable_nodes(graph: Graph) -> list[Node]:
    """The nodes that depend on no input and, unlike those without inputs, on no size."""
    made: set[Value] = set()
    computable = []
    for node in graph.nodes:
        reads_constants = bool(node.inputs) and all(
            value.is_constant or value in made for value in node.inputs
        )
        is_fixed = all(isinstance(dim, int) for value in node.outputs for dim in value.shape)
        if reads_constants and is_fixed:
            computable.append(node)
            made.update(node.outputs)
    return computable


def _copies(node: Node, arrays: dict[Value, Array]) -> list[Node]:
    """One for each of the node's outputs."""
    return [
        replace(
            node,
            name=node.name if index == 0 else f"{node.name}:{index}",
            op=ops.Identity(),
            inputs=(replace(value, name=f"__{value.name}_constant", data=np.asarray(arrays[value])),),
            outputs=(value,),
        )
        for index, value in enumerate(node.outputs)
    ]
