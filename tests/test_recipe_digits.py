"""docs/recipes/digits.md, with small nets as DIGITS writes them, beside what jetson-inference does around a net."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.ir import Array
from prototrt.tests.recipe_nets import PROGRAMS, RECIPES, convolution, layers, reference
from prototrt.tests.shown_pages import run_page
from prototrt.tests.small_nets import float32
from prototrt.tests.tools.caffemodel_writer import write as write_caffemodel
from prototrt.tests.tools.random_caffemodel import write_random

onnxruntime = pytest.importorskip("onnxruntime", reason="the recipe runs models")

HEIGHT, WIDTH, CELL = 64, 96, 16
INPUT = f'input: "data"\ninput_shape {{\n  dim: 1\n  dim: 3\n  dim: {HEIGHT}\n  dim: {WIDTH}\n}}\n'
CLASSIFIER = INPUT + layers(
    ("Convolution", convolution(6, stride=2), ["data"], "conv1"),
    ("ReLU", "", ["conv1"], "relu1"),
    ("InnerProduct", "inner_product_param { num_output: 5 }", ["relu1"], "ip"),
    ("Softmax", "", ["ip"], "softmax"),
)
SEGMENTER = INPUT + layers(
    ("Convolution", convolution(4), ["data"], "conv1"),
    ("Convolution", convolution(7, 1), ["conv1"], "score"),
)
DETECTOR = INPUT + layers(
    ("Power", "power_param { shift: -127.0 }", ["data"], "transformed_data"),
    (
        "Pooling",
        f"pooling_param {{ pool: AVE kernel_size: {CELL} stride: {CELL} }}",
        ["transformed_data"],
        "pool",
    ),
    ("Convolution", convolution(1, 1), ["pool"], "cvg"),
    ("Sigmoid", "", ["cvg"], "coverage"),
    ("Convolution", convolution(4, 1), ["pool"], "bboxes"),
    (
        "Python",
        'python_param { module: "caffe.layers.detectnet.clustering" layer: "ClusterDetections"'
        f' param_str: "{WIDTH}, {HEIGHT}, {CELL}, 0.6, 1, 1.5, 10, 1" }}',
        ["coverage", "bboxes"],
        "bbox-list",
    ),
)
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
ARCHIVES = {
    "20170406-161015-35c6_epoch_30.0.tar.gz": CLASSIFIER,
    "20170421-122956-f7c0_epoch_5.0.tar.gz": SEGMENTER,
    "20170504-190602-879f_epoch_100.0.tar.gz": DETECTOR,
}
Box = tuple[float, float, float, float]


def write_archive(name: str, text: str, mean: Array) -> None:
    """What DIGITS's download has, in one folder, as its files are."""
    Path("deploy.prototxt").write_text(text)
    assert write_random(Path("random.caffemodel"), Path("deploy.prototxt"))
    blobs = {
        layer.name: [blob.array for blob in layer.blobs or ()]
        for layer in prototrt.load("deploy.prototxt", "random.caffemodel").layers
    }
    if "bboxes" in blobs:  # boxes of two sizes around their places, where the image is bright in red or blue
        blobs["cvg"] = [float32([0.4, 0, 0.4]).reshape(1, 3, 1, 1), float32([-8])]
        weights = np.zeros((4, 3, 1, 1), np.float32)
        weights[:, 0, 0, 0] = -0.05, -0.05, 0.05, 0.05
        blobs["bboxes"] = [weights, float32([-9, -7, 25, 23])]
    write_caffemodel(
        Path("snapshot_iter_30.caffemodel"), {key: value for key, value in blobs.items() if value}
    )
    _, channels, height, width = mean.shape
    blob = message_class("BlobProto")(num=1, channels=channels, height=height, width=width, data=mean.ravel())
    Path("mean.binaryproto").write_bytes(blob.SerializeToString())
    Path("labels.txt").write_text("one\ntwo\n")
    with tarfile.open(name, "w:gz") as archive:
        for file in ("deploy.prototxt", "snapshot_iter_30.caffemodel", "mean.binaryproto", "labels.txt"):
            archive.add(file)


def preprocessed(image: Array, numbers: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    """``cudaTensorNormMeanRGB`` of jetson-inference ``c/tensorConvert.cu``, of an image (H, W, 3) of the net's size."""
    mean, deviation = (float32(row) for row in numbers)
    planes = ((image.astype(np.float32) / 255 - mean) / deviation).transpose(2, 0, 1)
    return np.ascontiguousarray(planes[None], np.float32)


def computed(
    model: str, image: Array, numbers: tuple[tuple[float, ...], tuple[float, ...]]
) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"data": preprocessed(image, numbers)}), strict=True))


def expected(folder: str, bgr: Array, *outputs: str) -> Mapping[str, Array]:
    """What the net of an archive computes of an image (H, W, 3) by itself: its outputs, or these."""
    model = prototrt.load(f"{folder}/deploy.prototxt", f"{folder}/snapshot_iter_30.caffemodel")
    return reference(
        model, {"data": bgr.transpose(2, 0, 1)[None].astype(np.float32)}, outputs=outputs or None
    )


def of_caffemodel(coverage: Array, rects: Array, least: float) -> Iterator[Box]:
    """``postProcessDetectNet`` of jetson-inference ``c/detectNet.cpp``, of one class and an image of the net's size."""
    boxes: list[Box] = []
    for y, x in np.argwhere(coverage[0, 0] >= least):
        x1, y1, x2, y2 = (rects[0, side, y, x] + CELL * (x, y)[side % 2] for side in range(4))
        for place, (left, top, right, bottom) in enumerate(boxes):
            if not (x1 > right or x2 < left or y1 > bottom or y2 < top):
                boxes[place] = min(x1, left), min(y1, top), max(x2, right), max(y2, bottom)
                break
        else:
            boxes.append((x1, y1, x2, y2))
    return iter(sorted(boxes))


def of_onnx(scores: Array, corners: Array, least: float, clustering: float) -> Iterator[Box]:
    """``postProcessSSD_ONNX`` and ``clusterDetections`` of the same file, of one class."""
    boxes: list[Box] = []
    for row, shares in zip(scores[0], corners[0], strict=True):
        if row[1:].max() < least:
            continue
        x1, y1, x2, y2 = shares * (WIDTH, HEIGHT, WIDTH, HEIGHT)
        for place, (left, top, right, bottom) in enumerate(boxes):
            common = max(min(right, x2) - max(left, x1), 0) * max(min(bottom, y2) - max(top, y1), 0)
            if common / max((x2 - x1) * (y2 - y1), (right - left) * (bottom - top)) > clustering:
                boxes[place] = min(x1, left), min(y1, top), max(x2, right), max(y2, bottom)
                break
        else:
            boxes.append((x1, y1, x2, y2))
    return iter(sorted(boxes))


@pytest.mark.usefixtures("folder")
def test_digits() -> None:
    random = np.random.default_rng(4)
    mean = random.uniform(90, 130, (1, 3, HEIGHT + 12, WIDTH + 20)).astype(np.float32)
    for name, text in ARCHIVES.items():
        write_archive(name, text, mean)
    Path("samples").symlink_to(PROGRAMS.parent)
    run_page(RECIPES / "digits.md")
    image = random.integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.float32)
    classes = computed("imagenet.onnx", image, IMAGENET)["softmax"]
    minus_image = image[:, :, ::-1] - mean[0, :, 6:-6, 10:-10].transpose(1, 2, 0)
    np.testing.assert_allclose(classes, expected("imagenet", minus_image)["softmax"], atol=1e-5)
    assert classes.shape == (1, 5)
    score = expected("segnet", image[:, :, ::-1] - mean.mean((2, 3))[0])["score"]
    found = computed("segnet.onnx", image, IMAGENET)["score"]
    np.testing.assert_allclose(found, score, atol=1e-4 * abs(score).max())
    _expect_objects()


def _expect_objects() -> None:
    """Two objects, as ``detectnet`` found them in a caffemodel, and as DIGITS joins their boxes."""
    image = np.full((HEIGHT, WIDTH, 3), 60, np.float32)
    image[:32, :32] = 200
    image[48:, 64:] = 255
    image[48:, 80:, 1] = 0
    maps = expected("detectnet", image[:, :, ::-1], "coverage", "bboxes", "bbox-list")
    found = computed("detectnet.onnx", image, HALF)
    assert (found["scores"].shape, found["corners"].shape) == ((1, 24, 2), (1, 24, 4))
    before = [*of_caffemodel(maps["coverage"], maps["bboxes"], 0.5)]
    assert len(before) == 2
    np.testing.assert_allclose([*of_onnx(found["scores"], found["corners"], 0.5, 0)], before, atol=1e-3)
    found = computed("clusters.onnx", image, HALF)
    boxes = maps["bbox-list"][0, maps["bbox-list"][0, :, 3] > 0]
    assert len(boxes) == 2
    kept = found["cluster_scores"][0, :, 1] >= 0.5
    sides = (WIDTH, HEIGHT, WIDTH, HEIGHT)
    np.testing.assert_allclose(found["cluster_corners"][0, kept] * sides, boxes[:, :4], atol=1e-3)
    np.testing.assert_allclose(found["cluster_scores"][0, kept, 1], 1 - 1 / np.exp(boxes[:, 4]), atol=1e-3)
