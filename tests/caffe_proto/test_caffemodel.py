"""Binary weights in each form that was ever written, and in forms that make no sense."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto import ConversionError, StoredBlob, load
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.caffe_proto.weights import Array, caffemodel
from prototrt.tests.small_nets import Write
from prototrt.tests.tools import caffemodel_writer

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5


def blob(**fields: Any) -> Message:
    shape = fields.pop("dims", None)
    message = message_class("BlobProto")(**fields)
    if shape is not None:
        message.shape.dim.extend(shape)
    return message


def present(*blobs: Message, name: str = "fc") -> bytes:
    net = message_class("NetParameter")(name="n")
    net.layer.add(name="data", type="Data", top=["data"])
    net.layer.add(name=name, type="InnerProduct", bottom=["data"], top=["fc"], blobs=blobs)
    return bytes(net.SerializeToString())


def v1(*blobs: Message) -> bytes:
    net = message_class("NetParameter")()
    net.layers.add(name="fc", type=14, bottom=["data"], top=["fc"], blobs=blobs, blobs_lr=[1, 2])
    return bytes(net.SerializeToString())


def v0(*blobs: Message) -> bytes:
    net = message_class("NetParameter")()
    layer = net.layers.add(bottom=["data"], top=["fc"])
    layer.layer.MergeFrom(message_class("V0LayerParameter")(name="fc", type="innerproduct", blobs=blobs))
    return bytes(net.SerializeToString())


def raw_layer(blob_bytes: bytes) -> bytes:
    """A layer "fc" with one blob whose bytes are all given."""
    layer = b"\x0a\x02fc" + b"\x3a" + bytes([len(blob_bytes)]) + blob_bytes
    return b"\xa2\x06" + bytes([len(layer)]) + layer


SHAPE_2_3 = b"\x3a\x04\x0a\x02\x02\x03"
UNPACKED_SHAPE_2_3 = b"\x3a\x04\x08\x02\x08\x03"
PACKED = b"\x2a\x18" + NUMBERS.tobytes()
UNPACKED = b"".join(b"\x2d" + struct.pack("<f", number) for number in NUMBERS.flat)
MIXED = b"\x2d" + NUMBERS.tobytes()[:4] + b"\x2a\x14" + NUMBERS.tobytes()[4:]
FLOATS, DOUBLES = NUMBERS.ravel().tolist(), NUMBERS.ravel().astype(float).tolist()
LEGACY = {"num": 1, "channels": 1, "height": 2, "width": 3}

FORMS: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "present": (present(blob(dims=[2, 3], data=FLOATS)), (2, 3)),
    "V1": (v1(blob(**LEGACY, data=FLOATS)), (1, 1, 2, 3)),
    "V0": (v0(blob(**LEGACY, data=FLOATS)), (1, 1, 2, 3)),
    "doubles": (present(blob(dims=[2, 3], double_data=DOUBLES)), (2, 3)),
    "doubles win over floats": (present(blob(dims=[2, 3], double_data=DOUBLES, data=[0] * 6)), (2, 3)),
    "old sizes win over the shape": (present(blob(dims=[6], **LEGACY, data=FLOATS)), (1, 1, 2, 3)),
    "differences beside": (
        present(blob(dims=[2, 3], data=FLOATS, diff=[9] * 6, double_diff=[9] * 6)),
        (2, 3),
    ),
    "raw float16": (
        present(blob(dims=[2, 3], raw_data_type=2, raw_data=NUMBERS.astype("<f2").tobytes())),
        (2, 3),
    ),
    "raw float32": (present(blob(dims=[2, 3], raw_data_type=1, raw_data=NUMBERS.tobytes())), (2, 3)),
    "raw float64": (
        present(blob(dims=[2, 3], raw_data_type=0, raw_data=NUMBERS.astype("<f8").tobytes())),
        (2, 3),
    ),
    "no shape": (present(blob(data=FLOATS)), (6,)),
    "packed": (raw_layer(SHAPE_2_3 + PACKED), (2, 3)),
    "unpacked shape": (raw_layer(UNPACKED_SHAPE_2_3 + PACKED), (2, 3)),
    "unpacked": (raw_layer(SHAPE_2_3 + UNPACKED), (2, 3)),
    "unpacked, then the shape": (raw_layer(UNPACKED + SHAPE_2_3), (2, 3)),
    "packed and unpacked": (raw_layer(SHAPE_2_3 + MIXED), (2, 3)),
    "foreign fields": (raw_layer(b"\xf8\x07\x01" + SHAPE_2_3 + b"\xc5\x3e" + b"1234" + PACKED), (2, 3)),
    "foreign group": (b"\x53\x08\x01\x54" + present(blob(dims=[2, 3], data=FLOATS)), (2, 3)),
}


def _opened(path: str | Path) -> Any:
    return caffemodel.open_caffemodel(open_input(path, "a caffemodel"))


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, write: Write) -> None:
    content, shape = FORMS[form]
    weights = _opened(write(content, "model.caffemodel"))
    stored = weights.blobs_of("fc")
    assert stored is not None
    assert [one.shape for one in stored] == [shape]
    assert stored[0].legacy == (shape == (1, 1, 2, 3))
    assert stored[0].array.dtype == np.float32
    np.testing.assert_array_equal(stored[0].array, NUMBERS.reshape(shape))
    assert list(weights.names()) == ["fc"]


@pytest.mark.parametrize("form", ["present", "V1", "packed", "unpacked", "raw float32"])
def test_floats_are_not_copied(form: str, write: Write) -> None:
    stored = _opened(write(FORMS[form][0], "model.caffemodel")).blobs_of("fc")
    assert stored is not None
    assert not stored[0].array.flags.owndata


def test_long_runs_of_unpacked_floats(write: Write) -> None:
    """Longer than the windows in which runs are looked for, with a foreign field between two runs."""
    numbers = np.arange(1000, dtype="<f4")
    rows = np.full((1000, 5), 0x2D, np.uint8)
    rows[:, 1:] = numbers.view(np.uint8).reshape(-1, 4)
    data = rows[:700].tobytes() + b"\x35\0\0\0\0" + rows[700:].tobytes()
    net = message_class("NetParameter")()
    net.layer.add(name="fc")
    body = b"\x0a\x02fc\x3a" + varint(len(data)) + data
    stored = _opened(write(b"\xa2\x06" + varint(len(body)) + body, "m")).blobs_of("fc")
    assert stored is not None
    np.testing.assert_array_equal(stored[0].array, numbers)


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7])


def test_a_scalar_has_no_axes(write: Write) -> None:
    stored = _opened(write(present(blob(dims=[], data=[7])), "m")).blobs_of("fc")
    assert stored is not None
    assert stored[0].array.shape == ()
    assert stored[0].array == 7


@pytest.mark.filterwarnings("error")
def test_doubles_beyond_float32_are_infinite(write: Write) -> None:
    stored = _opened(write(present(blob(dims=[2], double_data=[1e300, -1e300])), "m")).blobs_of("fc")
    assert stored is not None
    assert stored[0].array.tolist() == [np.inf, -np.inf]


def test_the_last_layer_of_a_name_counts(write: Write) -> None:
    content = present(blob(data=[1])) + present(blob(data=[2]))
    weights = _opened(write(content, "m.caffemodel"))
    stored = weights.blobs_of("fc")
    assert stored is not None
    assert stored[0].array == 2
    assert weights.warnings == ('m.caffemodel: there are two layers "fc"; the last one is used, as in Caffe',)


@pytest.mark.parametrize("order", [1, -1], ids=["old-last", "old-first"])
def test_old_layers_beside_those_of_today(write: Write, order: int) -> None:
    """Caffe refuses them, too: ``tests/oracle`` shows it."""
    parts = [present(blob(data=[1])), v1(blob(data=[2]))]
    with pytest.raises(ConversionError) as caught:
        _opened(write(b"".join(parts[::order]), "m.caffemodel"))
    assert str(caught.value) == (
        "m.caffemodel: the file has layers in the old form (layers) and in the new one (layer), expected one of them\n"
        "  because Caffe refuses such a file\n"
        "  fix: save the weights again, with the program that trained them, or get the file again"
    )


def test_names_that_are_not_utf8(write: Write) -> None:
    content = present(blob(data=[1]), name="XY").replace(b"XY", b"\xe9Y")
    assert list(_opened(write(content, "m")).names()) == ["éY"]


def test_sha256(write: Write) -> None:
    content = present(blob(data=[1]))
    weights = _opened(write(content, "m"))
    assert weights.sha256 == hashlib.sha256(content).hexdigest()


SOUND = present(blob(dims=[2, 3], data=FLOATS))
DAMAGED = (
    "m.caffemodel: this is not a valid caffemodel, or it is damaged\n  because {}\n  fix: get the file again"
).format
MISTAKES = {
    "empty": (b"", "m.caffemodel: the file is empty\n  fix: give a caffemodel, or get the file again"),
    "web page": (
        b"\n<!DOCTYPE html><html></html>",
        "m.caffemodel: this is a web page, expected a caffemodel\n"
        "  fix: download the file itself (the raw link), not the page that shows it",
    ),
    "Git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "m.caffemodel: this is a Git LFS pointer, expected a caffemodel\n"
        "  because the repository it comes from was cloned without Git LFS\n"
        '  fix: run "git lfs pull" in that repository',
    ),
    "prototxt": (
        b"name: 'net'\nlayer {\n}\n",
        "m.caffemodel: this is text, expected a caffemodel (binary)\n"
        "  fix: give the prototxt first and the weights second",
    ),
    "other text": (
        b"Not found.\n",
        "m.caffemodel: this is text, expected a caffemodel (binary)\n  fix: get the weights file again",
    ),
    "cut short": (
        SOUND[:-1],
        f"m.caffemodel: the file is cut short: the field at byte {SOUND.index(b'fc') - 5} "
        "needs 1 bytes more\n"
        f"  because the file has {len(SOUND) - 1} bytes\n"
        "  fix: get the file again",
    ),
    "no message": (b"\x00" * 64, DAMAGED("byte 0 is not the start of a field")),
    "wire type 7": (b"\x0f\x00\x00", DAMAGED("byte 0 is not the start of a field")),
    "endless number": (b"\xff" * 64, DAMAGED("the number at byte 0 has more than ten bytes")),
    "end of no group": (b"\x0c\x00", DAMAGED("the group that ends before byte 1 has no start")),
    "group without end": (b"\x0b\x08\x00", DAMAGED("the group before byte 1 does not end")),
    "groups in groups": (b"\x13" * 100, DAMAGED("the group before byte 1 does not end")),
    "no layers": (
        b"\x0a\x03abc\x10\x00",
        "m.caffemodel: the file holds no layers, expected a caffemodel\n"
        "  fix: give the file with the weights (a mean file or a solver state has none)",
    ),
    "solver state": (
        b"\x08\x64\x12\x09a.weights\x1a\x05\x3a\x03\x0a\x01\x01",
        "m.caffemodel: this is a solver state, expected a caffemodel\n"
        "  fix: give the caffemodel that training saved with it",
    ),
    "blob longer than its layer": (
        raw_layer(SHAPE_2_3 + PACKED).replace(b"\x3a\x20", b"\x3a\x21"),
        "m.caffemodel: the file is cut short: the field at byte 7 needs 1 bytes more\n"
        "  because the file has 41 bytes\n"
        "  fix: get the file again",
    ),
    "numbers of odd length": (
        raw_layer(b"\x2a\x03123"),
        DAMAGED("the numbers at byte 11 have 3 bytes, which is not a multiple of 4"),
    ),
    "shape of another count": (
        present(blob(dims=[2, 4], data=FLOATS)),
        'm.caffemodel: layer "fc", blob 0: the stored shape (2, 4) has 8 elements, found 6\n'
        "  fix: get the weights file again: it is damaged",
    ),
    "negative size": (
        present(blob(dims=[-2, -3], data=FLOATS)),
        'm.caffemodel: layer "fc", blob 0: the stored shape is (-2, -3), '
        "expected at most 2147483647 elements\n"
        "  fix: get the weights file again: it is damaged",
    ),
    "huge shape": (
        present(blob(dims=[2**62, 2**62])),
        'm.caffemodel: layer "fc", blob 0: the stored shape is (4611686018427387904, 4611686018427387904), '
        "expected at most 2147483647 elements\n"
        "  fix: get the weights file again: it is damaged",
    ),
    "too many axes": (
        present(blob(dims=[1] * 33, data=[1])),
        'm.caffemodel: layer "fc", blob 0: the stored shape has 33 axes, expected at most 32\n'
        "  fix: get the weights file again: it is damaged",
    ),
    "raw integers": (
        present(blob(dims=[1], raw_data_type=3, raw_data=b"1234")),
        'm.caffemodel: layer "fc", blob 0: raw_data has 4 bytes of type 3, '
        "expected floats of type 0, 1 or 2\n"
        "  fix: save the weights in the ordinary form, as float data",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str, write: Write) -> None:
    content, message = MISTAKES[case]
    net = write("layer { name: 'fc' type: 'InnerProduct' top: 'fc' }")
    with pytest.raises(ConversionError) as caught:
        load(net, write(content, "m.caffemodel"))
    assert str(caught.value) == message


def test_mistakes_of_the_file_system(write: Write, tmp_path: Path) -> None:
    net = write("layer { name: 'fc' type: 'InnerProduct' top: 'fc' }")
    write(SOUND, "model.caffemodel")
    (tmp_path / "folder").mkdir()
    for weights, message in {
        "modle.caffemodel": "modle.caffemodel: there is no such file\n  fix: did you mean model.caffemodel?",
        "folder": "folder: this is a directory, expected a weights file\n  fix: give the file itself",
        "nowhere/m": "nowhere/m: there is no such file: there is no folder nowhere either\n  fix: check the path",
    }.items():
        with pytest.raises(ConversionError) as caught:
            load(net, weights)
        assert str(caught.value) == message


def test_weights_of_layers_that_the_net_lacks(write: Write) -> None:
    net = write("layer { name: 'other' type: 'InnerProduct' top: 'fc' }")
    model = load(net, write(SOUND, "m.caffemodel"))
    assert model.warnings == ('m.caffemodel: the net has no layers for the weights of "fc"',)
    assert model.layers[0].blobs is None


def arrays(stored: Sequence[StoredBlob] | None) -> list[Array]:
    return [one.array for one in stored or ()]


def test_write_and_read(tmp_path: Path) -> None:
    layers: dict[str, list[Array]] = {
        "a/b": [NUMBERS, np.array(3, np.float32), np.zeros((0, 3), np.float32)],
        "é": [np.arange(300000, dtype=np.float64).reshape(3, -1)],
    }
    path = tmp_path / "m.caffemodel"
    caffemodel_writer.write(path, layers, {"a/b": "InnerProduct"})
    weights = _opened(path)
    for name, expected in layers.items():
        for array, original in zip(arrays(weights.blobs_of(name)), expected, strict=True):
            np.testing.assert_array_equal(array, original)
    net = message_class("NetParameter").FromString(path.read_bytes())
    assert [(layer.name, layer.type) for layer in net.layer] == [("a/b", "InnerProduct"), ("é", "")]
    assert list(net.layer[0].blobs[0].data) == FLOATS
    assert os.listdir(tmp_path) == ["m.caffemodel"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        caffemodel_writer.write(tmp_path / "m", {"a": [np.array(["x"])]})
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_files_cost_nothing_until_they_are_used(tmp_path: Path) -> None:
    """528 MiB, as VGG16 has: less than 50 ms and 100 MB to load. Reading them would take several times as long."""
    path = tmp_path / "vgg16.caffemodel"
    large = np.broadcast_to(np.float32(1), (512 << 18,))
    caffemodel_writer.write(path, {f"l{index}": [large[: 132 << 18]] for index in range(4)})
    assert path.stat().st_size > 528 << 20
    before, seconds = resident_bytes(), []
    for _ in range(5):  # on a busy machine, some of them take longer
        started = time.process_time()
        weights = _opened(path)
        stored = [blob for name in weights.names() for blob in arrays(weights.blobs_of(name))]
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.05
    assert resident_bytes() - before < 100e6
    assert sum(array.nbytes for array in stored) == 528 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
