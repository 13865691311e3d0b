"""Passes work in the bodies of Scans as they do outside, and drop what a body computes for nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.ir import Graph, Op, bodies, fixed
from prototrt.surgery.ops import ADD, MULTIPLY, Concat, Identity, Reshape, Scan, Slice, TanH, Tile
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.pipeline import CANONICAL, LOWERINGS, TILES
from prototrt.surgery.recurrent.cells import Step, scan
from prototrt.surgery.recurrent.fused_cells import FusedLSTM
from prototrt.surgery.runner import PassList, inside_bodies, run
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.small_nets import WAYS, numbers

T, N, H = 3, 2, 4
Change = Callable[[Builder, Value, Value], Value]
"""What a step makes of the state h (N, H), given the element d (N, 1)."""


def two(body: Builder) -> Value:
    return body.constant(np.full((1, H), 2, np.float32))


def copied(body: Builder, h: Value, d: Value) -> Value:
    return body.add(Identity(), body.add(Identity(), h))


def known(body: Builder, h: Value, d: Value) -> Value:
    return body.add(MULTIPLY, h, body.add(TanH(), body.add(ADD, two(body), two(body))))


def tiled(body: Builder, h: Value, d: Value) -> Value:
    return body.add(MULTIPLY, h, body.add(Tile(1, H), body.add(MULTIPLY, d, body.add(Slice(1, 0, 1), h))))


def reshaped(body: Builder, h: Value, d: Value) -> Value:
    return body.reshape(body.add(TanH(), body.reshape(body.reshape(h, (N, H, 1)), (1, N, H))), (N, H))


def rejoined(body: Builder, h: Value, d: Value) -> Value:
    rows = [body.add(Slice(0, row, 1), h) for row in range(N)]
    return body.add(TanH(), body.add(Concat(0), *rows))


def nested(body: Builder, h: Value, d: Value) -> Value:
    """A Scan in the body, over the streams, with a copy in its own body."""

    def inner(build: Builder, step: Sequence[Value], states: Sequence[Value]) -> Step:
        row = build.add(ADD, build.add(Identity(), step[0]), states[0])
        return Step([row], [row])

    return scan(body, inner, [h], [body.constant(np.zeros(H, np.float32))]).outputs[0]


def graph_of(*changes: Change) -> Graph:
    build = Builder()
    h, d = build.input("h", (N, H)), build.input("d", (T, N, 1))

    def step(body: Builder, elements: Sequence[Value], states: Sequence[Value]) -> Step:
        after = states[0]
        for change in changes:
            after = change(body, after, elements[0])
        after = body.add(TanH(), body.add(MULTIPLY, after, elements[0]))
        return Step([after], [after])

    end = scan(build, step, [d], [h])
    return build.graph("net", [*end.states, *end.outputs])


def scan_of(graph: Graph) -> Graph:
    """The body of the one Scan."""
    (body,) = [node.op.body for node in graph.nodes if isinstance(node.op, Scan)]
    return body


def kinds(graph: Graph) -> list[type[Op]]:
    return [type(node.op) for node in graph.nodes]


def assert_equal(after: Graph, before: Graph) -> None:
    feeds = {
        value.name: numbers(*(fixed(dim, "a size") for dim in value.shape), seed=seed)
        for seed, value in enumerate(before.inputs)
    }
    found, expected = (
        graph.evaluate(*(feeds[value.name] for value in graph.inputs)) for graph in (after, before)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


CASES: dict[str, tuple[Change, PassList, Callable[[Graph], bool]]] = {
    "copies": (copied, CANONICAL, lambda body: Identity not in kinds(body)),
    "what is known": (known, CANONICAL, lambda body: kinds(body).count(TanH) == 1),
    "tiles": (tiled, TILES["broadcast"], lambda body: Tile not in kinds(body)),
    "reshapes": (reshaped, LOWERINGS["tensorrt"], lambda body: kinds(body).count(Reshape) == 2),
    "rows": (rejoined, LOWERINGS["tensorrt"], lambda body: Concat not in kinds(body)),
    "copies in a body in a body": (nested, CANONICAL, lambda body: Identity not in kinds(scan_of(body))),
}


@pytest.mark.parametrize("case", CASES)
def test_passes_work_in_bodies(case: str) -> None:
    change, passes, is_done = CASES[case]
    before = graph_of(change)
    assert not is_done(scan_of(before))
    after = run(before, [passes])
    assert is_done(scan_of(after))
    assert_equal(after, before)


def test_a_graph_without_anything_to_do_in_a_body_is_left_alone() -> None:
    graph = graph_of(lambda body, h, d: h)
    for passes in (CANONICAL, TILES["broadcast"], LOWERINGS["onnx-lstm"]):
        assert run(graph, [passes]) is graph


def test_a_pass_in_bodies_keeps_its_name() -> None:
    assert inside_bodies(drop_unused).__name__ == "drop_unused"


def three_states(build: Builder) -> tuple[Step, Value]:
    """States a, b and c (N, H), of which b is computed from a, and c from itself and an invariant; sequences x, y."""
    x, y = build.input("x", (T, N, H)), build.input("y", (T, N, H))
    start = [build.input(name, (N, H)) for name in "abc"]
    outside = build.add(TanH(), build.input("v", (N, H)))

    def step(body: Builder, elements: Sequence[Value], states: Sequence[Value]) -> Step:
        a = body.add(TanH(), body.add(ADD, states[0], elements[0]))
        b = body.add(MULTIPLY, states[0], body.add(ADD, states[1], elements[0]))
        c = body.add(ADD, states[2], body.add(MULTIPLY, elements[1], outside))
        return Step([a, b, c], [body.add(TanH(), b), body.add(TanH(), c)])

    return scan(build, step, [x, y], start), outside


@pytest.mark.parametrize(
    ("wanted", "inputs", "counts"),
    [
        (lambda end: [end.states[0]], "xa", (1, 1, 0, 0, 2)),
        (lambda end: [end.states[1]], "xab", (2, 1, 0, 0, 4)),
        (lambda end: [end.states[2]], "ycv", (1, 1, 1, 0, 2)),
        (lambda end: [end.outputs[1]], "ycv", (1, 1, 1, 1, 3)),
        (lambda end: [end.outputs[0]], "xab", (2, 1, 0, 1, 5)),
        (lambda end: [end.states[0], end.states[2]], "xyacv", (2, 2, 1, 0, 4)),
    ],
    ids=["a", "b", "c", "sequence of c", "sequence of b", "a and c"],
)
def test_a_scan_loses_what_nobody_needs(
    wanted: Callable[[Step], list[Value]], inputs: str, counts: tuple[int, ...]
) -> None:
    build = Builder()
    end, _ = three_states(build)
    before = build.graph("net", wanted(end))
    after = run(before, [PassList("test", (drop_unused,))])
    (node,) = [node for node in after.nodes if isinstance(node.op, Scan)]
    assert isinstance(node.op, Scan)
    read, written = node.op.named_inputs(node.inputs), node.op.named_outputs(node.outputs)
    found = (len(read.states), len(read.sequences), len(read.invariants), len(written.stacked))
    assert (*found, len(node.op.body.nodes)) == counts
    assert "".join(value.name for value in after.inputs) == inputs
    assert_equal(after, before)
    assert drop_unused(after) is after


def test_something_tells_the_number_of_steps() -> None:
    build = Builder()
    x, h = build.input("x", (T, N, H)), build.input("h", (N, H))
    double = scan(
        build, lambda body, step, states: Step([body.add(ADD, states[0], states[0])], [step[0]]), [x], [h]
    )
    before = build.graph("net", double.states)
    after = run(before, [PassList("test", (drop_unused,))])
    assert [value.name for value in after.inputs] == ["x", "h"]
    assert_equal(after, before)


@pytest.mark.parametrize("on", WAYS)
def test_a_scan_without_states_runs(on: Way) -> None:
    build = Builder()
    x, h = build.input("x", (T, N, H)), build.input("h", (N, H))

    def step(body: Builder, elements: Sequence[Value], states: Sequence[Value]) -> Step:
        row = body.add(Concat(0), *(body.add(Slice(0, at, 1), elements[0]) for at in (1, 0)))
        return Step([body.add(ADD, states[0], row)], [row])

    end = scan(build, step, [x], [h])
    graph = drop_unused(build.graph("net", end.outputs))
    (node,) = graph.nodes
    assert isinstance(node.op, Scan)
    assert node.op.states == 0
    given = numbers(T, N, H)
    (found,) = prototrt.Session(graph, on=on).run({"x": given}).values()
    np.testing.assert_array_equal(found, given[:, ::-1])


def test_an_lstm_of_which_the_last_state_alone_is_read_is_fused() -> None:
    net = GOLDENS / "passes" / "fuse_lstms" / "drop_cont" / "net.prototxt"
    graph = prototrt.rewrite(prototrt.load(net, random_weights=1), cont="drop")
    alone = drop_unused(replace(graph, outputs=graph.state_outputs))
    assert [len(node.outputs) for node in alone.nodes if bodies(node.op)] == [2]
    fused = run(alone, [LOWERINGS["onnx-lstm"]])
    assert FusedLSTM in kinds(fused)
    feeds = {value.name: numbers(*map(int, value.shape)) for value in alone.inputs}
    expected = prototrt.Session(alone).run(feeds)
    for name, found in prototrt.Session(alone, on="onnx-lstm").run(feeds).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-5)
