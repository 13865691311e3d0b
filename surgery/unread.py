"""Parameters in a layer of another type: Caffe passes over them, and a user should know."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.schema import parameter_field
from prototrt.surgery.builder import Builder

_OF_ANY_LAYER = ("transform_param", "loss_param")


def warn_of_unread_parameters(build: Builder, layer: Layer) -> None:
    """As of ``pooling_param`` in a ReLU. What stands in it changes nothing."""
    read = (parameter_field(layer.type), *_OF_ANY_LAYER)
    for field, _ in layer.message.ListFields():
        if field.name.endswith("_param") and field.name not in read:
            build.warn(f"{field.name} is not for this type of layer: it is ignored, as in Caffe")
