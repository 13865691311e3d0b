"""The benchmark runs. Its numbers are not tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prototrt.tests.bench.bench import Target, main
from prototrt.tests.bench.measuring import _refuse_failure, minima, table

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


def test_minima_go_into_nested_numbers_and_leave_words() -> None:
    runs = [{"way": "a", "s": 3, "parts": {"x": 1.0}}, {"way": "a", "s": 1, "parts": {"x": 5.0}}]
    assert minima([*runs, {"way": "a", "s": 2, "parts": {"x": 2.0}}]) == {
        "way": "a",
        "s": 1,
        "parts": {"x": 1.0},
    }


@pytest.mark.parametrize(
    "errors", ["x.py:9: ConversionWarning: net.prototxt:4: not read", "warning: not read"]
)
def test_a_net_that_is_converted_with_a_warning_is_not_measured(errors: str) -> None:
    _refuse_failure(["convert"], 0, "")
    with pytest.raises(RuntimeError, match="convert failed:\n"):
        _refuse_failure(["convert"], 0, errors)


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
