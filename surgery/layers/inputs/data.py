"""Layers that produce data, and layers that only pass it on or discard it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.blob_numbers import filler_numbers
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule, refuse_in_place
from prototrt.surgery.building.limits import refuse_too_many
from prototrt.surgery.ir import Array, DType
from prototrt.surgery.layers.inputs.preprocessing import preprocess


@layer_rule("Input")
def input_layer(build: LayerBuilder, layer: Layer) -> list[Value]:
    """An input of the net, one per top; the old ``input`` fields are read as this layer.

    Becomes: an input of the engine.
    Source: caffe ``src/caffe/layers/input_layer.cpp``.
    """
    shapes = layer.param.shape
    if len(shapes) not in (0, 1, len(layer.tops)):
        raise NetError(
            f"has {len(shapes)} shapes for {len(layer.tops)} tops, expected 1 or one per top",
            fix="state shape once, or once per top",
        )
    shapes_in_file = [
        tuple(shapes[index if len(shapes) > 1 else 0].dim) if shapes else None
        for index in range(len(layer.tops))
    ]
    tops = [_input(build, top, shape) for top, shape in zip(layer.tops, shapes_in_file, strict=True)]
    if layer.message.HasField("transform_param"):
        tops[:1] = [preprocess(build, layer, top) for top in tops[:1]]
    return tops


def _input(build: LayerBuilder, top: str, dims: tuple[int, ...] | None) -> Value:
    shape = build.shape_of_input(top, dims)
    # Lengths of sequences are counted, whatever Caffe holds them in.
    counts = top in build.sizes_of_inputs.whole_numbers and len(shape) == 1
    return build.input(top, shape, DType.INT32 if counts else DType.FLOAT32)


@layer_rule("DummyData")
def dummy_data(build: LayerBuilder, layer: Layer) -> list[Value]:
    """Constants. Tops with random fillers become inputs: Caffe draws other numbers on every call. Where no output
    depends on an input, tops that the outputs need become inputs: programs write into them.

    Becomes: constants, or inputs of the engine.
    Source: caffe ``src/caffe/layers/dummy_data_layer.cpp``.
    """
    param = layer.param
    count = len(layer.tops)
    if len(param.data_filler) not in (0, 1, count):
        raise NetError(
            f"has {len(param.data_filler)} fillers for {count} tops, expected 0, 1 or one per top",
            fix="state data_filler once, or once per top",
        )
    tops = []
    for index, shape in enumerate(dummy_shapes(layer)):
        fillers = param.data_filler
        filler: Any = fillers[index if len(fillers) > 1 else 0] if fillers else None
        tops.append(build.constant(_fill(layer, index, filler, shape), "data"))
        if filler is None or filler.type == "constant":  # others are filled at every call
            build.memory.tell([layer.tops[index]], _overwriting_warning(layer))
    return tops


def _overwriting_warning(layer: Layer) -> str:
    """The warning about a layer that overwrites numbers that Caffe makes once."""
    return (
        f'what {layer.type} "{layer.name}" made: in Caffe the next call finds what this one left there,'
        " here every call begins with the same numbers"
    )


def dummy_shapes(layer: Layer) -> list[tuple[int, ...]]:
    """One shape a top, from ``shape`` or from the old num, channels, height and width. Raises ``NetError``."""
    param, count = layer.param, len(layer.tops)
    legacy = [param.num, param.channels, param.height, param.width]
    if any(len(sizes) for sizes in legacy):
        if len(param.shape) or any(len(sizes) not in (1, count) for sizes in legacy):
            raise NetError(
                "needs either shape or num, channels, height and width, each once or once per top",
                fix="write shape { dim: ... } instead of num, channels, height and width",
            )
        return [tuple(sizes[index if len(sizes) > 1 else 0] for sizes in legacy) for index in range(count)]
    if len(param.shape) not in (1, count):
        raise NetError(
            f"has {len(param.shape)} shapes for {count} tops, expected 1 or one per top",
            fix="state shape once, or once per top",
        )
    return [tuple(param.shape[index if len(param.shape) > 1 else 0].dim) for index in range(count)]


def _fill(layer: Layer, index: int, filler: Any, shape: tuple[int, ...]) -> Array:
    if any(dim < 1 for dim in shape):
        raise ShapeError(
            f"shape is {shape}, expected sizes of at least 1",
            blob=f'top "{layer.top_blob(index)}"',
            fix="write positive sizes into dummy_data_param",
        )
    refuse_too_many(prod(shape), shape, f'top "{layer.top_blob(index)}"')
    if filler is None:
        return np.broadcast_to(np.float32(0), shape)
    data = filler_numbers(filler, shape)
    if data is None:
        raise UnsupportedLayerError(
            f'data_filler is "{filler.type}", expected "constant" or "bilinear"',
            because="every call of Caffe draws other numbers",
            fix=Worded(
                "make {}: {}", "its tops inputs" if len(layer.tops) > 1 else "it an input", _inputs(layer)
            ),
        )
    return data


def _inputs(layer: Layer) -> Option:
    """The option that makes inputs of all tops."""
    shapes = dummy_shapes(layer)
    return Option("shapes", {layer.top_blob(index): shape for index, shape in enumerate(shapes)})


@layer_rule("Parameter")
def parameter(build: LayerBuilder, layer: Layer) -> list[Value]:
    """A learned blob as a top.

    Becomes: a constant.
    Blobs: one, of the stated shape; without ``shape`` a single number.
    Source: caffe ``include/caffe/layers/parameter_layer.hpp``.
    """
    shape = tuple(layer.param.shape.dim)
    if any(dim < 1 for dim in shape):
        raise ShapeError(
            f"shape is {shape}, expected sizes of at least 1", fix="write positive sizes into parameter_param"
        )
    build.memory.tell(layer.tops, _overwriting_warning(layer))
    filler = next((name for name in ("filler", "blob_filler") if layer.param.HasField(name)), None)
    return [build.parameter(layer, shape, "parameter", filler=filler)]


@layer_rule("Silence")
def silence(build: LayerBuilder, layer: Layer, *bottoms: Value) -> list[Value]:
    """Consumes its bottoms, so that they are not outputs of the net.

    Becomes: nothing.
    Source: caffe ``src/caffe/layers/silence_layer.cpp``.
    """
    return []


@layer_rule("Split")
def split(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The bottom under several names. Caffe inserts these layers itself and saves them.

    Becomes: nothing.
    Source: caffe ``src/caffe/layers/split_layer.cpp``.
    """
    refuse_in_place(layer, "the tops are the bottom under other names")
    build.memory.share([*layer.bottoms, *layer.tops])
    return [x] * len(layer.tops)


@layer_rule("Dropout")
def dropout(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The identity at inference: Caffe scales while it trains. ``x * (1 - ratio)`` with ``scale_train: false``.

    Becomes: nothing; with ``scale_train: false`` Multiply.
    Source: caffe ``src/caffe/layers/dropout_layer.cpp``, phase TEST; the same of Fast R-CNN's Caffe.
    """
    param = layer.param
    if param.sample_weights_test:
        build.warn(
            "sample_weights_test is ignored: nothing is dropped. Bayesian SegNet drops other elements on every call;"
            " the mean of many calls comes close to this result"
        )
    return [x if param.scale_train else build.scaled(x, 1 - param.dropout_ratio)]
