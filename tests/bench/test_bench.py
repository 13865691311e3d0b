"""The benchmark runs. Its numbers are not tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prototrt.tests.bench.bench import Target, main
from prototrt.tests.bench.measuring import medians, table

pytest.importorskip("tensorrt_rtx", reason="needs TensorRT for RTX")
pytest.importorskip("onnx", reason="makes the model to compare with")


@pytest.mark.exhaustive
@pytest.mark.trt
def test_quick_run_measures_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "bench.json"
    assert main(["--quick", "--output", str(output)]) == 0
    record = json.loads(output.read_text())
    printed = capsys.readouterr().out
    for title, numbers in record["sections"].items():
        assert title in printed
        assert numbers
    assert all(target["found"] > 0 for target in record["targets"])
    assert {target["met"] for target in record["targets"]} <= {True, False}


def test_medians_go_into_nested_numbers_and_leave_words() -> None:
    runs = [{"way": "a", "s": 3, "parts": {"x": 1.0}}, {"way": "a", "s": 1, "parts": {"x": 5.0}}]
    assert medians([*runs, {"way": "a", "s": 2, "parts": {"x": 2.0}}]) == {
        "way": "a",
        "s": 2,
        "parts": {"x": 2.0},
    }


def test_table_has_the_first_column_to_the_left() -> None:
    text = table(("", "ms", "of"), [("load", 12.345, True), ("read whole", 1234.5, False)])
    assert text.splitlines() == [
        "               ms      of",
        "load         12.3     met",
        "read whole  1,234  MISSED",
    ]


def test_target_at_its_limit_is_met() -> None:
    assert Target("x", 10.0, 10).is_met
    assert not Target("x", 10.1, 10).is_met
