"""Messages for files that are not prototxts, and bytes that do no harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prototrt.caffe_proto import ConversionError, load
from prototrt.caffe_proto.recognition import HEAD
from prototrt.tests.small_nets import Write

NET = b'layer { name: "a" type: "Input" top: "x" }'

FINE = {
    "byte order mark": b"\xef\xbb\xbf" + NET,
    "CRLF": NET.replace(b" ", b"\r\n"),
    "tabs": NET.replace(b" ", b"\t"),
    "UTF-8 comment": "# 输入\n".encode() + NET,
    "GBK comment": "# 输入\n".encode("gbk") + NET,
    "Latin-1 comment": b"# entr\xe9e\n" + NET,
    "no line end": NET,
}


@pytest.mark.parametrize("case", FINE)
def test_fine(case: str, write: Write) -> None:
    assert load(write(FINE[case])).layers[0].tops == ("x",)


def test_names_that_are_not_utf8(write: Write) -> None:
    assert load(write(NET.replace(b'"a"', b'"\xe9"'))).layers[0].name == "é"


MISTAKES = {
    "empty": (b"", "net.prototxt: the file is empty\n  fix: give a prototxt, or get the file again"),
    "blanks": (
        b" \n\t\r\n",
        "net.prototxt: the file is empty\n  fix: give a prototxt, or get the file again",
    ),
    "only a comment": (
        b"# nothing",
        "net.prototxt: the net has no layers\n  fix: give the prototxt of a net, and the phase it is for",
    ),
    "web page": (
        b'<!doctype html>\n<html lang="en">',
        "net.prototxt: this is a web page, expected a prototxt\n"
        "  fix: download the file itself (the raw link), not the page that shows it",
    ),
    "Git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "net.prototxt: this is a Git LFS pointer, expected a prototxt\n"
        "  because the repository it comes from was cloned without Git LFS\n"
        '  fix: run "git lfs pull" in that repository',
    ),
    "solver": (
        b'net: "train.prototxt"\nbase_lr: 0.1',
        "net.prototxt: this is a solver, expected a prototxt of a net\n"
        "  fix: give the net that it trains: train.prototxt",
    ),
    "solver that names no net": (
        b"base_lr: 0.1\nmax_iter: 10",
        "net.prototxt: this is a solver, expected a prototxt of a net\n  fix: give the net that it trains",
    ),
    "caffemodel": (
        b"\x0a\x03net\xa2\x06\x04\x0a\x02fc",
        "net.prototxt: this is a caffemodel, expected a prototxt\n"
        "  fix: give the prototxt first and the weights second",
    ),
    "gzip": (
        b"\x1f\x8b\x08\0",
        "net.prototxt: this is a gzip file, expected a prototxt\n  fix: unpack it with gunzip",
    ),
    "xz": (
        b"\xfd7zXZ\0\0",
        "net.prototxt: this is an xz file, expected a prototxt\n  fix: unpack it with unxz",
    ),
    "bzip2": (
        b"BZh91AY",
        "net.prototxt: this is a bzip2 file, expected a prototxt\n  fix: unpack it with bunzip2",
    ),
    "tar": (
        b"net.prototxt".ljust(257, b"\0") + b"ustar\0",
        "net.prototxt: this is a tar archive, expected a prototxt\n  fix: unpack it with tar xf",
    ),
    "UTF-32": (
        NET.decode().encode("utf-32"),
        "net.prototxt: this is UTF-32 text, expected UTF-8\n  fix: save it as UTF-8",
    ),
    "UTF-16": (
        NET.decode().encode("utf-16"),
        "net.prototxt: this is UTF-16 text, expected UTF-8\n  fix: save it as UTF-8",
    ),
    **{
        f"{name} without a mark, {codec}": (
            b"".join((NET.decode() + "# \u5377\u79ef " * 9 + letter).encode(codec) for letter in "ab"),
            f"net.prototxt: this is {name} text, expected UTF-8\n  fix: save it as UTF-8",
        )
        for name in ("UTF-16", "UTF-32")
        for codec in (f"{name}-le", f"{name}-be")
    },
    "zeros": (
        b"layer\0" * 20,
        "net.prototxt: this is a binary file, expected a prototxt (text)\n"
        "  fix: give the prototxt first and the weights second",
    ),
    "HDF5": (
        b"\x89HDF\r\n\x1a\n\0\0\0",
        "net.prototxt: this is an HDF5 file, expected a prototxt\n"
        "  fix: give the prototxt first and the weights second",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str, write: Write) -> None:
    content, message = MISTAKES[case]
    with pytest.raises(ConversionError) as caught:
        load(write(content))
    assert str(caught.value) == message


def test_mistakes_of_the_file_system(write: Write, tmp_path: Path) -> None:
    write(NET, "deploy.prototxt")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("gone")
    (tmp_path / "circle").symlink_to("circle")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    for name, message in {
        "deploy.prototext": "deploy.prototext: there is no such file\n  fix: did you mean deploy.prototxt?",
        "folder": "folder: this is a directory, expected a prototxt\n  fix: give the file itself",
        "pipe": "pipe: this is a device or a pipe, expected a prototxt\n  fix: save it as a regular file",
        "a\0b": "a\\x00b: the file cannot be read: embedded null byte\n  fix: check its name, or get it again",
        "": '"": there is no such file\n  fix: give the name of a file',
        "C:\\nets\\a.prototxt": "C:\\nets\\a.prototxt: there is no such file\n"
        "  fix: write the path as this system does: in WSL, C: is /mnt/c",
        "link": "link: there is no such file: this is a link to gone, which is not there\n"
        "  fix: link it to a file that is there, or give that file",
        "circle": "circle: the file cannot be read: [Errno 40] Too many levels of symbolic links: 'circle'\n"
        "  fix: check its name, or get it again",
        "~/net": "~/net: there is no such file: there is no folder ~ either\n"
        "  fix: write out the path: ~ stands for a folder only where a shell reads it",
        "https://x/net": "https://x/net: this is a URL, expected a prototxt\n"
        "  fix: download the file, and give its name",
        "train.prototxt": "train.prototxt: there is no such file\n"
        "  fix: give a file that is there: deploy.prototxt",
        "weights.h5": "weights.h5: there is no such file\n"
        f"  fix: check the path; the current folder is {Path.cwd()}",
        f"{tmp_path}/weights.h5": f"{tmp_path}/weights.h5: there is no such file\n  fix: check the path",
    }.items():
        with pytest.raises(ConversionError) as caught:
            load(name)
        assert str(caught.value) == message
    os.close(writer)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(write: Write) -> None:
    name = write(NET)
    os.chmod(name, 0)
    with pytest.raises(ConversionError) as caught:
        load(name)
    assert str(caught.value) == (
        "net.prototxt: the file cannot be read: permission denied\n  fix: allow reading the file (chmod u+r)"
    )


def test_too_large(write: Write) -> None:
    name = write(NET + b" " * HEAD)
    os.truncate(name, 65_000_000)
    with pytest.raises(ConversionError) as caught:
        load(name)
    assert str(caught.value) == (
        "net.prototxt: the file has 65.0 MB, expected a prototxt of at most 64.0 MB\n"
        "  fix: give the prototxt first and the weights second"
    )
