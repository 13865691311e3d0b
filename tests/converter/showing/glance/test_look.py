"""What a file is, by its content: every kind, damaged files, and the command to run next."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.front.commandline.glance import hint, next_step
from prototrt.converter.showing.glance.facts import FileKind
from prototrt.converter.showing.glance.look import look_at
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run
from prototrt.tests.converter.showing.glance.files import CAFFE2, MINIDB, arrays, mean
from prototrt.tests.converter.showing.glance.kinds import BESIDE_A_PLAN, CASES, Case
from prototrt.tests.fresh_python import ROOT


@pytest.mark.parametrize("case", [*CASES, BESIDE_A_PLAN], ids=str)
def test_a_file_is_recognized_by_its_content(case: Case, tmp_path: Path) -> None:
    file = tmp_path / ("file" if case is not BESIDE_A_PLAN else f"net.plan.{'0' * 16}.cache")
    (tmp_path / "net.plan").write_bytes(b"vtrt")
    case.write(file)
    found = look_at(file)
    assert found is not None
    assert found.kind is case.kind
    assert {name: found.facts.get(name) for name in case.facts} == case.facts
    assert next_step(found) == (
        case.next and case.next.replace("{folder}", str(tmp_path)).replace("{above}", str(tmp_path.parent))
    )
    facts = json.loads(done("inspect", str(file), "--json").stdout)
    assert (facts["kind"], facts["next"]) == (case.kind.name.lower(), next_step(found))
    shown = done("inspect", str(file)).stdout
    assert shown.startswith(f"{file}: {found.words}")
    assert (next_step(found) or str(hint(found))) in shown


def test_every_kind_is_covered(tmp_path: Path) -> None:
    assert {case.kind for case in (*CASES, BESIDE_A_PLAN)} | {FileKind.DATABASE} == {*FileKind}


def test_a_minidb() -> None:
    (file,) = MINIDB.glob("*.minidb")
    found = look_at(file)
    assert found is not None
    assert found.kind is FileKind.DATABASE
    assert found.facts["blobs"]


@pytest.mark.parametrize("file", [DEPLOY, "samples/digits/train_val.prototxt"])
def test_the_text_of_a_net_is_left_to_the_reader_of_nets(file: str) -> None:
    assert look_at(file) is None


@pytest.mark.parametrize("comment", ["# entr\xe9e\n".encode("latin-1"), "# \u8f93\u5165\n".encode("gbk")])
def test_the_text_of_a_net_in_another_encoding_is_one(comment: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_bytes(comment + Path(DEPLOY).read_bytes())
    assert look_at(path) is None


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_wide_text_is_told(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_bytes(Path(DEPLOY).read_text().encode(codec))
    with pytest.raises(ConversionError) as caught:
        look_at(path)
    assert str(caught.value) == f"{path}: this is UTF-16 text, expected UTF-8\n  fix: save it as UTF-8"


def test_files_beside_it_are_named(tmp_path: Path) -> None:
    """The commands can be run as they are where the usual names are there."""
    for source in (DEPLOY, WEIGHTS, CAFFE2 / "init_net.pb", CAFFE2 / "predict_net.pb"):
        shutil.copy(source, tmp_path)
    weights, net = look_at(tmp_path / "digits.caffemodel"), look_at(tmp_path / "predict_net.pb")
    assert weights is not None
    assert net is not None
    assert next_step(weights) == (
        f"prototrt convert {tmp_path}/deploy.prototxt {tmp_path}/digits.caffemodel -o digits.plan"
    )
    assert next_step(net) == (
        f"prototrt convert {tmp_path}/predict_net.pb {tmp_path}/init_net.pb --shape data:SIZES -o predict_net.plan"
    )


def test_rows_and_facts_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "mean.binaryproto"
    mean(file)
    assert done("inspect", str(file)).stdout.splitlines()[:4] == [
        f"{file}: a mean file, or another blob of Caffe, 26 bytes",
        "shape                 1x2x1x2",
        "smallest              1",
        "largest               9",
    ]
    arrays(data=(2, 3), cont=(2,))(tmp_path / "in.npz")
    shown = done("inspect", str(tmp_path / "in.npz")).stdout
    assert (
        " name   type      shape\n ──────────────────────\n data   float64   2x3\n cont   float64   2\n"
        in shown
    )


def test_weights_beside_their_module(tmp_path: Path) -> None:
    prototrt.convert(DEPLOY, WEIGHTS, tmp_path / "net.py")
    found = look_at(tmp_path / "net.safetensors")
    assert found is not None
    assert next_step(found) == f"prototrt inspect {tmp_path}/net.py"
    assert found.facts["written by"] == f"prototrt {prototrt.__version__}"


SCHEMAS = {
    file.name.partition(".")[0]: json.loads(file.read_text()) for file in (ROOT / "docs/schemas").iterdir()
}
COMMANDS = sorted(SCHEMAS.keys() - {"manifest", "selftest", "verify"})


@pytest.mark.parametrize("command", COMMANDS)
def test_results_of_commands_are_told_apart(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(json.dumps({key: [] for key in SCHEMAS[command]["required"]}))
    found = look_at(file)
    assert found is not None
    assert found.kind is FileKind.RESULT
    words = {"error": "one that failed", "inspect-file": "inspect of a file", "new-rule": command}
    assert found.facts == {"command": words.get(command, command.replace("-", " "))}


def test_an_array_whose_header_does_not_end(tmp_path: Path) -> None:
    """NumPy reads such a header with Python's tokenizer, which raises an error of its own."""
    file = tmp_path / "x.npy"
    np.save(file, np.zeros((2, 3), np.float32))
    file.write_bytes(file.read_bytes().replace(b"}", b" "))
    result = run("inspect", str(file))
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {file}: the npy file is damaged: ")
    assert result.stderr.endswith("\n  fix: get the file again\n")


def test_what_options_are_for_nets(tmp_path: Path) -> None:
    """With an option for nets, the file is read as a net, and the message says what it is."""
    result = run("inspect", WEIGHTS, "--shape", "data:1x1")
    assert result.exit_code == 3
    assert "this is a caffemodel, expected a prototxt" in result.stderr


SMALL = [case for case in CASES if case.kind is not FileKind.FOLDER]


@pytest.fixture
def written(case: Case, tmp_path: Path) -> bytes:
    case.write(tmp_path / "file")
    return (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("case", SMALL, ids=str)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_files(case: Case, written: bytes, data: st.DataObject, tmp_path: Path) -> None:
    """A file with wrong bytes, or cut short, is shown as far as it goes, or refused with a message."""
    file, content = tmp_path / "file", bytearray(written)
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, min(len(content), 2000) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        found = look_at(file)
        told = str(file) if found is None else json.dumps(found.as_dict())
    except ConversionError as error:
        told = str(error)
    assert str(file) in told
