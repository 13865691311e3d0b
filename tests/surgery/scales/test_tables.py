"""Tables of other programs. Their lines are in the form that these programs wrote; the numbers are ours."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.surgery.scales.tables import (
    EntryKind,
    TableScale,
    cache_text,
    ncnn_text,
    nvdla_text,
    read_table,
)
from prototrt.tests.small_nets import failure

SCALES = st.floats(min_value=0, allow_infinity=False, allow_nan=False, width=32)
NAMES = st.sampled_from(
    ["data", "conv1", "res2a: sum", "(Unnamed Layer* 2) [Scale]_output", "inception_3a/3x3", "größe"]
)


def read(text: str, folder: Path) -> list[TableScale]:
    path = folder / "table"
    path.write_text(text, "utf-8")
    return read_table(str(path))


def test_a_calibration_cache_of_tensorrt(tmp_path: Path) -> None:
    """3c010a14 is one of the commonest scales there is: 1 / 127, nearly."""
    text = """TRT-7000-EntropyCalibration2
data: 3c010a14
(Unnamed Layer* 0) [Convolution]_output: 3d6969df
conv1: 40000000
zero: 0
"""
    entries = read(text, tmp_path)
    assert [(entry.name, entry.line) for entry in entries] == [
        ("data", 2),
        ("(Unnamed Layer* 0) [Convolution]_output", 3),
        ("conv1", 4),
        ("zero", 5),
    ]
    assert [entry.scale for entry in entries] == pytest.approx([0.0078759, 0.0569857, 2, 0], rel=1e-5)
    assert {entry.named for entry in entries} == {EntryKind.TENSOR}


def test_a_cache_without_a_header(tmp_path: Path) -> None:
    assert read("data: 3f800000\n", tmp_path) == [TableScale("data", 1.0, 1, EntryKind.TENSOR)]


def test_a_table_of_nvdla(tmp_path: Path) -> None:
    text = '{\n    "data": {"scale": 0.5, "min": 0, "max": 0, "offset": 0},\n    "conv1": {"scale": 2}\n}'
    assert read(text, tmp_path) == [
        TableScale("data", 0.5, 2, EntryKind.TOP),
        TableScale("conv1", 2.0, 3, EntryKind.TOP),
    ]


def test_nvdla_may_state_the_smallest_and_the_largest_number(tmp_path: Path) -> None:
    (entry,) = read('{"conv1": {"min": -254, "max": 127}}', tmp_path)
    assert entry.scale == 2


def test_a_table_that_was_converted_for_nvdla_names_tensors(tmp_path: Path) -> None:
    text = '{"data": {"scale": 1}, "(Unnamed Layer* 0) [Convolution]_output": {"scale": 2}}'
    assert {entry.named for entry in read(text, tmp_path)} == {EntryKind.TENSOR}


def test_a_table_of_ncnn_names_layers_for_what_they_read(tmp_path: Path) -> None:
    text = "conv1_param_0 50.5 60.5 \nfc_param_0 70\nconv1 0.5 \nfc 127\n"
    assert read(text, tmp_path) == [
        TableScale("conv1", 2.0, 3, EntryKind.BOTTOM),
        TableScale("fc", 1 / 127, 4, EntryKind.BOTTOM),
    ]


def test_a_layer_that_reads_two_blobs(tmp_path: Path) -> None:
    text = "sum_param_0 1\nsum 2 4\n"
    assert [(entry.scale, entry.place) for entry in read(text, tmp_path)] == [(0.5, 0), (0.25, 1)]


def test_the_first_caffe_int8_convert_tools_named_blobs(tmp_path: Path) -> None:
    """It has no weights for kernels other than 1 x 1 and 3 x 3, but a number for every blob."""
    text = "conv2/3x3_param_0 115.0\ndata 0.84\nconv1/7x7 0.5\nconv2/3x3 0.25\nprob 127\n"
    entries = read(text, tmp_path)
    assert [entry.name for entry in entries] == ["data", "conv1/7x7", "conv2/3x3", "prob"]
    assert {entry.named for entry in entries} == {EntryKind.BLOB}


def test_a_channel_of_zeros_has_the_factor_zero(tmp_path: Path) -> None:
    (entry,) = read("conv1_param_0 0 1\nconv1 0\n", tmp_path)
    assert entry.scale == 0


@given(scales=st.dictionaries(NAMES, SCALES, min_size=1))
def test_a_cache_round_trips_to_the_bit(
    scales: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = cache_text(scales)
    entries = read(text, tmp_path_factory.getbasetemp())
    assert {entry.name: entry.scale for entry in entries} == scales
    assert cache_text({entry.name: entry.scale for entry in entries}) == text


@given(scales=st.dictionaries(NAMES, SCALES, min_size=1))
def test_a_table_of_nvdla_round_trips(
    scales: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    entries = read(nvdla_text(scales), tmp_path_factory.getbasetemp())
    assert {entry.name: entry.scale for entry in entries} == scales


@given(scale=st.floats(2.0**-60, 2.0**60))
def test_a_table_of_ncnn_round_trips_to_nine_digits(
    scale: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (entry,) = read(ncnn_text({"fc": [1.0]}, {"fc": scale}), tmp_path_factory.getbasetemp())
    assert entry.scale == pytest.approx(scale, rel=1e-8)
    assert entry.named is EntryKind.BOTTOM


def test_weights_in_a_table_of_ncnn_are_127_over_the_largest() -> None:
    assert ncnn_text({"fc": [0.5, 127.0, 0.0]}, {"fc": 2.0}) == "fc_param_0 254 1 0\nfc 0.5\n"


def test_the_bits_of_a_cache_are_those_of_a_float32() -> None:
    (line,) = cache_text({"data": 1 / 127}).splitlines()[1:]
    assert line == f"data: {struct.pack('>f', 1 / 127).hex()}"


TABLES = "fix: give a calibration cache of TensorRT, or a table of ncnn or caffe-int8-convert-tools"
LINE = "fix: give a calibration cache of TensorRT, a table of ncnn or caffe-int8-convert-tools, or correct the line"
NUMBER = "expected a number of 0 or more\n  fix: remove the line, or calibrate again"
BAD_TABLES = {
    "nothing": (
        "",
        f": is neither a calibration cache nor a table of scales\n  because it has no scales\n  {TABLES}",
    ),
    "a header alone": (
        "TRT-8601-EntropyCalibration2\n",
        f": is neither a calibration cache nor a table of scales\n  because it has no scales\n  {TABLES}",
    ),
    "a cache whose first line is cut": (
        "TRT-7000-EntropyCalibration2\ndata: 3cxx\n",
        f':2: the line is "data: 3cxx", expected TENSOR: HEX, as in data: 3c010a14\n  {LINE}',
    ),
    "words": ("a b\n", f':1: the line is "a b", expected a name and numbers, as in conv1 0.84\n  {LINE}'),
    "a line without a number": (
        "fc_param_0 1\nfc\n",
        f':2: the line is "fc", expected a name and numbers, as in conv1 0.84\n  {LINE}',
    ),
    "a cut line": (
        "TRT-1\ndata: 3c010a14\nconv1: 3cxx\n",
        f':3: the line is "conv1: 3cxx", expected TENSOR: HEX, as in data: 3c010a14\n  {LINE}',
    ),
    "NaN in a cache": ("TRT-1\ndata: 7fc00000\n", f':2: the scale of "data" is nan, {NUMBER}'),
    "a negative scale in a cache": ("TRT-1\ndata: bf800000\n", f':2: the scale of "data" is -1, {NUMBER}'),
    "NaN in a table of ncnn": ("fc_param_0 1\nfc nan\n", f':2: the scale of "fc" is nan, {NUMBER}'),
    "JSON that ends too early": (
        '{"data": {',
        ": is neither a calibration cache nor a table of scales\n  because it is not JSON: Expecting property name"
        f" enclosed in double quotes: line 1 column 11 (char 10)\n  {TABLES}",
    ),
    "JSON without scales": (
        '{"data": {"min": 0}}',
        f': is neither a calibration cache nor a table of scales\n  because "data" has no scale\n  {TABLES}',
    ),
    "offsets": (
        '{"data": {"scale": 1, "offset": 3}}',
        ': "data" has the offset 3, expected 0\n  because int8 is symmetric here\n'
        "  fix: calibrate with offsets of 0",
    ),
    "a file of scales": (
        '{"format": 1, "blobs": {}}',
        ": is a file of scales, not a table of another program\n"
        '  fix: use scales="{file}" instead of calibration_cache',
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(case: str, tmp_path: Path) -> None:
    text, expected = BAD_TABLES[case]
    path = f"{tmp_path}/table"
    assert failure(lambda: read(text, tmp_path)) == path + expected.replace("{file}", path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    absent = f"{tmp_path}/absent"
    assert failure(lambda: read_table(absent)) == (
        f"{absent}: cannot be read: No such file or directory\n  fix: give a calibration cache, or a table"
    )
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert failure(lambda: read_table(str(binary))) == (
        f"{binary}: is neither a calibration cache nor a table of scales\n  because it is not text\n  {TABLES}"
    )
