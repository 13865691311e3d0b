"""What 16 and 8 bits cost: plan sizes, errors and agreement of real nets, as a table of docs/precision.md.

    python -m prototrt.tests.tools.precision_table MODELS docs/precision.md

The first argument is a folder of published models, which are not part of the repository; nets that it lacks are left
out. The digits sample is. Scales are measured on some images, and errors on others. The images are made here: smooth
noise, with boxes on it. The second argument is the page whose table is replaced; without it, the table is printed.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
from PIL import Image

import prototrt
from prototrt import Precision
from prototrt.caffe_proto import Model
from prototrt.converter.checking.calibration.calibration import Calibration
from prototrt.converter.checking.verification.quantization import Truth
from prototrt.converter.front.steps import calibrate
from prototrt.converter.options import CalibrateOptions
from prototrt.converter.running.data.data import Call
from prototrt.surgery.ir import Array, element_count
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.npz import write_npz
from prototrt.tests.tools.page_table import replace_table

BEGIN = "<!-- made by make precision -->\n"
CALIBRATED, MEASURED = 32, 16
"""How many images there are for each purpose."""
DIGITS = Path(__file__).parents[2] / "samples" / "digits"
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8", "fp8")
COMPARED: tuple[Precision, ...] = ("fp16", "int8")
HEAD = (
    "| net | plan, float32 | float16 | int8 | fp8 | largest error of float16 | of int8 | cosine of int8 | agreement |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
)
Feeds: TypeAlias = Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class Net:
    """A net of images: the files below the folder of models, what becomes of pixels, and options of ``rewrite``."""

    name: str
    prototxt: str
    weights: str | None
    mean: float = 0.0
    scale: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)


FACES = {"mean": 127.5, "scale": 1 / 128}
NETS = (
    Net("UltraFace RFB-320", "ultraface-rfb320/RFB-320", "RFB-320", options={"outputs": ["scores"]}, **FACES),
    Net(
        "RetinaFace mnet25, 320 x 320",
        "retinaface-mnet25/mnet",
        "mnet",
        options={"shapes": {"data": (1, 3, 320, 320)}, "outputs": ["face_rpn_cls_prob_reshape_stride16"]},
    ),
    Net(
        "MTCNN P-Net, 96 x 96",
        "mtcnn/det1",
        "det1",
        options={"outputs": ["prob"], "shapes": {"data": (1, 3, 96, 96)}},
        **FACES,
    ),
    Net("MTCNN O-Net", "mtcnn/det2", "det3", options={"outputs": ["prob"]}, **FACES),
    Net("MTCNN R-Net", "mtcnn/det3", "det2", options={"outputs": ["prob"]}, **FACES),
    Net(
        "HyperLPR, characters",
        "hyperlpr-char/CharacterRecognization",
        "CharacterRecognization",
        scale=1 / 256,
    ),
    Net(
        "HyperLPR, fine mapping",
        "hyperlpr-finemapping/HorizonalFinemapping",
        "HorizonalFinemapping",
        scale=1 / 256,
    ),
    Net(
        "WeChat QR code, detector",
        "wechat-qrcode/detect",
        "detect",
        scale=1 / 256,
        options={"outputs": ["mbox_loc"]},
    ),
    Net("WeChat QR code, super-resolution", "wechat-qrcode/sr", "sr", scale=1 / 256),
    Net("LeNet, batch of 64", "lenet-mnist/lenet", "lenet_iter_10000", scale=1 / 256),
    Net("CIFAR-10 quick", "cifar10-quick-v1/cifar10_quick", "cifar10_quick_iter_5000", mean=120),
    Net(
        "MobileNet YOLOv3 lite, lanes",
        "mobilenet-yolov3-lite-tusimple/mobilenet_yolov3_lite_deploy",
        "mobilenet_yolov3_lite_deploy_iter_50000",
        options={"shapes": {"data": (1, 3, 256, 256)}},
        **FACES,
    ),
    Net("GoogLeNet, random weights", "bench/googlenet", None, mean=120),
    Net("ResNet-50, random weights", "bench/resnet50", None, mean=120),
)


@click.command()
@click.argument("models", type=click.Path(path_type=Path))
@click.argument("page", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--only", multiple=True, help="Nets whose names begin so.")
def main(models: Path, page: Path | None, only: tuple[str, ...]) -> None:
    """Measure all nets, and replace the table of PAGE."""
    rows = []
    for name, row in _rows(models):
        if not only or name.startswith(only):
            click.echo(name, err=True)
            rows.append(row())
    table = HEAD + "".join(rows)
    if page is None:
        click.echo(table, nl=False)
        return
    replace_table(page, BEGIN, table)


def _rows(models: Path) -> Iterator[tuple[str, Any]]:
    yield "digits sample", _digits
    for net in NETS:
        if (models / f"{net.prototxt}.prototxt").exists():
            yield net.name, functools.partial(_row_of_net, net, models)


def _digits() -> str:
    """All strips, with the scales of two of them."""
    model = prototrt.load(DIGITS / "deploy.prototxt", DIGITS / "digits.caffemodel")
    expected = np.load(DIGITS / "expected.npz")
    cont = np.ones((40, 1), np.float32)
    cont[0] = 0
    feeds = [{"data": strip, "cont": cont} for strip in expected["data"]]
    scales = calibrate(model, CalibrateOptions(inputs=str(DIGITS / "strips_in.npz")))
    return _row("digits sample (CRNN)", model, {}, scales, feeds)


def _row_of_net(net: Net, models: Path) -> str:
    folder = (models / net.prototxt).parent
    prototxt = models / f"{net.prototxt}.prototxt"
    with tempfile.TemporaryDirectory() as work:
        weights = (
            folder / f"{net.weights}.caffemodel" if net.weights else _random_weights(prototxt, Path(work))
        )
        model = prototrt.load(prototxt, weights)
        options = RewriteOptions(**net.options)
        (value,) = prototrt.rewrite(model, options=options).inputs
        shape = tuple(int(dim) for dim in value.shape)
        data = Path(work) / "data.npz"
        calls = -(-CALIBRATED // shape[0])
        images = [
            (_images(shape, seed) - net.mean) * net.scale for seed in range(calls + -(-MEASURED // shape[0]))
        ]
        write_npz(data, {value.name: np.stack(images[:calls]).astype(np.float32)})
        keep = 0.99 if net.weights else 0.0  # of random weights, no layer is worth more than another
        calibrating = CalibrateOptions(inputs=str(data), rewriting=options, auto_keep=keep)
        scales = calibrate(model, calibrating)
        feeds = [{value.name: image.astype(np.float32)} for image in images[calls:]]
        return _row(net.name, model, net.options, scales, feeds)


def _row(name: str, model: Model, options: Mapping[str, Any], scales: Calibration, feeds: Feeds) -> str:
    graphs = {
        precision: prototrt.rewrite(model, precision=precision, scales=scales, **options)
        for precision in PRECISIONS
    }
    plans = [prototrt.build(graph, "rtx").plan.nbytes / 1e6 for graph in graphs.values()]
    truth = Truth.of(graphs["fp32"], [Call(name, dict(feed)) for feed in feeds])
    half, eight = (min(truth.costs(graphs[each]), key=lambda cost: cost.score) for each in COMPARED)
    agreement = "" if eight.agreement is None else f"{eight.agreement:.1%}"
    sizes = " | ".join(f"{size:.1f} MB" for size in plans)
    errors = f"{half.max_rel:.2%} | {eight.max_rel:.1%} | {eight.cosine:.4f} | {agreement}"
    return f"| {name} | {sizes} | {errors} |\n"


def _images(shape: tuple[int, ...], seed: int) -> Array:
    """Images (N, C, H, W) of 0 to 255: noise that is smooth at several scales, and boxes of one colour."""
    random = np.random.default_rng(seed)
    batch, channels, height, width = shape
    return np.stack([_image(random, channels, height, width) for _ in range(batch)])


def _image(random: np.random.Generator, channels: int, height: int, width: int) -> Array:
    pixels = np.zeros((height, width, channels))
    for size in (2, 4, 8, 16, 32):
        grid = random.normal(size=(size, size, channels)).astype(np.float32)
        layers = [
            np.asarray(Image.fromarray(grid[..., channel]).resize((width, height), Image.Resampling.BICUBIC))
            for channel in range(channels)
        ]
        pixels += np.stack(layers, -1) / np.sqrt(size)
    pixels = 128 + 60 * pixels
    for _ in range(random.integers(1, 5)):
        top, left = random.integers(0, height), random.integers(0, width)
        bottom, right = top + random.integers(1, height), left + random.integers(1, width)
        pixels[top:bottom, left:right] = random.uniform(0, 255, channels)
    planes: Array = np.clip(pixels, 0, 255).transpose(2, 0, 1)
    return planes


def _random_weights(prototxt: Path, folder: Path) -> Path:
    """Weights that keep the magnitudes of blobs, for a net whose trained weights are not at hand."""
    from prototrt.surgery.expansion.expand import expand

    random = np.random.default_rng(0)
    model = prototrt.load(prototxt)
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for node in expand(model, require_weights=False).graph.nodes:
        for value in node.inputs:
            if value.is_constant:
                shapes.setdefault(node.origin.layer, []).append(tuple(map(int, value.shape)))
    arrays: dict[str, Array] = {}
    for layer in model.layers:
        known = shapes.get(layer.name, [])
        if layer.type == "Convolution":
            kernel = next(shape for shape in known if len(shape) == 4)
            arrays |= _blobs(layer.name, random.normal(size=kernel) * np.sqrt(2 / element_count(kernel[1:])))
            if layer.param.bias_term:
                arrays |= _blobs(layer.name, np.zeros(kernel[0]), first=1)
        elif layer.type == "InnerProduct":
            matrix = max(known, key=element_count)
            arrays |= _blobs(
                layer.name, random.normal(size=matrix) / np.sqrt(matrix[-1]), np.zeros(matrix[-2])
            )
        elif layer.type == "BatchNorm":
            channels = known[0][0]
            arrays |= _blobs(layer.name, np.zeros(channels), np.ones(channels), np.ones(1))
        elif layer.type == "Scale":
            arrays |= _blobs(layer.name, np.full(known[0][0], 0.7), np.zeros(known[0][0]))
    file = folder / "weights.npz"
    write_npz(file, arrays)
    return file


def _blobs(layer: str, *blobs: Array, first: int = 0) -> dict[str, Array]:
    return {f"{layer}/{index}": np.asarray(blob, np.float32) for index, blob in enumerate(blobs, first)}


if __name__ == "__main__":
    main()
