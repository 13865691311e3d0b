"""Links, aliases and states that no golden has, against loops in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import prototrt
from prototrt import Form, Way
from prototrt.surgery.ir import Array
from prototrt.tests.caffe2_nets import check, graph_of, net, operator
from prototrt.tests.small_nets import WAYS, numbers

ways = pytest.mark.parametrize("on", WAYS)
sequences = pytest.mark.parametrize("sequence", ["loop", "unroll"])

T, N, D = 4, 2, 3
W, B = numbers(D, D, seed=8), numbers(D, seed=9)
WEIGHTS = {"w": W, "b": B}


def network(step: Any, inputs: list[str], outputs: list[str], **changes: Any) -> Any:
    """A RecurrentNetwork over x with the one state h, which starts with input 1."""
    arguments: dict[str, Any] = {
        "step_net": step,
        "recurrent_states": ["h"],
        "initial_recurrent_state_ids": [1],
        "link_internal": ["h_prev", "h_new", "x_t"],
        "link_external": ["h", "h", "x"],
        "link_offset": [0, 1, 0],
        "alias_src": ["h", "h"],
        "alias_dst": ["all", "last"],
        "alias_offset": [1, -1],
    }
    return operator("RecurrentNetwork", inputs, outputs, **{**arguments, **changes})


def fc(source: str, target: str) -> Any:
    return operator("FC", [source, "w", "b"], [target], axis=2)


def tanh_of_sum(*blobs: str) -> list[Any]:
    return [operator("Sum", blobs, ["sum"]), operator("Tanh", ["sum"], ["h_new"])]


STEP = net(fc("h_prev", "p"), *tanh_of_sum("p", "x_t"))


def states(x: Array, initial: Array) -> Array:
    """h' = tanh(W h + b + x), all T of them behind the initial one."""
    rows = [np.broadcast_to(initial.reshape(-1, x.shape[2]), x.shape[1:])]
    for row in x:
        rows.append(np.tanh(rows[-1] @ W.T + B + row))
    return np.stack(rows)


@ways
@sequences
@pytest.mark.parametrize("shape", [(D,), (N, D), (1, N, D)])
def test_forms_of_the_initial_state(shape: tuple[int, ...], sequence: Form, on: Way) -> None:
    x, initial = numbers(T, N, D), numbers(*shape, seed=1)
    rows = states(x, initial)
    recurrent = network(STEP, ["x", "h0", "w", "b"], ["all", "last", "ws"])
    check(
        [recurrent],
        {"x": x, "h0": initial},
        WEIGHTS,
        {"all": rows[1:], "last": rows[-1:]},
        on,
        sequence=sequence,
    )


@pytest.mark.parametrize(
    ("shape", "output"),
    [((N, D), "__all_h0_last"), ((1, N, D), "last")],
)
@pytest.mark.parametrize("has_last", [True, False])
def test_the_final_state_is_fed_back(shape: tuple[int, ...], output: str, has_last: bool) -> None:
    x, initial = numbers(2 * T, N, D), numbers(*shape, seed=1)
    aliases = {} if has_last else {"alias_src": ["h"], "alias_dst": ["all"], "alias_offset": [1]}
    recurrent = network(
        STEP, ["x", "h0", "w", "b"], ["all", *(["last"] if has_last else []), "ws"], **aliases
    )
    graph = graph_of([recurrent], {"x": x[:T], "h0": initial}, WEIGHTS)
    expected = output if has_last else "__all_h0_last"
    assert [(pair.input.name, pair.output.name) for pair in graph.recurrences] == [("h0", expected)]
    session = prototrt.Session(graph)
    found = [session.run({"x": x[:T], "h0": initial})["all"], session.run({"x": x[T:]})["all"]]
    np.testing.assert_allclose(np.concatenate(found), states(x, initial)[1:], 1e-5, 1e-5)


def test_the_final_state_is_fed_back_through_copies_and_shapes() -> None:
    x, initial = numbers(T, N, D), numbers(1, 1, N, D, seed=1)
    operators = [
        operator("Squeeze", ["i"], ["squeezed"], dims=[0]),
        operator("Copy", ["squeezed"], ["start"]),
        network(STEP, ["x", "start"], ["all", "last"]),
    ]
    graph = graph_of(operators, {"x": x, "i": initial}, WEIGHTS)
    (pair,) = graph.recurrences
    assert (pair.input.name, pair.output.shape) == ("i", (1, 1, N, D))
    found = prototrt.Session(graph).run({"x": x, "i": initial})
    np.testing.assert_allclose(found[pair.output.name][0], found["last"], 1e-6)


def test_a_state_of_one_row_for_all_streams_is_not_fed_back() -> None:
    recurrent = network(STEP, ["x", "h0", "w", "b"], ["all", "last", "ws"])
    graph = graph_of([recurrent], {"x": numbers(T, N, D), "h0": numbers(D)}, WEIGHTS)
    assert graph.recurrences == ()


@ways
@sequences
@pytest.mark.parametrize("streams", [1, 4])
def test_one_row_for_streams_whose_number_varies(streams: int, sequence: Form, on: Way) -> None:
    x, row = numbers(T, N, D), numbers(D, seed=1)
    operators = [network(STEP, ["x", "row"], ["all", "last"])]
    ranges: dict[str, Any] = {"min_shapes": {"x": (T, 1, D)}, "max_shapes": {"x": (T, 5, D)}}
    graph = graph_of(operators, {"x": x}, {**WEIGHTS, "row": row}, sequence=sequence, **ranges)
    x = numbers(T, streams, D, seed=2)
    found = prototrt.Session(graph, on=on).run({"x": x})
    np.testing.assert_allclose(found["all"], states(x, row)[1:], 1e-4, 2e-5)


@ways
@sequences
def test_several_sequences_with_offsets(sequence: Form, on: Way) -> None:
    """In step t: row t of x, row t + 2 of a longer one, and row t of one that the step net squares."""
    x, longer, third = numbers(T, N, D), numbers(T + 3, N, D, seed=2), numbers(T, N, D, seed=3)
    initial = numbers(1, N, D, seed=1)
    step = net(
        fc("h_prev", "p"),
        operator("Mul", ["third_t", "third_t"], ["q"]),
        *tanh_of_sum("p", "x_t", "late_t", "q"),
    )
    recurrent = network(
        step,
        ["x", "h0", "w", "b"],
        ["all", "last", "ws"],
        link_internal=["h_prev", "h_new", "x_t", "late_t", "third_t"],
        link_external=["h", "h", "x", "longer", "third"],
        link_offset=[0, 1, 0, 2, 0],
    )
    rows = states(x + longer[2 : 2 + T] + third**2, initial)
    inputs = {"x": x, "h0": initial, "longer": longer, "third": third}
    check([recurrent], inputs, WEIGHTS, {"all": rows[1:], "last": rows[-1:]}, on, sequence=sequence)


@ways
@sequences
def test_a_window_of_several_rows_of_a_sequence(sequence: Form, on: Way) -> None:
    """h' = tanh(W h + b + x[t] - x[t + 2]), out of the window x[t : t + 3]."""
    x, longer, initial = numbers(T, N, D), numbers(T + 2, N, D, seed=2), numbers(1, N, D, seed=1)
    step = net(
        fc("h_prev", "p"),
        operator("Split", ["window"], ["first", "middle", "third"], axis=0),
        operator("Sub", ["first", "third"], ["difference"]),
        *tanh_of_sum("p", "difference"),
    )
    recurrent = network(
        step,
        ["x", "h0", "w", "b"],
        ["all", "last", "ws"],
        link_internal=["h_prev", "h_new", "window"],
        link_external=["h", "h", "longer"],
        link_offset=[0, 1, 0],
        link_window=[1, 1, 3],
    )
    rows = states(longer[:T] - longer[2:], initial)
    check(
        [recurrent],
        {"x": x, "h0": initial, "longer": longer},
        WEIGHTS,
        {"all": rows[1:]},
        on,
        sequence=sequence,
    )


@ways
@sequences
@pytest.mark.parametrize("offset", [2, 0, 1, -1, -2, -3])
def test_a_state_of_several_rows(offset: int, sequence: Form, on: Way) -> None:
    """h[t] = tanh(W h[t-1] + b + h[t-2] + x[t]): the step sees both rows in one window."""
    x, initial = numbers(T, N, D), numbers(2, N, D, seed=1)
    step = net(
        operator("Split", ["both"], ["before", "h_prev"], axis=0),
        fc("h_prev", "p"),
        *tanh_of_sum("p", "before", "x_t"),
    )
    recurrent = network(
        step,
        ["x", "h0", "w", "b"],
        ["rows", "ws"],
        link_internal=["both", "h_new", "x_t"],
        link_offset=[0, 2, 0],
        link_window=[2, 1, 1],
        alias_src=["h"],
        alias_dst=["rows"],
        alias_offset=[offset],
    )
    rows = [*initial]
    for row in x:
        rows.append(np.tanh(rows[-1] @ W.T + B + rows[-2] + row))
    inputs = {"x": x, "h0": initial}
    graph = check([recurrent], inputs, WEIGHTS, {"rows": np.stack(rows)[offset:]}, on, sequence=sequence)
    last = "rows" if offset == -2 else "__rows_h0_last"
    assert [(pair.input.name, pair.output.name) for pair in graph.recurrences] == [("h0", last)]


@ways
@sequences
def test_two_outputs_that_are_one_value(sequence: Form, on: Way) -> None:
    x, initial = numbers(T, N, D), numbers(N, D, seed=1)
    aliases = {"alias_src": ["h"] * 3, "alias_dst": ["all", "again", "last"], "alias_offset": [1, 1, -1]}
    operators = network(STEP, ["x", "i"], ["all", "again", "last"], **aliases)
    rows = states(x, initial)
    expected = {"all": rows[1:], "again": rows[1:], "last": rows[-1:]}
    check(operators, {"x": x, "i": initial}, WEIGHTS, expected, on, sequence=sequence)


@ways
@sequences
@pytest.mark.parametrize("encoding", ["net", "text"])
def test_a_recurrent_network_in_a_step_net(encoding: str, sequence: Form, on: Way) -> None:
    """Each step runs a net of its own over the streams z (S, N, D), and starts it with its own state."""
    z, x, initial = numbers(3, N, D, seed=4), numbers(T, N, D), numbers(1, N, D, seed=1)

    def encoded(step: Any) -> Any:
        return step if encoding == "net" else text_format.MessageToString(step)

    inner = network(
        encoded(
            net(
                fc("g_prev", "gp"),
                operator("Sum", ["gp", "z_t"], ["gs"]),
                operator("Tanh", ["gs"], ["g_new"]),
            )
        ),
        ["z", "h_prev"],
        ["g_all", "g_last", "g_ws"],
        recurrent_states=["g"],
        link_internal=["g_prev", "g_new", "z_t"],
        link_external=["g", "g", "z"],
        alias_src=["g", "g"],
        alias_dst=["g_all", "g_last"],
    )
    outer = network(
        encoded(net(inner, *tanh_of_sum("g_last", "x_t"))), ["x", "h0", "w", "b", "z"], ["all", "last", "ws"]
    )
    rows = [initial[0]]
    for row in x:
        rows.append(np.tanh(states(z, rows[-1])[-1] + row))
    inputs = {"x": x, "h0": initial, "z": z}
    check(
        [outer], inputs, WEIGHTS, {"all": np.stack(rows[1:]), "last": rows[-1][None]}, on, sequence=sequence
    )


@ways
@sequences
def test_the_step_counts_and_the_last_write_wins(sequence: Form, on: Way) -> None:
    """h' = (h + x) * (t + 1), written over itself twice; the counter has a name of its own."""
    x, initial = numbers(T, N, D), numbers(1, N, D, seed=1)
    step = net(
        operator("Sum", ["h_prev", "x_t"], ["h_new"]),
        operator("Cast", ["clock"], ["now"], to="float"),
        operator("Mul", ["h_new", "now"], ["product"], broadcast=1),
        operator("Sum", ["h_new", "product"], ["h_new"]),
    )
    recurrent = network(step, ["x", "h0"], ["all", "last", "ws"], timestep="clock")
    rows = [initial[0]]
    for t, row in enumerate(x):
        rows.append((rows[-1] + row) * (t + 1))
    check([recurrent], {"x": x, "h0": initial}, {}, {"all": np.stack(rows[1:])}, on, sequence=sequence)


@ways
@sequences
@pytest.mark.parametrize("kind", ["LSTMUnit", "GRUUnit"])
@pytest.mark.parametrize("arguments", [{}, {"drop_states": 1}, {"forget_bias": 1.5}], ids=str)
@pytest.mark.parametrize("has_lengths", [True, False])
def test_units(kind: str, arguments: dict[str, Any], has_lengths: bool, sequence: Form, on: Way) -> None:
    """Lengths of 0, within T and above it; the forget bias is an LSTM's only."""
    count, blocks = (2, 4) if kind == "LSTMUnit" else (1, 3)
    gates = numbers(T, 4, blocks * D)
    initial = [numbers(1, 4, D, seed=1 + index) for index in range(count)]
    lengths = np.array([0, 2, T, 99], np.int32)
    names, previous = ["h", "c"][:count], ["h_prev", "c_prev"][:count]
    behind = ["lengths", "timestep"] if has_lengths else ["timestep"]
    unit = operator(
        kind,
        [*previous, "gates_t", *behind],
        [f"{name}_new" for name in names],
        sequence_lengths=int(has_lengths),
        **arguments,
    )
    recurrent = operator(
        "RecurrentNetwork",
        ["gates", *[f"{name}0" for name in names], *behind[:-1]],
        [*[f"{name}_all" for name in names], "ws"],
        step_net=net(unit),
        recurrent_states=names,
        initial_recurrent_state_ids=[*range(1, 1 + count)],
        link_internal=[*previous, *[f"{name}_new" for name in names], "gates_t"],
        link_external=[*names, *names, "gates"],
        link_offset=[0] * count + [1] * count + [0],
        alias_src=names,
        alias_dst=[f"{name}_all" for name in names],
        alias_offset=[1] * count,
    )
    expected = unit_by_hand(
        kind, gates, [state[0] for state in initial], lengths if has_lengths else None, arguments
    )
    inputs = {"gates": gates, **{f"{name}0": state for name, state in zip(names, initial, strict=True)}}
    if has_lengths:
        inputs["lengths"] = lengths
    wanted = {f"{name}_all": rows for name, rows in zip(names, expected, strict=True)}
    check([recurrent], inputs, {}, wanted, on, sequence=sequence)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def unit_by_hand(
    kind: str, gates: Array, state: list[Array], lengths: Array | None, arguments: dict[str, Any]
) -> list[Array]:
    """All states of all steps, each (T, N, D)."""
    written: list[list[Array]] = []
    for t, row in enumerate(gates):
        blocks = np.split(row, row.shape[1] // D, axis=1)
        if kind == "LSTMUnit":
            i, f, o, g = blocks
            c = sigmoid(f + arguments.get("forget_bias", 0)) * state[1] + sigmoid(i) * np.tanh(g)
            new = [sigmoid(o) * np.tanh(c), c]
        else:
            _, update, output = blocks
            u = sigmoid(update)
            new = [u * state[0] + (1 - u) * np.tanh(output)]
        if lengths is not None:
            ended = (t >= lengths)[:, None]
            old = [0 * value for value in state] if "drop_states" in arguments else state
            new = [np.where(ended, before, after) for before, after in zip(old, new, strict=True)]
        written.append(new)
        state = new
    return [np.stack(rows) for rows in zip(*written, strict=True)]
