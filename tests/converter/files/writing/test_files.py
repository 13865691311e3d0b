"""A failed run leaves nothing behind."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import ConversionError, OptionsError
from prototrt.caffe_proto.common.wording import Option
from prototrt.converter.files.writing.files import (
    HashedStream,
    atomic_write,
    refuse_overwriting,
    write_fault,
)


def write_half(target: Path, interruption: BaseException) -> None:
    with atomic_write(target) as stream:
        stream.write(b"half")
        raise interruption


def test_the_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "engine.plan"
    with atomic_write(target) as stream:
        stream.write(b"plan")
        assert not target.exists()
    assert target.read_bytes() == b"plan"
    assert os.listdir(tmp_path) == ["engine.plan"]


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    target = tmp_path / "engine.plan"
    target.write_bytes(b"old")
    with pytest.raises(interruption):
        write_half(target, interruption())
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["engine.plan"]


def test_permissions_are_those_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with atomic_write(tmp_path / "a") as stream:
            stream.write(b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_link_keeps_pointing(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with atomic_write(tmp_path / "link") as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_device_is_written_not_replaced() -> None:
    with atomic_write(os.devnull) as stream:
        stream.write(b"x")
    assert Path(os.devnull).is_char_device()


def test_a_missing_folder_is_the_users_mistake(tmp_path: Path) -> None:
    target = tmp_path / "no" / "a"
    with pytest.raises(ConversionError) as caught, atomic_write(target) as stream:
        stream.write(b"x")
    assert str(caught.value) == (
        f"{target}: cannot be written: No such file or directory\n"
        "  fix: give another output file, or make room for this one"
    )


def test_why_unwritable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert write_fault(tmp_path / "new") is None
    assert write_fault(tmp_path / "file") is None
    assert write_fault(os.devnull) is None
    (tmp_path / "circle").symlink_to("circle")
    assert write_fault(tmp_path / "circle") == "it is a link to itself"
    assert write_fault("") == "its name is empty"
    assert write_fault("a\0b") == "a name cannot hold a NUL"
    assert write_fault("/") == '"/" is a folder'
    assert write_fault(tmp_path) == f'"{tmp_path}" is a folder'
    assert write_fault(tmp_path / "no" / "a") == f'the folder "{tmp_path / "no"}" does not exist'
    assert write_fault(tmp_path / "file" / "a") == f'the folder "{tmp_path / "file"}" does not exist'


def test_a_folder_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root sees none."""

    def closed(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", closed)
    assert write_fault(tmp_path / "new") == "permission denied"


def test_a_file_that_is_read_is_known_under_another_name(tmp_path: Path) -> None:
    model, link, other = tmp_path / "net", tmp_path / "link", tmp_path / "other"
    model.touch()
    other.touch()
    link.symlink_to(model)
    read = [str(tmp_path / "missing"), str(model)]
    target, report = Option("target"), Option("report_md")
    with pytest.raises(OptionsError, match="target would overwrite") as caught:
        refuse_overwriting([(target, str(link))], read)
    assert str(caught.value) == (
        f'target would overwrite "{model}", which is read\n  fix: give another output file'
    )
    refuse_overwriting([(target, str(other)), (target, str(tmp_path / "missing"))], read)
    refuse_overwriting([(target, os.devnull), (report, os.devnull)], [os.devnull])
    with pytest.raises(OptionsError, match="target and report_md would both write"):
        refuse_overwriting([(target, str(tmp_path / "new")), (report, f"{tmp_path}/./new")], [])


def test_hashed_stream_writes_pieces_in_order() -> None:
    pieces = [bytes([number]) * 100_000 for number in range(20)]
    stream = io.BytesIO()
    with ThreadPoolExecutor(2) as threads:
        hashed = HashedStream(stream, threads)
        for piece in pieces:
            hashed.write(piece)
        assert hashed.sha256 == hashlib.sha256(b"".join(pieces)).hexdigest()
    assert stream.getvalue() == b"".join(pieces)
    assert hashed.bytes == 2_000_000


def test_hashed_stream_tells_of_a_failure_with_the_next_piece_or_at_the_end() -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    with ThreadPoolExecutor(2) as threads:
        hashed = HashedStream(Full(), threads)
        hashed.write(b"one")
        with pytest.raises(OSError, match="No space"):
            hashed.write(b"two")
        hashed.write(b"three")
        with pytest.raises(OSError, match="No space"):
            assert hashed.sha256
