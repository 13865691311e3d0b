"""Whatever the bytes, only a ConversionError leaves ``load``, and little memory is taken."""

from __future__ import annotations

import contextlib
import io
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from prototrt.caffe_proto import ConversionError, load
from prototrt.caffe_proto.weights.binaryproto import read_binaryproto

GOLDENS = Path(__file__).parents[1] / "goldens" / "caffe"
TEXTS = [
    (GOLDENS / case / "model.prototxt").read_bytes()
    for case in ("v0_small", "v1_lenet", "text_format_variants", "train_val_digits", "shared_parameters")
]
CAFFEMODELS = [
    (GOLDENS / case / "model.caffemodel").read_bytes()
    for case in ("v0_small", "weights_missing_layer", "shared_parameters", "weights_extra_layers")
]
NET = b"".join(
    b"layer { name: '%s' type: 'InnerProduct' top: '%s' param { name: 'w' } }\n" % (name, name)
    for name in (b"fc", b"fc1", b"fa", b"fb", b"conv1", b"a/b")
)
# Words that mean something where they land.
WORDS = r"""
    { } < > [ ] : , - " ' \ # 0 -1 1e99 0x7fffffff 99999999999999999999 true MAX CONVOLUTION 'x'
    layer layers input input_dim type name top bottom blobs data
"""
PIECES = st.sampled_from([word.encode() for word in WORDS.split()] + [b"\n", b"\0", b"\xff"])
MANY = settings(
    max_examples=4 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.prototxt").write_bytes(NET)
    return tmp_path


@st.composite
def damaged(draw: st.DrawFn, sources: list[bytes], pieces: st.SearchStrategy[bytes]) -> bytes:
    """A sound file with parts replaced, left out or repeated."""
    data = draw(st.sampled_from(sources))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        data = data[:start] + draw(pieces) + data[draw(st.sampled_from([start, end])) :]
    return data


@contextlib.contextmanager
def only_conversion_errors() -> Iterator[None]:
    tracemalloc.start()
    try:
        with contextlib.suppress(ConversionError):
            yield
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def load_and_touch(prototxt: Path, weights: Path | None = None) -> None:
    with only_conversion_errors():
        for layer in load(prototxt, weights).layers:
            for blob in layer.blobs or ():
                assert blob.array.shape == blob.shape


@MANY
@given(damaged(TEXTS, PIECES))
def test_damaged_texts(folder: Path, content: bytes) -> None:
    (folder / "bad.prototxt").write_bytes(content)
    load_and_touch(folder / "bad.prototxt")


@MANY
@given(st.lists(PIECES, max_size=30).map(b" ".join))
@example(b"layer { name: 'a' type: 'ReLU' blobs { shape { dim: [100000, 100000] } } }")
@example(b"layer { name: 'a' type: 'ReLU' blobs { shape { dim: [-1] } data: 1 } }")
@example(b"layers { layer { } }")
@example(b"layers { } layers { layer { name: 'a' } }")
@example(b"layers { layer { type: 'padding' } }")
@example(b"input: 'x' input: 'x' input_dim: -1")
@example(b"layer { type: 'Data' } layer { type: 'SoftmaxWithLoss' }")
@example(b"layer { type: 'Loss' bottom: 'x' }")
@example(b"layer { name: 'a' type: 'Data' top: 'x' top: 'x' }")
def test_texts_of_words(folder: Path, content: bytes) -> None:
    (folder / "bad.prototxt").write_bytes(content)
    load_and_touch(folder / "bad.prototxt")


@MANY
@given(st.one_of(damaged(CAFFEMODELS, st.binary(max_size=6)), st.binary(max_size=200)))
@example(b"\xa2\x06\x04\x3a\x02\x2d\x00")
@example(b"\x12\x02\x0a\x00")
@example(b"\xa2\x06\x0c\x0a\x02fc\x3a\x06\x2d0000\x2d")
def test_damaged_caffemodels(folder: Path, content: bytes) -> None:
    (folder / "m").write_bytes(content)
    load_and_touch(folder / "net.prototxt", folder / "m")
    with only_conversion_errors():
        read_binaryproto(folder / "m")


def npz() -> bytes:
    stream = io.BytesIO()
    arrays: dict[str, Any] = {"fc/0": np.zeros((2, 3), np.float32), "a/b/0": np.zeros(1)}
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


@MANY
@given(damaged([npz()], st.binary(max_size=6)))
def test_damaged_npz(folder: Path, content: bytes) -> None:
    (folder / "m").write_bytes(content)
    load_and_touch(folder / "net.prototxt", folder / "m")


def hdf5() -> bytes:
    h5py = pytest.importorskip("h5py")
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["data/fc/0"] = np.zeros((2, 3), np.float32)
        file.create_dataset("data/fa/0", data=np.zeros(8), chunks=(4,), compression="gzip")
    return stream.getvalue()


@settings(MANY, max_examples=2 * settings().max_examples)
@given(damaged([hdf5()], st.binary(max_size=6)))
def test_damaged_hdf5(folder: Path, content: bytes) -> None:
    (folder / "m").write_bytes(content)
    load_and_touch(folder / "net.prototxt", folder / "m")


def test_an_npz_that_promises_more_than_it_holds(folder: Path) -> None:
    """NumPy would allocate the size that the header states."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(folder / "m", "w") as archive:
        archive.writestr("fc/0.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(ConversionError, match="expected at most 2147483647 elements"):
        load(folder / "net.prototxt", folder / "m")
