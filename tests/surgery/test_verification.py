"""Graph.verify finds whatever a pass may break, also in bodies; the runner names the pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import Origin, ShapeError
from prototrt.caffe_proto.common.records import dataclass, fields, is_dataclass, replace
from prototrt.surgery.ir import Dim, DType, Graph, Node, Op, OpenSize, Range, Recurrence, Shape, Value, walk
from prototrt.surgery.ir.verification import InvalidGraphError
from prototrt.surgery.ops import ADD, Binary, BinaryKind, MatMul, Reshape, Scan, TanH, While
from prototrt.surgery.pipeline import lowered
from prototrt.surgery.runner import PassError, PassList, run
from prototrt.tests.golden_cases import caffe_cases

ORIGIN = Origin("net.prototxt", 3, "a", "RNN")
FULL, HALF, INTS = DType.FLOAT32, DType.FLOAT16, DType.INT32
Change = Callable[[Graph], Graph]


@dataclass(frozen=True, slots=True)
class TanHOfConstant(Op):
    """A primitive whose input backends take as weights."""

    constants: ClassVar[tuple[int, ...]] = (0,)

    def shape(self, x: Shape) -> list[Shape]:
        return [x]


def value(name: str, *shape: Dim, dtype: DType = FULL) -> Value:
    return Value(name, dtype, shape)


def node(op: Op, inputs: tuple[Value, ...], *outputs: Value) -> Node:
    return Node(outputs[0].name, op, inputs, outputs, ORIGIN)


STEPS = OpenSize.symbol("T", Range(1, 2, 4))
X, XS, H0 = value("x", 5, 2), value("xs", STEPS, 5, 2), value("h_0", 5, 2)
H, HERE, BIAS = value("h", 5, 2), value("x_t", 5, 2), value("b", 5, 2)
SUM, NEW = value("sum", 5, 2), value("new", 5, 2)
SCALED, LAST, ALL = value("scaled", 5, 2), value("h_T", 5, 2), value("all", STEPS, 5, 2)
ADDED, CHANGED, SCALE = node(ADD, (H, HERE), SUM), node(ADD, (SUM, BIAS), NEW), node(TanH(), (X,), SCALED)
BODY = Graph("", (H, HERE, BIAS), (NEW, NEW), (ADDED, CHANGED))
SCAN = node(Scan(BODY, 1, 1), (H0, XS, SCALED), LAST, ALL)
GRAPH = Graph("net", (X, XS, H0), (ALL, LAST), (SCALE, SCAN), (Recurrence(H0, LAST),), {"T": Range(1, 2, 4)})


def with_body(**changes: object) -> Change:
    """A body changed in these fields."""

    def change(graph: Graph) -> Graph:
        body = replace(BODY, **changes)  # type: ignore[arg-type]  # what a case gives
        return graph.with_nodes([SCALE, replace(SCAN, op=Scan(body, 1, 1))])

    return change


def with_nodes(*nodes: Node) -> Change:
    return lambda graph: graph.with_nodes(nodes)


def with_fields(**changes: object) -> Change:
    return lambda graph: replace(graph, **changes)  # type: ignore[arg-type]  # what a case gives


WRONG = replace(SUM, shape=(99,))
ALIEN = value("scaled_2", 5, 2)
DAMAGE: dict[str, tuple[Change, str]] = {
    "a node in a body is gone": (with_body(nodes=(CHANGED,)), "new reads sum before it is written"),
    "the output of a body is gone": (
        with_body(nodes=(ADDED,)),
        "output new of the body of h_T is never written",
    ),
    "nodes in a body in another order": (
        with_body(nodes=(CHANGED, ADDED)),
        "new reads sum before it is written",
    ),
    "a body reads what is outside": (
        with_body(nodes=(ADDED, node(ADD, (SUM, SCALED), NEW))),
        "new reads scaled outside its scope",
    ),
    "the graph reads what is in a body": (
        with_nodes(SCALE, SCAN, node(TanH(), (SUM,), ALIEN)),
        "scaled_2 reads sum outside its scope",
    ),
    "a body writes what is written outside": (
        with_body(nodes=(node(ADD, (H, HERE), SCALED), CHANGED)),
        "scaled has two writers",
    ),
    "two values of a name in a body": (
        with_body(nodes=(ADDED, CHANGED, node(TanH(), (SUM,), replace(SUM)))),
        "two values are called sum",
    ),
    "two nodes of a name": (
        with_nodes(SCALE, SCAN, replace(SCALE, outputs=(ALIEN,))),
        "two nodes are called scaled",
    ),
    "another shape in a body": (
        with_body(nodes=(replace(ADDED, outputs=(WRONG,)), CHANGED.with_replacements({SUM: WRONG}))),
        "sum (Binary[kind=ADD]) writes sum: float32[99], but its rule gives float32[5, 2]",
    ),
    "another shape": (
        with_nodes(
            replace(SCALE, outputs=(wrong := replace(SCALED, shape=(99,)),)),
            SCAN.with_replacements({SCALED: wrong}),
        ),
        "scaled (TanH) writes scaled: float32[99], but its rule gives float32[5, 2]",
    ),
    "another type": (
        with_nodes(
            replace(SCALE, outputs=(typed := replace(SCALED, dtype=HALF),)),
            SCAN.with_replacements({SCALED: typed}),
        ),
        "scaled (TanH) writes scaled: float16[5, 2], but its rule gives float32[5, 2]",
    ),
    "an output too many": (
        with_nodes(replace(SCALE, outputs=(SCALED, ALIEN)), SCAN),
        "scaled (TanH) writes scaled: float32[5, 2], scaled_2: float32[5, 2], but its rule gives float32[5, 2]",
    ),
    "an input too many": (
        with_nodes(replace(SCALE, inputs=(X, X)), SCAN),
        "scaled (TanH) cannot read x: float32[5, 2], x: float32[5, 2]: Pointwise.shape() takes 2 positional"
        " arguments but 3 were given",
    ),
    "two types of floating point": (
        with_nodes(
            replace(SCALE, op=MatMul(), inputs=(X, Value("c", HALF, (2, 2), np.zeros((2, 2), np.float16)))),
            SCAN,
        ),
        "scaled (MatMul[transpose_b=False]): it reads float32 and float16",
    ),
    "numbers of two types": (
        with_nodes(
            replace(SCALE, op=ADD, inputs=(X, Value("c", INTS, (5, 2), np.zeros((5, 2), np.int32)))), SCAN
        ),
        "scaled (Binary[kind=ADD]): it reads float32 and int32",
    ),
    "a constant of another shape": (
        with_nodes(
            replace(SCALE, op=ADD, inputs=(X, Value("c", FULL, (5, 2), np.zeros(10, np.float32)))), SCAN
        ),
        "scaled (Binary[kind=ADD]): the constant c: float32[5, 2] holds float32[10]",
    ),
    "a constant of another type": (
        with_nodes(replace(SCALE, op=ADD, inputs=(X, Value("c", FULL, (5, 2), np.zeros((5, 2))))), SCAN),
        "scaled (Binary[kind=ADD]): the constant c: float32[5, 2] holds float64[5, 2]",
    ),
    "a bias that is not constant": (
        with_nodes(
            replace(SCALE, op=TanHOfConstant(), inputs=(X,)),
            SCAN,
        ),
        "scaled (TanHOfConstant): input 0, x: float32[5, 2], is not constant",
    ),
    "a constant that is written": (
        with_nodes(replace(SCALE, outputs=(replace(SCALED, data=np.zeros((5, 2), np.float32)),)), SCAN),
        "scaled: the constant scaled is written",
    ),
    "an operand of a Scan too few": (
        with_nodes(SCALE, replace(SCAN, inputs=(H0, XS))),
        "h_T (Scan[states=1, sequences=1, reverse=False]): it reads 2 values, but its body has 3 inputs",
    ),
    "a state of another shape than in the body": (
        with_nodes(SCALE, replace(SCAN, inputs=(XS, XS, SCALED))),
        "h_T (Scan[states=1, sequences=1, reverse=False]): xs: float32[T, 5, 2] is h: float32[5, 2] in the body",
    ),
    "a sequence of another shape than in the body": (
        with_nodes(
            SCALE, replace(SCAN, inputs=(H0, X, SCALED), outputs=(LAST, short := value("all", 5, 5, 2)))
        ),
        "h_T (Scan[states=1, sequences=1, reverse=False]): the body reads x_t: float32[5, 2] of the sequence"
        " x: float32[5, 2], T is 5",
    ),
    "a step that makes another state": (
        lambda graph: replace(
            graph.with_nodes(
                [
                    SCALE,
                    replace(
                        SCAN,
                        op=Scan(
                            replace(
                                BODY,
                                nodes=(*BODY.nodes, node(Reshape((10,)), (NEW,), flat := value("flat", 10))),
                                outputs=(flat, NEW),
                            ),
                            1,
                            1,
                        ),
                        outputs=(last := value("h_T", 10), ALL),
                    ),
                ]
            ),
            outputs=(ALL, last),
            recurrences=(),
        ),
        "h_T (Scan[states=1, sequences=1, reverse=False]): a step makes the state flat: float32[10]"
        " of h: float32[5, 2]",
    ),
    "a symbol without a range": (
        with_fields(symbols={}),
        "xs: float32[T, 5, 2] has the symbol T, whose range is unknown",
    ),
    "an output that nobody writes": (
        with_fields(outputs=(ALL, LAST, ALIEN), recurrences=()),
        "output scaled_2 is never written",
    ),
    "a state that is not an input": (
        with_fields(recurrences=(Recurrence(SCALED, LAST),)),
        "state scaled is not an input of the graph",
    ),
    "a state that is not an output": (
        with_fields(recurrences=(Recurrence(H0, SCALED),)),
        "state scaled is not an output of the graph",
    ),
    "a state that changes its shape": (
        with_fields(outputs=(LAST, ALL), recurrences=(Recurrence(H0, ALL),)),
        "state all: float32[T, 5, 2] is fed back into h_0: float32[5, 2], which has another type",
    ),
    "states before other outputs": (
        with_fields(outputs=(LAST, ALL)),
        "the outputs of the graph do not end with its states",
    ),
}


def test_sound_graph() -> None:
    GRAPH.verify()


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_the_pass_is_named(damage: str) -> None:
    change, problem = DAMAGE[damage]
    with pytest.raises(InvalidGraphError) as found:
        change(GRAPH).verify()
    assert str(found.value) == problem

    def careless(graph: Graph) -> Graph:
        return change(graph)

    with pytest.raises(PassError) as caught:
        run(GRAPH, [PassList("passes", (careless,))])
    assert str(caught.value) == f"the pass careless breaks the graph: {problem}"
    assert caught.value.before is GRAPH


STATE, AGAIN = value("s"), Value("again", DType.BOOL, ())
AFTER, ENOUGH = value("after"), Value("enough", FULL, ())
ROUND = (node(ADD, (STATE, STATE), AFTER), node(Binary(BinaryKind.GREATER), (AFTER, STATE), AGAIN))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (Graph("", (STATE,), (AFTER, AGAIN), ROUND[1:]), "again reads after before it is written"),
        (
            Graph("", (STATE,), (AFTER, ENOUGH), (*ROUND, node(TanH(), (AFTER,), ENOUGH))),
            "end (While[rounds=None]): enough: float32[] says whether another round is needed, expected bool[]",
        ),
        (
            Graph("", (STATE, H), (AFTER, AGAIN), ROUND),
            "end (While[rounds=None]): it reads 1 values, but its body has 2 inputs",
        ),
        (
            Graph("", (value("w", 3),), (value("w2", 3), AGAIN), ()),
            "end (While[rounds=None]): s_0: float32[] is w: float32[3] in the body",
        ),
    ],
    ids=["scope", "truth value", "operands", "type"],
)
def test_the_body_of_a_while_is_verified(body: Graph, problem: str) -> None:
    start = value("s_0")
    with pytest.raises(InvalidGraphError) as found:
        Graph("net", (start,), (end := value("end"),), (node(While(body), (start,), end),)).verify()
    assert str(found.value) == problem


def nets() -> Iterator[Graph]:
    """Real nets: loops, both directions, float16; as they are rewritten, and as TensorRT gets them."""
    for case in caffe_cases():
        if str(case) in ("lstm_t5_n3", "rnn_t5", "net_lrcn"):
            graph = prototrt.rewrite(case.load(), precision="fp16")
            yield from (graph, lowered(graph, "tensorrt"))


def changed(graph: Graph, old: Node, new: tuple[Node, ...], stands_for: dict[Value, Value]) -> Graph:
    """The graph with other nodes in the place of one, wherever it is; readers read what stands for its values."""
    nodes: list[Node] = []
    for each in graph.nodes:
        if each is old:
            nodes += new
            continue
        inner = {name: changed(getattr(each.op, name), old, new, stands_for) for name in each.op.graphs}
        each = each.with_replacements(stands_for)
        nodes.append(replace(each, op=replace(each.op, **inner)) if inner else each)
    return graph.with_nodes(nodes, stands_for)


def undetected(graph: Graph, damaged: Callable[[Node], Graph]) -> list[str]:
    """The nodes whose damage passes."""
    found = []
    for each in walk(graph):
        try:
            damaged(each).verify()
        except InvalidGraphError:
            continue
        found.append(each.name)
    return found


def test_a_node_that_is_gone_is_missed_wherever_it_was() -> None:
    for graph in nets():
        assert undetected(graph, lambda each: changed(graph, each, (), {})) == []  # noqa: B023  it is called at once


@pytest.mark.parametrize("wrong", [{"shape": (99,)}, {"dtype": DType.INT32}], ids=["shape", "type"])
def test_a_value_of_another_type_is_found_wherever_it_is(wrong: dict[str, Any]) -> None:
    def damaged(graph: Graph, each: Node) -> Graph:
        new = {old: replace(old, **wrong) for old in each.outputs}
        return changed(graph, each, (replace(each, outputs=tuple(new.values())),), new)

    for graph in nets():
        assert undetected(graph, lambda each: damaged(graph, each)) == []  # noqa: B023  it is called at once


def test_a_node_is_asked_for_its_types_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Node] = []
    monkeypatch.setattr("prototrt.surgery.ir.verification.check_types", asked.append)

    def drop_the_first(graph: Graph) -> Graph:
        return graph.with_nodes([replace(SCALE), *graph.nodes[1:]])

    run(GRAPH, [PassList("passes", (drop_the_first, lambda graph: graph))])
    assert [each.name for each in asked] == ["scaled", "h_T", "sum", "new", "scaled"]


def test_scopes_are_checked_whatever_was_sound_before() -> None:
    sound: set[Hashable] = set()
    GRAPH.verify(sound)
    assert sound >= {SCALE, SCAN, ADDED, CHANGED}
    with pytest.raises(InvalidGraphError, match="h_T reads scaled before it is written"):
        GRAPH.with_nodes([SCAN]).verify(sound)


def test_a_graph_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[Graph] = []
    monkeypatch.setattr("prototrt.surgery.ir.verification._check_recurrences", walked.append)
    other = replace(GRAPH, outputs=(LAST,), recurrences=())
    sound: set[Hashable] = set()
    for graph in (GRAPH, other, GRAPH, replace(GRAPH, warnings=("told",))):
        run(graph, [PassList("passes", (lambda graph: graph,))], sound)
    assert walked == [GRAPH, other]


def test_a_pass_that_stumbles_is_named() -> None:
    def stumble(graph: Graph) -> Graph:
        raise KeyError("h")

    with pytest.raises(PassError, match=r"^the pass stumble fails: 'h'$"):
        run(GRAPH, [PassList("passes", (stumble,))])


def test_what_the_user_can_mend_stays_what_it_is() -> None:
    def refuse(graph: Graph) -> Graph:
        raise ShapeError("T must be known", fix="state it")

    with pytest.raises(ShapeError, match="T must be known"):
        run(GRAPH, [PassList("passes", (refuse,))])


def test_primitives_name_the_attributes_that_are_graphs() -> None:
    for kind in Op.__subclasses__():
        if is_dataclass(kind):
            assert kind.graphs == tuple(item.name for item in fields(kind) if item.type in ("Graph", Graph))
