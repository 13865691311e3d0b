"""Parameters that belong to another layer type: Caffe ignores them, so a warning reports them."""

from __future__ import annotations

from functools import cache

from google.protobuf.descriptor import FieldDescriptor

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.schema import is_read_by, parameter_fields
from prototrt.surgery.ir.builder import Builder


def warn_of_unread_parameters(build: Builder, layer: Layer) -> None:
    """Such as ``pooling_param`` in a ReLU. Its contents change nothing."""
    for field, _ in layer.message.ListFields():
        if not _is_read(layer.type, field):
            own = " and ".join(parameter_fields(layer.type)) or "no parameters"
            build.warn(
                f"{field.name} is not for this type of layer, which reads {own}: it is ignored, as in Caffe"
            )


@cache
def _is_read(layer_type: str, field: FieldDescriptor) -> bool:
    """Descriptors are slow to tell names, and a net has many layers with few fields."""
    return is_read_by(layer_type, field.name)
