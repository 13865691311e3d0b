"""The stages of a net on its way to a backend, as pictures and as text, and the graphs after single passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import prototrt
from prototrt.converter.showing.views.stages import READERS, ShownStage
from prototrt.surgery.ir import Graph, walk
from prototrt.surgery.pipeline import CANONICAL, LOWERINGS, lowered
from prototrt.surgery.views.dot import dot_from_graph
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run

READER_CASES = pytest.mark.parametrize("reader", READERS)
LSTM = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 3 dim: 2 } } }
layer { name: "l" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 5 } }
"""


@pytest.fixture(scope="module")
def rewritten() -> Graph:
    return prototrt.rewrite(prototrt.load(DEPLOY), require_weights=False)


@pytest.fixture
def lstm(tmp_path: Path) -> str:
    path = tmp_path / "lstm.prototxt"
    path.write_text(LSTM)
    return str(path)


def headings(text: str) -> list[str]:
    return re.findall(r"^# .*$", text, re.MULTILINE)


def test_backends_are_those_that_have_passes() -> None:
    not_shown = {"tensorrt-batch-norm", "reference", "torch"}
    assert [*READERS] == [name for name in LOWERINGS if name not in not_shown]


def test_dot_draws_what_a_backend_is_given(rewritten: Graph) -> None:
    assert done("dot", DEPLOY, "--stage", "rewritten").stdout == dot_from_graph(rewritten)
    text = done("dot", DEPLOY, "--stage", "lowered").stdout
    assert text == dot_from_graph(lowered(rewritten, "tensorrt")) != dot_from_graph(rewritten)
    assert done("dot", DEPLOY, "--stage", "lowered", "--for", "onnx").stdout == dot_from_graph(rewritten)


def test_inspect_prints_a_graph(rewritten: Graph) -> None:
    assert done("inspect", DEPLOY, "--stage", "rewritten").stdout == rewritten.text()
    text = done("inspect", DEPLOY, WEIGHTS, "--stage", "lowered").stdout
    assert text == lowered(rewritten, "tensorrt").text() != rewritten.text()


def test_inspect_prints_the_graph_for_another_backend(lstm: str) -> None:
    options = ("--stage", "lowered", "--cont", "drop", "--for")
    assert "FusedLSTM[hidden=5, reverse=False]" in done("inspect", lstm, *options, "onnx-lstm").stdout
    assert "FusedLSTM" not in done("inspect", lstm, *options, "onnx").stdout


def test_inspect_rewrites_as_it_is_told(lstm: str) -> None:
    text = done("inspect", lstm, "--stage", "rewritten", "--sequence", "unroll").stdout
    assert "Scan" not in text
    assert "__l_t2_gate_f" in text


def test_stages_of_the_net_state_keep_their_option(tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        LSTM + 'layer { name: "extra" type: "TanH" bottom: "h" top: "more" include { stage: "deep" } }\n'
    )
    for option in ("--stage", "--net-stage"):
        result = done("inspect", str(net), option, "deep", "--stage", "rewritten")
        assert "more: float32[3, 2, 5] = TanH(h)" in result.stdout
        assert ("--stage is --net-stage now" in result.stderr) == (option == "--stage")
    assert "more" not in done("inspect", str(net), "--stage", "rewritten").stdout


def test_the_graph_after_a_pass(rewritten: Graph) -> None:
    text = done("inspect", DEPLOY, "--print-after", "drop_unused").stdout
    assert headings(text) == [
        "# after drop_unused (canonical), which changed nothing",
        "# after drop_unused (step), which changed nothing",
        "# after drop_unused (TensorRT), which changed nothing",
        "# after drop_unused (TensorRT)",
    ]
    assert text.endswith(f"\n{lowered(rewritten, 'tensorrt').text()}\n")


def test_the_graph_after_each_pass_that_changes_it() -> None:
    passes = {change.__name__ for change in CANONICAL.passes}
    text = done("inspect", DEPLOY, "--stage", "rewritten", "--print-after", "all").stdout
    shown = [heading.split()[2] for heading in headings(text)]
    assert shown
    assert {*shown} <= {*passes, "elide_tiles"}
    assert text.count("graph digits(") == len(shown) + 1, "the last one is the stage that was asked for"


def test_a_pass_that_does_not_run_is_told() -> None:
    text = done("inspect", DEPLOY, "--print-after", "compute_in_half").stdout
    assert text == "# compute_in_half did not run in this conversion\n"


@pytest.mark.trt
@pytest.mark.parametrize("options", [[], ["--verify"]], ids=["plain", "verified"])
def test_convert_prints_graphs_once_and_counts_what_tensorrt_is_given(
    options: list[str], rewritten: Graph, tmp_path: Path
) -> None:
    target = str(tmp_path / "digits.plan")
    text = done("convert", DEPLOY, WEIGHTS, "-o", target, "--print-after", "merge_reshapes", *options).stdout
    assert headings(text) == ["# after merge_reshapes (TensorRT)"]
    nodes = len([*walk(lowered(rewritten, "tensorrt"))])
    assert f"\ndigits: 19 Caffe layers -> {nodes} nodes -> " in text


@READER_CASES
def test_every_pass_of_a_backend_can_be_looked_at(reader: str, lstm: str) -> None:
    for change in LOWERINGS[reader].passes:
        text = done("inspect", lstm, "--for", reader, "--print-after", change.__name__).stdout
        assert headings(text)[-1].startswith(f"# after {change.__name__} ({LOWERINGS[reader].name})")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["inspect", DEPLOY, "--print-after", "sink_sum"],
            "Invalid value for '--print-after': there is no pass \"sink_sum\": use sink_sums",
        ),
        (
            ["inspect", DEPLOY, "--stage", "lowered", "--json"],
            "--json is for the table of layers: leave out --stage and --print-after",
        ),
        (
            ["inspect", DEPLOY, "--sequence", "loop"],
            "--sequence is for --stage rewritten, --stage lowered or --print-after",
        ),
        (["inspect", DEPLOY, "--for", "onnx"], "--for is for --stage lowered"),
        (["dot", DEPLOY, "--stage", "rewritten", "--for", "onnx"], "--for is for --stage lowered"),
        (
            ["convert", DEPLOY, WEIGHTS, "-o", "x.plan", "--json", "--print-after", "all"],
            "--print-after prints text: leave out --json",
        ),
    ],
    ids=lambda item: " ".join(item[2:]) if isinstance(item, list) else "",
)
def test_refusals(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"\n\nError: {message}\n")


def test_a_page_says_which_graph_stands_beside_the_net() -> None:
    titles = [
        ShownStage("rewritten").title,
        ShownStage("lowered", "tensorrt").title,
        ShownStage("lowered", "onnx").title,
    ]
    assert titles == ["Rewritten in primitives", "Given to TensorRT", "Given to ONNX"]
