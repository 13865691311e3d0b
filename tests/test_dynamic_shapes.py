"""One graph for a range of sizes: T and N as symbols, against Caffe's numbers and against fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form, Way
from prototrt.caffe_proto.common.errors import ConversionError, ShapeError
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.golden_cases import Case, caffe_cases
from prototrt.tests.small_nets import WAYS

CASES = {str(case): case for case in caffe_cases()}
# Which axes of which inputs vary: those of x and cont, of a static input, of exposed states.
VARYING: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "lstm_t20": {"x": (0, 1), "cont": (0, 1)},
    "lstm_static": {"x": (0, 1), "cont": (0, 1), "xs": (0,)},
    "lstm_expose": {"x": (0, 1), "cont": (0, 1), "h0": (1,), "c0": (1,)},
    "lstm_5axis_input": {"x": (0, 1), "cont": (0, 1)},
    "lstm_embed_caption": {"ids": (0, 1), "cont": (0, 1)},
    "lstm_stacked": {"x": (0, 1), "cont": (0, 1)},
    "rnn_t5": {"x": (0, 1), "cont": (0, 1)},
    "net_lenet": {"data": (0,)},
    "net_inception": {"data": (0,)},
    "scale_axis_num_axes": {"data": (0,)},
}
LARGEST = {0: 24, 1: 9}
"""By axis: the ranges of T and N differ, so that they are told apart."""


def dynamic(case: Case, sequence: Form = "auto") -> Graph:
    inputs = case.arrays("inputs")[0]
    least, most = {}, {}
    for name, axes in VARYING[str(case)].items():
        # N of a static input is its first axis, but the range is that of the second axis of x.
        span = [LARGEST[1] if name == "xs" else LARGEST[axis] for axis in axes]
        shape = inputs[name].shape
        least[name] = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        most[name] = tuple(
            span[axes.index(axis)] if axis in axes else size for axis, size in enumerate(shape)
        )
    return prototrt.rewrite(
        case.load(),
        outputs=list(case.arrays("outputs")[0]),
        min_shapes=least,
        max_shapes=most,
        opt_shapes={name: inputs[name].shape for name in least},
        sequence=sequence,
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", VARYING)
def test_golden(name: str, on: Way) -> None:
    case = CASES[name]
    results = prototrt.Session(dynamic(case), on=on).run(case.arrays("inputs")[0])
    for blob, wanted in case.arrays("outputs")[0].items():
        relative, absolute = case.tolerance(blob)
        np.testing.assert_allclose(results[blob], wanted, relative, absolute, err_msg=blob)


@pytest.mark.parametrize("on", WAYS)
def test_other_sizes_give_what_fixed_shapes_give(on: Way) -> None:
    case = CASES["lstm_stacked"]
    session = prototrt.Session(dynamic(case), on=on)
    random = np.random.default_rng(1)
    for steps, streams in ((1, 1), (3, 9), (24, 2)):
        feeds: dict[str, Array] = {
            "x": random.standard_normal((steps, streams, 5), np.float32),
            "cont": random.integers(0, 2, (steps, streams)).astype(np.float32),
        }
        shapes = {name: array.shape for name, array in feeds.items()}
        fixed = prototrt.Session(prototrt.rewrite(case.load(), shapes=shapes)).run(feeds)
        session.reset()
        np.testing.assert_allclose(session.run(feeds)["h2"], fixed["h2"], 1e-5, 1e-6)


BUILT = ("lstm_expose", "lstm_static", "net_inception", "rnn_t5")


@pytest.mark.trt
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BUILT else pytest.mark.exhaustive) for name in VARYING]
)
def test_golden_builds(name: str) -> None:
    plan = prototrt.build(dynamic(CASES[name]), backend="rtx")
    profiles = {binding["name"]: binding["profile"] for binding in plan.manifest["inputs"]}
    varying = next(iter(VARYING[name]))
    assert profiles[varying]["T" if len(VARYING[name][varying]) > 1 else "N"][0::2] == [1, LARGEST[0]]


def test_x_and_cont_share_their_symbols() -> None:
    graph = dynamic(CASES["lstm_t20"])
    assert [value.shape for value in graph.inputs] == [
        ("T", "N", 5),
        ("T", "N"),
        (1, "N", 7),
        (1, "N", 7),
    ]


def test_batch_varies_in_every_sequence() -> None:
    case = CASES["lstm_t5_n3"]
    shapes = {"x": (5, 1, 6), "cont": (5, 1)}
    most = {"x": (5, 8, 6), "cont": (5, 8)}
    for sequence in ("loop", "unroll"):
        graph = prototrt.rewrite(case.load(), min_shapes=shapes, max_shapes=most, sequence=sequence)
        for on in ("reference", "network"):
            results = prototrt.Session(graph, on=on).run(case.arrays("inputs")[0])
            np.testing.assert_allclose(results["h"], case.arrays("outputs")[0]["h"], *case.tolerance("h"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"min_shapes": {"data": (1, 1, 28, 28)}, "max_shapes": {"data": (4, 2, 28, 28)}},
            'layer "conv1" (Convolution): axis 1 (channels) is the symbol data.1, but its size must be known here\n'
            "  fix: give data.1 one size in min_shapes and max_shapes",
        ),
        (
            {"min_shapes": {"data": (8, 1, 28, 28)}, "max_shapes": {"data": (4, 1, 28, 28)}},
            'layer "in_data" (Input), top "data": axis 0 has the smallest, usual and largest sizes 8, 1 and 4\n'
            "  because sizes are at least 1 and must not decrease in this order\n"
            "  fix: correct shapes, or min_shapes, opt_shapes and max_shapes",
        ),
        (
            {"min_shapes": {"data": (0, 1, 28, 28)}},
            'layer "in_data" (Input), top "data": axis 0 has the smallest, usual and largest sizes 0, 1 and 1\n'
            "  because sizes are at least 1 and must not decrease in this order\n"
            "  fix: correct shapes, or min_shapes, opt_shapes and max_shapes",
        ),
        (
            {"max_shapes": {"data": (4, 28, 28)}},
            'layer "in_data" (Input), top "data": the smallest, usual and largest shapes (1, 1, 28, 28),'
            " (1, 1, 28, 28) and (4, 28, 28) have different numbers of axes\n"
            "  fix: give all three the same number of axes",
        ),
    ],
)
def test_message(arguments: dict[str, Any], message: str) -> None:
    model = CASES["net_lenet"].load()
    with pytest.raises(ShapeError) as caught:
        prototrt.rewrite(model, **arguments)
    assert str(caught.value).split(": ", 1)[1] == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"min_shapes": {"x": (1, 3, 6)}},
            'layer "lstm" (LSTM), bottom "cont": shape is (5, 3), expected (T, 3)\n'
            '  because T varies and N is 3, the first dimensions of bottom "x"\n'
            '  fix: give "cont" these ranges: min_shapes={"x": (1, 3, 6), "cont": (1, 3)},'
            ' opt_shapes={"cont": (5, 3)}, max_shapes={"cont": (5, 3)}',
        ),
        (
            {"min_shapes": {"x": (1, 3, 6), "cont": (1, 3)}, "sequence": "unroll", "force": True},
            'layer "lstm" (LSTM): runs T steps, a number known only when the engine runs,'
            ' but sequence="unroll" writes them out\n'
            '  fix: use sequence="loop", or give T one size in min_shapes and max_shapes',
        ),
    ],
)
def test_message_about_steps(arguments: dict[str, Any], message: str) -> None:
    model = CASES["lstm_t5_n3"].load()
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(model, **arguments)
    assert str(caught.value).split(": ", 1)[1] == message


def test_a_call_outside_the_range() -> None:
    session = prototrt.Session(dynamic(CASES["net_lenet"]))
    with pytest.raises(ShapeError, match=r'^input "data" has N = 25, expected 1 to 24\n'):
        session.run({"data": np.zeros((25, 1, 28, 28), np.float32)})


def test_inputs_that_do_not_fit_together() -> None:
    session = prototrt.Session(dynamic(CASES["rnn_t5"]))
    with pytest.raises(ShapeError, match=r'^input "cont" has the shape \(4, 2\), expected \(3, 2\)'):
        session.run({"x": np.zeros((3, 2, 6)), "cont": np.zeros((4, 2))})
