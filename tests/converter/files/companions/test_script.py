"""The script for trtexec: a shell hands over the very words, whatever inputs, states and files are called."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from prototrt.converter.files.companions.script import script_text
from prototrt.tests.odd_names import NAMES


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["--minShapes=\u200b:1x3", "-\x1b\n", "\n"])
@example(["{version}", "'", "$(exit 3)"])
@given(st.lists(NAMES.filter(lambda name: "\0" not in name), min_size=3, max_size=3))
def test_trtexec_gets_the_very_words(tmp_path: Path, names: Sequence[str]) -> None:
    words = [name.encode(errors="replace").decode() for name in names]
    h_0, h_t, model = words
    manifest = {
        "tool": {"version": "1"},
        "inputs": [{"name": h_0, "shape": [1, 2]}],
        "recurrences": [{"output": h_t, "input": h_0}],
        "trtexec": ["trtexec", *words],
    }
    tool, script = tmp_path / "trtexec", tmp_path / "script.sh"
    tool.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    tool.chmod(0o755)
    script.write_text(script_text(manifest, model.replace("/", "-")[:50]))
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", script, "-v"], env=environment, check=True, capture_output=True)
    assert done.stdout.decode().split("\0")[:-1] == [*words, "-v"]
