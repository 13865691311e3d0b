"""A file that is far too large for what it is given as is refused before it is read."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

import prototrt
from prototrt.caffe_proto.common import files
from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.common.files import read_regular
from prototrt.caffe_proto.weights import npz
from prototrt.caffe_proto.weights.npz import read_header
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.data import images
from prototrt.converter.running.data.data import data_of
from prototrt.converter.running.data.images import Preparation
from prototrt.surgery.ir import DType, Value
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, run
from prototrt.tests.test_special_files import arguments, inputs

_SIZE = 2 << 30  # bytes; sparse, so that no disk is written
_HEADS = {
    "scales": b'{"format": 1, "blobs": {"',
    "calibration_cache": b"TRT-8205-EntropyCalibration2\ndata: 3c010a14\n",
    "labels": b"cat\ndog\n",
    "settings": b'{"A": 1}\n',
    "data_loader": b"import numpy\n#",
    "rules": b"import numpy\n#",
    "state": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{",
    "inputs": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{",
    "model": b'layer { name: "a" }\n#',
}
_FILLED = 70_000
"""Bytes of text before the hole, by which a file is recognized."""


def sparse(path: Path, head: bytes = b"", size: int = _SIZE) -> Path:
    with path.open("wb") as stream:
        stream.write(head)
        stream.truncate(size)
    return path


def bytes_read() -> int:
    """By this process so far, in read calls."""
    return int(Path("/proc/self/io").read_text().split()[1])


reads_counted = pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system counts no reads")


@reads_counted
@pytest.mark.parametrize(("command", "parameter"), inputs())
def test_no_command_reads_a_sparse_file(
    command: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "big.py" if parameter == "data_loader" else "big.npz"
    head = _HEADS.get(parameter, b"")
    sparse(tmp_path / name, head + b" " * (_FILLED - len(head)) if parameter in ("rules", "model") else head)
    before = bytes_read()
    result = run(*arguments(command, parameter, name))
    assert "error:" in result.output or "big." in result.output
    assert bytes_read() - before < 100_000_000


_SCALES = ["--precision", "int8", "--scales", "big"]
_MESSAGES = {
    "scales": (["inspect", DEPLOY, WEIGHTS, "--stage", "rewritten", *_SCALES], "a file of scales", 3),
    "a cache": (
        ["verify", DEPLOY, WEIGHTS, "--precision", "int8", "--calibration-cache", "big"],
        "a calibration cache, or a table",
        3,
    ),
    "labels": (["triton", STREAM, WEIGHTS, "-o", "out", "--labels", "big"], "a file of labels", 3),
}


@pytest.mark.parametrize("case", _MESSAGES)
def test_the_message(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sparse(tmp_path / "big")
    command, what, code = _MESSAGES[case]
    result = run(*command)
    problem = f"big: the file has 2.1 GB, expected {what} of at most 64.0 MB"
    assert (result.exit_code, result.output) == (
        code,
        f"error: {problem}\n  fix: give the right file, or get it again\n",
    )
    assert os.listdir(tmp_path) == ["big"]


def test_a_file_at_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"x" * 10)
    assert read_regular(file, "a text", 10) == b"x" * 10
    with pytest.raises(UnreadableFileError) as info:
        read_regular(file, "a text", 9)
    assert info.value.problem == "the file has 10 bytes, expected a text of at most 9 bytes"
    assert read_regular(file, "a plan", None) == b"x" * 10


class Counting(io.BytesIO):
    """A stream that counts the bytes that are read from it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.count += len(content)
        return content


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_header_of_an_array_is_read_up_to_a_limit(version: int) -> None:
    length = 0xFFFF if version == 1 else 50_000_000
    size = struct.pack("<H" if version == 1 else "<I", length)
    stream = Counting(b"\x93NUMPY" + bytes([version, 0]) + size + b" " * length)
    with pytest.raises(ValueError, match=r"[Hh]eader"):
        read_header(stream, 60_000_000)
    assert stream.count <= npz._LARGEST_HEADER


def test_a_packed_header_is_not_unpacked(tmp_path: Path) -> None:
    """Some kilobytes of an npz file may be a header of gigabytes."""
    file = tmp_path / "in.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "data.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 100_000_000) + b" " * 100_000_000
        )
    with pytest.raises(ConversionError, match="is not an npz file"):
        data_of(str(file), None, signature(Value("data", DType.FLOAT32, (2, 3))))
    assert file.stat().st_size < 200_000


def signature(value: Value) -> Signature:
    return Signature((value,), (), ())


def failure_of(folder: Path, value: Value, preparation: Preparation | None = None) -> str:
    with pytest.raises(ConversionError) as info:
        list(data_of(str(folder), None, signature(value), preparation).read())
    return str(info.value)


def test_the_shape_of_an_array_is_checked_before_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (2, 250_000_000)}
    )
    sparse(tmp_path / "a.npy", header.getvalue(), len(header.getvalue()) + 2_000_000_000)
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("the numbers are read"))
    assert failure_of(tmp_path, Value("data", DType.FLOAT32, (2, 3))) == (
        f'{tmp_path}/a.npy: input "data" has the shape (2, 250000000), expected (2, 3)\n'
        "  fix: give an array of this shape, or change the input of the net with shapes"
    )


def png(width: int, height: int) -> bytes:
    """The head of an image, whose pixels are missing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


_IMAGE = Value("image", DType.FLOAT32, (1, 3, 2, 4))
_FEEDS = '  because it feeds "image", whose images have 4 x 2 pixels\n'
_TOO_LARGE: dict[str, tuple[Callable[[Path], object], Preparation, str]] = {
    "pixels": (
        lambda file: file.write_bytes(png(9000, 9000)),
        Preparation(),
        "the image has 9000 x 9000 pixels, expected at most 64,000,000\n"
        f"{_FEEDS}  fix: make it smaller, or remove it",
    ),
    "pixels that Pillow refuses": (
        lambda file: file.write_bytes(png(60_000, 60_000)),
        Preparation(),
        "the image has more pixels than Pillow reads\n"
        "  because Image size (3600000000 pixels) exceeds limit of 178956970 pixels, could be decompression"
        " bomb DOS attack.\n  fix: make it smaller, or remove it",
    ),
    "pixels after resizing": (
        lambda file: Image.new("RGB", (1, 5000)).save(file),
        Preparation(resize=(256,)),
        "1 x 5000 pixels become 256 x 1280000, expected at most 64,000,000\n"
        f"{_FEEDS}  fix: crop the image, or give resize a height and a width",
    ),
    "bytes": (
        lambda file: sparse(file, png(4, 2)),
        Preparation(),
        "the file has 2.1 GB, expected an image of at most 300.0 MB\n"
        "  fix: give the right file, or get it again",
    ),
}


@pytest.mark.parametrize("case", _TOO_LARGE)
def test_images_are_checked_by_their_headers(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, preparation, message = _TOO_LARGE[case]
    make(tmp_path / "a.png")
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("the image is decoded"))
    assert failure_of(tmp_path, _IMAGE, preparation) == f"{tmp_path}/a.png: {message}"


def test_an_image_of_the_size_of_a_large_input_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_MOST_PIXELS", 10)
    Image.new("RGB", (8, 4)).save(tmp_path / "a.png")
    value = Value("image", DType.FLOAT32, (1, 3, 4, 8))
    ((call,),) = data_of(str(tmp_path), None, signature(value)).read()
    assert call.feeds["image"].shape == (1, 3, 4, 8)
    assert "at most 10" in failure_of(tmp_path, _IMAGE)


def test_no_program_is_run_for_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow recognizes PostScript by its content, and would have Ghostscript run it."""
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("Ghostscript runs"))
    Image.new("RGB", (4, 2)).save(tmp_path / "a.png", format="EPS")
    assert failure_of(tmp_path, _IMAGE) == (
        f"{tmp_path}/a.png: is not an image that Pillow can read\n  fix: remove it, or replace it"
    )


@reads_counted
def test_a_manifest_is_not_read(tmp_path: Path) -> None:
    plan = tmp_path / "a.plan"
    plan.write_bytes(b"ftrt")
    sparse(tmp_path / "a.plan.json", b'{"format": 1, "')
    before = bytes_read()
    with pytest.raises(ConversionError) as info:
        prototrt.Session(str(plan))
    assert info.value.problem == "the file has 2.1 GB, expected a manifest of at most 64.0 MB"
    assert bytes_read() - before < files.LARGEST_TEXT
