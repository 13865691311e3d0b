"""caffe.binpb equals caffe.proto, and its classes do not collide with another caffe.proto."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from prototrt.caffe_proto import schema

HERE = Path(schema.__file__).parent
SCALARS = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12}
SCALARS["uint32"] = 13
LABELS = {"optional": 1, "required": 2, "repeated": 3}

Definition = tuple[object, ...]


def definitions_in_text() -> set[Definition]:
    """Fields and enum values of caffe.proto, read line by line: each line holds one statement."""
    scope: list[str] = []
    found: set[Definition] = set()
    for line in (HERE / "caffe.proto").read_text().splitlines():
        code = line.split("//")[0].strip()
        if opening := re.fullmatch(r"(message|enum) (\w+) \{", code):
            scope.append(opening[2])
        elif code == "}":
            scope.pop()
        elif field := re.fullmatch(r"(\w+) ([\w.]+) (\w+) = (\d+)(?: \[(.*)\])?;", code):
            options = dict(option.split(" = ") for option in (field[5] or "").split(", ") if option)
            default = normal(options.get("default", ""))
            label, number = LABELS[field[1]], int(field[4])
            kind = field[2].rpartition(".")[2]
            found.add((".".join(scope), label, kind, field[3], number, default, "packed" in options))
        elif value := re.fullmatch(r"(\w+) = (\d+);", code):
            found.add((".".join(scope), value[1], int(value[2])))
        else:
            assert code == "" or code.startswith(("syntax", "package")), code
    return found


def definitions_in_binary() -> Iterator[Definition]:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString((HERE / "caffe.binpb").read_bytes())
    (file,) = files.file
    for enum in file.enum_type:
        yield from ((enum.name, value.name, value.number) for value in enum.value)
    for message in file.message_type:
        yield from definitions_of(message, message.name)


def definitions_of(message: descriptor_pb2.DescriptorProto, scope: str) -> Iterator[Definition]:
    names = {number: name for name, number in SCALARS.items()}
    for enum in message.enum_type:
        yield from ((f"{scope}.{enum.name}", value.name, value.number) for value in enum.value)
    for field in message.field:
        kind = names.get(field.type) or field.type_name.rpartition(".")[2]
        default = normal(field.default_value)
        yield (scope, field.label, kind, field.name, field.number, default, field.options.packed)


def normal(default: str) -> str | float:
    try:
        return float(default)
    except ValueError:
        return default.strip('"')


def test_binary_agrees_with_text() -> None:
    in_text = definitions_in_text()
    assert len(in_text) > 400
    assert set(definitions_in_binary()) == in_text


def test_another_caffe_proto_does_no_harm() -> None:
    other = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package="caffe")
    other.message_type.add(name="NetParameter")
    descriptor_pool.Default().Add(other)
    assert "layer" in schema.message_class("NetParameter").DESCRIPTOR.fields_by_name


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("convolution_param.group", 1),
        ("inner_product_param.bias_term", True),
        ("lrn_param.beta", 0.75),
        ("pooling_param.round_mode", 0),
        ("concat_param.axis", 1),
        ("reshape_param.num_axes", -1),
        ("flatten_param.end_axis", -1),
        ("recurrent_param.expose_hidden", False),
        ("swish_param.beta", 1.0),
        ("exp_param.base", -1.0),
    ],
)
def test_unset_fields_have_the_defaults_of_caffe(field: str, default: float) -> None:
    value = schema.message_class("LayerParameter")()
    for name in field.split("."):
        value = getattr(value, name)
    assert value == default


@pytest.mark.parametrize(
    ("layer_type", "field"),
    [
        ("ReLU", "relu_param"),
        ("InnerProduct", "inner_product_param"),
        ("LSTM", "recurrent_param"),
        ("RNN", "recurrent_param"),
        ("Deconvolution", "convolution_param"),
        ("Im2col", "convolution_param"),
        ("BatchNorm", "batch_norm_param"),
        ("HDF5Data", "hdf5_data_param"),
        ("MVN", "mvn_param"),
        ("Normalize", "norm_param"),
        ("PSROIPooling", "psroi_pooling_param"),
        ("Yolov3DetectionOutput", "yolov3_detection_output_param"),
        ("Silence", None),
    ],
)
def test_parameter_field(layer_type: str, field: str | None) -> None:
    assert schema.parameter_field(layer_type) == field
