"""Data to calibrate with, from files and from a user's function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.options import DataOptions
from prototrt.converter.running.data.calls import some_calls
from prototrt.converter.running.data.data import Call, Data, data_of
from prototrt.converter.running.data.images import Preparation
from prototrt.converter.running.data.labels import read_labels
from prototrt.surgery.ir import Array, DType, Value
from prototrt.tests.npz import write_npz
from prototrt.tests.small_nets import failure

DATA, CONT = Value("data", DType.FLOAT32, (2, 3)), Value("cont", DType.FLOAT32, (2, 1))
IMAGES = Value("image", DType.FLOAT32, (1, 3, 2, 4))


def signature(*inputs: Value) -> Signature:
    return Signature(inputs or (DATA,), (), ())


def save(path: Path, **arrays: Any) -> Path:
    write_npz(path, {name.replace("__", "/"): array for name, array in arrays.items()})
    return path


def calls(data: Data) -> list[Call]:
    return [call for part in data.read() for call in part]


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def saved(folder: Path) -> Path:
    """An array by itself."""
    np.save(folder / "a.npy", ones(2, 3))
    return folder


def picture(path: Path, width: int, height: int, color: Any = (10, 20, 30), mode: str = "RGB") -> Path:
    Image.new(mode, (width, height), color).save(path)
    return path


def test_numbered_arrays_are_calls_of_one_conversation(tmp_path: Path) -> None:
    path = save(tmp_path / "in.npz", data__0=ones(2, 3), data__1=2 * ones(2, 3), cont=ones(2, 1))
    data = data_of(str(path), None, signature(DATA, CONT))
    assert [(call.feeds["data"].max(), call.feeds["cont"].max()) for call in calls(data)] == [(1, 1), (2, 1)]
    assert [call.starts_anew for call in calls(data)] == [True, False]
    assert [call.where for call in calls(data)] == [f"{path}, call 0", f"{path}, call 1"]
    assert data.parts == 1


@pytest.mark.parametrize("shape", [(6, 3), (3, 2, 3)], ids=["along the first axis", "along a new axis"])
def test_an_array_may_hold_many_calls(shape: tuple[int, ...], tmp_path: Path) -> None:
    rows = np.arange(18, dtype=np.float32).reshape(shape)
    path = save(tmp_path / "in.npz", data=rows, cont=ones(2, 1))
    found = calls(data_of(str(path), None, signature(DATA, CONT)))
    np.testing.assert_array_equal(np.concatenate([call.feeds["data"] for call in found]), rows.reshape(6, 3))
    assert [call.feeds["cont"].shape for call in found] == [(2, 1)] * 3


def test_arrays_of_many_calls_go_together(tmp_path: Path) -> None:
    path = save(tmp_path / "in.npz", data=ones(3, 2, 3), cont=np.arange(6).reshape(6, 1))
    found = calls(data_of(str(path), None, signature(DATA, CONT)))
    assert [call.feeds["cont"].ravel().tolist() for call in found] == [[0, 1], [2, 3], [4, 5]]


def test_the_files_of_a_folder_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "notes.txt").write_text("no data")
    for name, factor in {"b.npy": 2, "a.npy": 1, "more/c.npy": 3, ".hidden/d.npy": 4}.items():
        np.save(tmp_path / name, factor * ones(2, 3))
    data = data_of(str(tmp_path), None, signature())
    assert [call.feeds["data"].max() for call in calls(data)] == [1, 2, 3]
    assert all(call.starts_anew for call in calls(data))
    assert data.parts == 3


def test_images_become_bgr_planes_of_the_size_of_the_input(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 9, 5)
    (call,) = calls(data_of(str(tmp_path), None, signature(IMAGES)))
    assert call.feeds["image"].shape == (1, 3, 2, 4)
    assert call.feeds["image"][0, :, 1, 2].tolist() == [30, 20, 10]


@pytest.mark.parametrize(
    ("preparation", "expected"),
    [
        (Preparation(channels="rgb"), [10, 20, 30]),
        (Preparation(mean=(1, 2, 3)), [29, 18, 7]),
        (Preparation(mean=(10,), scale=0.5), [10, 5, 0]),
    ],
    ids=["rgb", "a mean for each channel", "one mean, and a scale"],
)
def test_pixels_are_prepared_as_the_user_says(
    preparation: Preparation, expected: list[float], tmp_path: Path
) -> None:
    picture(tmp_path / "a.png", 4, 2)
    (call,) = calls(data_of(str(tmp_path), None, signature(IMAGES), preparation))
    assert call.feeds["image"][0, :, 0, 0].tolist() == expected


def test_a_net_of_one_channel_reads_gray_images(tmp_path: Path) -> None:
    picture(tmp_path / "a.jpg", 4, 2, color=(50, 50, 50))
    gray = Value("image", DType.FLOAT32, (1, 1, 2, 4))
    (call,) = calls(data_of(str(tmp_path), None, signature(gray)))
    np.testing.assert_array_equal(call.feeds["image"], np.full((1, 1, 2, 4), 50))


@pytest.mark.parametrize(
    ("resize", "columns"),
    [
        (None, [0, 0, 255, 255]),  # 16 columns become 4
        ((2,), [0, 0, 255, 255]),  # 2 x 8; the middle 4 are kept
        ((2, 16), [0, 0, 255, 255]),  # 2 x 16: the edge is in the middle
        ((8, 4), [0, 0, 255, 255]),
        ((1, 1), [0, 0, 255, 255]),  # never less than the input
    ],
)
def test_images_are_resized_and_their_middle_is_cropped(
    resize: tuple[int, ...] | None, columns: list[int], tmp_path: Path
) -> None:
    pixels = np.repeat([[0] * 8 + [255] * 8], 4, axis=0).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (call,) = calls(data_of(str(tmp_path), None, signature(IMAGES), Preparation(resize=resize)))
    found = call.feeds["image"][0, 0, 0]
    assert found.shape == (4,)
    assert np.round(found[[0, 3]]).tolist() == pytest.approx([columns[0], columns[3]], abs=32)


def test_images_fill_batches_and_the_first_fill_the_last(tmp_path: Path) -> None:
    for number in range(3):
        picture(tmp_path / f"{number}.png", 4, 2, color=(number,) * 3)
    batch = Value("image", DType.FLOAT32, (2, 3, 2, 4))
    data = data_of(str(tmp_path), None, signature(batch))
    assert [call.feeds["image"][:, 0, 0, 0].tolist() for call in calls(data)] == [[0, 1], [2, 0]]
    assert data.parts == 2
    assert data.warnings == ("3 images do not fill batches of 2: the last batch repeats the first 1",)


def load(folder: Path, text: str, *inputs: Value) -> list[Call]:
    (folder / "load.py").write_text(text)
    return calls(data_of(None, f"{folder}/load.py:batches", signature(*inputs)))


def test_a_function_yields_calls_of_one_conversation(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("FACTORS = [1, 2]")
    text = """
import numpy as np
from beside import FACTORS
def batches():
    for factor in FACTORS:
        yield {"data": np.full((2, 3), factor)}
"""
    found = load(tmp_path, text)
    assert [call.feeds["data"].max() for call in found] == [1, 2]
    assert not any(call.starts_anew for call in found)


def test_the_usual_function_needs_no_name(tmp_path: Path) -> None:
    (tmp_path / "load.py").write_text("def load_data():\n  return [{'data': [[1, 1, 1]] * 2}]")
    (call,) = calls(data_of(None, f"{tmp_path}/load.py", signature()))
    assert call.feeds["data"].tolist() == [[1, 1, 1], [1, 1, 1]]


Make = Callable[[Path], Any]
ONE_INPUT = "the inputs are data (2, 3), expected one of (N, 3, H, W) or (N, 1, H, W)"
FILES = "fix: give npz files, or use data_loader instead of inputs"
BAD_DATA: dict[str, tuple[Make, tuple[Value, ...], str]] = {
    "nothing there": (
        lambda folder: folder / "absent",
        (),
        "{folder}/absent: there is no such file\n  fix: check the path",
    ),
    "an empty folder": (
        lambda folder: folder,
        (),
        "{folder}: holds no arrays and no images\n"
        "  because no file ends in .npy, .npz, .bmp, .jpeg, .jpg, .pgm, .png, .ppm, .tif, .tiff, .webp\n"
        "  fix: give a folder with files of one kind",
    ),
    "arrays and images": (
        lambda folder: (saved(folder), picture(folder / "b.png", 4, 2), folder)[-1],
        (),
        "{folder}: holds arrays as well as images\n  fix: give a folder with files of one kind",
    ),
    "one array for two inputs": (
        lambda folder: saved(folder),
        (DATA, CONT),
        "{folder}/a.npy: holds one array, but the net has the inputs data, cont\n"
        "  fix: write npz files, each with an array for every input: numpy.savez(FILE, data=array, ...)",
    ),
    "a broken array": (
        lambda folder: ((folder / "a.npy").write_bytes(b"no array"), folder)[-1],
        (),
        "{folder}/a.npy: is not an npy file\n  fix: write it with numpy.save(FILE, array)",
    ),
    "another shape": (
        lambda folder: save(folder / "a.npz", data=ones(3, 4)),
        (),
        '{folder}/a.npz: input "data" has the shape (3, 4), expected (2, 3)\n'
        "  fix: give an array of this shape, or change the input of the net with shapes",
    ),
    "a missing input": (
        lambda folder: save(folder / "a.npz", data=ones(2, 3)),
        (DATA, CONT),
        "{folder}/a.npz: inputs are missing: cont (2, 1)\n  fix: give an array for each of them, under its name",
    ),
    "images for a net of numbers": (
        lambda folder: picture(folder / "a.png", 4, 2),
        (),
        "{folder}/a.png: holds images, but the net does not read images alone\n"
        f"  because {ONE_INPUT}\n  {FILES}",
    ),
    "a broken image": (
        lambda folder: ((folder / "a.png").write_bytes(b"no image"), folder)[-1],
        (IMAGES,),
        "{folder}/a.png: is not an image that Pillow can read\n  fix: remove it, or replace it",
    ),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case: str, tmp_path: Path) -> None:
    make, inputs, expected = BAD_DATA[case]
    source = str(make(tmp_path))
    message = failure(lambda: calls(data_of(source, None, signature(*inputs))))
    assert message == expected.replace("{folder}", str(tmp_path))


def test_options_for_images_without_images(tmp_path: Path) -> None:
    path = str(save(tmp_path / "a.npz", data=ones(2, 3)))
    message = failure(lambda: data_of(path, None, signature(), Preparation(mean=(1,), scale=2)))
    assert message == f"{path}: holds arrays, but there are options for images\n  fix: leave out mean, scale"


@pytest.mark.parametrize("source", ["a file", "arrays", "a function"])
def test_options_for_images_are_refused_for_calls(source: str, tmp_path: Path) -> None:
    path = str(save(tmp_path / "a.npz", data=ones(2, 3)))
    (tmp_path / "load.py").write_text("def batches():\n    yield {}\n")
    loader = f"{tmp_path / 'load.py'}:batches"
    where, options = {
        "a file": (path, DataOptions(inputs=path, resize=(3,))),
        "arrays": ("inputs", DataOptions(inputs={"data": ones(2, 3)}, resize=(3,))),
        "a function": (loader, DataOptions(data_loader=loader, resize=(3,))),
    }[source]
    message = failure(lambda: some_calls(options, signature(), None))
    assert message == f"{where}: holds arrays, but there are options for images\n  fix: leave out resize"


@pytest.mark.parametrize(
    ("channels", "expected", "fix"),
    [(3, "1 or 3, one per channel", "give one number, or 3"), (1, "1", "give one number")],
)
def test_means_for_other_channels(channels: int, expected: str, fix: str, tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 4, 2)
    images = Value("image", DType.FLOAT32, (1, channels, 2, 4))
    message = failure(lambda: data_of(str(tmp_path), None, signature(images), Preparation(mean=(1, 2))))
    assert message == (
        f"{tmp_path}: mean has 2 numbers, expected {expected}\n"
        f'  because the input "image" has the shape (1, {channels}, 2, 4)\n'
        f"  fix: {fix}"
    )


BAD_LOADERS = {
    "no such function": (
        "def batch(): pass",
        "{file}: has no function batches\n  fix: did you mean batch?",
    ),
    "no function at all": (
        "x = 1",
        "{file}: has no function batches\n  fix: define batches() as a generator",
    ),
    "a failing file": ("x = 1\n1 / 0", "{file}:2: ZeroDivisionError: division by zero\n  {fix}"),
    "a script": ("import sys\nsys.exit(3)", "{file}:2: SystemExit: 3\n  {fix}"),
    "no Python": ("x = (", "{file}:1: SyntaxError: '(' was never closed (load.py, line 1)\n  {fix}"),
    "a failing function": (
        "def batches():\n    yield {'data': [[1, 1, 1]] * 2}\n    raise KeyError('b')",
        "{file}:3: KeyError: 'b'\n  {fix}",
    ),
    "no generator": (
        "def batches():\n    return 3",
        "{file}: batches() returns an object of the type int, expected a generator of dictionaries\n  {yield}",
    ),
    "arrays without names": (
        "def batches():\n    yield [1]",
        "{file}:batches, call 0: gives an object of the type list, expected a dictionary of arrays by input\n  {yield}",
    ),
    "another shape": (
        "def batches():\n    yield {'data': [1]}",
        '{file}:batches, call 0: input "data" has the shape (1,), expected (2, 3)\n'
        "  fix: give an array of this shape, or change the input of the net with shapes",
    ),
}


@pytest.mark.parametrize("case", BAD_LOADERS)
def test_bad_loaders(case: str, tmp_path: Path) -> None:
    text, expected = BAD_LOADERS[case]
    message = failure(lambda: load(tmp_path, text), ConversionError)
    expected = expected.replace("{fix}", "fix: correct the Python file")
    expected = expected.replace("{yield}", 'fix: yield dictionaries, as in yield {"data": array}')
    message = message.replace(f"({tmp_path}/load.py", "(load.py")
    assert message == expected.replace("{file}", f"{tmp_path}/load.py")


@pytest.mark.parametrize("text", ["load", "load.py:", "load.py:a-b", "load.txt:f"])
def test_what_names_no_function(text: str) -> None:
    assert failure(lambda: data_of(None, text, signature())) == (
        f"data_loader is '{text}', expected FILE.py:FUNCTION\n  fix: use data_loader=\"load.py:load_data\""
    )


def test_a_label_is_a_line_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_bytes("cat\u2028wild\r\ndog\x0b\x1cx \n\n mouse\r".encode())
    assert read_labels(str(tmp_path / "words.txt")) == ["cat\u2028wild", "dog\x0b\x1cx", "mouse"]
