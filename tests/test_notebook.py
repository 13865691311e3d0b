"""The notebook of the sample runs, and what notebooks show."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt import Form
from prototrt.caffe_proto.common.notebook_html import table
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


def test_the_notebook_is_stored_without_outputs() -> None:
    book = json.loads(NOTEBOOK.read_text())
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)


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
