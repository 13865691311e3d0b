"""Pass: write a Scan out, step by step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.builder import Builder, names_in
from prototrt.surgery.ops import Concat, Scan, ScanInputs, Slice, steps_of


def unroll_scans(graph: Graph, chosen: Collection[Node]) -> Graph:
    """Replace each of the chosen Scans by as many copies of its body as there are steps.

    Before: ``h, y = Scan[body](h0, x)`` with x (T, ...)
    After:  for each t: a Slice and Reshape of x, the nodes of the body; at the end Reshapes
            and a Concat of the outputs. With T = 1 nothing is cut and nothing joined.
            A Scan in the body is written out with it, unless there is only one copy of it.
    Left alone: everything else.
    """
    if not chosen:
        return graph
    build = Builder(names_in(graph))
    for node in graph.nodes:
        if isinstance(node.op, Scan) and node in chosen:
            since = len(build.nodes)
            results = _unrolled(build, node, node.op)
            for index, target in enumerate(node.outputs):
                result = results[index]
                build.write(result, target, since, None if target.is_surgical else node.name)
                results = [target if other is result else other for other in results]
        else:
            build.nodes.append(node)
    return graph.with_nodes(build.nodes)


def _unrolled(build: Builder, node: Node, scan: Scan) -> list[Value]:
    """The outputs of a Scan, written out behind the nodes that ``build`` has."""
    build.origin = node.origin
    steps = steps_of(scan, tuple(value.shape for value in node.inputs))
    given = scan.named_inputs(node.inputs)
    states = given.states
    written: dict[int, tuple[Value, ...]] = {}
    for t in reversed(range(steps)) if scan.reverse else range(steps):
        build.origin = node.origin
        elements = tuple(_element(build, sequence, t, steps) for sequence in given.sequences)
        here = ScanInputs(states, elements, given.invariants)
        results = scan.named_outputs(_inlined(build, scan.body, here, f"t{t}", whole=steps > 1))
        states, written[t] = results.states, results.stacked
    build.origin = node.origin
    outputs = zip(*(written[t] for t in range(steps)), strict=True)
    return [*states, *(_stacked(build, elements) for elements in outputs)]


def _element(build: Builder, sequence: Value, t: int, steps: int) -> Value:
    """Element t of a sequence, without the axis of time."""
    one = sequence if steps == 1 else build.add(Slice(0, t, 1), sequence, hint=f"t{t}_slice")
    return build.reshape(one, sequence.shape[1:], hint=f"t{t}_step")


def _stacked(build: Builder, elements: Sequence[Value]) -> Value:
    rows = [build.reshape(element, (1, *element.shape), hint="row") for element in elements]
    return rows[0] if len(rows) == 1 else build.add(Concat(0), *rows, hint="rows")


def _inlined(build: Builder, body: Graph, inputs: Iterable[Value], mark: str, *, whole: bool) -> list[Value]:
    """The body's outputs for these inputs, its nodes copied; ``whole``: without the Scans among them."""
    held = dict(zip(body.inputs, inputs, strict=True))
    for node in body.nodes:
        read = node.reading(held)
        build.origin = node.origin
        if whole and isinstance(node.op, Scan):
            results = _unrolled(build, read, node.op)
        else:
            results = build.add_all(node.op, *read.inputs, hint=f"{mark}_{node.hint}")
        held.update(zip(node.outputs, results, strict=True))
    return [held.get(value, value) for value in body.outputs]
