"""The sample does what its README says."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array
from prototrt.tests.fresh_python import ROOT, run_python
from prototrt.tests.small_nets import WAYS

DIGITS = ROOT / "samples" / "digits"


@pytest.mark.trt
def test_strips_are_read_as_caffe_reads_them() -> None:
    result = run_python(DIGITS / "read_strips.py")
    _, *lines = [line.split(maxsplit=3) for line in result.stdout.splitlines()]
    labels = [line.split() for line in (DIGITS / "strips" / "labels.txt").read_text().splitlines()]
    assert [[name, printed] for name, _, printed, *_ in lines] == labels
    assert [line for line in lines if line[1] != line[2]] == [
        ["12.png", "72076185", "7076185", "wrong; Caffe reads the same"]
    ]


BY_CAFFE = np.load(DIGITS / "expected.npz")


def assert_close(found: Array, expected: Array) -> None:
    """Caffe's sums run in another order: probabilities differ in the sixth digit."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def session(prototxt: str, on: Way) -> prototrt.Session:
    model = prototrt.load(DIGITS / prototxt, DIGITS / "digits.caffemodel")
    return prototrt.Session(prototrt.rewrite(model), on=on)


def begins_at_once(steps: int) -> Array:
    """cont for one strip: 0 at its first window."""
    cont = np.ones((steps, 1), np.float32)
    cont[0] = 0
    return cont


@pytest.mark.parametrize("on", WAYS)
def test_strips_in_one_call_give_the_probabilities_of_caffe(on: Way) -> None:
    whole = session("deploy.prototxt", on)
    for windows, expected in zip(BY_CAFFE["data"][:3], BY_CAFFE["prob"][:3], strict=True):
        found = whole.run({"data": windows, "cont": begins_at_once(len(windows))})["prob"]
        assert_close(found, expected)


@pytest.mark.parametrize("on", WAYS)
def test_windows_call_by_call_give_the_probabilities_of_caffe(on: Way) -> None:
    stream = session("deploy_stream.prototxt", on)
    for index, expected in zip(BY_CAFFE["stream_index"], BY_CAFFE["stream_prob"], strict=True):
        windows = BY_CAFFE["data"][index]
        cont = begins_at_once(len(windows))
        found = [
            stream.run({"data": windows[t : t + 1], "cont": cont[t : t + 1]}) for t in range(len(windows))
        ]
        assert_close(np.concatenate([call["prob"] for call in found]), expected)
