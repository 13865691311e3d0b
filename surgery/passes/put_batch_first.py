"""Pass: make the streams the first axis of inputs, outputs and states."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from prototrt.caffe_proto.common.errors import Origin
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Dim, Graph, Node, Op, Shape, Value
from prototrt.surgery.ir.layout import STREAMS, BindingLayout, Factors
from prototrt.surgery.ir.verification import changes
from prototrt.surgery.ops import Transpose
from prototrt.surgery.passes.moved_values import reshapes
from prototrt.surgery.passes.named_axes import caffe_layout


@changes("shapes")
def put_batch_first(graph: Graph) -> Graph:
    """Move the axis of the streams to the front of every input, output and state.

    Before: inputs ``x`` (T, N, D), ``cont`` (T, N), ``h_0`` (1, N, H), ``data`` (T*N, C, H, W)
    After:  inputs ``x`` (N, T, D), ``cont`` (N, T), ``h_0`` (N, H), ``data`` (N, T, C, H, W), each moved back for its
            readers by a Transpose, or by a Reshape if that is enough; outputs are moved in the same way
    Axes of size 1 before the streams vanish, as T = 1 does: x becomes (N, D), but cont (N, 1).
    Left alone: bindings with the streams in front, as of images, and those with no axis that is known to be N.
    """
    before = graph.layout.bindings or caffe_layout(graph)
    bindings = list(dict.fromkeys((*graph.inputs, *graph.outputs)))
    layouts = {value.name: batch_first(value.shape, before[value.name]) for value in bindings}
    if all(layouts[name] == before[name] for name in layouts):
        return graph
    return put_in_layouts(graph, layouts)


def put_in_columns(graph: Graph, names: Collection[str]) -> Graph:
    """The inputs of these names are (N, 1), each reshaped for its readers, if they were (N,) or (N, 1, 1, 1)."""
    layouts: dict[str, BindingLayout] = {}
    for value in graph.inputs:
        column = (*value.shape[:1], 1)
        if value.name in names and value.shape != column and {*value.shape[1:]} <= {1}:
            moves = reshapes(value.shape, column), reshapes(column, value.shape)
            first, *_ = graph.layout.bindings[value.name].axes
            layouts[value.name] = BindingLayout((first, ()), *map(tuple, moves))
    return put_in_layouts(graph, layouts) if layouts else graph


def put_in_layouts(graph: Graph, layouts: Mapping[str, BindingLayout]) -> Graph:
    """The graph with these of its inputs and outputs moved; ``from_caffe`` moves them from where they are."""
    moved, after = _MovedGraph(graph), dict(graph.layout.bindings)
    for value in dict.fromkeys((*graph.inputs, *graph.outputs)):
        if (layout := layouts.get(value.name)) is not None:
            moved.move(value, layout)
            old = after.get(value.name, layout)
            ways = (*old.from_caffe, *layout.from_caffe), (*layout.to_caffe, *old.to_caffe)
            after[value.name] = BindingLayout(layout.axes, *ways) if old is not layout else layout
    return replace(moved.graph(), layout=replace(graph.layout, bindings=after))


def batch_first(shape: Shape, layout: BindingLayout) -> BindingLayout:
    """The layout of a binding of this shape with streams in front; the same if no axis is known to be the streams."""
    parts = [part for dim, factors in zip(shape, layout.axes, strict=True) for part in _parts(dim, factors)]
    sizes: Shape = tuple(size for size, _ in parts)
    streams = [
        place for place, (_, factors) in enumerate(parts) if [factor.name for factor in factors] == [STREAMS]
    ]
    if len(streams) != 1 or (streams == [0] and len(parts) == len(shape)):
        return layout
    (first,) = streams
    order = (first, *(place for place in range(len(parts)) if place != first))
    kept = [place for place in order if place >= first or sizes[place] != 1]
    kept = list(order) if len(kept) == 1 else kept  # cont stays (N, 1)
    moved, target = tuple(sizes[place] for place in order), tuple(sizes[place] for place in kept)
    back = tuple(order.index(place) for place in range(len(order)))
    return BindingLayout(
        tuple(parts[place][1] for place in kept),
        _moves(shape, sizes, order, target),
        _moves(target, moved, back, shape),
    )


def _parts(dim: Dim, factors: Factors) -> list[tuple[Dim, Factors]]:
    """An axis as it is, or one axis for each of its factors if they are several."""
    return [(factor.size, (factor,)) for factor in factors] if len(factors) > 1 else [(dim, factors)]


def _moves(start: Shape, before: Shape, order: Sequence[int], end: Shape) -> tuple[Op, ...]:
    """What turns ``start`` into ``before``, moves its axes, and turns the result into ``end``."""
    places = [place for place in order if before[place] != 1]
    if places == sorted(places):  # no element moves
        return tuple(reshapes(start, end))
    return (
        *reshapes(start, before),
        Transpose(tuple(order)),
        *reshapes(tuple(before[place] for place in order), end),
    )


class _MovedGraph:
    """The graph with moves around it."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._build = Builder(names_in(graph))
        self._origins: dict[Value, Origin] = {}
        for node in reversed(graph.nodes):
            self._origins.update(dict.fromkeys((*node.inputs, *node.outputs), node.origin))
        self._inner: dict[Value, Value] = {}
        """What stands inside the graph for an input or output that is moved."""
        self._outer: dict[Value, Value] = {}
        """The new input or output."""
        self._last: list[Node] = []

    def move(self, value: Value, layout: BindingLayout) -> None:
        """Make the binding one of this layout, and move it back for those inside the graph."""
        if not layout.from_caffe:
            return
        self._build.origin = self._origins.get(value, self._build.origin)
        if value in self._old.inputs:
            outer = inner = replace(value, shape=_shape_after(layout.from_caffe, value.shape))
            for op in layout.to_caffe:
                inner = self._build.add(op, inner, hint="in_caffe_layout")
        else:
            name = self._build.fresh("in_caffe_layout")
            outer = inner = replace(value, name=name, is_surgical=True)
            before = len(self._build.nodes)
            for op in layout.from_caffe:
                outer = self._build.add(op, outer, hint="batch_first")
            final = replace(outer, name=value.name, is_surgical=value.is_surgical)
            *moves, last = self._build.nodes[before:]
            del self._build.nodes[before:]
            self._last += [*moves, replace(last, outputs=(final,))]
            outer = final
        self._inner[value], self._outer[value] = inner, outer

    def graph(self) -> Graph:
        """The graph with its new inputs and outputs."""
        old = self._old
        for node in old.nodes:
            outputs = tuple(self._inner.get(value, value) for value in node.outputs)
            self._build.nodes.append(replace(node.with_replacements(self._inner), outputs=outputs))
        moved = old.with_nodes([*self._build.nodes, *self._last], self._outer)
        return replace(moved, inputs=tuple(self._outer.get(value, value) for value in old.inputs))


def _shape_after(ops: Sequence[Op], shape: Shape) -> Shape:
    for op in ops:
        (shape,) = op.shape(shape)
    return shape
