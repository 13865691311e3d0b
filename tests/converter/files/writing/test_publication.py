"""Files that belong together are all new or all as they were, whatever fails or dies, and whenever."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.backends.onnx import file
from prototrt.converter.backends.onnx.export import export_onnx
from prototrt.converter.backends.tensorrt.builder import Plan
from prototrt.converter.files.writing import publication as publication_module
from prototrt.converter.files.writing.files import atomic_write
from prototrt.converter.files.writing.ownership import STAGE, DerivedPath
from prototrt.converter.files.writing.publication import publication, tidy
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Graph
from prototrt.tests.command_line import DEPLOY, WEIGHTS
from prototrt.tests.faults import KILLED, REFUSED, Fault, calls_from, faults
from prototrt.tests.fresh_python import run_python
from prototrt.tests.samples import sampled

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


OF_THE_LOCK = ("open in _number_in, fails", "unlink in unlink, fails")
"""Calls that fail when the lock is taken or given back: then nothing is removed until the next run."""
ACTIONS = {"engine": save, "model": export, "text": deploy}


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(
    ("action", "replaces", "every"),
    [
        ("engine", True, 7),
        ("text", True, 11),
        ("engine", False, 15),
        ("model", True, 15),
        pytest.param("engine", True, 1, marks=pytest.mark.exhaustive),
        pytest.param("text", True, 1, marks=pytest.mark.exhaustive),
        pytest.param("engine", False, 1, marks=pytest.mark.exhaustive),
        pytest.param("model", True, 1, marks=pytest.mark.exhaustive),
    ],
)
def test_all_are_new_or_all_are_old(
    memory_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    replaces: bool,
    every: int,
    fault: Fault,
) -> None:
    monkeypatch.setattr(file, "EXTERNAL_FROM", 0)
    write, new = ACTIONS[action], files_after(action, tmp_path, "new")
    old = files_after(action, memory_path, "old") if replaces else Files()
    for place, code in faults(lambda: write(memory_path, "new"), fault, every):
        found = files_in(memory_path)
        assert found in ((old, new) if code else (new,)), place
        assert (code == KILLED) == (fault is Fault.KILL), place
        if code == REFUSED and not place.endswith(OF_THE_LOCK):
            assert not [*filter(STAGE.fullmatch, os.listdir(memory_path))], place
        assert files_after(action, memory_path, "old"), place
        if not replaces:
            for path in memory_path.iterdir():
                path.unlink()


@pytest.mark.parametrize("fails", [False, True])
def test_links_become_files_before_the_folder_is_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Not only when the stage is removed: until then, other processes may write there."""
    save(tmp_path, "old")
    replace, remove, left = os.replace, Path.unlink, list[list[str]]()

    def replaced(source: Path, target: Path) -> None:
        if fails and target.name == "now":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(source, target)

    def removed(path: Path, missing_ok: bool = False) -> None:
        if path.name == ".prototrt-lock":
            left.append([each.name for each in tmp_path.iterdir() if each.is_symlink()])
        remove(path, missing_ok)

    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(Path, "unlink", removed)
    with pytest.raises(ConversionError, match="Input/output error") if fails else nullcontext():
        save(tmp_path, "new")
    assert left == [[], [], []], "the stage is made, the files appear, the stage is removed"
    assert (tmp_path / "net.plan").read_text() == ("old" if fails else "new")


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
    clock = SimpleNamespace(monotonic=count(0, 0.9).__next__, sleep=lambda seconds: None)
    monkeypatch.setattr(publication_module, "time", clock)
    monkeypatch.setenv("PROTOTRT_LOCK_TIMEOUT", "2")
    with pytest.raises(ConversionError) as told:
        save(tmp_path, "new")
    assert str(told.value) == (
        f"{tmp_path}: process 4321 has been writing into this folder for 2 seconds\n"
        "  fix: wait until it ends, or stop it; set the seconds to wait in PROTOTRT_LOCK_TIMEOUT"
    )
    assert told.value.exit_code == 3
    assert caplog.messages == [f"waiting for process 4321, which writes into {tmp_path}"]
    assert os.listdir(tmp_path) == [".prototrt-lock"]


@pytest.mark.parametrize("content", ["", "4321"])
def test_a_lock_that_is_left_counts_no_more(tmp_path: Path, content: str) -> None:
    (tmp_path / ".prototrt-lock").write_text(content)
    save(tmp_path, "new")
    assert sorted(os.listdir(tmp_path)) == ["net.plan", "net.plan.json"]


@pytest.mark.parametrize("content", [b"\xff\xfe\xff", b"mine", b"\xb2", b"1" * 21, None])
def test_a_held_lock_of_other_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """Bytes that are no text, and 20 GB of them."""
    monkeypatch.setenv("PROTOTRT_LOCK_TIMEOUT", "0")
    lock = tmp_path / ".prototrt-lock"
    lock.write_bytes(content or b"4321")
    if content is None:
        os.truncate(lock, 20 * 10**9)
    with lock.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(ConversionError) as told:
            save(tmp_path, "new")
    assert str(told.value) == (
        f"{tmp_path}: another process has been writing into this folder for 0 seconds\n"
        "  fix: wait until it ends, or stop it; set the seconds to wait in PROTOTRT_LOCK_TIMEOUT"
    )
    assert os.listdir(tmp_path) == [".prototrt-lock"]


FOREIGN_LOCKS: dict[str, Callable[[Path], object]] = {
    "text": lambda lock: lock.write_text("mine"),
    "bytes": lambda lock: lock.write_bytes(b"\xff"),
    "many": lambda lock: lock.write_bytes(b"1" * 21),
    "hard link": lambda lock: os.link(WEIGHTS, lock),
    "link": lambda lock: lock.symlink_to("nowhere"),
    "folder": lambda lock: lock.mkdir(),
    "pipe": lambda lock: os.mkfifo(lock),
    "socket": lambda lock: socket.socket(socket.AF_UNIX).bind(os.path.relpath(lock)),
}


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("kind", FOREIGN_LOCKS)
def test_what_has_the_name_of_the_lock_and_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, locks: bool
) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    lock = tmp_path / ".prototrt-lock"
    monkeypatch.chdir(tmp_path)
    FOREIGN_LOCKS[kind](lock)
    before = os.lstat(lock)
    if not locks:
        monkeypatch.setattr(fcntl, "flock", refused)
    if locks or kind in ("link", "folder", "socket"):
        with pytest.raises(ConversionError) as told:
            save(tmp_path, "new")
        assert str(told.value) == (
            f"{lock}: prototrt did not write this, and locks the folder with a file of this name\n"
            "  fix: move it away, or give an output file in another folder"
        )
        assert os.listdir(tmp_path) == [".prototrt-lock"]
    else:
        save(tmp_path, "new")
    after = os.lstat(lock)
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )


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
        with publication_module._lock_folder(tmp_path):
            assert stat.S_IMODE((tmp_path / ".prototrt-lock").stat().st_mode) == lock
        with publication(tmp_path / "net.onnx") as files:
            stage = files.place(tmp_path / "net.onnx").parents[1]
            assert stat.S_IMODE(stage.stat().st_mode) == 0o711
    finally:
        os.umask(usual)


@pytest.mark.parametrize("side", ["net.onnx.data", "net.onnx.json", "net.safetensors", "test_net.py"])
def test_a_link_planted_where_no_user_named_a_file_is_replaced(tmp_path: Path, side: str) -> None:
    """Even if it appears while the files are made."""
    target, beside = tmp_path / "folder" / "net.onnx", tmp_path / "folder" / side
    target.parent.mkdir()
    (tmp_path / "other").write_text("of another user")
    with publication(target) as files:
        with files.create(target) as stream:
            stream.write(b"model")
        beside.symlink_to(tmp_path / "other")
        with files.create(DerivedPath(beside)) as stream:
            stream.write(b"side")
    assert (tmp_path / "other").read_text() == "of another user"
    assert files_in(tmp_path / "folder") == {"net.onnx": b"model", side: b"side"}
    assert not beside.is_symlink()


def test_a_link_that_the_user_names_is_followed_whatever_its_name(tmp_path: Path) -> None:
    """A header may be called as the model is, and more."""
    header = tmp_path / "net.onnx.h"
    header.symlink_to("include")
    with publication(tmp_path / "net.onnx") as files:
        for path in (tmp_path / "net.onnx", header):
            with files.create(path) as stream:
                stream.write(b"new")
    assert files_in(tmp_path) == {"net.onnx": b"new", "net.onnx.h": b"new", "include": b"new"}
    assert header.is_symlink()


def test_a_file_of_the_user_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    mine = tmp_path / "other" / "net.onnx.json"
    mine.parent.mkdir()

    def write() -> None:
        with publication(tmp_path / "net.onnx") as files:
            for path in (tmp_path / "net.onnx", DerivedPath(mine)):
                with files.create(path) as stream:
                    stream.write(b"new")
            mine.write_text("mine")

    with pytest.raises(ConversionError) as told:
        write()
    assert str(told.value) == (
        f"{mine}: would be replaced, and prototrt did not write it\n"
        "  fix: move that file, or give another output file"
    )
    assert sorted(os.listdir(tmp_path)) == ["other"]
    assert files_in(mine.parent) == {"net.onnx.json": b"mine"}


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("every", sampled(12))
def test_weights_that_the_user_moved_are_always_there(
    memory_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, fault: Fault
) -> None:
    """A link that leads to an earlier file of ours is replaced at the end; until then, it leads there."""
    monkeypatch.setattr(file, "EXTERNAL_FROM", 0)
    new = files_after("model", tmp_path, "new")
    disk, here = memory_path / "disk", memory_path / "here"
    for place in (disk, here):
        place.mkdir()

    def move() -> Files:
        """Only the weights are on the other disk."""
        export(here, "old")
        (here / "net.onnx.data").replace(disk / "weights")
        (here / "net.onnx.data").symlink_to("../disk/weights")
        return files_in(here)

    old = move()
    for call, code in faults(lambda: export(here, "new"), fault, every):
        found = files_in(here)
        assert found in ((old, new) if code else (new,)), call
        assert files_in(disk) == {"weights": old["net.onnx.data"]}, call
        tidy(here)
        assert files_in(here) == found, call
        move()


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
@pytest.mark.parametrize("every", sampled(68, least=7))
def test_a_real_engine_is_new_or_old(memory_path: Path, every: int, fault: Fault) -> None:
    """The command as it is installed, with the same faults in the process that builds."""
    target = memory_path / "net.plan"
    code = f"""
import sys
from prototrt.tests.faults import Fault, inject
from prototrt.converter.front.commandline.commands.converting import convert
inject(Fault.{fault.name}, int(sys.argv.pop(1)), 1, home="publication")
convert()
"""
    old = Files()
    for number in calls_from(fault, every):  # in between are those that the tests above reach
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
