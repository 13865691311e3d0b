"""What a net holds while it runs on data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import BuildError, NetError
from prototrt.converter.checking.calibration import collecting
from prototrt.converter.checking.calibration.collecting import blobs, collect
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.data.data import Call, Data, data_of
from prototrt.converter.running.sessions.session import WAYS
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.ir import Graph, Recurrence, Value
from prototrt.surgery.ops import ADD
from prototrt.surgery.recurrent.cells import Step, scan
from prototrt.tests.command_line import DIGITS
from prototrt.tests.digit_strips import digits
from prototrt.tests.small_nets import failure, float32, op, rewritten

STRIPS = str(DIGITS / "strips_in.npz")


def calls(*inputs: Any, anew: bool = False) -> Data:
    return Data(lambda: ([Call(f"call {n}", {"x": float32(x)}, anew)] for n, x in enumerate(inputs)))


def test_inputs_values_and_outputs_are_counted() -> None:
    graph = rewritten(op("AbsVal", tops=["a"]) + op("Power", "power_param { scale: 3 }", ["a"]), {"x": (2,)})
    found = collect(graph, calls([-1, 2], [-4, 0]), ["x", "a", "y"])
    assert {name: histogram.largest for name, histogram in found.histograms.items()} == {
        "x": 4,
        "a": 4,
        "y": 12,
    }
    assert [histogram.total for histogram in found.histograms.values()] == [4, 4, 4]
    assert found.samples == 2
    assert not found.warnings


def test_only_the_wanted_values_are_counted() -> None:
    found = collect(rewritten(op("AbsVal"), {"x": (2,)}), calls([1, 2]), ["y"])
    assert list(found.histograms) == ["y"]


@pytest.mark.parametrize(("anew", "expected"), [(False, [1, 2, 3, 4, 5, 6]), (True, [1, 2, 1, 2, 1, 2])])
def test_the_steps_of_a_scan_are_counted_with_the_states_that_calls_carry(
    anew: bool, expected: list[int]
) -> None:
    """Two steps in each of three calls; each adds its x to the total."""
    build = Builder()
    x, before = build.input("x", (2, 1)), build.state_input("before", (1,))

    def add(body: Builder, here: Sequence[Value], states: Sequence[Value]) -> Step:
        return Step([body.add(ADD, states[0], here[0], hint="total")], [])

    (after,) = scan(build, add, [x], [before]).states
    graph = replace(build.graph("sums", [after]), recurrences=(Recurrence(before, after),))
    (total,) = (name for name in names_in(graph) if name.endswith("_total"))
    data = calls(*[[[1], [1]]] * 3, anew=anew)
    histogram = collect(graph, data, [total]).histograms[total]
    assert np.repeat(np.arange(len(histogram.used_counts)), histogram.used_counts).tolist() == sorted(
        number / histogram.width for number in expected
    )


@pytest.mark.parametrize("name", ["conv1@conv1", "pool2", "__lstm1_delta_product_h", "__lstm1_c", "prob"])
def test_onnxruntime_and_our_primitives_count_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = digits()
    data = data_of(STRIPS, None, Signature.of_graph(graph))
    by_onnxruntime = collect(graph, data, [name])
    monkeypatch.setattr(collecting, "WAYS", {**WAYS, "onnx": WAYS["reference"]})
    ours = collect(graph, data, [name])
    assert by_onnxruntime.sha256 == ours.sha256
    assert by_onnxruntime.histograms[name].total == ours.histograms[name].total
    assert by_onnxruntime.histograms[name].largest == pytest.approx(ours.histograms[name].largest, rel=1e-5)


def test_every_blob_of_a_net_can_be_counted() -> None:
    graph = digits()
    names = blobs(graph)
    found = collect(graph, data_of(STRIPS, None, Signature.of_graph(graph)), names)
    assert {*found.histograms} == {*names}
    assert all(histogram.total for histogram in found.histograms.values())


def test_without_onnxruntime_our_primitives_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(graph: Graph) -> object:
        raise BuildError("onnxruntime is not installed", fix="install it")

    monkeypatch.setattr(collecting, "WAYS", {**WAYS, "onnx": missing})
    found = collect(rewritten(op("AbsVal"), {"x": (1,)}), calls([-3]), ["y"])
    assert found.histograms["y"].largest == 3
    assert found.warnings == [
        "our primitives compute, slowly, because onnxruntime cannot: onnxruntime is not installed"
    ]


def test_the_hash_is_that_of_the_numbers() -> None:
    graph = rewritten(op("AbsVal"), {"x": (2,)})

    def digest(data: Data) -> str:
        return collect(graph, data, ["y"]).sha256

    assert digest(calls([1, 2])) == digest(calls([1, 2], anew=True))
    assert len({digest(calls([1, 2])), digest(calls([2, 1])), digest(calls([1, 2], [1, 2]))}) == 3


def test_progress_is_told_after_each_part() -> None:
    told: list[int] = []
    collect(rewritten(op("AbsVal"), {"x": (1,)}), calls([1], [2], [3]), ["y"], lambda: told.append(1))
    assert len(told) == 3


def test_no_data() -> None:
    graph = rewritten(op("AbsVal"), {"x": (1,)})
    assert failure(lambda: collect(graph, calls(), ["y"]), NetError) == (
        "there are no data to calibrate with\n  fix: give at least one sample"
    )


def test_numbers_that_are_none() -> None:
    graph = rewritten(op("Log"), {"x": (1,)})
    message = failure(lambda: collect(graph, calls([1], [0]), ["y"]), NetError)
    assert message.partition(": ")[2] == (
        'layer "op" (Log): "y" holds infinity\n'
        "  because that is what the net computes from call 1\n"
        "  fix: correct the data, or the weights: `prototrt.verify(...)` with strict finds NaN and infinity in them"
    )
    assert failure(lambda: collect(graph, calls([np.nan]), ["x"]), NetError).startswith('"x" holds NaN')
