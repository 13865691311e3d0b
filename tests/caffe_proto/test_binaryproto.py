"""Mean files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prototrt.caffe_proto import ConversionError
from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.weights.binaryproto import read_binaryproto

MEAN = message_class("BlobProto")(num=1, channels=3, height=1, width=2, data=range(6)).SerializeToString()
GOLDENS = Path(__file__).parents[1] / "goldens"


def test_mean(write: Callable[..., str]) -> None:
    array = read_binaryproto(write(MEAN, "mean.binaryproto"))
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, np.arange(6).reshape(1, 3, 1, 2))


FIX = "  fix: give the file that Caffe's compute_image_mean wrote, or get it again"
MISTAKES = {
    "cut short": (
        MEAN[:-1],
        "m: this is not a mean file (.binaryproto), or it is damaged\n"
        "  because the field at byte 8 is 1 bytes longer than what holds it\n" + FIX,
    ),
    "caffemodel": (
        (GOLDENS / "caffe" / "conv_plain" / "model.caffemodel").read_bytes(),
        "m: this is a caffemodel, expected a mean file (.binaryproto)\n" + FIX,
    ),
    "no numbers": (
        message_class("BlobProto")(num=0).SerializeToString(),
        "m: the file holds no numbers, expected a mean file (.binaryproto)\n" + FIX,
    ),
    "empty": (b"", "m: the file is empty\n  fix: give a mean file (.binaryproto), or get the file again"),
    "other size": (
        message_class("BlobProto")(num=2, data=[1]).SerializeToString(),
        "m, the blob: the stored shape (2, 0, 0, 0) has 0 elements, found 1\n"
        "  fix: get the weights file again: it is damaged",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str, write: Callable[..., str]) -> None:
    content, message = MISTAKES[case]
    with pytest.raises(ConversionError) as caught:
        read_binaryproto(write(content, "m"))
    assert str(caught.value) == message
