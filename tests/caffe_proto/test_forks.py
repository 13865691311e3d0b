"""Known words of forks, which are neither Caffe's nor ours, and the messages about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import prototrt
import prototrt.surgery.layers  # says where its rules are
from prototrt.caffe_proto import ConversionError, load
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.forks import FIELDS, TYPES
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.building.layer_builder import layer_rule

INPUT = "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
MID = "layer { name: 'm' type: 'TanH' bottom: 'x' top: 'm' }"


def test_a_type_that_has_a_rule_needs_no_row() -> None:
    assert [kind for kind in TYPES if kind in layer_rule.rules] == []


def test_a_field_that_is_read_needs_no_row() -> None:
    assert [
        (message, field)
        for message, field in FIELDS
        if field in message_class(message).DESCRIPTOR.fields_by_name
    ] == []


def refusal(text: str, write: Callable[..., str]) -> str:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(load(write(f"{INPUT}\n{MID}\n{text}")))
    return str(caught.value)


def test_a_type_of_a_fork(write: Callable[..., str]) -> None:
    assert refusal("layer { name: 'a' type: 'CosineFace' bottom: 'm' top: 'a' }", write) == (
        'net.prototxt:3: layer "a" (CosineFace): there is no rule for this layer type\n'
        "  because it is a layer of SphereFace, NormFace and AMSoftmax\n"
        "  fix: write a rule for it, which `prototrt.new_rule(...)` begins; or name your TensorRT plugin, as in "
        'plugin={"CosineFace": "CosineFace:1"};'
        ' or convert the part before it: outputs=["m"]'
    )


def test_a_field_of_a_fork(write: Callable[..., str]) -> None:
    param = "eltwise_param { relu: true }"
    text = f"layer {{ name: 'a' type: 'Eltwise' bottom: 'm' bottom: 'm' top: 'a' {param} }}"
    assert refusal(text, write) == (
        'net.prototxt:3: layer "a" (Eltwise), eltwise_param: there is no field "relu"\n'
        "  because in Intel Caffe, a ReLU follows\n"
        '  fix: convert the part before it: outputs=["m"]'
    )


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("ROIPooling", "Pooling"),
        ("BN", "BNLL"),
        ("ConvLSTM", "LSTM"),
        ("kernel_depth", "kernel_h"),
        ("video_data_param", "window_data_param"),
        ("UNPOOLING", "POOLING"),
        ("conv5_5", "conv5_3"),
        ("pad_l", "pad_h"),
        ("bb_type", "bi_type"),
    ],
)
def test_another_name_is_no_misspelling(name: str, known: str) -> None:
    assert close_names(name, [known]) == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("kernel_sise", "kernel_size"),
        ("Convolutoin", "Convolution"),
        ("tpo", "top"),
        ("relu_parm", "relu_param"),
        ("SoftMax", "Softmax"),
        ("BatchNormm", "BatchNorm"),
    ],
)
def test_a_slip_is_one(name: str, known: str) -> None:
    assert close_names(name, [known, "kernel_h", "BNLL", "bottom", "prelu_param"]) == [known]
