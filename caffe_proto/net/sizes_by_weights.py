"""Sizes of inputs that the file does not state: channels that the first weights have, hints in comments and names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from prototrt.caffe_proto.layer_types import layer_type
from prototrt.caffe_proto.model import Layer, Model
from prototrt.caffe_proto.net.shape_examples import example_shape

_KEEP_CHANNELS = ("Interp", "LRN", "MVN", "Pooling", "Pooling3D", "Resample", "Upsample")
"""Layers, beside those that keep all axes, whose tops have the channels of their bottoms."""
_JOIN = ("Concat",)
_WINDOWS = ("Convolution", "Pooling")


def readers_of(blob: str, layers: Sequence[Layer], passes: Callable[[Layer], bool]) -> Iterator[Layer]:
    """The layers that read a blob, or what is made of it by layers that pass it on. Those are left out."""
    alike = {blob}
    for layer in layers:
        if not alike.isdisjoint(layer.bottoms):
            if passes(layer):
                alike.update(layer.tops)
            else:
                yield layer


def with_channels(model: Model) -> Model:
    """The net, with the shapes of inputs as far as its weights tell them. A warning names the layer of the weights."""
    sizes, warnings, layers = dict(model.sizes), list(model.warnings), list(model.layers)
    for place, layer in enumerate(layers):
        if layer.type != "Input" or layer.message.input_param.shape:
            continue
        for top in layer.tops:
            if sizes_and_layer := _sizes_by_weights(top, model):
                sizes[top], reader = sizes_and_layer
                warnings.append(
                    f'{layer.origin}: {_text(top, sizes[top])}, as the weights of "{reader.name}" tell'
                )
        layers[place] = _with_sizes(layer, sizes)
    for blob in model.missing:
        if sizes_and_layer := _sizes_by_weights(blob, model):
            sizes[blob], _ = sizes_and_layer
    return replace(model, sizes=sizes, warnings=tuple(warnings), layers=tuple(layers))


def _text(blob: str, sizes: Sequence[int | None]) -> str:
    return f'input "{blob}" is of shape ({", ".join("?" if size is None else str(size) for size in sizes)})'


def _sizes_by_weights(blob: str, model: Model) -> tuple[Sequence[int | None], Layer] | None:
    """The sizes that are known with the weights of the first layer that has some, and that layer."""
    reader = next(readers_of(blob, model.layers, _keeps_channels), None)
    count = None if reader is None else _read_channels(reader)
    if reader is None or count is None:
        return None
    partial = model.sizes.get(blob)
    if reader.type == "InnerProduct" and partial and len(partial) > 2:
        return _of_row(partial, count, reader)
    if partial is None or len(partial) == 1:
        example = example_shape(blob, model.layers, model.sizes)
        partial = tuple(None if isinstance(size, str) else size for size in example)
    axes = len(partial)
    axis = reader.param.axis if reader.type == "InnerProduct" else 1
    if (
        not 0 <= axis < axes
        or partial[axis] is not None
        or (reader.type == "InnerProduct" and axis != axes - 1)
    ):
        return None
    return (*partial[:axis], count, *partial[axis + 1 :]), reader


def _of_row(
    partial: Sequence[int | None], count: int, reader: Layer
) -> tuple[Sequence[int | None], Layer] | None:
    """A row holds the channels of all pixels: theirs is the only size that may be missing."""
    others = [size for size in partial[2:] if size is not None]
    if (
        reader.param.axis != 1
        or partial[1] is not None
        or len(others) < len(partial) - 2
        or count % prod(others)
    ):
        return None
    return (partial[0], count // prod(others), *partial[2:]), reader


def _read_channels(layer: Layer) -> int | None:
    """How many channels the stored weights of a layer read; of an InnerProduct, how many numbers of a row."""
    blob = layer.blobs[0] if layer.blobs else None
    if blob is None or len(blob.shape) < 2:
        return None
    if layer.type == "InnerProduct":
        return blob.shape[-2 if layer.param.transpose else -1]
    if layer.type in ("Convolution", "Deconvolution") and layer.param.axis == 1:
        return blob.shape[1] * layer.param.group if layer.type == "Convolution" else blob.shape[0]
    return None


def _keeps_channels(layer: Layer) -> bool:
    return layer.type in _KEEP_CHANNELS or (layer_type(layer.type).keeps_axes and layer.type not in _JOIN)


def _with_sizes(layer: Layer, sizes: Mapping[str, Sequence[int | None]]) -> Layer:
    shapes = [sizes.get(top, (None,)) for top in layer.tops]
    if any(None in shape or len(shape) == 1 for shape in shapes):  # of one size, the other axes are open
        return layer
    message = type(layer.message)()
    message.CopyFrom(layer.message)
    for shape in shapes:
        message.input_param.shape.add().dim.extend(shape)
    return replace(layer, message=message)


_ONE_PIXEL = (3, 1, 1)


def placeholders(layers: Sequence[Layer]) -> dict[str, tuple[int, ...]]:
    """The images that the file states to have 1x1 pixels, over which convolutions of more pixels slide."""
    return {
        top: tuple(shape.dim)
        for layer in layers
        if layer.type == "Input" and len(layer.message.input_param.shape) in (1, len(layer.tops))
        for top, shape in zip(layer.tops, [*layer.message.input_param.shape] * len(layer.tops), strict=False)
        if len(shape.dim) == 4 and tuple(shape.dim[1:]) == _ONE_PIXEL and _is_windowed(top, layers)
    }


def _is_windowed(blob: str, layers: Sequence[Layer]) -> bool:
    """Whether the first layers that look at several pixels of an input do so over windows."""
    readers = readers_of(blob, layers, lambda layer: layer_type(layer.type).keeps_axes)
    return any(_window(reader) > 1 for reader in readers if reader.type in _WINDOWS)


def _window(layer: Layer) -> int:
    """The larger side of a kernel; 0 where it is the whole image."""
    param = layer.param
    return max(map(int, [*param.kernel_size, param.kernel_h, param.kernel_w]))


_SIZES = re.compile(r"(?<!\d)\d{1,4}(?: ?[xX*] ?\d{1,4}){1,3}(?!\d)")
_CROP = re.compile(r"crop_size\W{1,5}(\d{1,4})(?!\d)")
_SHAPE = re.compile(r"#.{0,20}?\b(\w+ {0,9}\((\d{1,4}(?:, ?\d{1,4}){1,4})\))")
_BODY = re.compile(r"num_output|pooling_param")
_SMALLEST, _MOST = 8, 6


def size_hints(text: str, file: str) -> dict[str, tuple[int, ...]]:
    """By their words: (H, W), (C, H, W) or (N, C, H, W). The file's name comes before what is above the first windows.

    Sizes of kernels are too small to be meant. Words such as ``cont (40, 16)`` in a comment are the shape of a blob.
    """
    begin = _BODY.search(text)
    before = text[: begin.start()] if begin else text
    names = os.sep.join(os.path.abspath(file).split(os.sep)[-2:])
    words = [match[0] for part in (names, before) for match in _SIZES.finditer(part)]
    hints = {each: tuple(map(int, re.findall(r"\d+", each))) for each in words}
    hints |= {" ".join(match[0].split()): (int(match[1]),) * 2 for match in _CROP.finditer(before)}
    large = {each: sizes for each, sizes in hints.items() if min(sizes[-2:]) >= _SMALLEST and min(sizes) > 0}
    shapes = {
        " ".join(match[1].split()): tuple(map(int, match[2].split(","))) for match in _SHAPE.finditer(before)
    }
    return {**shapes, **dict(list(large.items())[:_MOST])}
