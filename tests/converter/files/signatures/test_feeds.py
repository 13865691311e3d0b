"""Inputs for several calls, and their outputs."""

from __future__ import annotations

import contextlib
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError
from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile, shape_in
from prototrt.converter.files.signatures.feeds import read_feeds, refuse_misfits, unread_arrays, write_results
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.data.data import calls_of
from prototrt.surgery.ir import Array, DType, Value
from prototrt.tests.memory import little_memory
from prototrt.tests.npz import write_npz

ONES = np.ones((2, 3), np.float32)


def write(path: Path, **arrays: Array) -> str:
    write_npz(path, {name.replace("__", "/"): array for name, array in arrays.items()})
    return str(path)


def test_an_array_is_fed_in_every_call(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", data=np.arange(3))
    feeds = read_feeds(path, ["data"], calls=2)
    assert [feed["data"].tolist() for feed in feeds] == [[0, 1, 2], [0, 1, 2]]


def test_numbered_arrays_are_fed_in_their_call(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", data__0=np.array(5), data__1=np.array(6), cont=np.array(1))
    feeds = read_feeds(path, ["data", "cont"])
    assert [(int(feed["data"]), int(feed["cont"])) for feed in feeds] == [(5, 1), (6, 1)]


def test_a_blob_whose_own_name_ends_in_a_number(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", stage__1=np.array(5))
    assert [list(feed) for feed in read_feeds(path, ["stage/1", "stage"])] == [["stage/1"]]


def test_arrays_that_nobody_reads_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", data=ONES, dat=ONES, cont__0=ONES, other__0=ONES)
    assert unread_arrays(path, ["data", "cont"]) == [
        f"{path}: not read: the inputs are data, cont: dat, other/0"
    ]
    assert unread_arrays(path, ["data", "dat", "cont", "other"]) == []
    (many,) = unread_arrays(write(tmp_path / "many.npz", **dict.fromkeys("abcdef", ONES)), ["x"])
    assert many.endswith(": not read: the inputs are x: a, b, c, d, e and 1 more")


def test_more_inputs_than_calls(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", data__0=np.array(5), data__3=np.array(6))
    with pytest.raises(ConversionError) as caught:
        read_feeds(path, ["data"], calls=2)
    assert str(caught.value) == (
        f"{path}: has arrays for call 3, but there are 2 calls, from 0 to 1\n"
        "  fix: run with calls=4, or leave calls out"
    )


def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnreadableFileError) as caught:
        read_feeds("nowhere.npz", ["data"])
    assert str(caught.value) == (
        f"nowhere.npz: there is no such file\n  fix: check the path; the current folder is {tmp_path}"
    )


@pytest.mark.parametrize("content", [b"", b"<html>", b"PK\x03\x04 cut short"])
def test_what_is_not_an_npz_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.npz").write_bytes(content)
    with pytest.raises(
        UnreadableFileError, match=r"in\.npz: is not an npz file\n  because .*\n  fix: write it"
    ):
        read_feeds(str(tmp_path / "in.npz"), ["data"])


def test_one_array_without_a_name(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros(3))
    with pytest.raises(UnreadableFileError) as caught:
        read_feeds(str(tmp_path / "in.npy"), ["data"])
    assert str(caught.value) == (
        f"{tmp_path / 'in.npy'}: is not an npz file\n"
        "  because it holds one array without a name\n"
        '  fix: write it with numpy.savez("in.npz", NAME=array, ...)'
    )


def test_pickled_objects_are_not_loaded(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", data=np.array([{}], object))
    with pytest.raises(UnreadableFileError) as caught:
        read_feeds(path, ["data"])
    assert str(caught.value) == (
        f"{path}: is not an npz file\n"
        "  because it holds objects that are not arrays of numbers\n"
        '  fix: write it with numpy.savez("in.npz", NAME=array, ...)'
    )


def test_results_of_one_call_keep_their_names(tmp_path: Path) -> None:
    write_results(str(tmp_path / "out.npz"), [{"file": np.arange(2), "a/b": np.array(3.5)}])
    with np.load(tmp_path / "out.npz") as archive:
        assert {name: archive[name].tolist() for name in archive} == {"file": [0, 1], "a/b": 3.5}


def test_results_of_several_calls_are_numbered(tmp_path: Path) -> None:
    write_results(str(tmp_path / "out.npz"), [{"y": np.array(1)}, {"y": np.array(2)}])
    with np.load(tmp_path / "out.npz") as archive:
        assert {name: archive[name].tolist() for name in archive} == {"y/0": 1, "y/1": 2}


MISFITS: dict[str, tuple[dict[str, Array], int, str]] = {
    "missing in one call": (
        {"x__0": ONES, "cont": ONES},
        2,
        "in.npz, call 1: inputs are missing: x (2, 3)\n  fix: give an array for each of them, under its name",
    ),
    "another shape": (
        {"x": np.ones((2, 4)), "cont": ONES},
        1,
        'in.npz: input "x" has the shape (2, 4), expected (2, 3)\n'
        "  fix: give an array of this shape, or change the input of the net with shapes",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_feeds_are_held_against_the_net_before_it_runs(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arrays, calls, message = MISFITS[case]
    write(Path("in.npz"), **arrays)
    inputs = tuple(Value(name, DType.FLOAT32, (2, 3)) for name in ("x", "cont"))
    signature = Signature(inputs, (), ())
    with pytest.raises(ConversionError) as raised:
        read_feeds("in.npz", ["x", "cont"], calls, partial(refuse_misfits, "in.npz", signature=signature))
    assert str(raised.value) == message
    with pytest.raises(ConversionError) as raised:
        refuse_misfits("in.npz", read_feeds("in.npz", ["x", "cont"], calls), signature)
    assert str(raised.value) == message


def member_of_zeros(path: Path, method: int, announced: tuple[int, ...], written: int) -> str:
    """An npz file whose array has this shape by its header, and so many bytes of zeros."""
    with zipfile.ZipFile(path, "w", method) as archive, archive.open("x.npy", "w") as member:
        header = {"descr": "<f4", "fortran_order": False, "shape": announced}
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(written >> 20):
            member.write(bytes(1 << 20))
    return str(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_numpy_does_not_use_are_refused_before_they_inflate(tmp_path: Path, method: int) -> None:
    path = member_of_zeros(tmp_path / "in.npz", method, (17 << 20,), 68 << 20)
    with little_memory(), pytest.raises(UnreadableFileError) as raised:
        read_feeds(path, ["x"])
    assert str(raised.value) == (
        f"{path}: is not an npz file\n"
        "  because it is compressed by a method that NumPy does not use\n"
        '  fix: write it with numpy.savez("in.npz", NAME=array, ...)'
    )


def test_a_header_that_announces_more_than_there_is(tmp_path: Path) -> None:
    path = member_of_zeros(tmp_path / "in.npz", zipfile.ZIP_DEFLATED, (500_000_000,), 1 << 20)
    with little_memory(), pytest.raises(UnreadableFileError) as raised:
        read_feeds(path, ["x"])
    assert str(raised.value) == (
        f"{path}: is not an npz file\n"
        '  because "x" has the shape (500000000,), but 262144 numbers\n'
        '  fix: write it with numpy.savez("in.npz", NAME=array, ...)'
    )


def test_arrays_that_do_not_fit_or_are_no_inputs_are_not_read(tmp_path: Path) -> None:
    path = member_of_zeros(tmp_path / "in.npz", zipfile.ZIP_DEFLATED, (25 << 20,), 100 << 20)
    signature = Signature((Value("x", DType.FLOAT32, (2, 3)),), (), ())
    with little_memory(), pytest.raises(ConversionError) as raised:
        read_feeds(path, ["x"], check=partial(refuse_misfits, path, signature=signature))
    assert str(raised.value) == (
        f'{path}: input "x" has the shape (26214400,), expected (2, 3)\n'
        "  fix: give an array of this shape, or change the input of the net with shapes"
    )
    with little_memory():
        assert read_feeds(path, ["y"]) == [{}]


def test_a_number_of_calls_that_no_file_holds(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", x__0=ONES, x__999999999=ONES)
    with pytest.raises(ConversionError) as raised:
        read_feeds(path, ["x"])
    assert str(raised.value) == (
        f"{path}: has arrays for call 999999999, but for only 2 calls in all\n"
        "  fix: number the calls from 0 on, or say how many there are with calls=1000000000"
    )


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_damaged_file_is_told(damage: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "in.npz")
        np.savez_compressed(file, x=np.arange(300, dtype=np.float32), y=np.ones((6, 1)))
        content = bytearray(file.read_bytes())
        for place, byte in damage:
            content[place % len(content)] = byte
        file.write_bytes(content)
        with contextlib.suppress(UnreadableFileError):
            ArraysOfFile(str(file)).load(["x", "y"])


def test_the_shape_of_an_array_in_a_file_is_known_without_reading_it(tmp_path: Path) -> None:
    path = member_of_zeros(tmp_path / "in.npz", zipfile.ZIP_DEFLATED, (25 << 20,), 100 << 20)
    with little_memory():
        assert shape_in(ArraysOfFile(path), "x") == (25 << 20,)
    assert shape_in({"x": np.zeros((2, 3))}, "x") == (2, 3)


MANY = 12
ZEROS = np.zeros((4 << 20,), np.float32)
LONG = Signature((Value("x", DType.FLOAT32, ZEROS.shape), Value("y", DType.FLOAT32, (1,))), (), ())


def many_calls(path: Path, **shared: Array) -> str:
    """An npz file of 0.2 MB with 200 MB of zeros."""
    np.savez_compressed(path, **{f"x/{call}": ZEROS for call in range(MANY)}, **shared)  # type: ignore[arg-type]
    return str(path)


def test_arrays_of_single_calls_are_read_on_request(tmp_path: Path) -> None:
    """From a file that is opened once: opening it takes as long as there are arrays."""
    path = many_calls(tmp_path / "in.npz", y=np.ones(1))
    with patch.object(zipfile, "ZipFile", wraps=zipfile.ZipFile) as opening, little_memory():
        for call in calls_of(Path(path), LONG):
            assert (call.feeds["x"].nbytes, call.feeds["y"].tolist()) == (ZEROS.nbytes, [1])
    assert opening.call_count == 1


def test_an_array_of_one_call_instead_of_the_shared_one(tmp_path: Path) -> None:
    path = write(tmp_path / "in.npz", x=np.array(0), x__1=np.array(1))
    assert [int(feed["x"]) for feed in read_feeds(path, ["x"], calls=3)] == [0, 1, 0]


TOO_LARGE = (
    ": reading its arrays takes {}, expected at most 10.0 MB\n"
    "  because that is 80 % of the memory of this machine\n"
    "  fix: use smaller sizes, or a machine with more memory"
)


@pytest.mark.parametrize(
    ("arrays", "needed"),
    [
        ({"x": np.zeros((1, 4 << 20), np.float32), "y": np.ones(1)}, "16.8 MB"),
        ({f"x/{call}": np.zeros((2, 1 << 20), np.float32) for call in range(2)}, "16.8 MB"),
    ],
    ids=["of all calls", "each of several calls"],
)
def test_arrays_that_are_read_at_once_must_fit(
    arrays: dict[str, Array], needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prototrt.caffe_proto.common.memory.usual_limit", lambda: 10_000_000)
    path, shape = tmp_path / "in.npz", next(iter(arrays.values())).shape[1:]
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    signature = Signature((Value("x", DType.FLOAT32, shape),), (), ())
    with little_memory(), pytest.raises(ConversionError) as raised:
        calls_of(path, signature)
    assert str(raised.value) == f"{path}{TOO_LARGE.format(needed)}"


def test_a_file_may_be_as_large_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.caffe_proto.common.memory.usual_limit", lambda: 1000)
    assert ArraysOfFile(write(tmp_path / "in.npz", x=np.ones(300))).load(["x"])["x"].shape == (300,)
