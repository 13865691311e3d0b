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


def test_boxes_are_counted() -> None:
    assert done(*COMMAND, "boxes.png").stdout.splitlines()[-1] == "boxes.png: 1 box"


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
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert refused() == f"error: --draw needs Pillow\n  fix: {pip_install('samples')}\n"


# ---------------------------------------------------------------- files of images

# The only input is an image; what the net finds does not depend on it.
BOX = "prior_box_param { min_size: 20 variance: 0.1 }"


def write_detector() -> None:
    """A prior of 20 x 20 around the middle of an image of 40 x 40, always of class 1."""
    layers = [
        inputs_of({"image": (1, 3, 40, 40)}),
        'layer { name: "map" type: "Pooling" bottom: "image" top: "map" pooling_param { global_pooling: true } }',
        f'layer {{ name: "prior" type: "PriorBox" bottom: "map" bottom: "image" top: "prior" {BOX} }}',
        'layer { name: "zero" type: "Power" bottom: "map" top: "zero" power_param { scale: 0 shift: 0.8 } }',
        'layer { name: "cut" type: "Slice" bottom: "zero" top: "a" top: "b" slice_param { slice_point: 2 } }',
        'layer { name: "conf" type: "Flatten" bottom: "a" top: "conf" }',
        'layer { name: "none" type: "Power" bottom: "a" top: "none" power_param { scale: 0 } }',
        'layer { name: "four" type: "Concat" bottom: "none" bottom: "none" top: "four" }',
        'layer { name: "loc" type: "Flatten" bottom: "four" top: "loc" }',
        'layer { name: "boxes" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "prior" top: "boxes"'
        " detection_output_param { num_classes: 2 nms_param { nms_threshold: 0.5 } code_type: CENTER_SIZE"
        " keep_top_k: 9 confidence_threshold: 0.5 } }",
        'layer { name: "rest" type: "Silence" bottom: "b" }',
    ]
    Path("net.prototxt").write_text("\n".join(layers))


def drawn_on(size: tuple[int, int], *options: str) -> tuple[Array, str]:
    """The picture for a grey image of this size, and what was printed."""
    write_detector()
    Image.new("RGB", size, (90, 90, 90)).save("grey.png")
    command = [*COMMAND, "boxes.png", *options]
    result = done(*command[:5], "grey.png", *command[6:])
    with Image.open("boxes.png") as picture:
        return np.asarray(picture), result.output


def edges(picture: Array) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what is blue."""
    rows, columns = np.nonzero((picture == BLUE).all(axis=2))
    return columns.min(), rows.min(), columns.max(), rows.max()


def test_boxes_are_drawn_on_the_file_at_its_own_size() -> None:
    picture, output = drawn_on((400, 200))
    assert picture.shape == (200, 400, 3)
    assert tuple(picture[5, 5]) == (90, 90, 90)
    left, _, right, bottom = edges(picture)  # the name stands above the upper edge, or on it
    assert np.allclose((left, right, bottom), (100, 299, 149), atol=2)
    assert "pixels   resized to 40 x 40, BGR, x of 0 to 255\n" in output


def test_boxes_of_a_cropped_image_stand_where_the_net_saw_them() -> None:
    """Of the 160 x 80 pixels that are left, the net sees 40 x 40 in the middle."""
    picture, output = drawn_on((400, 200), "--resize", "80", "--mean", "104,117,123", "--scale", "0.5")
    left, _, right, bottom = edges(picture)
    assert np.allclose((left, right, bottom), (175, 224, 124), atol=2)
    assert (
        "pixels   resized to a shorter side of 80, the middle 40 x 40, BGR, x - (104, 117, 123) of 0 to 255,"
        " times 0.5\n"
    ) in output


@pytest.mark.parametrize(
    "lines", ["cat\n", "background\ncat\n", "__background__\ncat\n", "none_of_the_above\ncat\n"]
)
def test_boxes_have_the_names_of_labels(lines: str) -> None:
    Path("named.txt").write_text(lines)
    named, _ = drawn_on((400, 200), "--labels", "named.txt")
    by_number, _ = drawn_on((400, 200))
    Path("cat.txt").write_text("cat\n")
    as_cat, _ = drawn_on((400, 200), "--labels", "cat.txt")
    assert not np.array_equal(named, by_number)
    np.testing.assert_array_equal(named, as_cat)


def test_a_class_without_a_label_keeps_its_number() -> None:
    Path("few.txt").write_text("background\n")
    few, _ = drawn_on((400, 200), "--labels", "few.txt")
    np.testing.assert_array_equal(few, drawn_on((400, 200))[0])


def test_labels_are_for_boxes() -> None:
    Path("named.txt").write_text("cat\n")
    result = run(*COMMAND[:-1], "--labels", "named.txt")
    assert result.stderr.endswith(
        "Error: --labels names the boxes of --draw\n  fix: also give --draw boxes.png\n"
    )


def test_pixels_without_a_mean_are_doubted() -> None:
    doubt = "warning: pixels go in as they are, from 0 to 255, but SSDs are mostly trained with --mean 104,117,123\n"
    assert doubt in drawn_on((80, 80))[1]
    assert doubt not in drawn_on((80, 80), "--scale", "0.5")[1]
    assert doubt not in drawn_on((80, 80), "--mean", "104,117,123")[1]
