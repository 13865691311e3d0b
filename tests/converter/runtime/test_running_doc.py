"""What docs/running.md shows works, as far as it needs no other library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.converter.runtime import sources
from prototrt.tests.converter.runtime.test_cli_engine import stream_graph
from prototrt.tests.converter.runtime.test_plan_file import fake_backend

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "running.md").read_text()


@pytest.mark.trt
def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = fake_backend(monkeypatch, stream_graph())
    monkeypatch.setattr(sources, "find_device", lambda name: device)
    monkeypatch.chdir(tmp_path)
    prototrt.build(stream_graph(), backend="rtx").save("stream.plan")
    (code,) = re.findall(r"^```python\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(code, "running.md", "exec"), names)
    assert names["prob"].shape == (1, 1, 11)
    assert device.memory == {}
