"""A pass keeps the border of a graph, or declares what it changes: the runner compares the two, and names the pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import Origin
from prototrt.surgery import runner
from prototrt.surgery.ir import DType, Graph, Node, Recurrence, Value
from prototrt.surgery.ir.verification import BorderChange, changes, declared_changes
from prototrt.surgery.ops import ADD, Cast, Identity, Scan, TanH
from prototrt.surgery.pipeline import all_passes, lowered, quantizable
from prototrt.surgery.runner import Pass, PassError, PassList, inside_bodies, run
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.golden_cases import caffe_cases
from prototrt.tests.small_nets import rewritten

LSTM, FC = Origin("net.prototxt", 3, "lstm", "LSTM"), Origin("net.prototxt", 9, "fc", "InnerProduct")
TANH = Origin("net.prototxt", 20, "ip", "TanH")
FULL, HALF = DType.FLOAT32, DType.FLOAT16


def value(name: str, *shape: int, dtype: DType = FULL) -> Value:
    return Value(name, dtype, shape)


X, OTHER, H0, ONE = value("x", 5, 2), value("other", 3), value("h_0", 2), value("one", 2)
STATE, STEP, SUM, NEW = value("s", 2), value("x_t", 2), value("sum", 2), value("new", 2)
ADDED, CHANGED = Node("sum", ADD, (STATE, STEP), (SUM,), LSTM), Node("new", TanH(), (SUM,), (NEW,), LSTM)
BODY = Graph(
    "",
    (STATE, STEP),
    (NEW, SUM),
    (Node("sum", ADD, (STATE, STEP), (SUM,), LSTM), Node("new", TanH(), (SUM,), (NEW,), LSTM)),
)
LAST, H, Y = value("h_T", 2), value("h", 5, 2), value("y", 5, 2)
SCAN = Node("lstm", Scan(BODY, 1, 1), (H0, X), (LAST, H), LSTM)
TAIL = Node("fc", TanH(), (H,), (Y,), FC)
GRAPH = Graph("net", (X, OTHER, H0), (H, Y, LAST), (SCAN, TAIL), (Recurrence(H0, LAST),))


def without_recurrences(graph: Graph) -> Graph:
    return replace(graph, recurrences=())


def exposed_recurrences(graph: Graph) -> Graph:
    return replace(graph, recurrences=tuple(replace(pair, exposed=True) for pair in graph.recurrences))


def without_h(graph: Graph) -> Graph:
    return replace(graph, outputs=(Y, LAST))


def outputs_in_another_order(graph: Graph) -> Graph:
    return replace(graph, outputs=(Y, H, LAST))


def half_output(graph: Graph) -> Graph:
    half = replace(H, dtype=HALF)
    scan = replace(SCAN, outputs=(LAST, full := replace(H, name="full")))
    cast = Node("cast", Cast(HALF), (full,), (half,), LSTM)
    return replace(graph, nodes=(scan, cast, TAIL.with_replacements({H: full})), outputs=(half, Y, LAST))


def _other_input(graph: Graph, new: Value) -> Graph:
    return replace(graph, inputs=(X, new, H0))


def renamed_input(graph: Graph) -> Graph:
    return _other_input(graph, replace(OTHER, name="another"))


def retyped_input(graph: Graph) -> Graph:
    return _other_input(graph, replace(OTHER, dtype=HALF))


def reshaped_input(graph: Graph) -> Graph:
    return _other_input(graph, replace(OTHER, shape=(4,)))


def without_input(graph: Graph) -> Graph:
    return replace(graph, inputs=(X, H0))


def without_origins(graph: Graph) -> Graph:
    return graph.with_nodes(replace(node, origin=Origin("", 0, "", "")) for node in graph.nodes)


def of_one_layer(graph: Graph) -> Graph:
    return graph.with_nodes(replace(node, origin=LSTM) for node in graph.nodes)


def other_writer(graph: Graph) -> Graph:
    copy = Node("copy", Identity(), (Y,), (value("copied", 5, 2),), FC)
    return graph.with_nodes([SCAN, replace(TAIL, origin=LSTM), copy])


def body_without_origin(graph: Graph) -> Graph:
    body = BODY.with_nodes(replace(node, origin=FC) for node in BODY.nodes)
    return graph.with_nodes([replace(SCAN, op=Scan(body, 1, 1)), TAIL])


FAULTS: dict[Pass, str] = {
    without_recurrences: "the recurrences change: without h_T -> h_0",
    exposed_recurrences: "the recurrences change: without h_T -> h_0; with h_T -> h_0 (exposed)",
    without_h: "the outputs change: without h: float32[5, 2]",
    outputs_in_another_order: "the outputs change: their order",
    half_output: "the outputs change: without h: float32[5, 2]; with h: float16[5, 2]",
    renamed_input: "the inputs change: without other: float32[3]; with another: float32[3]",
    retyped_input: "the inputs change: without other: float32[3]; with other: float16[3]",
    reshaped_input: "the inputs change: without other: float32[3]; with other: float32[4]",
    without_input: "the inputs change: without other: float32[3]",
    without_origins: 'lstm comes from : layer "" (), which had no node before',
    of_one_layer: 'net.prototxt:3: layer "lstm" (LSTM) writes y, before net.prototxt:9: layer "fc" (InnerProduct)',
    other_writer: 'net.prototxt:3: layer "lstm" (LSTM) writes y, before net.prototxt:9: layer "fc" (InnerProduct)',
    body_without_origin: 'net.prototxt:9: layer "fc" (InnerProduct) writes sum, before net.prototxt:3: layer'
    ' "lstm" (LSTM)',
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_pass_that_changes_the_border_is_named(fault: Pass) -> None:
    with pytest.raises(PassError) as caught:
        run(GRAPH, [PassList("passes", (fault,))])
    assert str(caught.value) == f"the pass {fault.__name__} breaks the graph: {FAULTS[fault]}"


def test_a_layer_vanishes_only_with_its_values() -> None:
    def drop(graph: Graph) -> Graph:
        return graph.with_nodes(node for node in graph.nodes if node.origin != TANH)

    unread = Node("ip", TanH(), (H,), (value("ip", 5, 2),), TANH)
    assert run(GRAPH.with_nodes([*GRAPH.nodes, unread]), [PassList("passes", (drop,))]).nodes == GRAPH.nodes


def test_a_layer_that_the_net_does_not_have() -> None:
    def invent(graph: Graph) -> Graph:
        other = Node("new", TanH(), (H,), (value("z", 5, 2),), TANH)
        return graph.with_nodes([*graph.nodes, other])

    with pytest.raises(PassError) as caught:
        run(GRAPH, [PassList("passes", (invent,))])
    problem = 'new comes from net.prototxt:20: layer "ip" (TanH), which had no node before'
    assert str(caught.value) == f"the pass invent breaks the graph: {problem}"


@pytest.mark.parametrize(
    ("fault", "declared"),
    [
        (without_input, "fewer inputs"),
        (reshaped_input, "shapes"),
        (of_one_layer, "other writers"),
        (other_writer, "other writers"),
    ],
)
def test_what_a_pass_declares_is_allowed_and_nothing_else(fault: Pass, declared: BorderChange) -> None:
    def declaring(*names: BorderChange) -> Sequence[PassList]:
        def change(graph: Graph) -> Graph:
            return fault(graph)

        return [PassList("passes", (changes(*names)(change),))]

    assert run(GRAPH, declaring(declared)).nodes
    others: set[BorderChange] = {"fewer inputs", "other writers", "shapes"}
    with pytest.raises(PassError):
        run(GRAPH, declaring(*(others - {declared})))


def test_fewer_inputs_are_not_other_inputs() -> None:
    @changes("fewer inputs")
    def rename(graph: Graph) -> Graph:
        return renamed_input(graph)

    with pytest.raises(PassError, match="the inputs change: with another"):
        run(GRAPH, [PassList("passes", (rename,))])


def _body_with(**fields: Any) -> Pass:
    @changes("fewer inputs", "other writers", "shapes")
    def change(body: Graph) -> Graph:
        return replace(body, **fields) if not body.name else body

    return inside_bodies(change)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_body_with(outputs=(NEW, NEW)), "the outputs change: without sum: float32[2]"),
        (
            _body_with(
                inputs=(renamed := replace(STATE, name="t"), STEP),
                nodes=(ADDED.with_replacements({STATE: renamed}), CHANGED),
            ),
            "the inputs change: without s: float32[2]; with t: float32[2]",
        ),
    ],
    ids=["outputs", "inputs"],
)
def test_a_body_keeps_its_border_whatever_a_pass_declares(change: Pass, problem: str) -> None:
    with pytest.raises(PassError) as caught:
        run(GRAPH, [PassList("passes", (change,))])
    assert str(caught.value) == f"the pass change breaks the graph: in the body of lstm, {problem}"


def golden(name: str) -> prototrt.Model:
    return next(case for case in caffe_cases() if str(case) == name).load()


def caffe2_golden(name: str) -> Caffe2Case:
    return next(case for case in caffe2_cases() if case.folder.name == name)


def permuted() -> Graph:
    """Batch first, the Permute has nothing to do: the TanH writes its top."""
    layers = """
        layer { name: "tanh" type: "TanH" bottom: "x" top: "t" }
        layer { name: "turn" type: "Permute" bottom: "t" top: "p" permute_param { order: 1 order: 0 order: 2 } }
        layer { name: "lstm" type: "LSTM" bottom: "t" bottom: "cont" top: "h" recurrent_param { num_output: 4 } }
    """
    shapes = {"x": (5, 2, 3), "cont": (5, 2)}
    return rewritten(layers, shapes, layout="batch-first", require_weights=False)


DECLARED: dict[tuple[str, BorderChange], Callable[[], object]] = {
    ("drop_unused", "fewer inputs"): lambda: prototrt.rewrite(golden("crop_default")),
    ("fold_affines", "other writers"): lambda: quantizable(golden("batchnorm_scale_relu_inplace")),
    ("rejoin_rows", "other writers"): lambda: lowered(
        caffe2_golden("packed_rnn_from_onnx").rewritten(), "tensorrt"
    ),
    ("sink_moves", "other writers"): lambda: lowered(permuted(), "tensorrt"),
    ("put_batch_first", "shapes"): lambda: prototrt.rewrite(golden("lstm_carry"), layout="batch-first"),
}
"""By pass and declaration: what needs it."""


def test_every_declaration_is_listed() -> None:
    passes = all_passes().items()
    assert {(name, declared) for name, each in passes for declared in declared_changes(each)} == set(DECLARED)


@pytest.mark.parametrize(("name", "declared"), DECLARED)
def test_no_declaration_is_too_many(
    name: str, declared: BorderChange, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = DECLARED[name, declared]
    convert()

    def without(change: Pass) -> list[BorderChange]:
        return [each for each in declared_changes(change) if (change.__name__, each) != (name, declared)]

    monkeypatch.setattr(runner, "declared_changes", without)
    with pytest.raises(PassError, match=f"^the pass {name} breaks the graph: "):
        convert()
