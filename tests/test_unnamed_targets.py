"""What a command writes under names that no user gave: a user's file is refused and kept, and no link is followed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import Message

from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.weights.caffemodel_writer import LayerBlobs, write_caffemodel
from prototrt.converter.files.writing.ownership import caffemodel_mark, is_ours
from prototrt.converter.front.batch import runner
from prototrt.tests.command_line import run
from prototrt.tests.converter.front.batch.support import NET, InThisProcess

UNKNOWN = NET.replace("InnerProduct", "Unheard")
LIST = "models:\n- {{prototxt: net.prototxt, weights: net.bin, format: {}}}\n"


@dataclass(frozen=True)
class Written:
    """A command, and the files that it names by itself."""

    arguments: str
    unnamed: tuple[str, ...]


COMMANDS: Mapping[str, Written] = {
    "model": Written("convert net.prototxt net.bin -o y.onnx", ("y.onnx.json",)),
    "module": Written("convert net.prototxt net.bin -o y.py", ("y.safetensors", "y.py.json")),
    "script": Written(
        "convert net.prototxt net.bin -o y.onnx --target datacenter", ("y.onnx.json", "y.onnx.sh")
    ),
    "upgrade": Written("upgrade net.prototxt net.bin -o y.prototxt", ("y.caffemodel",)),
    "batch": Written("batch onnx.yaml -o .", ("net.onnx", "net.onnx.json")),
    "batch of modules": Written("batch torch.yaml -o .", ("net.py", "net.safetensors", "net.py.json")),
}
CASES = [(name, file) for name, written in COMMANDS.items() for file in written.unnamed]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "Worker", InThisProcess)
    Path("net.prototxt").write_text(NET)
    Path("unknown.prototxt").write_text(UNKNOWN)
    for kind in ("onnx", "torch"):
        Path(f"{kind}.yaml").write_text(LIST.format(kind))
    with Path("net.bin").open("wb") as stream:
        blobs = [np.ones((4, 3), np.float32), np.zeros(4, np.float32)]
        write_caffemodel(stream, [LayerBlobs("fc", "InnerProduct", blobs)])
    return tmp_path


def contents() -> dict[str, bytes | str]:
    """What is in the folder; of a link, where it leads."""
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in Path().rglob("*")
        if path.is_symlink() or path.is_file()
    }


def done(command: str) -> None:
    result = run(*COMMANDS[command].arguments.split(), "-q")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("kind", ["a file", "a link", "a link to nothing"])
@pytest.mark.parametrize(("command", "file"), CASES)
def test_what_is_the_users_is_refused_and_kept(command: str, file: str, kind: str) -> None:
    mine = Path("mine") if kind == "a link" else Path(file)
    if kind != "a link to nothing":
        mine.write_text('"mine"')
    if kind != "a file":
        Path(file).symlink_to("mine")
    before = contents()
    result = run(*COMMANDS[command].arguments.split())
    assert result.exit_code == 2
    shown = result.stderr.replace('"./', '"')  # of a batch, whose folder is the current one
    assert f'-o would replace or remove "{file}", which prototrt did not write\n' in shown
    assert contents() == before


@pytest.mark.parametrize(
    "command",
    [*[*COMMANDS][:-1], pytest.param("batch of modules", marks=pytest.mark.slow)],
)
def test_what_prototrt_wrote_is_replaced_and_what_a_user_moved_stays(command: str) -> None:
    """Such as large weights, on another disk: no link is followed, and the pair is whole."""
    done(command)
    written = contents()
    disk, files = Path("disk"), COMMANDS[command].unnamed
    disk.mkdir()
    for file in files:
        shutil.move(file, disk / file)
        Path(file).symlink_to(disk / file)
        (disk / file).touch()
    done(command)
    whole = written | {f"disk/{file}": written[file] for file in files}
    assert contents() == whole
    for file in files:
        os.utime(file, (1, 1))
    done(command)
    assert contents() == whole
    assert all(Path(file).stat().st_mtime != 1 for file in files)


def test_no_command_follows_a_link_at_the_test_of_a_rule() -> None:
    Path("test_rule.py").symlink_to("mine")
    result = run("new-rule", "unknown.prototxt", "fc", "-o", "rule.py")
    assert (result.exit_code, result.stderr.splitlines()[-2:]) == (
        2,
        ["Error: test_rule.py is there already", "  fix: name another file, or remove this one"],
    )
    assert not Path("mine").exists()
    assert not Path("rule.py").exists()


def test_a_caffemodel_that_the_user_names_is_replaced() -> None:
    Path("y.caffemodel").write_text("mine")
    refused = run("upgrade", "net.prototxt", "net.bin", "-o", "y.prototxt")
    assert refused.stderr.endswith(
        'Error: -o would replace or remove "y.caffemodel", which prototrt did not write\n'
        "  fix: move that file, or name both: -o y.prototxt -o FILE.caffemodel\n"
    )
    named = run("upgrade", "net.prototxt", "net.bin", "-o", "y.prototxt", "-o", "y.caffemodel")
    assert named.exit_code == 0
    assert is_ours("y.caffemodel")


def test_a_caffemodel_that_was_changed_since_is_the_users() -> None:
    """Protobuf keeps fields that it does not know, and so the mark."""
    done("upgrade")
    net: Message = message_class("NetParameter")()
    net.ParseFromString(Path("y.caffemodel").read_bytes())
    net.layer[1].blobs[0].data[0] = 7  # type: ignore[attr-defined]
    Path("y.caffemodel").write_bytes(net.SerializeToString())
    assert b"written by prototrt" in Path("y.caffemodel").read_bytes()
    assert run(*COMMANDS["upgrade"].arguments.split()).exit_code == 2


@pytest.mark.parametrize(
    "content", [b"", b"x" * 99, caffemodel_mark("0" * 64)[1:], caffemodel_mark("0" * 64)]
)
def test_what_is_no_caffemodel_of_ours(content: bytes) -> None:
    Path("y.caffemodel").write_bytes(content)
    assert not is_ours("y.caffemodel")
    Path("y.onnx.json").mkdir()
    assert not is_ours("y.onnx.json")
