"""Of the files beside an engine or a model, only those are replaced or removed that prototrt wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import prototrt
from prototrt.converter.backends.onnx import file as onnx_file
from prototrt.converter.files.writing import ownership
from prototrt.tests.command_line import done, run
from prototrt.tests.converter.front.batch.support import NET

FOREIGN = {
    ".sh": "#!/bin/sh\necho mine\n",
    ".data": "measurements",
    ".json": '{"tool": {"name": "other"}, "mine": 1}',
}
DATACENTER = ("--target", "datacenter")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    return tmp_path


def convert(*arguments: str) -> None:
    done("convert", "net.prototxt", "--random-weights", "1", "-q", *arguments)


@pytest.mark.parametrize("target", ["z.onnx", "z.plan"])
@pytest.mark.parametrize(("suffix", "content"), FOREIGN.items())
def test_a_file_of_the_user_is_refused_and_kept(target: str, suffix: str, content: str) -> None:
    mine = Path(f"{target}{suffix}")
    mine.write_text(content)
    Path("net.prototxt").write_text("this is no net {")  # nobody reads it
    result = run("convert", "net.prototxt", "--random-weights", "1", "-o", target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(
        f'Error: -o would replace or remove "{mine}", which prototrt did not write\n'
        "  fix: move that file, or give another output file\n"
    )
    assert mine.read_text() == content
    assert sorted(os.listdir()) == sorted(["net.prototxt", str(mine)])


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"tool": []}', b"[" * 100_000])
def test_what_is_no_manifest(content: bytes) -> None:
    Path("z.onnx.json").write_bytes(content)
    assert run("convert", "net.prototxt", "--random-weights", "1", "-o", "z.onnx").exit_code == 2
    assert Path("z.onnx.json").read_bytes() == content


def test_links_of_the_user_are_refused() -> None:
    Path("z.onnx.json").symlink_to("nowhere")
    Path("mine").touch()
    Path("z.onnx.sh").symlink_to("mine")
    result = run("convert", "net.prototxt", "--random-weights", "1", "-o", "z.onnx")
    assert '"z.onnx.json", which prototrt did not write' in result.stderr
    assert (os.readlink("z.onnx.json"), os.readlink("z.onnx.sh")) == ("nowhere", "mine")


def test_a_link_to_a_manifest_is_replaced_and_not_followed() -> None:
    convert("-o", "of_another.onnx")
    theirs = Path("of_another.onnx.json")
    before = theirs.read_bytes()
    Path("z.onnx.json").symlink_to(theirs)
    convert("-o", "z.onnx", "--precision", "fp16")
    assert theirs.read_bytes() == before
    assert not Path("z.onnx.json").is_symlink()
    assert json.loads(Path("z.onnx.json").read_text())["precision"] == "fp16"


def test_what_prototrt_wrote_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as change:
        change.setattr(onnx_file, "EXTERNAL_FROM", 0)
        change.setattr(onnx_file, "_INSIDE", 0)
        convert("-o", "z.onnx", *DATACENTER)
    assert sorted(Path().glob("z.*")) == [Path(f"z.onnx{each}") for each in ("", ".data", ".json", ".sh")]
    convert("-o", "z.onnx")
    assert sorted(Path().glob("z.*")) == [Path("z.onnx"), Path("z.onnx.json")]


@pytest.mark.parametrize("name", ["net", "\N{SNOWMAN}" * 60, "\x1b" * 200])
def test_a_script_is_recognized_whatever_its_name(name: str) -> None:
    convert("-o", f"{name}.onnx", *DATACENTER)
    assert Path(f"{name}.onnx.sh").exists()
    convert("-o", f"{name}.onnx")
    assert not Path(f"{name}.onnx.sh").exists()


def test_what_a_dead_process_left_is_ours() -> None:
    stage = ".prototrt-0123456789abcdef.part"
    Path("z.onnx.json").symlink_to(f"{stage}/now/z.onnx.json")
    convert("-o", "z.onnx")
    assert not Path("z.onnx.json").is_symlink()


@pytest.mark.parametrize("another", [None, "theirs, too", "# Written by prototrt 0.3.0"])
def test_a_file_that_another_process_replaces_or_removes_is_looked_at_again(
    another: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, is_ours = Path("z.onnx.sh"), ownership.is_ours
    file.write_text("theirs")

    def of_what_goes(path: str) -> bool:
        monkeypatch.setattr(ownership, "is_ours", is_ours)
        result = is_ours(path)
        file.unlink()
        if another is not None:
            file.write_text(another)
        return result

    monkeypatch.setattr(ownership, "is_ours", of_what_goes)
    assert ownership.is_foreign(str(file)) == (another == "theirs, too")


def test_a_batch_is_refused_before_it_begins() -> None:
    Path("models.yaml").write_text("models:\n- {prototxt: net.prototxt, format: onnx, random-weights: 1}\n")
    Path("out").mkdir()
    Path("out/net.onnx.sh").write_text("mine")
    result = run("batch", "models.yaml", "-o", "out")
    assert result.exit_code == 2
    assert '-o would replace or remove "out/net.onnx.sh", which prototrt did not write' in result.stderr
    assert os.listdir("out") == ["net.onnx.sh"]


def test_functions_refuse_as_well() -> None:
    graph = prototrt.rewrite(prototrt.load("net.prototxt", random_weights=1))
    Path("z.onnx.json").write_text("mine")
    with pytest.raises(prototrt.ConversionError, match="path would replace or remove"):
        prototrt.export_onnx(graph, "z.onnx")
    assert Path("z.onnx.json").read_text() == "mine"
