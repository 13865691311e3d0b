"""What Gst-nvinfer must be told of a net: its image input, what its outputs mean, and how they are parsed.

Source: the DeepStream SDK's "Gst-nvinfer" guide, and the members of ``nvdsinfer_custom_impl.h``.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.surgery.ir import AtMost, DType, Graph, Shape, Value, range_of

Meaning: TypeAlias = Literal["detections", "clusters", "coverage", "classes", "masks", "tensors"]
"""What outputs hold: rows of SSD and YOLO; objects of DetectNet, or its grids before they are clustered; numbers of
classes; maps of classes; anything else, which the program reads itself."""

_ROW_LAYERS = {"DetectionOutput", "YoloDetectionOutput", "Yolov3DetectionOutput"}
_YOLO_LAYERS = _ROW_LAYERS - {"DetectionOutput"}
_PROBABILITIES = ("Softmax", "Sigmoid")
_OBJECT_NUMBERS = 5
_COLOURS = (1, 3)


@dataclass(frozen=True, slots=True)
class VideoNet:
    """A net as Gst-nvinfer takes it.

    ``image`` is (N, C, H, W). ``outputs`` are in the order in which their parser takes them. ``classes`` include the
    background of SSD and YOLO, and are None where nothing says how many there are.
    """

    image: Value
    outputs: tuple[str, ...]
    meaning: Meaning
    classes: int | None = None

    @property
    def batch(self) -> int:
        """How many images an engine takes at a time."""
        return range_of(self.image.shape[0]).max  # type: ignore[arg-type]  # no input has a size of the data

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = (int(dim) for dim in self.image.shape[1:])
        return channels, height, width

    @property
    def has_background(self) -> bool:
        """Whether class 0 is none of the user's."""
        return self.meaning == "detections"


def network_of(model: Model, graph: Graph) -> VideoNet:
    """What the outputs of a graph mean, by the layers that make them.

    Raises ``ConversionError`` for what Gst-nvinfer cannot feed: states, other inputs than one image, open sizes.
    """
    _refuse_states(graph)
    image = _image(graph)
    counts = {dim.count for value in graph.outputs for dim in value.shape if isinstance(dim, AtMost)}
    results = [value for value in graph.outputs if value.name not in counts]
    layers = [_maker(model, value.name) for value in results]
    network = _detector(image, results, layers) or _classifier(image, results, layers)
    if network is None:
        return VideoNet(image, tuple(value.name for value in results), "tensors")
    if network.meaning == "detections" and image.shape[0] != 1:
        raise ShapeError(
            f'input "{image.name}" takes {image.shape[0]} images, expected 1',
            because=f'the rows of "{network.outputs[0]}" are of all images, and Gst-nvinfer parses each image alone',
            fix=Worded("use {}", Option("shapes", {image.name: (1, *image.shape[1:])})),
        )
    return network


def _refuse_states(graph: Graph) -> None:
    for pair in graph.recurrences:
        raise UnsupportedLayerError(
            f'"{pair.input.name}" is a state, which Gst-nvinfer does not carry from frame to frame',
            fix=Worded(
                "serve the net with Triton, which keeps states, for Gst-nvinferserver ({});"
                " or let each frame start anew with {}",
                Command("triton"),
                Option("state", "zero"),
            ),
        )


def _image(graph: Graph) -> Value:
    if len(graph.inputs) != 1:
        names = ", ".join(f'"{value.name}"' for value in graph.inputs)
        raise NetError(
            f"the net has the inputs {names}, expected one image",
            because="Gst-nvinfer feeds frames alone",
            fix=Worded(
                "cut the net, replace the other inputs by constants (DummyData), or drop cont with {}",
                Option("cont", "drop"),
            ),
        )
    (image,) = graph.inputs
    shape = image.shape
    if len(shape) != 4 or shape[1] not in _COLOURS or not all(isinstance(dim, int) for dim in shape[1:]):
        raise ShapeError(
            f'input "{image.name}" is {shape}, expected (N, C, H, W) with 1 or 3 channels and a fixed size',
            because="Gst-nvinfer scales frames to the size of the net",
            fix=Worded("use {}", Option("shapes", {image.name: (1, 3, 224, 224)})),
        )
    if image.dtype is not DType.FLOAT32:
        raise ShapeError(
            f'input "{image.name}" is {image.dtype.value}, expected float32', fix="leave the input as it is"
        )
    return image


def _maker(model: Model, blob: str) -> Layer | None:
    return next((layer for layer in reversed(model.layers) if blob in layer.tops), None)


def _detector(image: Value, results: list[Value], layers: list[Layer | None]) -> VideoNet | None:
    names = tuple(value.name for value in results)
    makers = [layer for layer in layers if layer is not None]
    types = {layer.type for layer in makers}
    if len(names) == 1 and types <= _ROW_LAYERS and makers:
        # A box of YOLO has no class of its own for the background.
        classes = int(makers[0].param.num_classes) + (makers[0].type in _YOLO_LAYERS)
        return VideoNet(image, names, "detections", classes)
    if makers and all(_clusters(layer) for layer in makers) and _are_objects(results):
        return VideoNet(image, names, "clusters", len(names))
    return _grids(image, results, layers)


def _clusters(layer: Layer) -> bool:
    return layer.type == "Python" and layer.message.python_param.layer == "ClusterDetections"


def _are_objects(results: list[Value]) -> bool:
    return all(len(value.shape) == 3 and value.shape[2] == _OBJECT_NUMBERS for value in results)


def _grids(image: Value, results: list[Value], layers: list[Layer | None]) -> VideoNet | None:
    """DetectNet without its last layer: coverage of each class, and the corners of a box for each place."""
    if len(results) != 2:
        return None
    for index in (0, 1):
        coverage, corners, layer = results[index], results[1 - index], layers[index]
        if layer is None or layer.type != "Sigmoid" or len(coverage.shape) != 4:
            continue
        places = coverage.shape[2:]
        if corners.shape == (coverage.shape[0], 4, *places) and _strides(image.shape, places) is not None:
            return VideoNet(image, (coverage.name, corners.name), "coverage", _number(coverage.shape[1]))
    return None


def _strides(image: Shape, places: Shape) -> tuple[int, int] | None:
    """The pixels between two places, downwards and across."""
    sizes = [(size, count) for size, count in zip(image[2:], places, strict=True)]
    if not all(isinstance(size, int) and isinstance(count, int) for size, count in sizes):
        return None
    down, across = (int(size) // int(count) for size, count in sizes)
    return (down, across) if min(down, across) > 1 else None


def _classifier(image: Value, results: list[Value], layers: list[Layer | None]) -> VideoNet | None:
    """Probabilities of classes, or a map for each class."""
    names = tuple(value.name for value in results)
    sizes = [[dim for dim in value.shape[1:] if dim != 1] for value in results]
    are_probabilities = all(layer is not None and layer.type in _PROBABILITIES for layer in layers)
    if results and are_probabilities and all(len(each) == 1 for each in sizes):
        return VideoNet(image, names, "classes", _number(sizes[0][0]) if len(names) == 1 else None)
    if len(results) == 1 and len(results[0].shape) == 4 and results[0].shape[1] != 1:
        return VideoNet(image, names, "masks", _number(results[0].shape[1]))
    return None


def _number(dim: object) -> int | None:
    return int(dim) if isinstance(dim, int) else None
