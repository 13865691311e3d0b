"""The preprocessing of a data layer, as the first nodes of the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnreadableFileError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.net.data_layers import transformation
from prototrt.caffe_proto.weights.binaryproto import read_binaryproto
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import Array, fixed


def preprocess(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    """``(x - mean) * scale`` as transform_param states it; if the option is not set, ``x`` and a warning.

    The images come cropped, as crop_size says. Mirroring is left out: Caffe does it at random.
    Source: caffe ``src/caffe/data_transformer.cpp``, ``DataTransformer::Transform``, phase TEST.
    """
    description = transformation(layer.message)
    if not build.options.preprocess:
        if description:
            build.warn(Worded("{}; or let the engine do it with {}", description, Option("preprocess", True)))
        return x
    transform = layer.message.transform_param
    if transform.mirror:
        build.warn("mirror is ignored: Caffe mirrors at random")
    mean = _mean(build, layer, x)
    if mean is not None:
        x = (x - build.constant(mean, "mean")).named("centred")
    return x.scaled(transform.scale)


def _mean(build: LayerBuilder, layer: Layer, x: Value) -> Array | None:
    """What is subtracted from the images x (N, C, H, W): (1, C, H, W), (1, C, 1, 1) or (1, 1, 1, 1)."""
    transform = layer.message.transform_param
    if not (transform.mean_file or transform.mean_value):
        return None
    if transform.mean_file and transform.mean_value:
        raise NetError(
            "has a mean_file and a mean_value, expected one of them",
            blob="transform_param",
            fix="remove mean_value to subtract the image, or mean_file to subtract the numbers",
        )
    if len(x.shape) != 4:
        raise ShapeError(
            f"shape is {x.shape}, expected (N, C, H, W)",
            blob=f'top "{layer.top_blob(0)}"',
            fix=Worded("leave {} out, and subtract the mean yourself", Option("preprocess")),
        )
    if transform.mean_file:
        return _mean_image(build, layer, x)
    channels = fixed(x.shape[1], "axis 1 (channels)")
    if len(transform.mean_value) not in (1, channels):
        raise NetError(
            f"has {len(transform.mean_value)} mean_value, expected 1 or {channels}, one per channel",
            blob="transform_param",
            fix="state mean_value once, or once per channel",
        )
    return np.array(transform.mean_value, np.float32).reshape(1, -1, 1, 1)


def _mean_image(build: LayerBuilder, layer: Layer, x: Value) -> Array:
    """The image in mean_file. Caffe subtracts it before it crops, so its center is used."""
    transform = layer.message.transform_param
    file = _place_of_file(transform.mean_file, layer)
    build.mean_files.append(file)
    mean = read_binaryproto(file)
    image = tuple(fixed(dim, f"axis {axis}") for axis, dim in enumerate(x.shape) if axis > 0)
    size = int(transform.crop_size)
    if mean.ndim == 4 and mean.shape[0] == 1 and size and min(mean.shape[2:]) >= size:
        top, left = ((length - size) // 2 for length in mean.shape[2:])
        mean = mean[:, :, top : top + size, left : left + size]
    if mean.shape != (1, *image):
        cropped = f" in its middle of {size} x {size}" if size else ""
        raise ShapeError(
            f"the mean image {file} has the shape {mean.shape}{cropped}, expected {(1, *image)}",
            blob=f'top "{layer.top_blob(0)}"',
            fix=Worded(
                "give the input the shape of the mean image: {}",
                Option("shapes", {layer.top_blob(0): (x.shape[0], *mean.shape[-3:])}),
            ),
        )
    return mean


def mean_files(model: Model) -> list[str]:
    """The mean images that data layers of the net name, as far as they exist."""
    named = {layer: layer.message.transform_param.mean_file for layer in model.layers}
    return [file for layer, name in named.items() if name and (file := _find_file(name, layer)) is not None]


def _find_file(name: str, layer: Layer) -> str | None:
    """A file that Caffe looks for in the working directory. Nets that moved have it beside them."""
    candidates = (Path(name), Path(layer.origin.file).parent / name)
    return next((str(candidate) for candidate in candidates if candidate.exists()), None)


def _place_of_file(name: str, layer: Layer) -> str:
    file = _find_file(name, layer)
    if file is not None:
        return file
    raise UnreadableFileError(
        f"mean_file {name} does not exist",
        origin=layer.origin,
        blob="transform_param",
        because="prototrt looks in the working directory, then in the folder of the prototxt",
        fix=Worded("put it there, or omit {} and subtract the mean yourself", Option("preprocess")),
    )
