"""Files that belong together are all new or all as they were, whatever fails or dies, and whenever."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.onnx import file
from prototrt.converter.onnx.export import export_onnx
from prototrt.converter.tensorrt.builder import Plan
from prototrt.converter.writing import publication as publication_module
from prototrt.converter.writing.files import atomic_write
from prototrt.converter.writing.publication import publication, tidy
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.faults import KILLED, Fault, faults
from prototrt.tests.fresh_python import run_python

Files = dict[str, bytes]


def files_in(folder: Path) -> Files:
    """What a user sees there: links are followed, and what is hidden or leads nowhere is left out."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if not path.name.startswith(".") and path.is_file()
    }


@cache
def small_graph() -> Graph:
    random = np.random.default_rng(1).standard_normal((300, 3)).astype(np.float32)
    build = Builder()
    return build.graph("small", [build.product(build.input("x", (2, 3)), build.constant(random))])


def plan(content: bytes) -> Plan:
    facts = {"tool": {"name": "prototrt"}, "plan": {"build_seconds": 0}, "of": content.decode()}
    return Plan(memoryview(content), facts)


def save(folder: Path, content: str) -> None:
    """An engine and its manifest."""
    plan(content.encode()).save(folder / "net.plan")


def export(folder: Path, content: str) -> None:
    """A model, its weights and its manifest."""
    export_onnx(small_graph(), folder / "net.onnx", notes={"of": content})


def deploy(folder: Path, content: str) -> None:
    """One file."""
    with atomic_write(folder / "deploy.prototxt") as stream:
        stream.write(content.encode())


ACTIONS = {"engine": save, "model": export, "text": deploy}


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(
    ("action", "replaces"),
    [("engine", True), ("engine", False), ("model", True), ("text", True)],
)
def test_all_are_new_or_all_are_old(
    memory_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    replaces: bool,
    fault: Fault,
) -> None:
    monkeypatch.setattr(file, "EXTERNAL_FROM", 0)
    write, new = ACTIONS[action], files_after(action, tmp_path, "new")
    old = files_after(action, memory_path, "old") if replaces else Files()
    for place, code in faults(lambda: write(memory_path, "new"), fault):
        found = files_in(memory_path)
        assert found in ((old, new) if code else (new,)), place
        assert (code == KILLED) == (fault is Fault.KILL), place
        assert files_after(action, memory_path, "old"), place
        if not replaces:
            for path in memory_path.iterdir():
                path.unlink()


def files_after(action: str, folder: Path, content: str) -> Files:
    """What a run that nothing disturbs leaves: files, and nothing hidden."""
    ACTIONS[action](folder, content)
    found = files_in(folder)
    assert sorted(os.listdir(folder)) == sorted(found)
    assert not any((folder / name).is_symlink() for name in found)
    return found


def test_files_in_several_folders_follow_their_links(tmp_path: Path) -> None:
    """An engine may be a link to another folder; its manifest stands beside the link."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "net.plan").symlink_to(tmp_path / "net.plan")
    save(tmp_path / "links", "new")
    assert (tmp_path / "links" / "net.plan").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["links", "net.plan"]
    assert sorted(os.listdir(tmp_path / "links")) == ["net.plan", "net.plan.json"]
    assert (tmp_path / "net.plan").read_bytes() == b"new"


@pytest.mark.parametrize("call", ["link", "symlink"])
def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refused(source: object, target: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, call, refused)
    for content in ("old", "new"):
        save(tmp_path, content)
        assert (tmp_path / "net.plan").read_text() == content
        assert json.loads((tmp_path / "net.plan.json").read_text())["of"] == content
        assert sorted(os.listdir(tmp_path)) == ["net.plan", "net.plan.json"]


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tidied where nobody can tell whether its writer is alive."""
    (tmp_path / ".prototrt-0123456789abcdef.part" / "new").mkdir(parents=True)

    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    save(tmp_path, "new")
    assert sorted(os.listdir(tmp_path)) == [".prototrt-0123456789abcdef.part", "net.plan", "net.plan.json"]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[None]:
    """The lock of the folder is held by process 4321."""
    lock = tmp_path / ".prototrt-lock"
    lock.write_text("4321")
    with lock.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("held")
def test_waiting_for_another_process_is_said_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PROTOTRT_LOCK_TIMEOUT", "0.2")
    monkeypatch.setattr(publication_module, "_SILENT", 0.1)
    with pytest.raises(ConversionError) as told:
        save(tmp_path, "new")
    assert str(told.value) == (
        f"{tmp_path}: process 4321 has been writing into this folder for 0.2 seconds\n"
        "  fix: wait until it ends, or stop it; set the seconds to wait in PROTOTRT_LOCK_TIMEOUT"
    )
    assert told.value.exit_code == 3
    assert caplog.messages == [f"waiting for process 4321, which writes into {tmp_path}"]
    assert os.listdir(tmp_path) == [".prototrt-lock"]


def test_a_lock_that_is_left_counts_no_more(tmp_path: Path) -> None:
    (tmp_path / ".prototrt-lock").write_text("4321")
    save(tmp_path, "new")
    assert sorted(os.listdir(tmp_path)) == ["net.plan", "net.plan.json"]


def test_whoever_locks_the_folder_itself_stops_nobody(tmp_path: Path) -> None:
    """``flock FOLDER prototrt convert``; any user who may read the folder could do that."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        save(tmp_path, "new")
    finally:
        os.close(descriptor)
    assert sorted(os.listdir(tmp_path)) == ["net.plan", "net.plan.json"]


@pytest.mark.parametrize(("folder", "lock"), [(0o755, 0o600), (0o775, 0o660), (0o700, 0o600)])
def test_who_may_only_read_a_folder_cannot_lock_what_is_in_it(tmp_path: Path, folder: int, lock: int) -> None:
    usual = os.umask(0)
    try:
        tmp_path.chmod(folder)
        with publication_module._alone_in(tmp_path):
            assert stat.S_IMODE((tmp_path / ".prototrt-lock").stat().st_mode) == lock
        with publication(tmp_path / "net.onnx") as files:
            stage = files.place(tmp_path / "net.onnx").parents[1]
            assert stat.S_IMODE(stage.stat().st_mode) == 0o711
    finally:
        os.umask(usual)


@pytest.mark.parametrize("suffix", [".data", ".json"])
def test_a_link_planted_at_a_side_file_is_replaced(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it appears while the files are made."""
    monkeypatch.setattr(file, "EXTERNAL_FROM", 0)
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").write_text("of another user")
    with publication(tmp_path / "folder" / "net.onnx") as files:
        with files.create(tmp_path / "folder" / "net.onnx") as stream:
            stream.write(b"model")
        (tmp_path / "folder" / f"net.onnx{suffix}").symlink_to(tmp_path / "other")
        with files.create(tmp_path / "folder" / f"net.onnx{suffix}") as stream:
            stream.write(b"side")
    assert (tmp_path / "other").read_text() == "of another user"
    assert files_in(tmp_path / "folder") == {"net.onnx": b"model", f"net.onnx{suffix}": b"side"}
    assert not (tmp_path / "folder" / f"net.onnx{suffix}").is_symlink()


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    with publication(tmp_path / "a") as files:
        with files.create(tmp_path / "a") as stream:
            stream.write(b"a")
        save(tmp_path, "other")
    assert sorted(os.listdir(tmp_path)) == ["a", "net.plan", "net.plan.json"]


def test_tidying_touches_no_other_file(tmp_path: Path) -> None:
    """A folder of that name which somebody else has made cannot lead out of itself."""
    secret = tmp_path / "secret"
    secret.write_text("mine")
    folder = tmp_path / "folder"
    left = folder / ".prototrt-0123456789abcdef.part"
    for name in ("old", "new"):
        (left / name).mkdir(parents=True)
        (left / name / "secret").touch()
    (left / "written-by-prototrt").touch()
    (left / "now").symlink_to(tmp_path)
    (folder / "secret").symlink_to(f"{left.name}/now/secret")
    (folder / ".prototrt-file.part").touch()
    (folder / ".prototrt-link.part").symlink_to(tmp_path)
    tidy(folder)
    assert secret.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["folder", "secret"]


@pytest.mark.parametrize(
    "name", [".prototrt-docs.part", ".prototrt-0123456789abcdef.part", ".prototrt-0123456789ABCDEF.part"]
)
def test_a_folder_of_the_user_is_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "new").mkdir(parents=True)
    (tmp_path / name / "new" / "thesis.txt").write_text("mine")
    save(tmp_path, "new")
    assert (tmp_path / name / "new" / "thesis.txt").read_text() == "mine"


def test_a_stage_of_another_user_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its links could be changed while they are followed."""
    left = tmp_path / ".prototrt-0123456789abcdef.part"
    left.mkdir()
    (left / "written-by-prototrt").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    tidy(tmp_path)
    assert left.exists()
    monkeypatch.undo()
    tidy(tmp_path)
    assert not left.exists()


def test_a_stage_with_a_folder_that_leads_elsewhere(tmp_path: Path) -> None:
    """Files of the other folder stay there, although the stage calls them new."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    left = folder / ".prototrt-0123456789abcdef.part"
    for each in (home, left, left / "old"):
        each.mkdir(parents=True)
    (left / "written-by-prototrt").touch()
    (home / "secret").write_text("mine")
    (left / "new").symlink_to(home)
    (left / "now").symlink_to("new")
    (folder / "secret").symlink_to(f"{left.name}/now/secret")
    tidy(folder)
    assert (home / "secret").read_text() == "mine"


@pytest.mark.parametrize("room", [0, 4000])
def test_a_limit_on_the_size_of_files(tmp_path: Path, room: int) -> None:
    """The system sends SIGXFSZ, which Python ignores: the write fails."""
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
from prototrt.cli import prototrt_main
sys.argv = ["prototrt", "convert", {DEPLOY!r}, {WEIGHTS!r}, "-o", "net.onnx"]
prototrt_main()
"""
    (tmp_path / "net.onnx").write_bytes(b"old")
    done = run_python("-c", code, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (
        3,
        "error: net.onnx: cannot be written: File too large\n"
        "  fix: give another output file, or make room for this one\n",
    )
    assert files_in(tmp_path) == {"net.onnx": b"old"}
    assert os.listdir(tmp_path) == ["net.onnx"]


@pytest.mark.trt
@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault)
def test_a_real_engine_is_new_or_old(memory_path: Path, fault: Fault) -> None:
    """The command as it is installed, with the same faults in the process that builds."""
    target = memory_path / "net.plan"
    code = f"""
import sys
from prototrt.tests.faults import Fault, inject
from prototrt.converter.commandline.commands.converting import convert
inject(Fault.{fault.name}, int(sys.argv.pop(1)), 1, home="publication")
convert()
"""
    old = Files()
    for number in range(0, 100, 7):  # in between are those that the tests above reach
        done = run_python("-c", code, str(number), DEPLOY, WEIGHTS, "-q", "-o", target, check=False)
        found = files_in(memory_path)
        assert found == old or is_whole(found), done.stdout
        old = found
        if not done.stdout:
            assert number > 30
            assert sorted(os.listdir(memory_path)) == ["net.plan", "net.plan.json"]
            return
    raise AssertionError("the command never ends without a fault")


def is_whole(found: Files) -> bool:
    stated = json.loads(found["net.plan.json"])["plan"]["sha256"]
    return bool(stated == hashlib.sha256(found["net.plan"]).hexdigest())
