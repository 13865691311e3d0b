"""What docs/running.md shows works, as far as it needs no other library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.converter.running.runtime import sources
from prototrt.tests.converter.running.runtime.test_cli_engine import stream_graph
from prototrt.tests.converter.running.runtime.test_plan_file import fake_backend

ROOT = Path(__file__).parents[4]
DOC = (ROOT / "docs" / "running.md").read_text()


@pytest.mark.trt
def test_the_examples_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = fake_backend(monkeypatch, stream_graph())
    monkeypatch.setattr(sources, "find_device", lambda name: device)
    monkeypatch.chdir(tmp_path)
    prototrt.build(stream_graph(), backend="rtx").save("stream.plan")
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE):
        exec(compile(code, "running.md", "exec"), names)
        assert names.pop("prob").shape == (1, 1, 11)
        assert device.memory == {}
    assert {name: result["prob"].shape for name, result in names["both"].items()} == {
        "ann": (1, 1, 11),
        "bob": (1, 1, 11),
    }
    assert names["ticket"].done()
