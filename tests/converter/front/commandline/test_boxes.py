"""``prototrt run --draw``: what a detector found, on the images that it was given."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototrt.caffe_proto.common.installing import pip_install
from prototrt.surgery.ir import Array
from prototrt.tests.command_line import done, run
from prototrt.tests.small_nets import inputs_of, op

IMAGES = {"image": (2, 3, 40, 60)}
BOXES = {"loc": (2, 8), "conf": (2, 4), "prior": (1, 2, 8)}
DETECTOR = op(
    "DetectionOutput",
    "detection_output_param { num_classes: 2 nms_param { nms_threshold: 0.5 } code_type: CORNER keep_top_k: 9"
    " confidence_threshold: 0.5 }",
    BOXES,
)
SUM = 'layer { name: "sum" type: "Reduction" bottom: "image" top: "sum" }'
COMMAND = ["run", "net.prototxt", "--random-weights", "1", "--inputs", "in.npz", "-o", "out.npz", "--draw"]
BLACK, RED, GREEN, BLUE = (0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a detector and its inputs: one box in the first image, nothing in the second."""
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(inputs_of({**IMAGES, **BOXES}) + SUM + DETECTOR)
    write_inputs(np.zeros(IMAGES["image"], np.float32))
    return tmp_path


def write_inputs(images: Array) -> None:
    """Boxes before they move: the right half of an image, and its upper left quarter."""
    prior = np.array([[[0.5, 0, 1, 1, 0, 0, 0.5, 0.5], [0.1] * 8]], np.float32)
    conf = np.array([[0.1, 0.9, 0.9, 0.1], [0.9, 0.1, 0.9, 0.1]], np.float32)
    np.savez("in.npz", image=images, loc=np.zeros((2, 8), np.float32), conf=conf, prior=prior)


def draw(file: str = "boxes.png") -> Array:
    done(*COMMAND, file)
    with Image.open(file) as picture:
        return np.asarray(picture)


def refused(file: str = "boxes.png") -> str:
    """The message; nothing is written."""
    result = run(*COMMAND, file)
    assert result.exit_code != 0
    assert not Path("out.npz").exists()
    return result.stderr


def test_boxes_are_drawn_on_the_image_where_they_were_found() -> None:
    picture = draw()
    assert picture.shape == (80, 60, 3)
    first, second = picture[:40], picture[40:]
    for row, column in ((39, 59), (39, 45), (30, 59), (30, 30)):  # the edges of the right half
        assert tuple(first[row, column]) == BLUE
    assert tuple(first[30, 45]) == BLACK
    assert not first[:, :29].any()
    assert not second.any()


def test_pixels_are_scaled_and_their_order_is_that_of_caffe() -> None:
    images = np.full(IMAGES["image"], -1, np.float32)
    images[1, 2] = 3  # the last channel is red
    images[1, 0, 0, 0] = 1
    write_inputs(images)
    second = draw()[40:]
    assert tuple(second[20, 20]) == RED
    assert tuple(second[0, 0]) == (255, 0, 128)


def test_the_images_of_all_calls_are_drawn() -> None:
    with np.load("in.npz") as file:
        arrays = dict(file)
    second = arrays["image"].copy()
    second[1, 1, 20, 20] = 1
    np.savez("in.npz", **arrays, **{"image/1": second})
    picture = draw()
    assert picture.shape == (160, 60, 3)
    assert tuple(picture[140, 20]) == GREEN
    assert tuple(picture[80 + 30, 59]) == BLUE
    assert not picture[40:80].any()


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            inputs_of(IMAGES) + SUM,
            "error: no output holds rows of a detector, such as DetectionOutput returns\n"
            "  because the outputs are sum ()\n"
            "  fix: leave out --draw\n",
        ),
        (
            inputs_of(BOXES) + DETECTOR,
            "error: no input holds images of 1 or 3 channels\n"
            "  because the inputs are loc (2, 8), conf (2, 4), prior (1, 2, 8)\n"
            "  fix: leave out --draw\n",
        ),
    ],
)
def test_nets_that_leave_nothing_to_draw(layers: str, message: str) -> None:
    Path("net.prototxt").write_text(layers)
    assert refused() == message


def test_only_png_files_are_written() -> None:
    assert refused("boxes.jpg").endswith(
        "Error: Invalid value for '--draw': \"boxes.jpg\" ends in .jpg, expected .png\n"
    )


def test_drawing_needs_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert refused() == f"error: --draw needs Pillow\n  fix: {pip_install('samples')}\n"
