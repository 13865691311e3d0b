"""What a data layer says about the blobs that a deployed net is fed instead."""

from __future__ import annotations

from prototrt.caffe_proto.layer_types import layer_type
from prototrt.caffe_proto.schema import Message, parameter_field

PartialShape = tuple[int | None, ...]


def known_shape(layer: Message, top: int) -> PartialShape | None:
    """The shape of a top, with None for sizes that only the data know; None where nothing is known.

    Source: the ``DataLayerSetUp`` of caffe's ``src/caffe/layers/*_data_layer.cpp``.
    """
    field = parameter_field(layer.type)
    if field is None or layer_type(layer.type).labels_from is None:
        return None
    data = getattr(layer, field)
    batch = data.batch_size or None
    if top > 0:
        return (batch,)
    if layer.type == "MemoryData":
        return (batch, data.channels or None, data.height or None, data.width or None)
    height, width = (data.new_height, data.new_width) if layer.type == "ImageData" else (0, 0)
    crop = layer.transform_param.crop_size
    return (batch, _channels(layer, data), crop or height or None, crop or width or None)


def _channels(layer: Message, data: Message) -> int | None:
    transform = layer.transform_param
    if layer.type == "WindowData" or transform.force_color or getattr(data, "force_encoded_color", False):
        return 3
    if layer.type == "ImageData":
        return 3 if data.is_color else 1
    if transform.force_gray:
        return 1
    return len(transform.mean_value) if len(transform.mean_value) > 1 else None


def transformation(layer: Message) -> str | None:
    """What is left to do to the data of an Input, since the data layer in whose place it stands did it."""
    transform = layer.transform_param
    steps = []
    if transform.mean_file:
        steps.append(f"minus the mean in {transform.mean_file}")
    if transform.mean_value:
        steps.append("minus " + ", ".join(f"{value:g}" for value in transform.mean_value))
    if transform.HasField("scale") and transform.scale != 1:
        steps.append(f"times {transform.scale:g}")
    return f'feed "{layer.top[0]}" transformed, as in training: {", then ".join(steps)}' if steps else None
