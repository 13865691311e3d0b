"""Files in the wrong place, of any size: the messages, and how little of the files is read."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from prototrt.caffe_proto import ConversionError, load
from prototrt.caffe_proto.common.wire import field_head, varint_bytes
from prototrt.caffe_proto.recognition import CAFFEMODEL, NETDEF, SAFETENSORS, OpenFile, open_input
from prototrt.tests.fresh_python import run_python
from prototrt.tests.small_nets import Write

NUMBERS = 3 << 30  # bytes of them that each file has; as holes, which take no room
MOST_MEMORY = 64 << 20


def text(number: int, content: bytes) -> bytes:
    return field_head(number, len(content)) + content


def cut(number: int, content: bytes) -> bytes:
    """A field that begins with this, and goes on for as long as the numbers do."""
    return field_head(number, len(content) + NUMBERS) + content


def zipped(name: str) -> bytes:
    """A zip archive with one entry, which is empty."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr(name, "")
    return archive.getvalue()


V1_TYPE = varint_bytes(5 << 3) + varint_bytes(14)
LAYER = cut(100, text(1, b"fc") + text(2, b"InnerProduct") + cut(7, cut(5, b"")))
V1_LAYER = cut(2, text(2, b"x") + text(3, b"y") + text(4, b"Fc1") + V1_TYPE + cut(6, cut(5, b"")))
FILL = cut(2, text(2, b"w") + text(4, b"GivenTensorFill") + cut(5, text(1, b"values") + cut(5, b"")))
PREDICT = text(2, text(1, b"x") + text(1, b"w") + text(1, b"b") + text(2, b"y") + text(4, b"FC"))
ONNX = varint_bytes(1 << 3) + b"\x08" + text(2, b"pytorch") + cut(7, text(1, text(4, b"Relu")))
NET = 'layer { name: "a" type: "Input" top: "x" }'

FIRST = "give the prototxt first and the weights second"
SAVED = "give the file that training has saved, such as a .caffemodel"
INIT = 'give the init net of the predict net: prototrt.convert("predict_net.pb", "init_net.pb", ...)'
BOTH = "give both files of a Caffe2 model: first predict_net.pb, then init_net.pb"
TRTEXEC = "build an engine from it with trtexec; if prototrt wrote it, `prototrt.Session(...)` runs it"
UNPACK = "unpack it with unzip"
EXPORT = (
    "as weights, give the state dict of a module that prototrt wrote; of another model, save it with"
    " torch.onnx.export, and build an engine from it with trtexec"
)
RUN = "run it with `prototrt.Session(...)`, or give the net that it was built from"

# Where a file is given, what it begins with, what it is called in the message, and what is expected.
MISPLACED = {
    "net: caffemodel": (text(1, b"net") + LAYER, "this is a caffemodel, expected a prototxt", FIRST),
    "net: V1 caffemodel": (text(1, b"net") + V1_LAYER, "this is a caffemodel, expected a prototxt", FIRST),
    "net: HDF5": (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file, expected a prototxt", FIRST),
    "net: npz": (zipped("fc/0.npy"), "this is an npz file, expected a prototxt", FIRST),
    "net: ONNX": (ONNX, "this is an ONNX model, expected a prototxt", TRTEXEC),
    "net: plan": (b"vtrt", "this is an engine, expected a prototxt", RUN),
    "net: image": (b"\xff\xd8\xff\xe0", "this is a JPEG image, expected a prototxt", FIRST),
    "net: zip": (zipped("net.prototxt"), "this is a zip archive, expected a prototxt", UNPACK),
    "net: PyTorch": (zipped("archive/data.pkl"), "this is a PyTorch file, expected a prototxt", EXPORT),
    "net: old PyTorch": (b"\x80\x02}q", "this is a PyTorch file, expected a prototxt", EXPORT),
    "net: zeros": (b"", "this is a binary file, expected a prototxt (text)", FIRST),
    "net: text": (
        NET.encode() + b" " * 70_000,
        "the file has 3.2 GB, expected a prototxt of at most 64.0 MB",
        FIRST,
    ),
    "net: init net": (
        FILL,
        "this is an init net: all its operators fill weights",
        "give the predict net first and the init net second",
    ),
    "net: operators": (
        PREDICT + text(2, text(2, b"y" * 200_000) + text(4, b"FC")),
        "the file has 3.2 GB, expected a predict net of at most 64.0 MB",
        "give the predict net first and the init net second",
    ),
    "weights: ONNX": (ONNX, "this is an ONNX model, expected a caffemodel", TRTEXEC),
    "weights: plan": (b"ftrt", "this is an engine, expected a caffemodel", RUN),
    "weights: zip": (zipped("net.caffemodel"), "this is a zip archive, expected a caffemodel", UNPACK),
    "weights: PyTorch": (
        zipped("archive/data.pkl"),
        "this is not a state dict of PyTorch of version 1.6 or newer",
        "write it with torch.save(net.state_dict(), FILE)",
    ),
    "weights: image": (b"\x89PNG\r\n\x1a\n", "this is a PNG image, expected a caffemodel", SAVED),
    "weights: npy": (b"\x93NUMPY\1\0", "this is an npy file, expected a caffemodel", SAVED),
    "weights: init net": (FILL, "this is a Caffe2 net, expected a caffemodel", BOTH),
    "weights: net": (
        NET.encode() + b" " * 70_000,
        "this is text, expected a caffemodel (binary)",
        FIRST,
    ),
    "init: caffemodel": (LAYER, "this is a caffemodel, expected an init net", INIT),
    "init: V1 caffemodel": (V1_LAYER, "this is a caffemodel, expected an init net", INIT),
    "init: HDF5": (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file, expected an init net", INIT),
    "init: ONNX": (ONNX, "this is an ONNX model, expected an init net", TRTEXEC),
}


def given(case: str) -> tuple[str, ...]:
    """The given files, one of which is in the wrong place."""
    return {
        "net": ("misplaced", "net.prototxt"),
        "weights": ("net.prototxt", "misplaced"),
        "init": ("predict_net.pb", "misplaced"),
    }[case.partition(":")[0]]


def message(case: str) -> str:
    _, problem, fix = MISPLACED[case]
    return f"misplaced: {problem}\n  fix: {fix}"


def prepare(case: str) -> None:
    Path("net.prototxt").write_text(NET)
    Path("predict_net.pb").write_bytes(PREDICT + text(7, b"x"))
    Path("misplaced").write_bytes(MISPLACED[case][0])
    os.truncate("misplaced", Path("misplaced").stat().st_size + NUMBERS)


@pytest.mark.parametrize("case", MISPLACED)
def test_misplaced(case: str, write: Write) -> None:
    prepare(case)
    with pytest.raises(ConversionError) as caught:
        load(*given(case))
    assert str(caught.value) == message(case)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells it")
def test_little_is_read(write: Write, tmp_path: Path) -> None:
    """The peak of one process that is given all of the files, each of 3 GiB."""
    files = []
    for index, case in enumerate(MISPLACED):
        folder = tmp_path / str(index)
        folder.mkdir()
        os.chdir(folder)
        prepare(case)
        files.append([str(folder / name) for name in given(case)])
    program = (
        "import contextlib, json, re, sys\n"
        "from prototrt.caffe_proto import ConversionError, load\n"
        "for files in json.loads(sys.argv[1]):\n"
        "    with contextlib.suppress(ConversionError):\n"
        "        load(*files)\n"
        # Not ru_maxrss: it counts what the parent had when it made this process.
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
    )
    assert int(run_python("-c", program, json.dumps(files)).stdout) * 1024 < MOST_MEMORY


LONG_NAMES = text(1, b"net") + text(2, b"".join(text(1, b"blob%04d" % index) for index in range(3000)))
HEADS = {
    "operators": (PREDICT, True),
    "no more than the name of an operator": (PREDICT + text(2, text(2, b"y"))[:-1], True),
    "an operator without a type": (text(2, text(1, b"x") + text(2, b"y")) + PREDICT, False),
    "a layer": (LAYER, False),
    "a V1 layer": (V1_LAYER, False),
    "a layer behind operators": (PREDICT + text(100, b""), False),
    "a name": (text(1, b"net"), False),
    "damage behind operators": (PREDICT + b"\0\0", True),
    "a group": (b"\x0b\x0c" + PREDICT, False),
    "many inputs": (LONG_NAMES, False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize("case", HEADS)
def test_operators(case: str) -> None:
    head, expected = HEADS[case]
    assert (OpenFile("net", head).kind is NETDEF) == expected


@pytest.mark.parametrize("length", range(len(FILL) + 1))
def test_no_cut_makes_another_kind_of_a_file(length: int) -> None:
    assert OpenFile("net", FILL[:length]).kind in (NETDEF, None)


@pytest.mark.parametrize("length", range(V1_LAYER.index(V1_TYPE) + len(V1_TYPE), len(V1_LAYER)))
def test_no_cut_behind_its_type_makes_a_caffe2_net_of_a_layer(length: int) -> None:
    assert OpenFile("net", V1_LAYER[:length]).kind == CAFFEMODEL


def test_the_text_of_a_large_net_is_known_by_its_beginning(write: Write) -> None:
    assert open_input(write('op { type: "FC" }\n' * 9000), "a net").is_netdef
    assert not open_input(write(NET * 3000 + 'op { type: "FC" }'), "a net").is_netdef


@pytest.mark.parametrize("length", [640, 0x4B50])
def test_a_length_that_looks_like_a_signature(tmp_path: Path, length: int) -> None:
    """The first bytes of a safetensors file are the length of its header."""
    file = tmp_path / "net.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + b'{"a":' + b" " * length)
    assert open_input(file, "weights").kind is SAFETENSORS
