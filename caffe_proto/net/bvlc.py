"""What BVLC Caffe can say of a layer: types and fields that it lacks, and the same in its own fields.

Source: BVLC caffe ``src/caffe/proto/caffe.proto``, and the layers that it registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prototrt.caffe_proto.model import Layer
from prototrt.caffe_proto.schema import Message

_TYPES = {
    name
    for line in (
        "AbsVal Accuracy ArgMax BNLL BatchNorm BatchReindex Bias Clip Concat ContrastiveLoss Convolution Crop Data",
        "Deconvolution Dropout DummyData ELU Eltwise Embed EuclideanLoss Exp Filter Flatten HDF5Data HDF5Output",
        "HingeLoss Im2col ImageData InfogainLoss InnerProduct Input LRN LSTM LSTMUnit Log MVN MemoryData",
        "MultinomialLogisticLoss PReLU Parameter Pooling Power Python RNN ReLU Reduction Reshape SPP Scale Sigmoid",
        "SigmoidCrossEntropyLoss Silence Slice Softmax SoftmaxWithLoss Split Swish TanH Threshold Tile WindowData",
    )
    for name in line.split()
}
_FIELDS_OF_FORKS = {
    message: frozenset(names.split())
    for message, names in {
        "BatchNormParameter": "add_eps_before_sqrt bias_filler engine scale_bias scale_filler",
        "ConvolutionParameter": "filter_group hole_h hole_w kernel_depth kernel_shape pad_b pad_l pad_r pad_shape pad_t"
        " stride_shape temporal_pad temporal_stride",
        "DropoutParameter": "sample_weights_test scale_train",
        "EltwiseParameter": "coeff_blob",
        "FillerParameter": "diag_val file values",
        "InnerProductParameter": "normalize",
        "LayerParameter": "deletebottom deletetop pullsfrom reshape_every_iter",
        "ParamSpec": "param_propagate_down",
        "PoolingParameter": "ceil_mode dilation kernel_depth kernel_shape pad_b pad_l pad_r pad_shape pad_t"
        " stride_shape temporal_stride",
        "ReLUParameter": "relu6",
        "ReshapeParameter": "pixelshuffler",
    }.items()
}
"""Fields that forks added to messages of BVLC's. All fields of a recurrent layer after ``expose_hidden`` are."""
_LAST_RECURRENT_FIELD = 5
_OF_TRAINING = {
    "BatchNormParameter": ("engine",),
    "LayerParameter": ("deletebottom", "deletetop", "pullsfrom", "reshape_every_iter"),
    "ParamSpec": ("param_propagate_down",),
}
"""Fields of forks that a deployed net does without."""
_FILLERS = ("bilinear", "constant", "gaussian", "msra", "positive_unitball", "uniform", "xavier")
_DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution")
_SIDES = (("pad_h", "pad_t", "pad_b"), ("pad_w", "pad_l", "pad_r"))


def respell(layer: Layer, message: Message) -> None:
    """Say in BVLC's fields what the layer says in those of a fork, where they have the words for it."""
    for part in _messages(message):
        for name in _OF_TRAINING.get(part.DESCRIPTOR.name, ()):
            part.ClearField(name)
        if part.DESCRIPTOR.name == "FillerParameter" and part.type not in _FILLERS:
            part.Clear()  # how weights begin, which a deployed net has
    if message.HasField("convolution_param"):
        _respell_dilation(message.convolution_param)
        _respell_padding(message.convolution_param)
    if message.HasField("pooling_param"):
        _respell_padding(message.pooling_param)
    if message.type == "Eltwise" and len(message.bottom) == 1 and message.eltwise_param.coeff:
        message.type = "Power"
        message.power_param.scale = message.eltwise_param.coeff[0]
        message.ClearField("eltwise_param")
    if message.type in _DEPTHWISE:
        if not message.convolution_param.HasField("group"):
            message.convolution_param.group = message.convolution_param.num_output
        message.type = "Convolution"


def doubts(layer: Layer, message: Message) -> Iterator[str]:
    """What BVLC Caffe does not read of a layer, in a sentence for each."""
    if message.type not in _TYPES:
        yield f"{layer.origin}: {message.type} is a layer of a fork, which BVLC Caffe does not load"
        return
    for part in _messages(message):
        for field, _ in part.ListFields():
            if _is_of_fork(part.DESCRIPTOR.name, field):
                yield f"{layer.origin}: {field.name} is a field of a fork, which BVLC Caffe does not read"


def _is_of_fork(message: str, field: Any) -> bool:
    is_later = message == "RecurrentParameter" and field.number > _LAST_RECURRENT_FIELD
    return is_later or field.name in _FIELDS_OF_FORKS.get(message, ())


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None and field.name != "blobs":
            for part in value if hasattr(value, "extend") else [value]:
                yield from _messages(part)


def _respell_dilation(parameters: Message) -> None:
    """DeepLab's ``hole_h`` and ``hole_w`` as ``dilation``, once for both or once for each."""
    if not (parameters.HasField("hole_h") or parameters.HasField("hole_w")):
        return
    sizes = (parameters.hole_h, parameters.hole_w)
    for name in ("hole_h", "hole_w", "dilation"):
        parameters.ClearField(name)
    parameters.dilation.extend(sizes[:1] if sizes[0] == sizes[1] else sizes)


def _respell_padding(parameters: Message) -> None:
    """``pad_t`` and ``pad_b`` as ``pad_h`` where they are equal; the same for ``pad_w``."""
    sides = [(one, other) for _, one, other in _SIDES]
    if not any(parameters.HasField(name) for pair in sides for name in pair):
        return
    if any(getattr(parameters, one) != getattr(parameters, other) for one, other in sides):
        return
    for whole, one, other in _SIDES:
        size = getattr(parameters, one)
        parameters.ClearField(one)
        parameters.ClearField(other)
        setattr(parameters, whole, size)
