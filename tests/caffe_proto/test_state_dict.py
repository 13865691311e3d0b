"""Files of PyTorch and safetensors files: read without running anything, and damage is told."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.weights.safetensors import read_safetensors
from prototrt.caffe_proto.weights.state_dict import read_state_dict, write_state_dict
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.memory import address_space, little_memory

FOLDER = GOLDENS / "cudnn" / "lstm_1l"
CHECKPOINT = (FOLDER / "checkpoint.pt").read_bytes()


def test_what_pytorch_saved() -> None:
    """A transposed view, and numbers of another precision, inside a checkpoint with an epoch."""
    state = read_state_dict(str(FOLDER / "checkpoint.pt"))
    weights = np.load(FOLDER / "weights.npz")
    assert [*state] == ["fc.weight", *(f"rnn.{name}" for name in weights)]
    assert state["rnn.bias_hh_l0"].dtype == np.float64
    for name in weights:
        np.testing.assert_array_equal(state[f"rnn.{name}"], weights[name])


class Storages:
    """Pickles a state dict as PyTorch does; ``kind`` is the type of its storages."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def pickled(
        self, name: bytes, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0
    ) -> bytes:
        stream = io.BytesIO()
        write_state_dict(stream, {name.decode(): np.zeros(1, np.float32)})
        content: bytes = zipfile.ZipFile(stream).read("archive/data.pkl")
        content = content.replace(b"FloatStorage", self.kind.encode())
        number = b"\x8a\x08" + (1).to_bytes(8, "little")
        before = b"tQ\x8a\x08" + bytes(8) + b"(" + number + b"t(" + number + b"t"
        numbers = [
            b"".join(b"\x8a\x08" + each.to_bytes(8, "little", signed=True) for each in sizes)
            for sizes in (shape, strides)
        ]
        after = (
            b"tQ\x8a\x08"
            + offset.to_bytes(8, "little", signed=True)
            + b"("
            + numbers[0]
            + b"t("
            + numbers[1]
            + b"t"
        )
        assert before in content
        return content.replace(before, after)


def archive(pickled: bytes, data: bytes = bytes(16), compress: int = zipfile.ZIP_STORED) -> str:
    with zipfile.ZipFile("state.pt", "w", compress) as target:
        target.writestr("archive/data.pkl", pickled)
        target.writestr("archive/data/0", data)
    return "state.pt"


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("BFloat16Storage", b"\x80\x3f\x00\xc0", [1.0, -2.0]),
        ("HalfStorage", b"\x00\x3c\x00\xc0", [1.0, -2.0]),
        ("LongStorage", (7).to_bytes(8, "little") * 2, [7, 7]),
    ],
)
def test_kinds_of_numbers(kind: str, data: bytes, expected: list[float], folder: Path) -> None:
    state = read_state_dict(archive(Storages(kind).pickled(b"a", (2,), (1,)), data))
    np.testing.assert_array_equal(state["a"], expected)


def test_a_view_of_a_storage(folder: Path) -> None:
    data = np.arange(6, dtype="<f4").tobytes()
    state = read_state_dict(archive(Storages("FloatStorage").pickled(b"a", (2, 2), (1, 3), 1), data))
    np.testing.assert_array_equal(state["a"], [[1, 4], [2, 5]])


class Hostile:
    """What would make a file if its pickle were run."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, ("made",)


TENSOR = Storages("FloatStorage")


IDENTITY = b"X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
"""Of a storage: the word for it, its kind, its key."""


def with_identity(identity: bytes) -> bytes:
    """A state dict whose only tensor has this persistent id."""
    content = TENSOR.pickled(b"a", (1,), (1,))
    start, end = content.index(b"(X\x07\x00\x00\x00storage"), content.index(b"Q")
    return content[:start] + identity + content[end:]


TUPLE_OF_ALL = b"(" + IDENTITY + b"t"
KIND, KEY = b"ctorch\nFloatStorage\n", b"X\x01\x00\x00\x000"
ODD_PICKLES = [
    *(
        with_identity(identity)
        for identity in (
            b"N",  # None
            b"X\x01\x00\x00\x00s",
            b")",  # a tuple of nothing
            b"}",
            b"]",
            TUPLE_OF_ALL.replace(KIND, b"X\x0c\x00\x00\x00FloatStorage"),
            TUPLE_OF_ALL.replace(KIND, KIND + b")R"),
            TUPLE_OF_ALL.replace(KEY, b"K\x00"),
            TUPLE_OF_ALL.replace(KEY, b"X\x01\x00\x00\x009"),
            KIND + b"}b",  # attributes of a class
        )
    ),
    b"\x80\x02}r\xff\xff\xff\x7f.",  # a value with the number 2**31 - 1
    b"\x80\x02K\x01}b.",  # attributes of a number
    b"\x80\x02K\x01K\x01K\x01s.",  # an item of a number
    b"\x80\x02K\x01(K\x01e.",
    b"\x80\x02K\x01)R.",  # a call of a number
    b"\x80\x02K\x01)\x81.",
    b"\x80\x02h\x05.",
    b"\x80\x02s.",
    b"\x80\x04K\x01K\x02\x93.",  # a global with numbers for names
    b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_tensor_v2\n)Rs.",
    b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_parameter\n)Rs.",
    b"\x80\x02}q\x00X\x05\x00\x00\x00modelh\x00s.",  # a dictionary that holds itself
]
DEEP = b"\x80\x02})" + b"\x85" * 300_000 + b"K\x01s."
"""A key of 300,000 tuples in each other: its hash would end the process."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: archive(DEEP), "the file holds no tensors by name"),
        (lambda: archive(pickle.dumps(Hostile())), "the file holds no tensors by name"),
        (lambda: archive(pickle.dumps({"a": Hostile()}, 2)), "the file holds no tensors by name"),
        (lambda: archive(pickle.dumps([1, 2])), "the file holds no tensors by name"),
        (
            lambda: archive(pickle.dumps({"a": b"bytes"}, 4)),
            "operation SHORT_BINBYTES, which no state dict needs",
        ),
        (lambda: archive(pickle.dumps({1}, 4)), "operation EMPTY_SET, which no state dict needs"),
        (lambda: archive(b"\x80\x02}"), "the PyTorch file is damaged"),
        *((lambda odd=odd: archive(odd), "the PyTorch file is damaged") for odd in ODD_PICKLES),
        (lambda: archive(TENSOR.pickled(b"a", (5,), (1,))), "has the shape (5,), but its storage 4 numbers"),
        (lambda: archive(TENSOR.pickled(b"a", (2,), (4,))), "has the shape (2,), but its storage 4 numbers"),
        (lambda: archive(TENSOR.pickled(b"a", (1 << 40,), (0,))), "but its storage 4 numbers"),
        (lambda: archive(TENSOR.pickled(b"a", (2,), (-1,), 1)), "but its storage 4 numbers"),
        (lambda: archive(TENSOR.pickled(b"a", (1,), (1,), -1)), "but its storage 4 numbers"),
        (
            lambda: archive(Storages("QInt8Storage").pickled(b"a", (1,), (1,))),
            "holds a QInt8Storage, expected one of",
        ),
        (lambda: archive(TENSOR.pickled(b"a", (1,), (1,)), compress=zipfile.ZIP_DEFLATED), "is compressed"),
        (lambda: _written(b"\x80\x02}q\x00."), "this is not a state dict of PyTorch of version 1.6 or newer"),
    ],
)
def test_what_is_no_state_dict(make: Callable[[], str], message: str, folder: Path) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read_state_dict(make())
    assert message in str(caught.value)
    assert "state.pt: " in str(caught.value)
    assert not Path("made").exists()


def _written(content: bytes, file: str = "state.pt") -> str:
    Path(file).write_bytes(content)
    return file


@given(place=st.integers(0, len(CHECKPOINT) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_damage_is_never_another_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, cut: bool
) -> None:
    """One byte is another, or the file ends there."""
    file = tmp_path_factory.getbasetemp() / "damaged.pt"
    content = CHECKPOINT[:place] + bytes([byte]) + (b"" if cut else CHECKPOINT[place + 1 :])
    file.write_bytes(content)
    try:
        state = read_state_dict(str(file))
    except UnreadableFileError:
        return
    assert all(isinstance(array, np.ndarray) for array in state.values())


def safetensors(header: object, data: bytes = bytes(16)) -> str:
    text = json.dumps(header).encode()
    return _written(len(text).to_bytes(8, "little") + text + data, "a.safetensors")


MANY = 2_000
COUNT = 1 << 20


def test_many_names_for_one_storage_take_little_memory(folder: Path) -> None:
    """Each is as large as the file; together they would take gigabytes."""
    stream = io.BytesIO()
    write_state_dict(stream, {f"{name:04}": np.zeros(1, np.float32) for name in range(MANY)})
    content = zipfile.ZipFile(stream).read("archive/data.pkl").replace(b"FloatStorage", b"BFloat16Storage")
    one, all_of_it = (b"(\x8a\x08" + size.to_bytes(8, "little") + b"t(\x8a\x08" for size in (1, COUNT))
    content = content.replace(one, all_of_it)
    for name in range(MANY):
        key = str(name).encode()
        content = content.replace(b"X" + len(key).to_bytes(4, "little") + key + b"X", KEY + b"X")
    file = archive(content, bytes(2 * COUNT))
    with address_space(1 << 30), little_memory():
        state = read_state_dict(file)
        assert len(state) == MANY
        assert state["0007"].shape == (COUNT,)


def test_tensors_that_overlap_take_little_memory(folder: Path) -> None:
    fact = {"dtype": "BF16", "shape": [COUNT], "data_offsets": [0, 2 * COUNT]}
    file = safetensors({str(name): fact for name in range(MANY)}, bytes(2 * COUNT))
    with address_space(1 << 30), little_memory():
        arrays = read_safetensors(file)
        assert len(arrays) == MANY
        assert arrays["7"].shape == (COUNT,)


def test_bfloat16_of_safetensors(folder: Path) -> None:
    fact = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    arrays = read_safetensors(safetensors({"__metadata__": {}, "a": fact}, b"\x80\x3f\x00\xc0"))
    np.testing.assert_array_equal(arrays["a"], [1.0, -2.0])


@pytest.mark.parametrize(
    ("fact", "because"),
    [
        ({"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}, "an array lies at 0 to 20 of 16 bytes"),
        (
            {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
            "8 bytes are no array of the shape [3] of F32",
        ),
        ({"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}, "with the shape [-1, -2]"),
        (
            {"dtype": "F32", "shape": [1e300, 1e300], "data_offsets": [0, 8]},
            "with the shape [1e+300, 1e+300]",
        ),
        ({"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}, "with the shape [2.0]"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0.0, 8]}, "an array lies at 0.0 to 8 of 16 bytes"),
        ({"dtype": "F4", "shape": [1], "data_offsets": [0, 4]}, "KeyError: 'F4'"),
        ({"dtype": "F32", "shape": "x", "data_offsets": [0, 4]}, "TypeError: "),
        (["F32"], "TypeError: "),
    ],
)
def test_damaged_safetensors(fact: object, because: str, folder: Path) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read_safetensors(safetensors({"a": fact}))
    assert str(caught.value).startswith("a.safetensors: this is not a safetensors file, or it is damaged\n")
    assert because in str(caught.value)
    assert "fix: get the file again" in str(caught.value)
    with pytest.raises(UnreadableFileError):
        read_safetensors(_written((1 << 60).to_bytes(8, "little") + b"{}", "a.safetensors"))
