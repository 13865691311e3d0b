"""Sizes of inputs that weights tell, and those of files that are placeholders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import MissingShapesError
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.small_nets import failure, loaded, op, stored

DATA = 'layer { name: "d" type: "TYPE" top: "x" FIELDS }\n'
FLOWS = DATA.replace("TYPE", "FlowData")
SIZED = FLOWS.replace("FIELDS", "flow_param { batch: 2 } transform_param { crop_size: 6 }")
HDF5 = 'layer { name: "in" type: "HDF5Data" top: "x" hdf5_data_param { batch_size: 2 } }\n'
CONVOLUTION = op("Convolution", "convolution_param { num_output: 4 kernel_size: 3 bias_term: false }")
GROUPED = op("Convolution", "convolution_param { num_output: 4 kernel_size: 3 group: 2 bias_term: false }")
DECONVOLUTION = op("Deconvolution", "convolution_param { num_output: 4 kernel_size: 3 bias_term: false }")
PRODUCT = op("InnerProduct", "inner_product_param { num_output: 4 bias_term: false }")
TRANSPOSED = op("InnerProduct", "inner_product_param { num_output: 4 bias_term: false transpose: true }")
BEFORE = "".join(
    layer.replace('"op"', f'"{kind}"') + "\n"
    for kind, layer in (
        ("ReLU", op("ReLU", tops=["x"])),
        ("Pooling", op("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops=["p"])),
        ("LRN", op("LRN", bottoms=["p"], tops=["n"])),
    )
)
TOLD: dict[str, tuple[str, tuple[int, ...], tuple[Any, ...]]] = {  # net, shape of the weights, shape of the input
    "convolution": (SIZED + CONVOLUTION, (4, 20, 3, 3), (2, 20, 6, 6)),
    "groups": (SIZED + GROUPED, (4, 10, 3, 3), (2, 20, 6, 6)),
    "deconvolution": (SIZED + DECONVOLUTION, (20, 4, 3, 3), (2, 20, 6, 6)),
    "behind layers that keep channels": (
        SIZED + BEFORE + CONVOLUTION.replace('"x"', '"n"'), (4, 20, 3, 3), (2, 20, 6, 6),
    ),
    "product of all pixels": (SIZED + PRODUCT, (4, 20 * 36), (2, 20, 6, 6)),
    "transposed product": (SIZED + TRANSPOSED, (20 * 36, 4), (2, 20, 6, 6)),
    "a known type whose data decide": (
        DATA.replace("TYPE", "Data").replace("FIELDS", "data_param { batch_size: 2 } transform_param { crop_size: 6 }")
        + CONVOLUTION, (4, 20, 3, 3), (2, 20, 6, 6),
    ),
    "nothing else is known": (FLOWS.replace("FIELDS", "") + CONVOLUTION, (4, 20, 3, 3), ("N", 20, "H", "W")),
    "an input without a shape": ('input: "x"\n' + CONVOLUTION, (4, 20, 3, 3), ("N", 20, "H", "W")),
    "a piece of a net": (CONVOLUTION, (4, 20, 3, 3), ("N", 20, "H", "W")),
    "rows": ('input: "x"\n' + PRODUCT, (4, 7), ("N", 7)),
    "behind a Concat": (
        SIZED + op("Concat", bottoms=["x", "x"], tops=["c"]).replace('"op"', '"c"')
        + CONVOLUTION.replace('"x"', '"c"'), (4, 20, 3, 3), (2, "C", 6, 6),
    ),
    "a product of rows of a file": (HDF5 + PRODUCT, (4, 35), (2, 35)),
    "images of a file": (HDF5 + CONVOLUTION, (4, 20, 3, 3), (2, 20, "H", "W")),
    "a product of other rows": (SIZED + PRODUCT, (4, 35), (2, "I")),
}  # fmt: skip


def shape_of(model: prototrt.Model) -> tuple[Any, ...]:
    """The shape of the input, or the one that the user is asked for."""
    try:
        (value,) = prototrt.rewrite(model).inputs
    except prototrt.ConversionError as error:
        missing = (
            each for each in (error, *getattr(error, "errors", ())) if isinstance(each, MissingShapesError)
        )
        shapes = [*next(missing).shapes.values()] if not model.missing else [model.sizes["x"]]
        return tuple(
            letter if size is None else size for size, letter in zip(shapes[0], "NCHW", strict=False)
        )
    return value.shape


@pytest.mark.parametrize("case", TOLD)
def test_channels_are_those_of_the_weights(case: str, tmp_path: Path) -> None:
    net, weights, expected = TOLD[case]
    shape = shape_of(loaded(tmp_path, net, stored("op", [np.zeros(weights)])))
    assert [str(size) for size in shape] == [str(size) for size in expected]


def test_without_weights_they_are_asked_for(tmp_path: Path) -> None:
    """An unknown type may stack images: no field of another type says how many."""
    fields = "image_data_param { batch_size: 2 new_height: 6 new_width: 6 is_color: false }"
    model = loaded(tmp_path, FLOWS.replace("FIELDS", fields) + CONVOLUTION, None)
    assert shape_of(model) == (2, "C", 6, 6)


def test_what_the_weights_told_is_said() -> None:
    folder = os.path.relpath(GOLDENS / "errors" / "unknown_data_layer")
    model = prototrt.load(f"{folder}/net.prototxt", f"{folder}/net.caffemodel")
    graph = prototrt.rewrite(model)
    assert [value.shape for value in graph.inputs] == [(2, 20, 32, 32)]
    assert (
        f'{folder}/net.prototxt:1: layer "data" (Input): input "data" is of shape (2, 20, 32, 32), as the weights of'
        ' "conv1" tell'
    ) in graph.warnings


ONE_PIXEL = (
    'layer { name: "i" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 1 dim: 1 } } }\n'
)
POOLING = op("Pooling", "pooling_param { kernel_size: 2 pad: 1 }")


@pytest.mark.parametrize("reader", [CONVOLUTION.replace("kernel_size: 3", "kernel_size: 3 pad: 1"), POOLING])
def test_one_pixel_is_a_placeholder(reader: str, tmp_path: Path) -> None:
    model = loaded(
        tmp_path, ONE_PIXEL + reader, stored("op", [np.zeros((4, 3, 3, 3))]) if "C" in reader else None
    )
    assert failure(lambda: prototrt.rewrite(model)) == (
        'net.prototxt: the file states the shape (1, 3, 1, 1) for the input "x", expected more than 1x1 pixels\n'
        "  because windows of several pixels slide over it: programs set its size when they run\n"
        '  fix: give the size of your images: shapes={"x": (1, 3, H, W)}; the layers fit with'
        ' shapes={"x": (1, 3, 224, 224)} (smaller images fit down to 1x1)'
    )
    for size in (1, 224):
        graph = prototrt.rewrite(model, shapes={"x": (1, 3, size, size)})
        assert graph.inputs[0].shape == (1, 3, size, size)


@pytest.mark.parametrize(
    "reader",
    [
        op("Convolution", "convolution_param { num_output: 4 kernel_size: 1 bias_term: false }"),
        op("Pooling", "pooling_param { global_pooling: true }"),
        PRODUCT,
    ],
)
def test_one_pixel_may_be_meant(reader: str, tmp_path: Path) -> None:
    graph = prototrt.rewrite(loaded(tmp_path, ONE_PIXEL + reader, None), require_weights=False)
    assert graph.inputs[0].shape == (1, 3, 1, 1)
