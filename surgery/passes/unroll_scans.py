"""Passes: replace a Scan by copies of its body, one for each step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Node, Value
from prototrt.surgery.ir.verification import needs
from prototrt.surgery.ops import Concat, Scan, ScanInputs, Slice, steps_of


@needs(Scan)
def unroll_scans(graph: Graph) -> Graph:
    """Replace each Scan by one copy of its body for each step.

    Before: ``h, y = Scan[body](h0, x)`` with x (T, ...)
    After:  for each t: a Slice and Reshape of x, the nodes of the body; at the end Reshapes
            and a Concat of the outputs. With T = 1 nothing is cut or joined.
            A Scan in the body is also unrolled.
    Left alone: everything else. Raises ``ShapeError`` where T is a symbol.
    """
    scans = [node for node in graph.nodes if isinstance(node.op, Scan)]
    return unroll(graph, scans, with_inner=True)


@needs(Scan)
def inline_single_steps(graph: Graph) -> Graph:
    """Replace each Scan of one step by its body.

    Before: ``h, y = Scan[h' = TanH(Add(x_t, h))](h0, x)`` with x (1, ...)
    After:  ``h = TanH(Add(Reshape(x), h0))``, ``y = Reshape(h)``
    Left alone: Scans of several steps, and Scans in their bodies.
    """
    scans = [(node, node.op) for node in graph.nodes if isinstance(node.op, Scan)]
    single = [node for node, scan in scans if scan.steps([value.shape for value in node.inputs]) == 1]
    return unroll(graph, single, with_inner=False)


def unroll(graph: Graph, chosen: Collection[Node], *, with_inner: bool) -> Graph:
    """The graph with the chosen Scans unrolled; ``with_inner``: also the Scans in their bodies."""
    build = Builder(names_in(graph))
    for node in graph.nodes:
        if isinstance(node.op, Scan) and node in chosen:
            since = len(build.nodes)
            results = _steps(build, node, node.op, with_inner)
            for index, target in enumerate(node.outputs):
                result = results[index]
                build.write(result, target, since, None if target.is_surgical else node.name)
                results = [target if other is result else other for other in results]
        else:
            build.nodes.append(node)
    return graph.with_nodes(build.nodes)


def _steps(build: Builder, node: Node, scan: Scan, with_inner: bool) -> list[Value]:
    """Add the steps of a Scan to ``build`` and return the outputs of the Scan."""
    build.origin = node.origin
    steps = steps_of(scan, tuple(value.shape for value in node.inputs))
    scan_inputs = scan.named_inputs(node.inputs)
    states = scan_inputs.states
    written: dict[int, tuple[Value, ...]] = {}
    for t in reversed(range(steps)) if scan.reverse else range(steps):
        build.origin = node.origin
        elements = tuple(_element(build, sequence, t, steps) for sequence in scan_inputs.sequences)
        here = ScanInputs(states, elements, scan_inputs.invariants)
        results = scan.named_outputs(_step(build, scan.body, here, f"t{t}", with_inner))
        states, written[t] = results.states, results.stacked
    build.origin = node.origin
    outputs = zip(*(written[t] for t in range(steps)), strict=True)
    return [*states, *(_stack(build, elements) for elements in outputs)]


def _element(build: Builder, sequence: Value, t: int, steps: int) -> Value:
    """Element t of a sequence, without the axis of time."""
    one = sequence if steps == 1 else build.add(Slice(0, t, 1), sequence, hint=f"t{t}_slice")
    return build.reshape(one, sequence.shape[1:], hint=f"t{t}_step")


def _stack(build: Builder, elements: Sequence[Value]) -> Value:
    rows = [build.reshape(element, (1, *element.shape), hint="row") for element in elements]
    return rows[0] if len(rows) == 1 else build.add(Concat(0), *rows, hint="rows")


def _step(build: Builder, body: Graph, inputs: Iterable[Value], mark: str, with_inner: bool) -> list[Value]:
    """Copy the body's nodes and return its outputs for these inputs."""
    held = dict(zip(body.inputs, inputs, strict=True))
    for node in body.nodes:
        read = node.with_replacements(held)
        build.origin = node.origin
        results: Sequence[Value]
        if with_inner and isinstance(node.op, Scan):
            results = _steps(build, read, node.op, with_inner)
        else:
            results = build.add_all(node.op, *read.inputs, hint=f"{mark}_{node.hint}")
        held.update(zip(node.outputs, results, strict=True))
    return [held.get(value, value) for value in body.outputs]
