"""How TensorRT's Caffe parser called the tensors of a net, and which value each is here.

A tensor has the name of its blob. Where layers work in place, the last tensor of a blob has it, and an earlier
one is called after its layer: ``(Unnamed Layer* 3) [Scale]_output``, the fourth layer of TensorRT's network.
Source: NVIDIA/TensorRT 8.6 ``parsers/caffe/caffeParser/caffeParser.cpp``, ``CaffeParser::parse``, and
``blobNameToTensor.h``, ``setTensorNames``.
"""

from __future__ import annotations

from collections.abc import Iterator

from prototrt.caffe_proto import Layer, Model
from prototrt.surgery.scales.tables import UNNAMED

_WITHOUT_LAYER = {"Dropout", "Flatten"}
"""Their top is their bottom's tensor, under one more name."""
_KINDS = {
    "AbsVal": ("Unary",),
    "BNLL": ("Activation",),
    "BatchNorm": ("Scale",),
    "Clip": ("Activation",),
    "Concat": ("Concatenation",),
    "Convolution": ("Convolution",),
    "Crop": ("Padding",),
    "Deconvolution": ("Deconvolution",),
    "ELU": ("Activation",),
    "Eltwise": ("ElementWise",),
    "InnerProduct": ("Fully Connected",),
    "LRN": ("LRN",),
    "PReLU": ("Constant", "Parametric ReLU"),
    "Permute": ("Shuffle",),
    "Pooling": ("Pooling",),
    "Power": ("Scale",),
    "ReLU": ("Activation",),
    "Reshape": ("Shuffle",),
    "Scale": ("Scale",),
    "Sigmoid": ("Activation",),
    "Softmax": ("Softmax",),
    "TanH": ("Activation",),
}
"""The kinds of the layers that TensorRT's parser makes of a layer of Caffe, the last one writes the top."""
_PLUGIN = ("PluginV2",)
"""Of a type that the parser hands to a plugin."""


def values_by_tensor(model: Model) -> dict[str, str]:
    """The names of values by those of TensorRT's tensors; Caffe's names of blobs come first."""
    return {**dict(_default_names(model)), **model.blobs}


def tensors_by_value(model: Model) -> dict[str, str]:
    """The tensor of each value, by its name."""
    return {value: tensor for tensor, value in values_by_tensor(model).items()}


def _default_names(model: Model) -> Iterator[tuple[str, str]]:
    """The names that tensors have before the parser names them, and the values that they are."""
    number = 0
    for layer in model.layers:
        if layer.type == "Input" or layer.type in _WITHOUT_LAYER:
            continue
        kinds = _kinds_of(layer)
        number += len(kinds)
        yield f"{UNNAMED}{number - 1}) [{kinds[-1]}]_output", layer.tops[0]


def _kinds_of(layer: Layer) -> tuple[str, ...]:
    if layer.type != "Reduction":
        return _KINDS.get(layer.type, _PLUGIN)
    before = {"ASUM": ("Unary",), "SUMSQ": ("ElementWise",)}
    operation = layer.param.DESCRIPTOR.enum_types_by_name["ReductionOp"].values_by_number[
        layer.param.operation
    ]
    after = ("Scale",) if layer.param.coeff != 1 else ()
    return (*before.get(operation.name, ()), "Reduce", *after)


def same_tensors(model: Model) -> Iterator[set[str]]:
    """Groups of values that are one tensor to TensorRT, which has but one of their names."""
    groups: dict[str, set[str]] = {}
    for layer in model.layers:
        if layer.type in _WITHOUT_LAYER and layer.bottoms and layer.tops:
            group = groups.setdefault(layer.bottoms[0], {layer.bottoms[0]})
            group.add(layer.tops[0])
            groups[layer.tops[0]] = group
    return iter({id(group): group for group in groups.values()}.values())
