"""Many nets at a glance: what converts, in part or not, and what is in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.loading import load
from prototrt.caffe_proto.options import LoadOptions
from prototrt.cli import main
from prototrt.converter.showing.survey import survey as surveying
from prototrt.converter.showing.survey.survey import Verdict, survey

GOLDENS = Path(__file__).parents[3] / "goldens"
INPUT = "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
MID = "layer { name: 'm' type: 'TanH' bottom: 'x' top: 'm' }"
NETS = {
    "whole": f"{INPUT} {MID}",
    "in_part": f"{INPUT} {MID} layer {{ name: 'o' type: 'Odd' bottom: 'm' top: 'o' }}",
    "two_obstacles": f"{INPUT} {MID} layer {{ name: 'o' type: 'Odd' bottom: 'm' top: 'o' }}"
    "\nlayer { name: 'p' type: 'TanH' bottom: 'm' top: 'p' tanh_param { steep: 1 } }",
    "nothing": f"{INPUT} layer {{ name: 'o' type: 'Odd' bottom: 'x' top: 'o' }}",
    "no_shape": "input: 'x' layer { name: 'f' type: 'Pooling' bottom: 'x' top: 'f' pooling_param { kernel_size: 2 } }",
    "halves_of_no_shape": "input: 'x'"
    " layer { name: 's' type: 'Slice' bottom: 'x' top: 'a' top: 'b' slice_param { slice_point: 1 } }"
    + "".join(
        f" layer {{ name: 'f{half}' type: 'Convolution' bottom: '{half}' top: 'f{half}' param {{ name: 'w' }}"
        " convolution_param { num_output: 2 kernel_size: 1 bias_term: false } }"
        for half in "abx"
    ),
    "piece": "layer { name: 'f' type: 'TanH' bottom: 'x' top: 'f' }",
    "broken": "layer {",
    "ends_in_code": f"{INPUT} {MID} layer {{ name: 'o' type: 'Python' bottom: 'm' top: 'o'"
    " python_param { module: 'a' layer: 'B' } }",
    "field": f"{INPUT} layer {{ name: 'p' type: 'TanH' bottom: 'x' top: 'p' tanh_param {{ steep: 1 }} }}",
    **{
        f"{which}template": f"{INPUT} layer {{ name: 'm' type: 'Power' bottom: 'x' top: 'm'"
        " power_param { power: {n} } }"
        for which in ("", "second_", "third_")
    },
    "misspelt": f"{INPUT} {MID} layer {{ name: 'o' type: 'Relu' bottom: 'm' top: 'o' }}",
    "code_without_shape": "input: 'x' layer { name: 'f' type: 'TanH' bottom: 'x' top: 'f' }"
    " layer { name: 'o' type: 'Python' bottom: 'f' top: 'o' python_param { module: 'a' layer: 'B' } }",
}
EXPECTED = {
    "whole": (Verdict.CONVERTS, (), (), {}),
    "in_part": (Verdict.IN_PART, ("Odd",), ("m",), {}),
    "two_obstacles": (Verdict.IN_PART, ("Odd", "TanH.tanh_param.steep"), ("m",), {}),
    "nothing": (Verdict.NOT, ("Odd",), (), {}),
    "no_shape": (Verdict.NEEDS_SHAPE, (), (), {"x": ["N", "C", "H", "W"]}),
    "halves_of_no_shape": (Verdict.NEEDS_SHAPE, (), (), {"x": ["N", "C", "H", "W"]}),
    "piece": (Verdict.NEEDS_SHAPE, (), (), {"x": ["N", "C", "H", "W"]}),
    "broken": (Verdict.NOT, (), (), {}),
    "field": (Verdict.NOT, ("TanH.tanh_param.steep",), (), {}),
    "template": (Verdict.NOT, (), (), {}),
    "second_template": (Verdict.NOT, (), (), {}),
    "third_template": (Verdict.NOT, (), (), {}),
    "misspelt": (Verdict.IN_PART, ("Relu",), ("m",), {}),
    "ends_in_code": (Verdict.IN_PART, ("Python a.B",), ("m",), {}),
    "code_without_shape": (Verdict.IN_PART, ("Python a.B",), ("f",), {"x": ["N", "C", "H", "W"]}),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    for name, text in NETS.items():
        (tmp_path / "nets" / f"{name}.prototxt").write_text(text)
    (tmp_path / "nets" / "notes.txt").write_text("not a net")
    return tmp_path


def test_each_net(folder: Path) -> None:
    found = survey(["nets"])
    facts = {
        Path(net.file).stem: (net.verdict, net.lacking, net.outputs, dict(net.shapes)) for net in found.nets
    }
    assert facts == EXPECTED
    assert found.obstacles == [
        ("Odd", 3, 2),
        ("Python a.B", 2, 2),
        ("TanH.tanh_param.steep", 2, 1),
        ("Relu", 1, 1),
    ]


def test_the_steps_are_those_that_make_most_nets_whole(folder: Path) -> None:
    found = survey(["nets"])
    assert {Path(net.file).stem: str(net.step) for net in found.nets if net.step} == {
        "no_shape": "give shapes",
        "piece": "give shapes",
        "in_part": "write a rule for Odd: prototrt.new_rule(...) begins it",
        "nothing": "write a rule for Odd: prototrt.new_rule(...) begins it",
        "field": "remove the field TanH.tanh_param.steep, or read it in a rule",
        "misspelt": "give overrides",
        "template": "give define",
        "second_template": "give define",
        "third_template": "give define",
        "ends_in_code": "write a rule for Python a.B: prototrt.new_rule(...) begins it",
        "code_without_shape": "write a rule for Python a.B: prototrt.new_rule(...) begins it",
    }
    assert [(str(step), count) for step, count in found.steps] == [
        ("give define", 3),
        ("write a rule for Python a.B: prototrt.new_rule(...) begins it", 2),
        ("write a rule for Odd: prototrt.new_rule(...) begins it", 2),
    ]


def test_what_needs_a_shape_says_it_in_words_to_paste(folder: Path) -> None:
    found = {Path(net.file).stem: net for net in survey(["nets"]).nets}
    assert str(found["no_shape"].message) == (
        'give shapes={"x": (N, C, H, W)}; it converts with shapes={"x": (1, 3, 224, 224)}'
    )
    assert str(found["halves_of_no_shape"].message).startswith(
        'give shapes={"x": (N, C, H, W)}; shapes={"x": (1, 2, 224, 224)} was tried:\n'
        'nets/halves_of_no_shape.prototxt:1: layer "fx" (Convolution)'
    )
    result = CliRunner().invoke(
        main, ["survey", "nets/no_shape.prototxt", "nets/halves_of_no_shape.prototxt"]
    )
    assert result.output.splitlines()[-1] == (
        "2 nets: 0 convert, 2 need a shape, 0 convert in part, 0 do not convert;"
        " with the shapes that were tried, 1 of those that need one did not convert"
    )
    assert "give --shape x:NxCxHxW; it converts with --shape x:1x3x224x224" in " ".join(result.output.split())


def test_to_cut_a_net_makes_it_not_whole() -> None:
    cut = NetError("wrong", fix=Worded("cut the net with {}", Option("outputs", ["m"])))
    assert surveying._step([cut]) == ""
    give = NetError("wrong", fix=Worded("give {} or {}", Option("outputs", ["m"]), Option("phase", "TEST")))
    assert surveying._step([give]) == "give phase"
    assert surveying._step([give, NetError("wrong")]) == ""


def test_what_another_state_computes_is_not_made_an_input() -> None:
    """The LSTM would be cut off from the layers before it, with a width that is a guess."""
    net = surveying.survey_net(str(GOLDENS / "errors" / "computed_in_other_stages" / "net.prototxt"))
    assert (net.verdict, net.shapes) == (Verdict.NOT, {})
    assert "shape" not in net.message


def test_the_command_ends_with_the_steps(folder: Path) -> None:
    result = CliRunner().invoke(main, ["survey", "nets"])
    lines = [line.split() for line in result.output.splitlines() if line.strip()]
    assert lines[-4:-1] == [
        ["give", "--define", "3"],
        ["write", "a", "rule", "for", "Python", "a.B:", "prototrt", "new-rule", "begins", "it", "2"],
        ["write", "a", "rule", "for", "Odd:", "prototrt", "new-rule", "begins", "it", "2"],
    ]


def test_the_table(folder: Path) -> None:
    result = CliRunner().invoke(
        main, ["survey", *(f"nets/{name}.prototxt" for name in ("whole", "in_part", "broken"))]
    )
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.output.splitlines() if line.strip()]
    assert lines[-1] == "3 nets: 1 converts, 0 need a shape, 1 converts in part, 1 does not convert"
    assert any(line.split() == ["Odd", "1", "1"] for line in lines)
    (broken,) = [line for line in lines if "broken" in line]
    assert broken.split("  ")[-1].strip() == "line 1: the file ends here, expected }"


def test_json(folder: Path) -> None:
    result = CliRunner().invoke(main, ["survey", "nets", "--json", "-o", "report.json"])
    assert json.loads(result.output) == json.loads(Path("report.json").read_text())
    facts = json.loads(result.output)
    assert facts["counts"] == {
        "converts": 1,
        "needs a shape": 3,
        "converts in part": 5,
        "does not convert": 6,
    }
    assert facts["only_tried"] == 1
    (in_part,) = [net for net in facts["nets"] if net["file"] == "nets/in_part.prototxt"]
    assert "there is no rule for this layer type\n  fix: " in in_part["message"]


def test_what_became_an_input_is_told(tmp_path: Path) -> None:
    fill = "layer { name: 'x' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 } } }"
    net = tmp_path / "net.prototxt"
    net.write_text(f"{fill} {MID}")
    words = (
        'no output depends on an input, so "x", which DummyData fills, became an input;'
        " --keep-constant x keeps it constant"
    )
    result = CliRunner().invoke(main, ["survey", str(net)])
    assert f"warning: {net}: {words}\n" in result.stderr
    result = CliRunner().invoke(main, ["survey", str(net), "--json"])
    assert json.loads(result.stdout)["nets"][0]["note"] == f"{net}: {words}"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (["nets", "-o", "report.html"], 2, "ends in .html, expected .json"),
        (["empty"], 3, "there are no nets here"),
        (["nets"], 0, "15 nets: "),
    ],
)
def test_the_command(folder: Path, arguments: list[str], exit_code: int, told: str) -> None:
    (folder / "empty").mkdir()
    result = CliRunner().invoke(main, ["survey", *arguments])
    assert result.exit_code == exit_code, result.output
    assert told in result.output


def test_batch_as_a_dry_run(folder: Path) -> None:
    Path("models.yaml").write_text(
        "models:\n  - prototxt: nets/no_shape.prototxt\n    random-weights: 1\n    shapes: {x: 1x3x8x8}\n"
        "  - prototxt: nets/in_part.prototxt\n    random-weights: 1\n"
    )
    result = CliRunner().invoke(main, ["batch", "models.yaml", "-o", "built", "--dry-run"])
    assert result.exit_code == 3, result.output
    assert (
        result.output.splitlines()[-1]
        == "2 nets: 1 converts, 0 need a shape, 1 converts in part, 0 do not convert"
    )
    assert not Path("built").exists()


REFUSED_BY_THE_RUN = {
    "prototxt: nets/no_shape.prototxt\n    random-weights: 1": (
        "needs a shape",
        'nets/no_shape.prototxt: the file states no shape for the input "x" (line 1)\n  fix: give its shape:'
        " shapes: {x: NxCxHxW}",
    ),
    "prototxt: nets/piece.prototxt\n    random-weights: 1": (
        "needs a shape",
        'nets/piece.prototxt:1: layer "f" (TanH), bottom "x": no layer before this one makes it\n'
        "  fix: make it an input: shapes: {x: 2x3}; the layers fit with shapes: {x: 2x3} (as in field.prototxt)",
    ),
    "prototxt: nets/whole.prototxt\n    random-weights: 1\n    keep-float: [none]": (
        "does not convert",
        'models.yaml:2: keep-float names "none", which is not a layer of the net\n  fix: use m or x',
    ),
}


@pytest.mark.parametrize("entry", REFUSED_BY_THE_RUN)
def test_a_dry_run_refuses_what_the_run_refuses(entry: str, folder: Path) -> None:
    pytest.importorskip("onnx", reason="writes ONNX models")
    Path("models.yaml").write_text(f"models:\n  - {entry}\n    format: onnx\n")
    verdict, message = REFUSED_BY_THE_RUN[entry]
    result = CliRunner().invoke(main, ["batch", "models.yaml", "-o", "built", "--dry-run", "--json"])
    (net,) = json.loads(result.stdout)["nets"]
    assert (result.exit_code, net["verdict"]) == (3, verdict)
    assert net["message"].startswith(message)
    result = CliRunner().invoke(main, ["batch", "models.yaml", "-o", "built"])
    assert result.exit_code == 3


def test_a_net_converts_with_the_shape_that_its_row_names(folder: Path) -> None:
    pytest.importorskip("onnx", reason="writes ONNX models")
    nets = json.loads(CliRunner().invoke(main, ["survey", "nets", "--json"]).stdout)["nets"]
    proposals = {net["file"]: net["message"].partition("it converts with ")[2].split() for net in nets}
    pasted = [[file, *words] for file, words in proposals.items() if words]
    assert pasted
    for words in pasted:
        result = CliRunner().invoke(main, ["convert", *words, "--random-weights", "1", "-o", "net.onnx"])
        assert result.exit_code == 0, (words, result.output)


def test_an_internal_error_is_a_verdict_of_one_net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.prototxt").write_text(NETS["whole"])

    def load_but_b(file: str, *, options: LoadOptions) -> Model:
        if file.endswith("b.prototxt"):
            raise ValueError("nobody\nexpected this")
        return load(file, options=options)

    monkeypatch.setattr(surveying, "load", load_but_b)
    file = str(tmp_path / "b.prototxt")
    result = CliRunner().invoke(main, ["survey", str(tmp_path)])
    assert result.exit_code == 0
    assert "does not convert   internal error: ValueError: nobody\\nexpected this\n" in result.stdout
    assert (
        result.stdout.splitlines()[-1]
        == "3 nets: 2 convert, 0 need a shape, 0 convert in part, 1 does not convert"
    )
    (net,) = (net for net in survey([file]).nets)
    first, *trace = net.message.splitlines()
    assert first == f"{file}: internal error: ValueError: nobody\\nexpected this"
    assert trace[0] == "Traceback (most recent call last):"
    assert "in load_but_b" in net.message
