"""The commands that show: ``inspect``, ``dot``, ``layers``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run


@pytest.mark.parametrize("folder", [".", "..", "/"])
def test_a_folder_is_for_survey(folder: str) -> None:
    assert done("inspect", folder).stdout.splitlines()[-1] == f"next   prototrt survey {folder}"


def test_pictures_and_deploy_nets_are_reported(tmp_path: Path) -> None:
    picture, net = tmp_path / "net.dot", tmp_path / "deploy.prototxt"
    assert re.fullmatch(rf"{picture}: \d\.\d kB\n", done("dot", DEPLOY, "-o", str(picture)).stdout)
    told = done("deploy", DEPLOY, "-o", str(net)).stdout.splitlines()
    assert re.fullmatch(rf"{net}: \d\.\d kB", told[0])
    assert told[1:] == [f"next     prototrt convert {net} WEIGHTS.caffemodel -o deploy.plan"]
    assert done("-q", "dot", DEPLOY, "-o", str(picture)).stdout == ""


def test_inspect_counts_what_is_stored_and_multiplied() -> None:
    facts = json.loads(done("inspect", DEPLOY, WEIGHTS, "--json").stdout)
    assert facts["parameters"] == 107_321  # as the sample's README says
    work = {layer["name"]: layer["multiply_adds"] for layer in facts["layers"] if layer["multiply_adds"]}
    assert work == {  # 40 steps of: outputs x what each is a sum of
        "conv1": 40 * (12 * 32 * 16) * (3 * 3),
        "conv2": 40 * (24 * 16 * 8) * (12 * 3 * 3),
        "ip1": 40 * 64 * (24 * 8 * 4),
        "lstm1": 40 * (4 * 64) * (64 + 64),
        "lstm2": 40 * (4 * 48) * (64 + 48),
        "score": 40 * 11 * 48,
    }
    assert facts["multiply_adds"] == sum(work.values())
    of_a_step = {layer["name"]: layer["multiply_adds_per_step"] for layer in facts["layers"]}
    assert of_a_step.pop("lstm1") == (4 * 64) * (64 + 64)
    assert of_a_step.pop("lstm2") == (4 * 48) * (64 + 48)
    assert set(of_a_step.values()) == {None}  # the others have no steps
    (conv1,) = (layer for layer in facts["layers"] if layer["name"] == "conv1")
    assert (conv1["type"], conv1["line"]) == ("Convolution", 22)
    assert conv1["tops"] == [{"name": "conv1", "shape": [40, 12, 32, 16]}]
    assert facts["recurrences"] == [
        {"input": f"{layer}_{state}_0", "output": f"{layer}_{state}_T", "shape": [1, 1, size]}
        for layer, size in (("lstm1", 64), ("lstm2", 48))
        for state in "hc"
    ]


def test_inspect_table_without_weights() -> None:
    lines = done("inspect", DEPLOY).stdout.splitlines()
    (conv2,) = (line.split() for line in lines if line.startswith(" conv2 "))
    assert conv2 == ["conv2", "Convolution", "62", "conv2", "40x24x16x8", "2,592", "13,271,040"]
    assert "inputs   data 40x1x32x16 (T*N, 1, 32, 16), cont 40x1 (T, N)" in lines
    assert "outputs  prob 40x1x11 (T, N, 11)" in lines
    assert lines[-1] == "state    lstm2_c_T -> lstm2_c_0 1x1x48 (1, N, 48)"


@pytest.mark.parametrize("columns", ["200", "80", "20"])
def test_a_narrow_terminal_folds_text_alone(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, setting in (("COLUMNS", columns), ("FORCE_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, setting)
    lines = re.sub(r"\x1b\[\d*m", "", done("inspect", DEPLOY).stdout).splitlines()
    words = " ".join(lines).split()
    assert {"Convolution", "multiply-adds", "13,271,040", "40x12x32x16"} <= set(words)
    assert any("19 layers" in line for line in lines)
    table = [line.rstrip() for line in lines][
        : next(place for place, line in enumerate(lines) if line.startswith("inputs"))
    ]
    assert max(map(len, table)) == {"200": 92, "80": 80, "20": 80}[columns]


def test_inspect_leaves_out_what_is_cut_off() -> None:
    facts = json.loads(done("inspect", DEPLOY, "--output", "pool1", "--json").stdout)
    assert [layer["name"] for layer in facts["layers"]] == [
        "data",
        "conv1",
        "bn1",
        "scale1",
        "relu1",
        "pool1",
    ]
    assert facts["outputs"] == [{"name": "pool1", "shape": [40, 12, 16, 8], "axes": ["N", None, None, None]}]


def test_dot_of_the_net_is_written_and_repeats(tmp_path: Path) -> None:
    target = tmp_path / "net.dot"
    done("dot", DEPLOY, "-o", str(target))
    text = target.read_text()
    assert text == done("dot", DEPLOY).stdout
    assert '"pool1" -> "conv2" [label="40x12x16x8"];' in text


def test_dot_of_a_net_that_cannot_be_converted(tmp_path: Path) -> None:
    net = tmp_path / "odd.prototxt"
    net.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } }\n'
        'layer { name: "y" type: "Mystery" bottom: "x" top: "y" }\n'
    )
    result = done("dot", str(net))
    assert '"x" -> "y";' in result.stdout
    assert result.stderr.startswith(f'warning: drawn without shapes: {net}:2: layer "y" (Mystery): ')


def test_dot_of_the_graph_shows_state_fed_back() -> None:
    text = done("dot", DEPLOY, WEIGHTS, "--stage", "rewritten").stdout
    assert '"output lstm1_h_T" -> "input lstm1_h_0" [label="next call", style="dashed"' in text
    assert done("dot", DEPLOY, "--stage", "rewritten").stdout == text  # weights do not matter


def test_layers_lists_what_each_becomes() -> None:
    rows = [line.split() for line in done("layers").stdout.splitlines() if line]
    assert "LSTM" in [row[0] for row in rows]
    assert ["TanH", "TanH"] in [row[:2] for row in rows]


def test_set_a_field_from_outside() -> None:
    facts = json.loads(
        done("inspect", DEPLOY, "--json", "--set", "lstm*.recurrent_param.num_output=12").stdout
    )
    assert [pair["shape"] for pair in facts["recurrences"]] == [[1, 1, 12]] * 4


@pytest.mark.parametrize("setting", ["cell_activation=ReLU", "lstm1.recurrent_param"])
def test_set_needs_a_layer_a_field_and_a_value(setting: str) -> None:
    result = run("inspect", DEPLOY, "--set", setting)
    assert result.exit_code == 2
    assert f'"{setting}" is not a setting: write the layer, the field and its value, as in' in result.stderr
