"""Results with room for more rows than were found: which rows count, and who cuts off the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.converter.files.companions.manifest import graph_facts
from prototrt.surgery.ir import Graph
from prototrt.tests.golden_cases import Case, caffe_cases, fork_cases, rewritten
from prototrt.tests.small_nets import WAYS


def case_called(name: str) -> Case:
    (case,) = [case for case in fork_cases() if str(case) == name]
    return case


def graph_of(case: Case) -> Graph:
    return rewritten(case, case.arrays("inputs")[0])


@pytest.mark.parametrize("on", WAYS)
def test_rows_behind_the_last_one_hold_nothing(on: Way) -> None:
    case = case_called("det_one_image_empty")
    inputs, graph = case.arrays("inputs")[0], graph_of(case)
    whole, cut = (prototrt.Session(graph, on=on, cut=cut).run(inputs) for cut in (False, True))
    (count,) = whole["det_count"]
    assert count == case.arrays("outputs")[0]["det"].shape[2] < whole["det"].shape[2]
    np.testing.assert_array_equal(whole["det"][:, :, :count], cut["det"])
    assert (whole["det"][:, :, count:] == -1).all()


def test_what_is_computed_of_rows_is_counted_alike() -> None:
    case = case_called("net_faster_rcnn")
    outputs = {binding["name"]: binding for binding in graph_facts(graph_of(case))["outputs"]}
    assert outputs["rois_count"] == {
        "name": "rois_count",
        "dtype": "int32",
        "shape": [1],
        "axes": [None],
        "profile": {},
    }
    for name in ("rois", "bbox_pred", "cls_prob"):
        assert outputs[name]["counted_by"] == {"0": "rois_count"}


def test_a_file_whose_rows_a_run_selects_has_a_session(tmp_path: Path) -> None:
    case = next(case for case in caffe_cases() if str(case) == "filter")
    inputs, outputs = case.arrays("inputs")[0], case.arrays("outputs")[0]
    model, header = tmp_path / "filter.onnx", tmp_path / "filter.h"
    manifest = prototrt.export_onnx(rewritten(case, inputs), model, header=header)
    assert manifest["outputs"][0]["data_sizes"] == ["op_count"]
    assert "{{0, 3}}, {{4, 3}}, {{4, 3}}" in header.read_text()
    np.testing.assert_array_equal(prototrt.Session(str(model)).run(inputs)["out"], outputs["out"])


def test_arrays_of_the_caller_are_written_whole() -> None:
    case = case_called("det_one_image_empty")
    session = prototrt.Session(graph_of(case), cut=True)
    inputs = case.arrays("inputs")[0]
    room = np.zeros_like(prototrt.Session(session.graph).run(inputs)["det"])
    found = session.run(inputs, {"det": room})["det"]
    assert np.shares_memory(found, room)
    assert found.shape[2] < room.shape[2]


@pytest.mark.parametrize("name", ["det_nothing_found", "det_keep_top_k_1"])
def test_an_engine_is_given_the_count(name: str) -> None:
    assert [value.name for value in graph_of(case_called(name)).outputs] == ["det", "det_count"]
