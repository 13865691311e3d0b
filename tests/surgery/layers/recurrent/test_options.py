"""What the fields of ours mean, and what is said of those that mean nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.ir import Array, Op, fixed
from prototrt.surgery.layers.recurrent.options import OPTIONS, activation_named, form_of
from prototrt.surgery.layers.recurrent.recurrent_types import RECURRENT_TYPES
from prototrt.surgery.ops import ELU, Clip, HardSigmoid, Identity, LeakyReLU, Sigmoid, Softsign, TanH
from prototrt.surgery.recurrent.cells import LSTMForm, RNNForm
from prototrt.surgery.recurrent.gru import GRUForm
from prototrt.tests.small_nets import WAYS, inputs_of, loaded, stored

RANDOM = np.random.default_rng(9)


def load(
    folder: Path,
    parameters: str,
    bottoms: Mapping[str, tuple[int, ...]] | None = None,
    blobs: Sequence[Array] = (),
) -> prototrt.Model:
    """A net of an LSTM "l". Without ``blobs`` its weights are random."""
    shapes = {"x": (4, 3, 2), "cont": (4, 3), **(bottoms or {})}
    bottom = " ".join(f'bottom: "{name}"' for name in shapes)
    text = f'layer {{ name: "l" type: "LSTM" {bottom} top: "l" recurrent_param {{ {parameters} }} }}'
    weights = stored("l", blobs)
    return loaded(folder, inputs_of(shapes) + text, weights, random_weights=None if weights else 2)


def run(model: prototrt.Model, feeds: Mapping[str, Array]) -> Array:
    result: Array = prototrt.Session(prototrt.rewrite(model)).run(feeds)["l"]
    return result


def feeds(**others: Array) -> dict[str, Array]:
    x = RANDOM.standard_normal((4, 3, 2)).astype(np.float32)
    return {"x": x, "cont": np.ones((4, 3), np.float32), **others}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sigmoid", Sigmoid()),
        ("TanH", TanH()),
        ("tanh", TanH()),
        ("ReLU", LeakyReLU()),
        ("ReLU(0.1)", LeakyReLU(0.1)),
        ("ReLU6", Clip(0, 6)),
        ("Clip(-1, 2.5)", Clip(-1, 2.5)),
        ("Clip(high=3, low=0)", Clip(0, 3)),
        ("ELU", ELU(1)),
        ("ELU(alpha=0.5)", ELU(0.5)),
        ("hard_sigmoid", HardSigmoid(0.2, 0.5)),
        ("HardSigmoid(0.25, 0.4)", HardSigmoid(0.25, 0.4)),
        ("Softsign", Softsign()),
        ("Identity", Identity()),
    ],
)
def test_activation(text: str, expected: Op) -> None:
    assert activation_named(text, "gate_activation") == expected


@pytest.mark.parametrize("form", [LSTMForm, GRUForm, RNNForm])
def test_a_form_has_the_defaults_of_its_fields(form: type[LSTMForm | GRUForm | RNNForm]) -> None:
    param = message_class("RecurrentParameter")()
    assert form_of(form, param) == form()
    for each in fields(form):
        assert OPTIONS[each.name].read(param, each.name) == each.default, each.name


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            'num_output: 2 cell_activation: "Relu5"',
            'cell_activation is "Relu5", which is not an activation of a cell\n  fix: use ReLU, ReLU6 or ELU',
        ),
        (
            'num_output: 2 cell_activation: "Clip"',
            'cell_activation is "Clip", expected Clip(low, high) with numbers\n'
            '  fix: write cell_activation: "Clip(0, 1)"',
        ),
        (
            'num_output: 2 cell_activation: "TanH(1)"',
            'cell_activation is "TanH(1)", expected TanH alone\n  fix: write cell_activation: "TanH"',
        ),
        (
            "num_output: 2 linear_before_reset: true",
            "states linear_before_reset, which does not apply to layers of this type\n"
            f"  fix: remove it; the supported fields are {', '.join(sorted(RECURRENT_TYPES['LSTM'].options))}",
        ),
        (
            "num_output: 2 reverse: true bidirectional: SUM",
            "states both reverse and bidirectional\n  fix: remove reverse or bidirectional",
        ),
        (
            "num_output: 2 forget_bias: 1 coupled_input_forget: true",
            "states both forget_bias and coupled_input_forget\n"
            "  because a forget gate of 1 - i has no bias\n"
            "  fix: remove forget_bias or coupled_input_forget",
        ),
        (
            "num_output: 2 cell_clip: -1",
            "cell_clip is -1, expected a limit above 0, or 0 for none\n  fix: set cell_clip to 0 or more",
        ),
        ("num_layers: 2", "num_output is 0, expected at least 1\n  fix: set num_output in recurrent_param"),
        (
            "hidden: 3 hidden: 0",
            "num_layers is 1 and hidden [3, 0], expected sizes of at least 1\n"
            "  fix: state hidden once per layer, or one size and num_layers",
        ),
        (
            "hidden: 3 hidden: 2 num_layers: 3",
            "hidden is stated 2 times, expected 3\n  because of num_layers\n"
            "  fix: state hidden once per layer, or one size and num_layers",
        ),
        (
            "hidden: 3 num_output: 2",
            "num_output is 2, expected 3\n  because that is the last hidden size\n"
            "  fix: remove num_output, or set it to 3",
        ),
        (
            'num_output: 2 projection_activation: "TanH"',
            "states projection_activation without num_proj\n  fix: state num_proj, too",
        ),
        ("num_output: 2 proj_clip: 1", "states proj_clip without num_proj\n  fix: state num_proj, too"),
        (
            "num_output: 2 past_end: HOLD",
            "states past_end: HOLD without sequence_lengths\n  fix: state sequence_lengths, too",
        ),
        (
            "num_output: 2 sequence_lengths: true",
            "has no bottom with the sequence lengths\n"
            "  because sequence_lengths is true\n"
            "  fix: add a bottom of shape (N,), the number of steps of each stream",
        ),
    ],
)
def test_refusal(parameters: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(load(tmp_path, parameters))
    assert str(caught.value) == f'{tmp_path}/net.prototxt:3: layer "l" (LSTM): {expected}'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hidden: 3 num_layers: 2", "num_output: 3 num_layers: 2"),
        ("hidden: 3 num_layers: 2", "hidden: 3 hidden: 3"),
        ('num_output: 3 projection_activation: "identity" proj_clip: 0 past_end: ZERO', "num_output: 3"),
    ],
)
def test_two_ways_to_say_the_same(one: str, other: str, tmp_path: Path) -> None:
    given = feeds()
    np.testing.assert_array_equal(run(load(tmp_path, one), given), run(load(tmp_path, other), given))


def test_layers_of_different_sizes_expose_no_states(tmp_path: Path) -> None:
    bottoms = {"h": (2, 3, 4), "c": (2, 3, 4)}
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(load(tmp_path, "hidden: 5 hidden: 4 expose_hidden: true", bottoms=bottoms))
    assert str(caught.value) == (
        f'{tmp_path}/net.prototxt:5: layer "l" (LSTM): states expose_hidden with layers of different sizes\n'
        "  because the states of all layers are one blob\n"
        "  fix: give all layers one size, or omit expose_hidden, so that states become bindings"
    )


def test_layers_of_different_sizes_have_a_binding_each(tmp_path: Path) -> None:
    graph = prototrt.rewrite(load(tmp_path, "hidden: 5 hidden: 4"))
    assert [str(pair.input) for pair in graph.recurrences] == [
        "l_h_0_0: float32[1, 3, 5]",
        "l_h_1_0: float32[1, 3, 4]",
        "l_c_0_0: float32[1, 3, 5]",
        "l_c_1_0: float32[1, 3, 4]",
    ]


@pytest.mark.parametrize("direction", ["", "reverse: true", "bidirectional: CONCAT"])
@pytest.mark.parametrize("past_end", ["ZERO", "HOLD"])
def test_sequence_lengths(past_end: str, direction: str, tmp_path: Path) -> None:
    """Each stream gives what it gives alone; behind its end nothing, or the state that it keeps.

    What is behind the end may be anything, even NaN: x and cont.
    """
    lengths = np.array([4, 2, 1], np.int32)
    given = feeds(lengths=lengths, cont=RANDOM.integers(0, 2, (4, 3)).astype(np.float32))
    for n, length in enumerate(lengths):
        given["x"][length:, n] = given["cont"][length:, n] = np.nan
    parameters = f"num_output: 3 sequence_lengths: true past_end: {past_end} {direction}"
    model = load(tmp_path, parameters, bottoms={"lengths": (3,)})
    graph = prototrt.rewrite(model)
    assert [str(value) for value in graph.inputs if value.name == "lengths"] == ["lengths: int32[3]"]
    states = {
        value.name: RANDOM.standard_normal([fixed(dim, "a size") for dim in value.shape]).astype(np.float32)
        for value in graph.state_inputs
    }
    result = prototrt.Session(graph).run(given | states)["l"]
    for n, length in enumerate(lengths):
        shapes = {"x": (int(length), 1, 2), "cont": (int(length), 1)}
        alone = prototrt.rewrite(load(tmp_path, f"num_output: 3 {direction}"), shapes=shapes)
        part = {name: given[name][:length, n : n + 1] for name in shapes}
        own = {name: array[:, n : n + 1] for name, array in states.items()}
        expected = prototrt.Session(alone).run(part | own)["l"]
        np.testing.assert_allclose(result[:length, n], expected[:, 0], 1e-5, 1e-6)
        behind = result[length:, n]
        if past_end == "HOLD" and not direction:
            np.testing.assert_array_equal(behind, np.broadcast_to(result[length - 1, n], behind.shape))
        elif past_end == "ZERO":
            np.testing.assert_array_equal(behind, np.zeros_like(behind))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("projection", ["", "num_proj: 2"])
def test_what_is_projected_to_the_side_is_held(projection: str, on: Way, tmp_path: Path) -> None:
    """Behind the end the whole top is what it was at the last step; 0 to the side if there was none."""
    fields = f"num_output: 3 {projection} num_nonrecurrent_proj: 2 sequence_lengths: true"
    given = feeds(lengths=np.array([4, 2, 0], np.int32))
    results = [
        prototrt.Session(
            prototrt.rewrite(load(tmp_path, f"{fields} past_end: {end}", {"lengths": (3,)})), on=on
        ).run(given)["l"]
        for end in ("HOLD", "ZERO")
    ]
    held, zero = results
    np.testing.assert_allclose(held[:2, :2], zero[:2, :2], 1e-6)
    np.testing.assert_allclose(held[:, 0], zero[:, 0], 1e-6)
    np.testing.assert_allclose(held[2:, 1], held[[1, 1], 1], 1e-6)
    assert np.any(held[2:, 1, -2:])
    np.testing.assert_array_equal(held[:, 2], np.zeros_like(held[:, 2]))


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("direction", ["", "reverse: true", "bidirectional: CONCAT"])
def test_sequence_lengths_with_any_number_of_steps(direction: str, on: Way, tmp_path: Path) -> None:
    """One graph for all T and N counts the steps; for one T it knows their numbers."""
    model = load(tmp_path, f"num_output: 3 sequence_lengths: true {direction}", bottoms={"lengths": (3,)})
    graph = prototrt.rewrite(
        model,
        min_shapes={"x": (1, 1, 2), "cont": (1, 1), "lengths": (1,)},
        max_shapes={"x": (9, 5, 2), "cont": (9, 5), "lengths": (5,)},
    )
    session = prototrt.Session(graph, on=on)
    for steps, lengths in ((4, [4, 2, 0]), (1, [0, 1]), (9, [8, 3, 1, 9, 5])):
        shape = (steps, len(lengths))
        given = {
            "x": RANDOM.standard_normal((*shape, 2)).astype(np.float32),
            "cont": RANDOM.integers(0, 2, shape).astype(np.float32),
            "lengths": np.array(lengths, np.int32),
        }
        shapes = {name: array.shape for name, array in given.items()}
        fixed = prototrt.Session(prototrt.rewrite(model, shapes=shapes)).run(given)["l"]
        session.reset()
        np.testing.assert_allclose(session.run(given)["l"], fixed, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("bottoms", "expected"),
    [
        (
            {"x": (4, 3)},
            'bottom "x": shape is (4, 3), expected (T, N, ...)\n'
            "  fix: give x an axis of steps, an axis of streams, and the inputs of a step",
        ),
        (
            {"static": (3,)},
            'bottom "static": shape is (3,), expected (3, ...)\n'
            '  because N is 3, the second dimension of bottom "x"\n'
            '  fix: give "static" this shape: shapes={"static": (3, 3)}',
        ),
        (
            {"static": (4, 3, 2)},
            'bottom "static": shape is (4, 3, 2), expected (3, ...)\n'
            '  because N is 3, the second dimension of bottom "x"\n'
            '  fix: give "static" this shape: shapes={"static": (3, 3, 2)}',
        ),
    ],
)
def test_shapes_that_caffe_refuses(
    bottoms: Mapping[str, tuple[int, ...]], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(load(tmp_path, "num_output: 2", bottoms))
    line = 2 + len({"x", "cont", *bottoms}) - 1
    assert str(caught.value) == f'{tmp_path}/net.prototxt:{line}: layer "l" (LSTM), {expected}'


def test_forget_bias_is_added_to_the_bias(tmp_path: Path) -> None:
    blobs = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((12, 2), (12,), (12, 3))]
    moved = [blobs[0], blobs[1] + np.repeat(np.array([0, 1.5, 0, 0], np.float32), 3), blobs[2]]
    given, results = feeds(), []
    for parameters, weights in (("forget_bias: 1.5", blobs), ("", moved)):
        results.append(run(load(tmp_path, f"num_output: 3 {parameters}", blobs=weights), given))
    np.testing.assert_allclose(results[0], results[1], 1e-5, 1e-6)


def test_coupled_gates_may_keep_the_rows_of_f(tmp_path: Path) -> None:
    """Weights that were stored with four gates fit, too: f is 1 - i, whatever its rows hold."""
    blobs = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((12, 2), (12,), (12, 3))]
    given, results = feeds(), []
    for weights in (blobs, [np.delete(blob, slice(3, 6), 0) for blob in blobs]):
        model = load(tmp_path, "num_output: 3 coupled_input_forget: true", blobs=weights)
        results.append(run(model, given))
    np.testing.assert_array_equal(results[0], results[1])


def test_input_clip(tmp_path: Path) -> None:
    given = feeds()
    clipped = {**given, "x": np.clip(given["x"], -0.5, 0.5)}
    result = run(load(tmp_path, "num_output: 3 input_clip: 0.5"), given)
    np.testing.assert_allclose(result, run(load(tmp_path, "num_output: 3"), clipped), 1e-6, 1e-7)


def test_proj_clip(tmp_path: Path) -> None:
    result = run(load(tmp_path, "num_output: 3 num_proj: 2 proj_clip: 0.1"), feeds())
    assert np.abs(result).max() == np.float32(0.1)


def test_reverse(tmp_path: Path) -> None:
    """A layer that runs backwards reads the steps from the last to the first."""
    given = feeds()
    turned = {name: array[::-1] for name, array in given.items()}
    forward = run(load(tmp_path, "num_output: 3"), turned)
    np.testing.assert_allclose(
        run(load(tmp_path, "num_output: 3 reverse: true"), given), forward[::-1], 1e-5, 1e-6
    )


def test_a_stack_is_its_layers_one_on_the_other(tmp_path: Path) -> None:
    given = feeds()
    blobs = [
        RANDOM.standard_normal(shape).astype(np.float32)
        for shape in ((20, 2), (20,), (20, 5), (16, 5), (16,), (16, 4))
    ]
    stack = run(load(tmp_path, "hidden: 5 hidden: 4", blobs=blobs), given)
    x = given["x"]
    for start, size in ((0, 5), (3, 4)):
        model = load(tmp_path, f"num_output: {size}", blobs=blobs[start : start + 3])
        graph = prototrt.rewrite(model, shapes={"x": x.shape})
        x = prototrt.Session(graph).run({**given, "x": x})["l"]
    np.testing.assert_allclose(stack, x, 1e-5, 1e-6)


def test_the_page_lists_every_option() -> None:
    page = (Path(__file__).parents[4] / "docs" / "recurrent.md").read_text()
    rows = re.findall(
        r"^\| `(\w+)` \|", page.partition("| field | default | meaning |")[2].partition("\n\n")[0], re.M
    )
    assert sorted(rows) == sorted(OPTIONS)
