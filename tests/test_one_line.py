"""A name is one line, whatever characters are in it: in each command, report, page, script and config."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given

from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.cli import main
from prototrt.converter.files.writing.files import json_text
from prototrt.converter.showing.page.writing import GRAPHVIZ
from prototrt.tests.odd_names import TEXTS, hidden_in

Names = Mapping[str, str]
Outputs = Mapping[tuple[str, ...], str]
"""What commands print and write: a command and the name of a file, or a stream, to its text."""

LSTM = """
name: "{net}"
layer {{ name: "{x}" type: "Input" top: "{x}" input_param {{ shape {{ dim: 2 dim: 1 dim: 3 }} }} }}
layer {{ name: "{c}" type: "Input" top: "{c}" input_param {{ shape {{ dim: 2 dim: 1 }} }} }}
layer {{ name: "{l}" type: "LSTM" bottom: "{x}" bottom: "{c}" top: "{l}"
  recurrent_param {{ num_output: 4 }} }}
layer {{ name: "{f}" type: "InnerProduct" bottom: "{l}" top: "{f}"
  inner_product_param {{ num_output: 4 axis: 2 }} }}
"""
TRAINED = """
name: "{net}"
layer {{ name: "{x}" type: "Data" top: "{x}" top: "{c}" data_param {{ batch_size: 2 source: "{l}" }}
  transform_param {{ crop_size: 4 force_color: true mean_file: "{l}" }} }}
layer {{ name: "{f}" type: "InnerProduct" bottom: "{x}" top: "{f}" inner_product_param {{ num_output: 3 }} }}
layer {{ name: "{l}" type: "SoftmaxWithLoss" bottom: "{f}" bottom: "{c}" top: "{l}" }}
"""
OPEN = """
layer {{ name: "{x}" type: "Input" top: "{x}" input_param {{ shape {{ dim: 2 dim: 3 dim: 4 dim: 4 }} }} }}
layer {{ name: "{f}" type: "Convolution" bottom: "{x}" top: "{f}"
  convolution_param {{ num_output: 3 kernel_size: 1 }} }}
"""
BROKEN = {
    "type": """layer {{ name: "{x}" type: "{t}" bottom: "{c}" top: "{f}" }}""",
    "bottom": """layer {{ name: "{x}" type: "ReLU" bottom: "{c}" top: "{f}" }}""",
    "module": """layer {{ name: "{x}" type: "Python" top: "{f}"
  python_param {{ module: "{l}" layer: "{c}" param_str: "{l}" }} }}""",
    "kernel": """layer {{ name: "{x}" type: "Input" top: "{x}" input_param {{ shape {{ dim: 2 dim: 3 }} }} }}
layer {{ name: "{f}" type: "Convolution" bottom: "{x}" top: "{f}"
  convolution_param {{ num_output: 3 kernel_size: 9 }} }}""",
    "sum": """layer {{ name: "{x}" type: "Input" top: "{x}" top: "{c}"
  input_param {{ shape {{ dim: 2 dim: 3 }} shape {{ dim: 2 dim: 5 }} }} }}
layer {{ name: "{f}" type: "Eltwise" bottom: "{x}" bottom: "{c}" top: "{f}" }}""",
    "unshaped": """input: "{x}" layer {{ name: "{f}" type: "ReLU" bottom: "{x}" top: "{f}" }}""",
    "enum": """layer {{ name: "{f}" type: "Pooling" pooling_param {{ pool: "{l}" }} }}""",
    "twice": """layer {{ name: "{x}" type: "Input" top: "{x}" input_param {{ shape {{ dim: 2 }} }} }}
layer {{ name: "{f}" type: "Input" top: "{x}" input_param {{ shape {{ dim: 2 }} }} }}""",
    "stages": """layer {{ name: "{x}" type: "Input" top: "{x}" top: "{c}"
  input_param {{ shape {{ dim: 2 dim: 3 }} }} }}
layer {{ name: "{f}" type: "Dropout" bottom: "{x}" top: "{f}" include {{ stage: "{l}" }} }}""",
    "text": """layer {{ name: {x} type: ReLU }} "{x}" """,
}
"""Nets that are refused, each for another reason."""
LIST = """models:
- {{prototxt: net.prototxt, name: net, format: onnx, random-weights: 1, output: ["{f}"]}}
- {{prototxt: net.prototxt, name: "{x}", format: onnx, random-weights: 1, output: ["none {c}"]}}
- {{prototxt: type.prototxt, name: type, format: onnx, random-weights: 1}}
"""

WITH = ("--random-weights", "1")
NET, TRAIN = ("net.prototxt", *WITH), ("train.prototxt", *WITH)
REPORTS = ("--report-junit", "r.xml", "--report-md", "r.md", "--report-json", "r.json")
COMMANDS = [
    ("inspect", "net.prototxt"),
    ("inspect", "net.prototxt", "--stage", "parsed"),
    ("inspect", "net.prototxt", "--stage", "rewritten"),
    ("inspect", "train.prototxt"),
    ("inspect", "net.npz"),
    ("deploy", "train.prototxt"),
    ("dot", "net.prototxt"),
    ("dot", "net.prototxt", "--stage", "parsed"),
    ("dot", "net.prototxt", "-o", "net.gv"),
    ("convert", *NET, "-o", "net.onnx", "--target", "triton", "--emit-header", "net.h", "-v"),
    ("convert", "open.prototxt", *WITH, "--dynamic", "batch", "-o", "open.onnx", "--target", "triton"),
    ("convert", *NET, "-o", "net.onnx", "--print-after", "all"),
    ("convert", *TRAIN, "-o", "net.onnx", "--preprocess"),
    ("inspect", "net.onnx"),
    ("inspect", "net.onnx.json"),
    ("verify", *NET),
    ("verify", *NET, "--output", "all", "--precision", "int8"),
    ("calibrate", *NET, "--inputs", "net.npz", "-o", "scales.json"),
    ("run", *NET, "--inputs", "net.npz", "-o", "out.npz", "--output", "all"),
    ("triton", *NET, "-o", "REPOSITORY", "--name", "model"),
    ("batch", "models.yaml", "-o", "out", "--jobs", "1", "--keep-going", *REPORTS),
    ("batch", "models.yaml", "-o", "out", "--dry-run"),
    ("survey", ".", "-o", "survey.json"),
    *(("inspect", f"{name}.prototxt") for name in BROKEN),
    *(("convert", f"{name}.prototxt", *WITH, "-o", "x.onnx", "-v") for name in BROKEN),
]
PAGE = ("dot", "net.prototxt", "-o", "net.html")
PLAIN = {"net": "plain", "x": "data", "c": "cont", "l": "lstm", "f": "fc", "t": "Other"}
ERROR = "\n::error::"
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
ACTING = (
    "".join(map(chr, [*range(1, 32), *range(127, 160)])) + "\u061c\u200e\u200f\u202e\u2066\u2069" + BREAKS
)


def named(odd: str) -> Names:
    """Names that are still different and begin with these characters."""
    return {role: f"{odd}{name}" for role, name in PLAIN.items()}


def write(names: Names) -> None:
    """Nets, a list of them, and inputs, all with these names."""
    octal = {role: "".join(f"\\{byte:03o}" for byte in name.encode()) for role, name in names.items()}
    for name, text in {"net": LSTM, "train": TRAINED, "open": OPEN, **BROKEN}.items():
        Path(f"{name}.prototxt").write_text(text.format(**octal))
    Path("models.yaml").write_text(
        LIST.format(**{role: json.dumps(name)[1:-1] for role, name in names.items()})
    )
    arrays: dict[str, Any] = {
        names["x"]: np.zeros((2, 1, 3), np.float32),
        names["c"]: np.ones((2, 1), np.float32),
        names["l"]: np.zeros(2),
    }
    np.savez("net.npz", **arrays)


def outputs(names: Names, folder: Path, command: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What the command prints, and the text files that it writes."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    result = CliRunner().invoke(main, command, prog_name="prototrt")
    assert result.exit_code in (0, 2, 3, 5), f"{command}: {result.output}"
    yield "stdout", result.stdout
    yield "stderr", result.stderr
    for path in sorted(folder.rglob("*")):
        if path.is_file() and before.get(path) != path.stat().st_mtime_ns:
            name = str(path.relative_to(folder))
            with_text = path.suffix not in (".onnx", ".npz", ".png")
            yield name.replace(names["net"], "NET"), path.read_text() if with_text else ""


def all_outputs(names: Names, folder: Path) -> Outputs:
    folder.mkdir()
    found = {}
    with pytest.MonkeyPatch.context() as change:
        change.chdir(folder)
        write(names)
        for command in [*COMMANDS, *([PAGE] if GRAPHVIZ.exists() else [])]:
            for more in ((), ("--json",)):
                shutil.rmtree("REPOSITORY", ignore_errors=True)
                for place, text in outputs(names, folder, (*command, *more)):
                    found[(*command, *more, place)] = text
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return all_outputs(PLAIN, tmp_path_factory.mktemp("names") / "plain")


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd",
    [
        ACTING,
        *(
            pytest.param(odd, marks=pytest.mark.exhaustive)
            for odd in (ERROR, "::notice::", "##vso[task.complete]")
        ),
    ],
)
def test_as_many_lines_as_with_plain_names(tmp_path: Path, odd: str, plain: Outputs) -> None:
    odds = all_outputs(named(odd), tmp_path / "odd")
    assert {*map(len, plain)} == {*map(len, odds)}
    for place, text in odds.items():
        if place not in plain:  # a model whose name says its file
            continue
        lines = shown(text)
        assert len(lines) == len(shown(plain[place])), (place, text)
        acting = [line for line in lines if line.lstrip().startswith("::") or "##vso[" in line]
        assert acting == [] or place[-1] == "net.h", place
        assert hidden_in(text if GRAPHVIZ.name not in text else "") == [], place


def shown(text: str) -> list[str]:
    """The lines, by every character that any program takes for the end of one."""
    if "</html>" in text and GRAPHVIZ.exists():
        text = text.replace(GRAPHVIZ.read_text(), "")
    return text.splitlines()


@given(TEXTS)
def test_no_text_is_a_command_of_a_ci_system(text: str) -> None:
    for safe in (visible(text), visible_line(text), json_text([text])):
        assert not re.search(r"^\s*::|##\[|##(vso|teamcity)\[", safe, re.MULTILINE | re.IGNORECASE)
    assert json.loads(json_text([text])) == [text]
    assert visible(json_text([text])) == json_text([text])
    assert len(visible_line(text).splitlines()) <= 1
