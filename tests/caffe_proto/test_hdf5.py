"""HDF5 weights hold their own numbers: whatever leads out of the file is refused, and not opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto import ConversionError, load
from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.weights.hdf5 import open_hdf5
from prototrt.converter.showing.glance.look import look_at
from prototrt.tests.small_nets import Write

h5py = pytest.importorskip("h5py")

NUMBERS = np.arange(6, dtype=np.float32)
NET = "layer { name: 'fc' type: 'InnerProduct' top: 'y' }"


def linked(link: Any, at: str = "data/fc/0") -> Callable[[Any], None]:
    """A file with a link where numbers should be."""

    def save(file: Any) -> None:
        file["numbers"] = NUMBERS
        file[at] = link

    return save


def virtual(*sources: str) -> Callable[[Any], None]:
    def save(file: Any) -> None:
        layout = h5py.VirtualLayout(shape=(6 * len(sources),), dtype="f4")
        for index, source in enumerate(sources):
            layout[6 * index : 6 * index + 6] = h5py.VirtualSource(source, "x", shape=(6,))
        file.create_virtual_dataset("data/fc/0", layout)

    return save


def external(*names: str) -> Callable[[Any], None]:
    def save(file: Any) -> None:
        file.create_dataset("data/fc/0", (6 * len(names),), "f4", external=[(name, 0, 24) for name in names])

    return save


def two_names(file: Any) -> None:
    file["data/fc/0"] = NUMBERS
    file["data/again"] = file["data/fc"]


def cycle(file: Any) -> None:
    file["data/fc/0"] = NUMBERS
    file["data/fc/up"] = file["data"]


ELSEWHERE = (
    "\n  because a weights file from somebody else could name any of your files"
    "\n  fix: store the numbers in the file itself, as Caffe does"
)
LEADS_OUT: dict[str, tuple[Callable[[Any], None], str]] = {
    "soft link": (
        linked(h5py.SoftLink("/numbers")),
        'm.h5, dataset "/data/fc/0": this is a soft link to "/numbers", expected numbers' + ELSEWHERE,
    ),
    "external link": (
        linked(h5py.ExternalLink("other.h5", "/x")),
        'm.h5, dataset "/data/fc/0": this is a link to "/x" in the file "other.h5", expected numbers'
        + ELSEWHERE,
    ),
    "layer behind an external link": (
        linked(h5py.ExternalLink("other.h5", "/x"), at="data/fc"),
        'm.h5, dataset "/data/fc": this is a link to "/x" in the file "other.h5", expected numbers'
        + ELSEWHERE,
    ),
    "everything behind an external link": (
        linked(h5py.ExternalLink("other.h5", "/data"), at="data"),
        'm.h5, dataset "/data": this is a link to "/data" in the file "other.h5", expected numbers'
        + ELSEWHERE,
    ),
    "virtual dataset": (
        virtual("other.h5"),
        'm.h5, dataset "/data/fc/0": the dataset is virtual, made of parts of "other.h5", expected numbers'
        + ELSEWHERE,
    ),
    "virtual dataset of many files": (
        virtual("a.h5", "b.h5", "a.h5", "c.h5", "d.h5"),
        'm.h5, dataset "/data/fc/0": the dataset is virtual, made of parts of "a.h5", "b.h5", "c.h5", ..., '
        "expected numbers" + ELSEWHERE,
    ),
    "external storage": (
        external("other.h5", "more.bin"),
        'm.h5, dataset "/data/fc/0": the numbers are in "other.h5", "more.bin", expected them in this file'
        + ELSEWHERE,
    ),
    "two names": (
        two_names,
        'm.h5, group "/data/fc": the group has two names, expected one\n'
        "  fix: copy the layers into a new file, each once",
    ),
    "cycle": (
        cycle,
        'm.h5, group "/data/fc/up": the group has two names, expected one\n'
        "  fix: copy the layers into a new file, each once",
    ),
}


def refusal(net: str) -> str:
    with pytest.raises(ConversionError) as caught:
        load(net, "m.h5")
    return str(caught.value)


@pytest.mark.parametrize("case", LEADS_OUT)
def test_what_leads_out_of_the_file_is_refused(case: str, write: Write) -> None:
    save, message = LEADS_OUT[case]
    os.mkfifo("other.h5")  # opening it waits forever
    with h5py.File("m.h5", "w") as file:
        save(file)
    assert refusal(write(NET)) == message


def patched(save: Callable[[Any], None], old: bytes, new: bytes) -> None:
    """A file that h5py does not write itself."""
    with h5py.File("m.h5", "w") as file:
        save(file)
    data = Path("m.h5").read_bytes()
    assert data.count(old) == 1
    Path("m.h5").write_bytes(data.replace(old, new))


def test_user_defined_links_are_refused(write: Write) -> None:
    # A link message: version 1, flags, class (64 for external links), length and text of the name.
    patched(
        linked(h5py.ExternalLink("other.h5", "/x"), at="data/fc"),
        b"\x01\x08\x40\x02fc",
        b"\x01\x08\x99\x02fc",
    )
    assert refusal(write(NET)) == (
        'm.h5, dataset "/data/fc": this is a user-defined link of class 153, expected numbers' + ELSEWHERE
    )


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_filters_of_hdf5_are_read(compression: str, write: Write) -> None:
    with h5py.File("m.h5", "w") as file:
        file.create_dataset("data/fc/0", data=NUMBERS, compression=compression, shuffle=True, fletcher32=True)
    (layer,) = load(write(NET), "m.h5").layers
    assert layer.blobs is not None
    np.testing.assert_array_equal(layer.blobs[0].array, NUMBERS)


def test_filters_that_are_plugins_are_refused(write: Write) -> None:
    def save(file: Any) -> None:
        file.create_dataset("data/fc/0", data=np.zeros(99, np.float32), compression="lzf")

    # A filter: its number (32000 is lzf, 32001 Blosc), the length of its name, flags, three values, the name.
    patched(save, b"\x00\x7d\x08\x00\x01\x00\x03\x00lzf\0", b"\x01\x7d\x08\x00\x01\x00\x03\x00zip\0")
    assert refusal(write(NET)) == (
        'm.h5, dataset "/data/fc/0": the numbers are compressed by a plugin of HDF5, filter 32001 (zip)\n'
        "  because a plugin is a library, and the file would choose which one is loaded\n"
        "  fix: compress with gzip instead: h5repack -f GZIP=6 OLD NEW"
    )


def test_one_dataset_may_have_two_names(write: Write) -> None:
    with h5py.File("m.h5", "w") as file:
        file["data/fc/0"] = NUMBERS
        file["data/fc/1"] = file["data/fc/0"]
    (layer,) = load(write(NET), "m.h5").layers
    assert layer.blobs is not None
    assert len(layer.blobs) == 2
    np.testing.assert_array_equal(layer.blobs[1].array, NUMBERS)


@pytest.mark.parametrize("read", [open_hdf5, look_at])
def test_files_of_keras_are_told(
    read: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("keras.h5", "w") as store:
        store.attrs["keras_version"] = "2.3.1"
        store.create_dataset("model_weights/dense/kernel:0", data=np.zeros((3, 4), np.float32))
    with pytest.raises(UnreadableFileError) as caught:
        read("keras.h5")
    assert str(caught.value) == (
        "keras.h5: this is a Keras file, expected weights of Caffe\n"
        "  fix: save the model as ONNX with tf2onnx, and build an engine from it with trtexec"
    )
