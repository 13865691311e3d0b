"""What a net expects of the pixels of images: the mean and the scale of its training, or of its family."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Together, Worded

_DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution")
_YOLO = ("YoloDetectionOutput", "Yolov3DetectionOutput")
_IMAGENET_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Transformation:
    """``(pixels - mean) * scale``; ``mean_file`` is an image that is subtracted instead."""

    mean: tuple[float, ...] = ()
    scale: float = 1.0
    mean_file: str = ""

    @property
    def options(self) -> Worded:
        """The options that do the same."""
        if self.mean_file:
            return Worded("{}, which subtracts {}", Option("preprocess", True), self.mean_file)
        each = [Option("mean", [f"{number:g}" for number in self.mean])] if self.mean else []
        each += [Option("scale", self.scale)] if self.scale != 1 else []
        return Worded("{}", Together(each))


def transformation_of(model: Model, blob: str) -> Transformation:
    """That of the layer of a training net that brought the blob; nothing of a deploy net, nor of one of Caffe2."""
    layer = next((layer for layer in model.layers if layer.tops[:1] == (blob,)), None)
    if layer is None or model.framework != "caffe":
        return Transformation()
    transform = layer.message.transform_param
    return Transformation(tuple(transform.mean_value), transform.scale, transform.mean_file)


def doubt_of_pixels(model: Model, blob: str) -> str | None:
    """A warning where pixels go in as they are, but the net was trained, or its family is, with other numbers."""
    if model.framework != "caffe":
        return None
    trained = transformation_of(model, blob)
    if trained != Transformation():
        return Worded(
            "pixels go in as they are, from 0 to 255, but the net was trained with {}", trained.options
        )
    family = _family_of(model.layers)
    if family is None:
        return None
    name, usual = family
    return Worded(
        "pixels go in as they are, from 0 to 255, but {} are mostly trained with {}", name, usual.options
    )


_VGG = Transformation((104.0, 117.0, 123.0))
_MOBILENET = Transformation((103.94, 116.78, 123.68), 0.017)
_MOBILE_DETECTOR, _DARKNET = Transformation((127.5,), 0.007843), Transformation(scale=0.00392157)


def _family_of(layers: Sequence[Layer]) -> tuple[str, Transformation] | None:
    """The kind of net, and the mean and scale that it is mostly trained with."""
    types, is_mobile = {layer.type for layer in layers}, any(map(_is_depthwise, layers))
    if types & {*_YOLO}:
        return ("MobileNet-YOLOs", _MOBILE_DETECTOR) if is_mobile else ("YOLO nets", _DARKNET)
    if "DetectionOutput" in types:
        return ("MobileNet-SSDs", _MOBILE_DETECTOR) if is_mobile else ("SSDs", _VGG)
    if any(_outputs(layer) == _IMAGENET_CLASSES for layer in layers):
        return ("MobileNets", _MOBILENET) if is_mobile else ("nets for the classes of ImageNet", _VGG)
    return None


def _is_depthwise(layer: Layer) -> bool:
    if layer.type in _DEPTHWISE:
        return True
    param = layer.message.convolution_param
    return layer.type == "Convolution" and 1 < param.num_output == param.group


def _outputs(layer: Layer) -> int:
    if layer.type == "InnerProduct":
        return int(layer.message.inner_product_param.num_output)
    return int(layer.message.convolution_param.num_output) if layer.type == "Convolution" else 0
