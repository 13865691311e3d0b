"""The file of scales: read, written, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.surgery.scales.scales_file import Counts, DataSet, Scales, ValueScale, read_scales
from prototrt.tests.small_nets import failure

POSITIVE = st.floats(min_value=0, allow_infinity=False, allow_nan=False)
COUNTS = st.builds(
    Counts,
    st.integers(-100, 100).map(lambda exponent: 2.0**exponent),
    st.lists(st.integers(0, 2**62), max_size=4).map(tuple),
)
RECORDS = st.builds(ValueScale, POSITIVE, POSITIVE | st.none(), POSITIVE | st.none(), COUNTS | st.none())
SCALES = st.builds(
    Scales,
    st.dictionaries(st.text(), RECORDS, max_size=3),
    st.text(),
    st.sampled_from(["max", "percentile:99.9"]),
    st.just({"weights": {"file": "net.caffemodel", "sha256": "00"}}),
    st.lists(st.builds(DataSet, st.integers(1, 9), st.just("ab")), max_size=2).map(tuple),
    st.dictionaries(st.sampled_from(["int8", "fp8"]), st.lists(st.text(), max_size=2).map(tuple)),
)


@given(scales=SCALES)
def test_what_is_written_can_be_read(scales: Scales, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "scales.json"
    path.write_text(scales.text(), "utf-8")
    assert read_scales(str(path)) == scales


def test_each_value_has_a_line() -> None:
    text = Scales({"data": ValueScale(0.5, 60.0, 0.0, Counts(0.25, (1, 2))), "fc": ValueScale(2.0)}).text()
    lines = text.splitlines()
    assert '    "data": {"scale": 0.5, "largest": 60.0, "clipped": 0.0},' in lines
    assert '    "fc": {"scale": 2.0}' in lines
    assert '    "data": {"width": 0.25, "counts": [1, 2]}' in lines


def test_a_range_is_127_steps() -> None:
    assert ValueScale(0.5).range == 63.5


def test_a_file_written_by_hand_needs_little(tmp_path: Path) -> None:
    path = tmp_path / "scales.json"
    path.write_text('{"format": 1, "blobs": {"data": {"scale": 1}}}')
    assert read_scales(str(path)) == Scales({"data": ValueScale(1.0)})


def blobs(**members: Any) -> str:
    return json.dumps({"format": 1, "blobs": {"data": {"scale": 1}}, **members})


NUMBER = "expected a number of 0 or more\n  fix: calibrate again, or correct the number"
DAMAGED = '"data": the histogram is damaged\n  fix: remove "data" from "histograms": only merging needs it'
BAD_FILES = {
    "no JSON": (
        "{",
        "is not a file of scales\n  because it is not JSON: {why}\n  fix: write it with prototrt.calibrate(...)",
    ),
    "a calibration cache": (
        "TRT-7000-EntropyCalibration2\ndata: 3c010a14\n",
        "is not a file of scales\n  because it is not JSON: {why}\n"
        '  fix: for a table of TensorRT, ncnn, Caffe: use calibration_cache="{file}" instead of scales',
    ),
    "a list": ("[1]", 'has no "blobs"\n  fix: write it with prototrt.calibrate(...)'),
    "no blobs": ('{"format": 1}', 'has no "blobs"\n  fix: write it with prototrt.calibrate(...)'),
    "a new format": (blobs(format=2), '"format" is 2, expected 1\n  fix: install a newer prototrt'),
    "a layer without a list": (
        blobs(kept={"int8": "fc"}),
        '"kept": int8 is not a list of layers\n  fix: write it with prototrt.calibrate(...)',
    ),
    "no format": (blobs(format=None), '"format" is null, expected 1\n  fix: install a newer prototrt'),
    "NaN": (blobs(blobs={"fc": {"scale": float("nan")}}), f'"fc": scale is NaN, {NUMBER}'),
    "infinity": (blobs(blobs={"fc": {"scale": float("inf")}}), f'"fc": scale is Infinity, {NUMBER}'),
    "a negative scale": (blobs(blobs={"fc": {"scale": -1}}), f'"fc": scale is -1, {NUMBER}'),
    "a word": (blobs(blobs={"fc": {"scale": "big"}}), f'"fc": scale is "big", {NUMBER}'),
    "a truth value": (blobs(blobs={"fc": {"scale": True}}), f'"fc": scale is true, {NUMBER}'),
    "no scale": (blobs(blobs={"fc": {}}), f'"fc": scale is null, {NUMBER}'),
    "no facts": (blobs(blobs={"fc": 1}), f'"fc": scale is null, {NUMBER}'),
    "a strange share": (blobs(blobs={"fc": {"scale": 1, "clipped": []}}), f'"fc": clipped is [], {NUMBER}'),
    "histograms of another kind": (
        blobs(histograms=[]),
        '"histograms" is not an object\n  fix: write it with prototrt.calibrate(...)',
    ),
    "counts that are none": (blobs(histograms={"data": {"width": 1.0, "counts": [0.5]}}), DAMAGED),
    "a width that is no power of two": (blobs(histograms={"data": {"width": 3.0, "counts": [1]}}), DAMAGED),
    "no histogram": (blobs(histograms={"data": 5}), DAMAGED),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(case: str, tmp_path: Path) -> None:
    text, expected = BAD_FILES[case]
    path = tmp_path / "scales.json"
    path.write_text(text)
    message = failure(lambda: read_scales(str(path)))
    why = ""
    if "{why}" in expected:
        try:
            json.loads(text)
        except ValueError as error:
            why = str(error)
    assert message == f"{path}: {expected.replace('{why}', why).replace('{file}', str(path))}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    absent = f"{tmp_path}/absent"
    assert failure(lambda: read_scales(absent)) == (
        f"{absent}: cannot be read: No such file or directory\n  fix: give a file of scales"
    )
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert failure(lambda: read_scales(str(binary))) == (
        f"{binary}: is not a file of scales\n  fix: write it with prototrt.calibrate(...)"
    )
