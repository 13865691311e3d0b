"""The notebook of the sample runs, and what notebooks show."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form
from prototrt.caffe_proto.common.notebook_html import table
from prototrt.converter.showing.views import notebook
from prototrt.surgery.ir import walk
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "samples" / "digits" / "digits.ipynb"


@pytest.mark.slow
@pytest.mark.trt
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient: Any = pytest.importorskip("nbclient")
    nbformat: Any = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT / ".dev"), os.environ.get("PYTHONPATH")]))
    )
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": NOTEBOOK.parent}}
    ).execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    results = [output["data"] for output in shown if output["output_type"] == "execute_result"]
    assert "<table>" in results[0]["text/html"]
    assert (
        results[1]["text/plain"].startswith('"<Graph digits: ') or "<Graph digits" in results[1]["text/plain"]
    )
    texts = [result["text/plain"] for result in results]
    assert any("8084562" in text for text in texts)
    assert any("PASS: 3 ways agree within" in text for text in texts)
    assert any("<Plan digits: " in text for text in texts)
    bars = [output for output in shown if output["output_type"] == "display_data"]
    assert any("<progress" in bar["data"]["text/html"] for bar in bars)


def test_the_notebook_is_stored_without_outputs() -> None:
    book = json.loads(NOTEBOOK.read_text())
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)


class Handle:
    """What IPython gives for an output that can be written over."""

    def __init__(self, first: str) -> None:
        self.lines = [first]

    def update(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def handles(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    """The outputs of a kernel that is not there."""
    made: list[Handle] = []

    def display(line: str, display_id: bool) -> Handle:
        assert display_id
        made.append(Handle(line))
        return made[-1]

    shell = type("ZMQInteractiveShell", (), {})()
    ipython, shown = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    vars(ipython)["get_ipython"] = lambda: shell
    vars(shown).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return made


def test_without_a_notebook_nothing_is_shown() -> None:
    assert not notebook.is_notebook()
    assert notebook.notebook_build() is None
    assert notebook.notebook_progress("nets")(3)() is None


def test_a_survey_shows_a_bar(handles: list[Handle]) -> None:
    prototrt.survey(DEPLOY)
    (handle,) = handles
    assert handle.lines == [
        "<progress></progress> nets",
        '<progress value="0" max="1"></progress> 0/1 nets',
        '<progress value="1" max="1"></progress> 1/1 nets',
    ]


@pytest.mark.trt
def test_a_build_shows_a_bar(handles: list[Handle]) -> None:
    prototrt.build(prototrt.rewrite(prototrt.load(DEPLOY, WEIGHTS)), backend="rtx")
    (handle,) = handles
    assert len(handle.lines) > 2
    assert all(line.startswith("<progress") for line in handle.lines)


def test_names_in_tables_are_text() -> None:
    shown = table("<b>", ["a&b"], [["<script>", 1234, "\x1b[2J"]], ["<i>"])
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "1,234" in shown
    assert "\\x1b[2J" in shown
    assert shown.startswith("<p><b>&lt;b&gt;</b></p>")
    assert shown.endswith("<p>&lt;i&gt;</p>")


def test_long_tables_end() -> None:
    shown = table("t", ["n"], [[row] for row in range(1000)])
    assert shown.count("<tr>") == 201
    assert "800 more rows" in shown


def test_models_and_graphs_are_tables() -> None:
    model = prototrt.load(DEPLOY, WEIGHTS)
    graph = prototrt.rewrite(model)
    assert model._repr_html_().count("<tr>") == len(model.layers) + 1
    assert graph._repr_html_().count("<tr>") == len(graph.nodes) + 1


def test_steps_of_a_session_show_a_bar(handles: list[Handle]) -> None:
    graph = prototrt.rewrite(prototrt.load(STREAM, WEIGHTS))
    session = prototrt.Session(graph, on="reference")
    frames = np.zeros((2, 1, 1, 32, 16), np.float32)
    with session.stream({"data": frames}) as outputs:
        assert len([*outputs]) == 2
    session.run_steps({"data": frames, "cont": np.ones((2, 1, 1), np.float32)}, 2)
    for handle in handles:
        assert handle.lines[:2] == [
            "<progress></progress> steps",
            '<progress value="0" max="2"></progress> 0/2 steps',
        ]
        assert handle.lines[-1] == '<progress value="2" max="2"></progress> 2/2 steps'
    with session.stream({"data": frame} for frame in frames) as outputs:
        assert len([*outputs]) == 2
    assert handles[-1].lines[:3] == ["<progress></progress> steps"] * 2 + ["<progress></progress> 1 steps"]
    assert len(handles) == 3


def test_a_bar_is_not_shown_for_each_of_many_steps(handles: list[Handle]) -> None:
    advance = notebook.notebook_progress("steps")(10_000)
    for _ in range(10_000):
        advance()
    (handle,) = handles
    assert len(handle.lines) < 100
    assert handle.lines[-1].endswith(" 10000/10000 steps")


def test_the_summary_of_a_graph() -> None:
    graph = prototrt.rewrite(prototrt.load(STREAM, WEIGHTS))
    summary = graph.summary()
    assert [row.node for row in summary.rows] == [node.name for node in graph.nodes]
    first = summary.rows[0]
    assert (first.primitive, first.layer, first.type, first.line) == (
        "Convolution[stride=(1, 1), pad=(1, 1), dilation=(1, 1), group=1]",
        "conv1",
        "Convolution",
        23,
    )
    assert summary._repr_html_() == graph._repr_html_()


@pytest.mark.parametrize("sequence", ["loop", "unroll"])
def test_constants_count_once(sequence: Form) -> None:
    """The body of a Scan reads its weights; the steps of an unrolled layer share them."""
    graph = prototrt.rewrite(prototrt.load(DEPLOY, WEIGHTS), sequence=sequence)
    constants = {value for node in walk(graph) for value in node.inputs if value.is_constant}
    assert sum(row.constants for row in graph.summary().rows) == sum(value.array.size for value in constants)


def test_the_summary_as_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """pandas is not a package of the tests: a stand-in hears what it is given."""
    summary = prototrt.rewrite(prototrt.load(STREAM, WEIGHTS)).summary()
    pandas = types.ModuleType("pandas")
    vars(pandas)["DataFrame"] = lambda rows, columns: (rows, columns)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    rows, columns = summary.frame()
    assert rows == [*summary.rows]
    assert [*columns] == ["node", "primitive", "writes", "constants", "layer", "type", "line"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError):
        summary.frame()
