"""Finding how far and where two ways of computing a net diverge."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import NetError, Origin, ShapeError, VerificationError
from prototrt.converter.backends.reference import ReferenceEvaluator
from prototrt.converter.checking.verification.comparison import (
    TOLERANCES,
    Tolerance,
    difference_of,
    doubt_about,
    with_all_tops,
)
from prototrt.converter.checking.verification.seeded import seeded_feeds
from prototrt.converter.checking.verification.verify import verify, verify_files
from prototrt.converter.options import CompareOptions, VerifyOptions
from prototrt.converter.running.sessions import session
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Array, DType, Graph, OpenSize, Range
from prototrt.surgery.ops import Axis, Cast, Clip, Gather, LeakyReLU, Reshape, TanH
from prototrt.surgery.ops.elementwise import Pointwise
from prototrt.tests.digit_strips import digits
from prototrt.tests.golden_cases import caffe_cases, rewritten
from prototrt.tests.npz import write_npz

DIGITS = Path(__file__).parents[4] / "samples" / "digits"
EXACT = Tolerance(0, 1e-9, "")


class Wrong:
    """A way that computes a leaky ReLU with another slope than it was asked for, from some call on."""

    first_call = 0

    def __init__(self, graph: Graph, *_: object) -> None:
        nodes = [
            type(node)(node.name, LeakyReLU(0.5), node.inputs, node.outputs, node.origin)
            if isinstance(node.op, LeakyReLU)
            else node
            for node in graph.nodes
        ]
        self.right, self.wrong = ReferenceEvaluator(graph), ReferenceEvaluator(graph.with_nodes(nodes))
        self.call = 0

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        self.call += 1
        return (self.wrong if self.call > self.first_call else self.right).run(feeds)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Way:
    """A way that computes wrongly."""
    monkeypatch.setitem(session.WAYS, "network", Wrong)
    return "network"


def small_net() -> Graph:
    build = Builder()
    x = build.input("x", (4,))
    build.origin = Origin("net.prototxt", 3, "first", "ReLU")
    hidden = build.named(build.add(LeakyReLU(0.1), x), "hidden", "first", 0)
    build.origin = Origin("net.prototxt", 9, "last", "TanH")
    return build.graph("net", [build.named(build.add(TanH(), hidden), "out", "last", 1)])


FEEDS = [{"x": np.array([-1, -2, 3, 4], np.float32)}]


@pytest.mark.parametrize("way", ["onnx", "onnx-lstm", pytest.param("network", marks=pytest.mark.trt)])
def test_ways_agree_on_the_sample(way: Way) -> None:
    graph = digits()
    found = verify(graph, seeded_feeds(graph, 2), CompareOptions(ways=[way], layers=True))
    assert found.holds
    found.refuse()
    blobs = {comparison.blob for comparison in found.comparisons}
    assert blobs == {value.name for value in with_all_tops(graph).outputs}
    assert {"prob", "lstm1", "lstm2_c_T", "pool1"} <= blobs


def test_the_first_layer_is_named_though_only_outputs_are_compared(wrong: Way) -> None:
    found = verify(small_net(), FEEDS, CompareOptions(ways=[wrong]))
    assert [comparison.blob for comparison in found.comparisons] == ["out"]
    with pytest.raises(VerificationError) as caught:
        found.refuse()
    assert caught.value.exit_code == 5
    assert str(caught.value) == (
        'net.prototxt:3: layer "first" (ReLU), blob "hidden": network and reference diverge here by 0.8,'
        " expected at most 0.000401\n"
        "  because in call 0, the error is 20 % of the largest magnitude, more than rounding in fp32 explains:"
        f" {TOLERANCES['fp32'].reason}\n"
        "  fix: report this net: prototrt, or a library that it uses, computes it wrongly"
    )


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (0.0, "expected is zero everywhere, but reference is not"),
        (np.nan, "only one of them has NaN or infinity at some elements"),
    ],
)
def test_a_difference_that_is_no_part_of_anything(expected: float, why: str) -> None:
    wanted = [{"out": np.full_like(FEEDS[0]["x"], expected)}]
    with pytest.raises(VerificationError) as caught:
        verify(small_net(), FEEDS, CompareOptions(ways=[]), expected=wanted).refuse()
    assert str(caught.value).splitlines()[1:] == [
        f"  because in call 0, {why}",
        "  fix: check that the expected outputs were computed with these weights and inputs: preprocessing, cont or"
        ' state may differ; to find where it begins, record every blob, and compare with outputs=["all"]',
    ]


def test_the_worst_call_is_told(wrong: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "first_call", 2)
    feeds = [{"x": FEEDS[0]["x"] * np.float32(scale)} for scale in (1, 1, 0.25, 0.5)]
    (comparison,) = verify(small_net(), feeds, CompareOptions(ways=[wrong])).comparisons
    assert comparison.call == 3
    assert not comparison.holds


def test_layers_come_in_the_order_of_the_net(wrong: Way) -> None:
    found = verify(small_net(), FEEDS, CompareOptions(ways=["reference", wrong], layers=True))
    assert [(item.way, item.blob, item.holds) for item in found.comparisons] == [
        ("network", "hidden", False),
        ("network", "out", False),
    ]
    assert [item.blob for item in found.parts] == ["hidden"]


def test_expected_outputs_judge_the_reference_too(wrong: Way) -> None:
    right = np.tanh(np.array([-0.1, -0.2, 3, 4], np.float32))
    assert verify(small_net(), FEEDS, CompareOptions(ways=[]), expected=[{"out": right}]).holds
    found = verify(
        small_net(), FEEDS, CompareOptions(ways=[wrong]), expected=[{"out": right + np.float32(0.1)}]
    )
    assert [(item.way, item.against, item.holds) for item in found.comparisons] == [
        ("reference", "expected", False),
        ("network", "reference", False),
        ("network", "expected", False),
    ]
    with pytest.raises(VerificationError, match="reference and expected diverge here"):
        found.refuse()


def test_a_blob_that_a_layer_writes_over_names_its_first_writer(tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        "input: 'x' input_shape { dim: 2 }\n"
        "layer { name: 'first' type: 'Power' bottom: 'x' top: 'y' power_param { scale: 2 } }\n"
        "layer { name: 'second' type: 'ReLU' bottom: 'y' top: 'y' }"
    )
    graph, feeds = prototrt.rewrite(prototrt.load(net)), [{"x": np.array([1, -1], np.float32)}]
    expected = [{"y": np.array([3, 0], np.float32)}]
    with pytest.raises(VerificationError) as caught:
        verify(graph, feeds, CompareOptions(ways=[]), expected=expected).refuse()
    assert str(caught.value).splitlines()[0] == (
        f'{net}:3: layer "second" (ReLU), blob "y", which layer "first" (line 2) wrote before: '
        "reference and expected diverge here by 1, expected at most 0.000301"
    )


@pytest.mark.parametrize(
    ("ways", "error", "verdict"),
    [
        ([], 0.0, "PASS: 1 way agrees with the expected outputs exactly"),
        (["onnx"], 2.1e-5, "PASS: 2 ways agree with the expected outputs within 3e-05"),
        ([], 0.1, 'FAIL: reference and expected differ by 0.1 at blob "out", 0.00011 is allowed'),
    ],
)
def test_the_verdict_is_one_line(ways: Sequence[Way], error: float, verdict: str) -> None:
    """It never promises more than was found: 2.1e-05 is within 3e-05, not within 2e-05."""
    right = np.tanh(np.array([-0.1, -0.2, 3, 4])).astype(np.float32)
    expected = [{"out": right + np.array([0, 0, 0, error], np.float32)}]
    assert verify(small_net(), FEEDS, CompareOptions(ways=ways), expected=expected).verdict == verdict


def test_a_stated_tolerance_replaces_the_usual_one(wrong: Way) -> None:
    found = verify(small_net(), FEEDS, CompareOptions(ways=[wrong], atol=0.9))
    assert (found.holds, found.tolerance.absolute, found.tolerance.relative) == (True, 0.9, 1e-4)
    with pytest.raises(VerificationError) as caught:
        verify(small_net(), FEEDS, CompareOptions(ways=[wrong], atol=0, rtol=0)).refuse()
    assert str(caught.value) == (
        'net.prototxt:3: layer "first" (ReLU), blob "hidden": network and reference diverge here by 0.8,'
        " expected at most 0\n"
        "  because in call 0, the error is 20 % of the largest magnitude\n"
        "  fix: allow more with atol and rtol"
    )


@pytest.mark.parametrize(("feeds", "ways"), [(FEEDS, []), (FEEDS, ["reference"]), ([], ["onnx"])])
def test_comparing_nothing_is_refused(feeds: list[Mapping[str, Array]], ways: Sequence[Way]) -> None:
    with pytest.raises(NetError) as caught:
        verify(small_net(), feeds, CompareOptions(ways=ways))
    assert str(caught.value) == (
        "there is nothing to compare\n  fix: give another way than reference, or expected outputs"
    )


def test_expected_outputs_must_be_computed() -> None:
    with pytest.raises(NetError) as caught:
        verify(small_net(), FEEDS, CompareOptions(ways=[]), expected=[{"hidden": np.zeros(4, np.float32)}])
    assert str(caught.value) == (
        'the expected outputs hold "hidden", which is not computed\n'
        '  fix: give arrays for some of out, or make every blob an output with outputs=["all"]'
    )
    with pytest.raises(ShapeError) as shape:
        verify(small_net(), FEEDS, CompareOptions(ways=[]), expected=[{"out": np.zeros(3, np.float32)}])
    assert str(shape.value) == 'the expected "out" has the shape (3,), the computed one (4,)'


def test_files_of_a_golden_with_state(tmp_path: Path) -> None:
    (case,) = [case for case in caffe_cases() if str(case) == "lstm_carry"]
    for kind in ("inputs", "outputs"):
        arrays = {
            f"{name}/{call}": array
            for call, feed in enumerate(case.arrays(kind))
            for name, array in feed.items()
        }
        write_npz(tmp_path / f"{kind}.npz", arrays)
    graph = rewritten(case, case.arrays("inputs")[0])
    files = str(tmp_path / "inputs.npz"), str(tmp_path / "outputs.npz")
    found = verify_files(graph, VerifyOptions(ways=["onnx"], inputs=files[0], expect=files[1]))
    assert (found.calls, found.holds) == (case.calls, True)
    assert ("reference", "expected") in [(item.way, item.against) for item in found.comparisons]


def test_arrays_that_nobody_reads_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=FEEDS[0]["x"], y=FEEDS[0]["x"])
    found = verify_files(small_net(), VerifyOptions(ways=["onnx"], inputs=str(tmp_path / "in.npz")))
    assert found.warnings == (f"{tmp_path / 'in.npz'}: not read: the inputs are x: y",)


def test_as_dict_is_json(wrong: Way) -> None:
    facts = verify(small_net(), FEEDS, CompareOptions(ways=[wrong])).as_dict()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["holds"] is False
    assert facts["parts"][0]["layer"] == "first"


# ---------------------------------------------------------------- differences


def test_measures() -> None:
    found = difference_of(np.array([3.0, 4.5]), np.array([3.0, 4.0]), Tolerance(0.1, 0.2, ""))
    assert found.max_abs == 0.5
    assert found.max_rel == 0.125
    assert found.rms == pytest.approx(math.sqrt(0.125))
    assert found.cosine == pytest.approx((9 + 18) / (5 * math.hypot(3, 4.5)))
    assert found.allowed == pytest.approx(0.2 + 0.1 * 4)
    assert found.is_small
    assert not difference_of(np.array([3.0, 4.7]), np.array([3.0, 4.0]), Tolerance(0.1, 0.2, "")).is_small


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_same_oddity_on_both_sides_is_no_difference(value: float) -> None:
    both = np.array([1, value])
    assert difference_of(both, both, EXACT).is_small
    assert not difference_of(both, np.array([1, 2.0]), EXACT).is_small
    assert not difference_of(np.array([1, 2.0]), both, EXACT).is_small


def test_opposite_infinities_differ() -> None:
    assert not difference_of(np.array([np.inf]), np.array([-np.inf]), EXACT).is_small


def test_another_shape_is_infinitely_far() -> None:
    assert difference_of(np.zeros(3), np.zeros((3, 1)), EXACT).max_abs == math.inf


def test_zeros_and_nothing_are_alike() -> None:
    assert difference_of(np.zeros(3), np.zeros(3), EXACT).cosine == 1
    assert difference_of(np.zeros(0), np.zeros(0), EXACT).is_small
    assert difference_of(np.ones(3), np.zeros(3), EXACT).max_rel == math.inf


@pytest.mark.parametrize("name", TOLERANCES)
def test_every_tolerance_has_its_reason(name: str) -> None:
    tolerance = TOLERANCES[name]
    assert tolerance.limit(1) < 0.1
    assert tolerance.limit(0) > 0
    assert tolerance.reason


# ---------------------------------------------------------------- invented inputs


def test_invented_inputs_repeat_and_differ() -> None:
    graph = digits()
    first, second = seeded_feeds(graph, 2)
    assert set(first) == {"data", "cont"}, "state is carried, not invented"
    np.testing.assert_array_equal(first["data"], seeded_feeds(graph)[0]["data"])
    assert not np.array_equal(first["data"], second["data"])
    assert not np.array_equal(first["data"], seeded_feeds(graph, seed=1)[0]["data"])
    assert 0 <= first["data"].min() < first["data"].max() <= 1


def test_what_picks_rows_stays_in_the_table() -> None:
    build = Builder()
    build.symbols["N"] = Range(1, 100, 200)
    ids = build.input("ids", (OpenSize.symbol("N", build.symbols["N"]), 4))
    table = build.constant(np.zeros((3, 5), np.float32))
    build.add(Gather(), table, build.add(Cast(DType.INT32), build.add(Reshape((Axis(0), 2, 2)), ids)))
    feeds = seeded_feeds(Graph("", tuple(build.inputs), (), tuple(build.nodes), (), build.symbols))[0]["ids"]
    assert feeds.shape == (100, 4)
    assert set(np.unique(feeds)) == {0, 1, 2}


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ([math.nan, 1, math.inf, 2], "is NaN or infinite at 2 of 4 elements"),
        ([0.25, 0.25, 0.25], "is 0.25 at each of 3 elements"),
        ([1000, 1000.01], "varies by 0.01 only, and 0.1 is allowed"),
        ([1000, 1001], None),
        ([7], None),
        ([], None),
    ],
)
def test_doubt_about(values: list[float], doubt: str | None) -> None:
    """Of one element nothing can be said, and of none."""
    assert doubt_about(np.array(values), Tolerance(1e-4, 0, "")) == doubt


def net_of(**ops: Pointwise) -> Graph:
    """A graph with one output for each op, which reads x (2, 3)."""
    build = Builder()
    x = build.input("x", (2, 3))
    tops = [build.named(build.add(op, x), name, name, 0) for name, op in ops.items()]
    return build.graph("net", tops)


def test_agreement_on_constants_proves_little() -> None:
    graph = net_of(y=Clip(5, 6))
    verification = verify(graph, seeded_feeds(graph), CompareOptions(ways=["onnx"]))
    assert verification.verdict == "PASS: 2 ways agree exactly, which proves little"
    assert verification.warnings == ('output "y" is 5 at each of 6 elements: agreement on it proves little',)


def test_one_output_that_varies_proves_enough() -> None:
    graph = net_of(y=Clip(5, 6), z=TanH())
    verification = verify(graph, seeded_feeds(graph), CompareOptions(ways=["onnx"]))
    assert verification.holds
    assert not verification.proves_little
    assert len(verification.warnings) == 1
