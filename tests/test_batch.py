"""``prototrt batch`` and ``prototrt cache`` as a user types them, and how long they take."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import prototrt
from prototrt import Form
from prototrt.cli import main
from prototrt.converter.front.batch import runner
from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Outcome, Status
from prototrt.converter.front.batch.spec import read_models
from prototrt.converter.front.batch.versions import versions
from prototrt.tests.converter.front.batch.support import NET, InThisProcess
from prototrt.tests.npz import write_npz

ROOT = Path(__file__).parents[1]
LSTM = ROOT / "tests" / "goldens" / "caffe" / "lstm_t5_n3"

pytestmark = pytest.mark.trt


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Worker", InThisProcess)


def batch(text: str, *arguments: str) -> Result:
    Path("models.yaml").write_text(text)
    result = CliRunner().invoke(main, ["batch", "models.yaml", "-o", "out", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def models(*keys: str) -> str:
    head = f"models:\n- prototxt: {LSTM}/model.prototxt\n  name: lstm\n  backend: rtx\n"
    return head + "".join(f"  {key}\n" for key in keys)


CHECKED = (
    "weights: '{folder}/model.caffemodel'",
    "inputs: '{folder}/inputs.npz'",
    "expect: '{folder}/outputs.npz'",
)


def test_a_batch_is_converted_checked_and_reported() -> None:
    reports = ("--report-junit", "r.xml", "--report-json", "r.json", "--report-md", "r.md")
    result = batch(models(*CHECKED, "matrix: {sequence: [loop, unroll]}"), *reports, "--jobs", "1")
    assert result.exit_code == 0, result.output
    assert [line.split(",")[0] for line in result.stderr.splitlines()] == [
        "[1/2] lstm-loop: converted",
        "[2/2] lstm-unroll: converted",
    ]
    assert result.stdout.startswith("2 models in ")
    assert result.stdout.endswith(" s: 2 converted\n")
    assert sorted(os.listdir()) == ["models.yaml", "out", "r.json", "r.md", "r.xml"]
    assert sorted(os.listdir("out")) == [
        f"lstm-{sequence}.plan{suffix}" for sequence in ("loop", "unroll") for suffix in ("", ".json")
    ]
    facts = json.loads(Path("r.json").read_text())
    assert {one["against"] for one in facts["models"][0]["facts"]["verification"]["comparisons"]} == {
        "reference",
        "expected",
    }


@pytest.mark.usefixtures("in_this_process")
def test_a_wrong_engine_is_not_written() -> None:
    import numpy as np

    outputs = dict(np.load(LSTM / "outputs.npz"))
    outputs = {name: array + 1 for name, array in outputs.items()}
    write_npz("wrong.npz", outputs)
    result = batch(models(*CHECKED[:2], f"expect: {Path('wrong.npz').absolute()}"))
    assert result.exit_code == 5
    assert os.listdir("out") == []
    assert "diverge here by 1, expected at most " in result.stderr


@pytest.mark.usefixtures("in_this_process")
def test_one_that_fails_does_not_hinder_the_others_with_keep_going() -> None:
    text = models("random-weights: 1", "matrix: {output: [nothing, []]}")
    stopped, went_on = batch(text, "--jobs", "1"), batch(text, "--jobs", "1", "--keep-going", "-q")
    assert (stopped.exit_code, went_on.exit_code) == (3, 3)
    assert stopped.stdout.endswith(": 1 failed, 1 skipped\n")
    assert went_on.stdout == ""
    assert went_on.stderr.startswith(f"lstm-nothing: failed: {LSTM}/model.prototxt: no layer writes")
    assert sorted(os.listdir("out")) == ["lstm.plan", "lstm.plan.json"]


WITHOUT_A_FILE = f"""models:
- {{prototxt: {LSTM}/model.prototxt, weights: 'nothing*.npz', name: first, format: onnx}}
- {{prototxt: {LSTM}/model.prototxt, random-weights: 1, name: second, format: onnx}}
"""
NO_FILE = """models.yaml:2: no files are called "nothing*.npz", expected one
  fix: use a pattern that fits one file for each prototxt, or give such a model its own entry
"""


@pytest.mark.usefixtures("in_this_process")
def test_a_pattern_that_fits_no_weights_does_not_hinder_the_other_models() -> None:
    result = batch(WITHOUT_A_FILE, "--jobs", "1", "--keep-going", "-q", "--report-json", "report.json")
    assert (result.exit_code, result.stderr) == (3, f"first: failed: {NO_FILE}")
    assert sorted(os.listdir("out")) == ["second.onnx", "second.onnx.json"]
    first, second = json.loads(Path("report.json").read_text())["models"]
    assert (first["status"], f"{first['message']}\n") == ("failed", NO_FILE)
    assert second["status"] == "converted"


@pytest.mark.usefixtures("in_this_process")
def test_patterns_that_fit_no_prototxt_do_not_hinder_the_other_models() -> None:
    odd = [
        f"- {{prototxt: '{pattern}', name: '{{folder}}', matrix: {{random-weights: [1, 2]}}}}"
        for pattern in ("no*/x", "?/x")
    ]
    text = "\n".join(["models:", *odd, *models("random-weights: 1").splitlines()[1:], ""])
    result = batch(text, "--jobs", "1", "--keep-going", "-q", "--report-json", "report.json")
    refusals = [
        f'models.yaml:{line}: no file is called "{pattern}"\n'
        "  fix: correct the pattern, which begins at the folder of the list"
        for line, pattern in ((2, "no*/x"), (3, "?/x"))
    ]
    assert (result.exit_code, result.stderr) == (
        3,
        f"no*/x: failed: {refusals[0]}\n?/x: failed: {refusals[1]}\n",
    )
    statuses = [model["status"] for model in json.loads(Path("report.json").read_text())["models"]]
    assert statuses == ["failed", "failed", "converted"]
    dry = batch(text, "--dry-run", "--json")
    assert [net["message"] for net in json.loads(dry.stdout)["nets"]][:2] == refusals


@pytest.mark.usefixtures("in_this_process")
def test_the_remainders_of_a_list_are_written_also_from_the_cache() -> None:
    odd = 'layer { name: "odd" type: "Odd" bottom: "fc" top: "odd" }\n'
    rest = 'layer { name: "last" type: "TanH" bottom: "odd" top: "last" }\n'
    for name in "ab":
        Path(f"{name}.prototxt").write_text(NET + odd + rest)
    text = """models:
- {prototxt: "?.prototxt", random-weights: 1, format: onnx, output: auto, remainder: "rest_of_{name}.prototxt"}
"""
    for status in ("converted", "cached"):
        result = batch(text, "--cache", "cache")
        assert (result.exit_code, f"2 {status}" in result.stdout) == (0, True)
        for name in "ab":
            assert [layer.name for layer in prototrt.load(f"rest_of_{name}.prototxt").layers][1:] == ["last"]
            Path(f"rest_of_{name}.prototxt").unlink()


@pytest.mark.usefixtures("in_this_process")
def test_a_dry_run_tells_what_the_conversion_would() -> None:
    Path("net.prototxt").write_text(NET + 'layer { name: "odd" type: "Odd" bottom: "fc" top: "odd" }\n')
    text = "models:\n- {prototxt: net.prototxt, random-weights: 1, format: onnx, name: odd}\n"
    tried, converted = batch(text, "--dry-run"), batch(text)
    assert (tried.exit_code, converted.exit_code) == (3, 3)
    message = tried.stderr.removeprefix("odd: ")
    assert message.startswith(
        'net.prototxt:4: layer "odd" (Odd): there is no rule for this layer type\n  fix: write a rule for it, '
    )
    assert f"odd: failed: {message}" in converted.stderr


def test_a_dry_run_tells_of_a_pattern_that_fits_no_weights() -> None:
    result = batch(WITHOUT_A_FILE, "--dry-run", "--json")
    nets = {net["file"]: net["message"] for net in json.loads(result.stdout)["nets"]}
    assert f"{nets['first']}\n" == NO_FILE
    assert not Path("out").exists()


@pytest.mark.usefixtures("in_this_process")
def test_onnx_models_in_a_batch() -> None:
    assert (
        batch(models("random-weights: 1", "format: onnx").replace("backend: rtx", "verify: true")).exit_code
        == 0
    )
    assert "lstm.onnx" in os.listdir("out")


@pytest.mark.usefixtures("in_this_process")
def test_headers_of_a_matrix_are_written_also_from_the_cache() -> None:
    text = models(
        "random-weights: 1",
        "format: onnx",
        "matrix: {sequence: [loop, unroll]}",
        "emit-header: 'include/{name}.hpp'",
    ).replace("  backend: rtx\n", "")
    result = batch(text, "--jobs", "1")
    assert result.exit_code == 3
    assert (
        'emit-header: cannot write "include/lstm-loop.hpp": the folder "include" does not exist'
        in result.stderr
    )
    assert os.listdir("out") == []
    Path("include").mkdir()
    assert batch(text, "--cache", "kept").stdout.endswith(": 2 converted\n")
    first = {name: Path("include", name).read_text() for name in os.listdir("include")}
    assert {name: re.findall("namespace (.*) {", header)[0] for name, header in first.items()} == {
        f"lstm-{sequence}.hpp": f"prototrt_lstm_{sequence}" for sequence in ("loop", "unroll")
    }
    for name in first:
        Path("include", name).unlink()
    assert batch(text, "--cache", "kept").stdout.endswith(": 2 cached\n")
    assert {name: Path("include", name).read_text() for name in os.listdir("include")} == first


@pytest.mark.usefixtures("in_this_process")
def test_json_is_printed_alone() -> None:
    result = batch(models("random-weights: 1", "needs: rtx"), "--json")
    assert json.loads(result.stdout)["models"][0]["status"] == "converted"
    assert result.stderr.splitlines()[-1] == (
        "warning: needs: applies only with --scheduler; ignored for lstm"
    )


@pytest.mark.usefixtures("in_this_process")
def test_a_second_run_converts_nothing_and_prune_forgets() -> None:
    text = models("random-weights: 1", "matrix: {sequence: [loop, unroll]}")
    assert batch(text, "--cache", "kept").stdout.endswith(": 2 converted\n")
    first = {name: Path("out", name).read_bytes() for name in os.listdir("out")}
    for name in first:
        Path("out", name).unlink()
    assert batch(text, "--cache", "kept").stdout.endswith(": 2 cached\n")
    assert {name: Path("out", name).read_bytes() for name in os.listdir("out")} == first
    pruned = CliRunner().invoke(main, ["cache", "prune", "kept", "--json"])
    assert json.loads(pruned.stdout)["removed"] == 2
    again = CliRunner().invoke(main, ["cache", "prune", "kept", "--max-size", "1GB"])
    assert again.stdout == "0 removed (0 bytes), 0 kept (0 bytes)\n"
    assert batch(text, "--cache", "kept").stdout.endswith(": 2 converted\n")


def test_a_size_that_is_none() -> None:
    result = CliRunner().invoke(main, ["cache", "prune", "kept", "--max-size", "much"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-2:] == [
        "Error: --max-size is 'much', expected a size",
        "  fix: write it as in --max-size 10GB",
    ]


def test_a_list_that_is_wrong_writes_nothing() -> None:
    result = batch(models("sequense: loop"))
    assert result.exit_code == 3
    assert result.stderr == ('error: models.yaml:5: there is no key "sequense"\n  fix: write sequence\n')
    assert os.listdir() == ["models.yaml"]


@pytest.mark.parametrize("sequence", ["loop", "unroll"])
def test_rtx_plans_are_the_same_from_run_to_run(sequence: Form) -> None:
    """In other processes, too: each batch starts its own."""
    text = models(CHECKED[0], f"sequence: {sequence}")
    plans = []
    for _ in range(2):
        assert batch(text).exit_code == 0
        plans.append(Path("out/lstm.plan").read_bytes())
    model = prototrt.load(LSTM / "model.prototxt", LSTM / "model.caffemodel")
    plans.append(bytes(prototrt.build(prototrt.rewrite(model, sequence=sequence), "rtx").plan))
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.usefixtures("in_this_process")
def test_cached_engines_are_hashed() -> None:
    """An engine that was written into, and has its size and its time, as no usual program leaves it."""
    text = models("random-weights: 1")
    assert batch(text, "--cache", "kept").exit_code == 0
    (kept,) = Path("kept").glob("*/*.conversion")
    assert batch(text, "--cache", "kept").stdout.endswith(": 1 cached\n")
    kept.write_bytes(kept.read_bytes().replace(b"vtrt", b"VTRT", 1))
    Path("out/lstm.plan").unlink()
    result = batch(text, "--cache", "kept")
    assert result.stdout.endswith(": 1 converted\n")
    assert result.stderr.endswith(f"the cached conversion {kept} is not used: a file in it is damaged\n")
    assert Path("out/lstm.plan").read_bytes()[:4] == b"vtrt"


# ---------------------------------------------------------------- many


def seeds(count: int) -> str:
    return models(f"matrix: {{random-weights: {list(range(count))}}}")


@pytest.mark.slow
def test_many_cached_models_are_not_converted_again() -> None:
    """One has been converted; the others are kept as if they had."""
    Path("small.prototxt").write_text(NET)
    one, text = (seeds(count).replace(f"{LSTM}/model", "small") for count in (1, 200))
    assert batch(one).exit_code == 0
    entries = read_models("models.yaml", "out")
    cache = Cache("kept", versions(["rtx"]))
    Path("models.yaml").write_text(text)
    for entry in read_models("models.yaml", "out"):
        key = cache.key(entry)
        assert key is not None
        cache.store(key, Outcome(replace(entry, target=entries[0].target), Status.CONVERTED))
    assert batch(text, "--cache", "kept").stdout.endswith(": 200 cached\n")
    assert len(os.listdir("out")) == 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--report-md", "models.yaml"), '--report-md would overwrite "models.yaml", which is read'),
        (("--report-json", "a.caffemodel"), '--report-json would overwrite "a.caffemodel", which is read'),
        (("-o", "."), '-o would overwrite "net.plan.json", which is read'),
        (
            ("--report-json", "out/net.plan"),
            '--report-json and -o would both write "out/net.plan"\n  fix: give each its own file',
        ),
    ],
)
def test_a_batch_writes_over_nothing_that_it_reads(options: tuple[str, str], message: str) -> None:
    weights = "net.plan.json" if options == ("-o", ".") else "a.caffemodel"
    files = {"net.prototxt": "net", weights: "weights", "models.yaml": LIST.format(weights=weights)}
    for name, text in files.items():
        Path(name).write_text(text)
    Path("out").mkdir()
    folder = () if "-o" in options else ("-o", "out")
    result = CliRunner().invoke(main, ["batch", "models.yaml", *folder, *options])
    assert result.exit_code == 2
    assert f"Error: {message}\n" in result.stderr
    assert {path.name: path.read_text() for path in Path().iterdir() if path.is_file()} == files
    assert os.listdir("out") == []


LIST = "models:\n- prototxt: net.prototxt\n  weights: {weights}\n"


@pytest.mark.parametrize("mean", ["net.plan", "net.plan.json"])
def test_a_batch_does_not_write_over_a_mean_image(mean: str) -> None:
    """The net names it, not the list."""
    net = f'''layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 3 dim: 2 dim: 2 }} }}
  transform_param {{ mean_file: "{mean}" }} }}'''
    text = "models:\n- {prototxt: net.prototxt, random-weights: 1, preprocess: true}\n"
    files = {"net.prototxt": net, mean: "mean", "models.yaml": text}
    for name, content in files.items():
        Path(name).write_text(content)
    result = CliRunner().invoke(main, ["batch", "models.yaml", "-o", "."])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f'Error: -o would overwrite "{mean}", which is read\n' in result.stderr
    assert {path.name: path.read_text() for path in Path().iterdir()} == files
