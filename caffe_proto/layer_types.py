"""One table of layer types: the facts that modules need about a type, besides its rule.

A type needs a row only where it differs from the defaults of ``LayerType``, which fit a layer that computes
on images and whose parameters stand under its own name (``relu_param`` for ``ReLU``). The computation of
a layer is not here: that is its rule, in ``surgery/layers``.

To add a fact about types, add a field to ``LayerType`` with a default that fits most types, and set it in
the rows that differ. ``layer_type(NAME)`` returns the row of a type, also for unknown types.
"""

from __future__ import annotations

import enum
from functools import cache

from prototrt.caffe_proto.common.records import dataclass


class Role(enum.Enum):
    """What happens to a layer when a training net is reduced to its deploy form."""

    COMPUTES = "it stays where an output needs it"
    DATA = "its tops become inputs"
    CONSTANT = "it reads nothing, and makes what it holds"
    MEASURE = "a loss or a metric: it becomes its prediction, or is dropped"


class InPlace(enum.Enum):
    """Whether Caffe computes the layer correctly in place."""

    ELEMENT_BY_ELEMENT = "yes, unless the top has another size"
    OVERWRITES = "no: it writes its top before it has read all of its bottom"
    MOVES_FORWARDS = "yes, although the top has another size"


@dataclass(frozen=True, slots=True)
class LayerType:
    """A row. Bottoms and tops are counted from 0."""

    name: str
    parameters: tuple[str, ...] = ()
    """Parameter fields of LayerParameter that do not follow from the name, the usual one first."""
    without_parameters: bool = False
    """The type is known, although it has no parameter message."""
    role: Role = Role.COMPUTES
    in_place: InPlace = InPlace.ELEMENT_BY_ELEMENT

    example: tuple[str, ...] = ("NxCxHxW",)
    """The form of the shapes of its bottoms, as in ``NxCxHxW``. The last form is for all further bottoms."""
    keeps_axes: bool = False
    """Tops have the same number of axes as bottoms, so readers of the tops show the shapes of the bottoms."""
    reads_rows: bool = False
    """Its ``axis`` is where a row begins. The axes before it are T and N, or only N."""
    reads_ids: bool = False
    """Each number of its bottom becomes a row: its top has one axis more."""

    states: int = 0
    """Of a recurrent layer: how many states its last bottoms hold with expose_hidden, as in ``1xNxH``."""

    is_code: bool = False
    """The computation is in code outside the net. If the layer has no bottoms, its tops become inputs."""

    labels_from: int | None = 1
    """Of data: the first top that holds labels. None where any top may hold anything."""
    labels_until: int | None = None
    """Of data: the first top after the labels."""

    learns: bool = False
    """Its weights are what a net learns: what it makes of data or of labels is a prediction."""
    sizes_from: int | None = None
    """Of these bottoms and all further ones, only the sizes count."""
    makes_labels: bool = False
    """What it makes only serves losses: the labels that belong to predictions. The tops passed on are none."""
    labels_at: int | None = None
    """Of a decoder that also measures: the bottom from which it reads labels, for its last top alone."""
    predictions: int | None = None
    """Of a measure: how many of its first bottoms may come from the net; all by default."""
    passes_on: int = 0
    """Of what only serves training: how many of its first tops are its bottoms when the net is deployed."""
    answer: str | None = None
    """Of a loss: the type of layer that it applies to its prediction before it looks at the labels."""
    shows_answer: bool = False
    """Of a loss: its second top is that answer."""


_STEPS = ("TxNxI", "TxN", "NxI")
_MAPS = ("TxNxCxHxW", "TxN", "1xNxCxHxW")
_OF_MAPS = ("recurrent_param", "lstm_conv_param", "lstm_debug_param")
_REGIONS = ("NxCxHxW", "Rx5")
_EVERYTHING = 99

_ROWS = (
    # Parameters under the name of another type, or of several.
    LayerType("BoxGroupOutput", ("box_group_output_param", "bbox_reg_param")),
    LayerType("BoxOutput", ("box_output_param", "bbox_reg_param")),
    LayerType(
        "DataAugmentation", ("augmentation_param", "coeff_schedule_param"), in_place=InPlace.OVERWRITES
    ),
    LayerType(
        "Convolution3D", ("convolution3d_param", "convolution_param"), example=("NxCxLxHxW",), learns=True
    ),
    LayerType("BatchToSpaceND", in_place=InPlace.OVERWRITES),
    LayerType("CTCBeamSearchDecoder", ("ctc_decoder_param",), labels_at=2),
    LayerType("CTCGreedyDecoder", ("ctc_decoder_param",), labels_at=2),
    LayerType("Region", labels_at=1),
    LayerType("ConvolutionDepthwise", ("convolution_param",), learns=True),
    LayerType(
        "Deconvolution3D", ("convolution3d_param", "convolution_param"), example=("NxCxLxHxW",), learns=True
    ),
    LayerType("DecodeBBox", ("bbox_reg_param",)),
    LayerType("DepthwiseConvolution", ("convolution_param",), learns=True),
    LayerType("FrcnnProposal", ("proposal_param",), example=("1xCxHxW", "1xCxHxW", "1x3")),
    LayerType("Im2col", ("convolution_param",)),
    LayerType("NdConvolution", ("convolution_param",), example=("NxCxLxHxW",), learns=True),
    LayerType("NdPooling", ("pooling_param",), example=("NxCxLxHxW",)),
    LayerType("Normalize", ("norm_param", "normalize_param")),
    LayerType("SeLU", keeps_axes=True),
    LayerType("SeLu", keeps_axes=True),
    LayerType("SpaceToBatchND", in_place=InPlace.OVERWRITES),
    LayerType("MergeCrop", in_place=InPlace.OVERWRITES),
    LayerType("ROIAlign", ("roi_pooling_param",), example=_REGIONS),
    LayerType("Pooling3D", ("pooling3d_param", "pooling_param"), example=("NxCxLxHxW",)),
    LayerType("SpatialTransformer", ("st_param",), example=("NxCxHxW", "Nx6")),
    # Regions: the map, and a row per region.
    LayerType("DeformablePSROIPooling", example=(*_REGIONS, "RxKxPxP")),
    LayerType("PSROIAlign", example=_REGIONS),
    LayerType("PSROIPooling", example=_REGIONS),
    LayerType("ROIPooling", example=_REGIONS),
    LayerType("ROIAlignment", example=_REGIONS),
    LayerType("ROIWarping", example=_REGIONS),
    LayerType("MultiROIPooling", example=("NxCxHxW", "NxRx2")),
    LayerType("MaskPooling", without_parameters=True, keeps_axes=True),
    LayerType("MaskResize", in_place=InPlace.OVERWRITES),
    # Factors, one per channel.
    LayerType("Axpy", example=("NxC", "NxCxHxW")),
    LayerType("AxpyFast", without_parameters=True, example=("NxC", "NxCxHxW")),
    # Images and how each pixel moves.
    LayerType("Warp", example=("NxCxHxW", "Nx2xHxW")),
    # Recurrent: x, cont, and what every step reads.
    LayerType("AttLstm", ("recurrent_param",), example=("TxNxCxE", "TxN", "1xNxH"), states=2, learns=True),
    LayerType(
        "ConvGRU", ("conv_gru_param", "convolution_param"), example=("TxCxHxW", "1xCxHxW"), learns=True
    ),
    LayerType("ConvLSTM", (*_OF_MAPS, "convolution_param"), example=_MAPS, learns=True),
    LayerType("ConvLSTMReLU", _OF_MAPS, example=_MAPS, learns=True),
    LayerType("ConvolutionLSTM", ("recurrent_param",), example=_MAPS, learns=True),
    LayerType("GRU", ("recurrent_param",), example=_STEPS, states=1, learns=True),
    LayerType("LSTM", ("recurrent_param",), example=_STEPS, states=2, learns=True),
    LayerType("LSTMController", ("recurrent_param",), example=_STEPS, states=2, learns=True),
    LayerType("LSTMNew", ("recurrent_param",), example=_STEPS, states=2, learns=True),
    LayerType("LSTMTopic", ("recurrent_param",), example=_STEPS, states=2, learns=True),
    LayerType("Lstm", example=_STEPS, learns=True),
    LayerType("RNN", ("recurrent_param",), example=_STEPS, states=1, learns=True),
    LayerType("VanillaRNN", ("recurrent_param",), example=_STEPS, states=1, learns=True),
    # Others with weights.
    LayerType("DenseBlock", learns=True),
    LayerType("GateRecurrent", learns=True),
    LayerType("GateRecurrent2dnoind", learns=True),
    LayerType("IRNN", learns=True),
    LayerType("MultiStageMeanfield", learns=True),
    LayerType("MultiStageMeanfieldAU3", learns=True),
    LayerType("SpatialRecurrent", learns=True),
    # Rows and ids.
    LayerType("Embed", reads_ids=True, learns=True),
    LayerType("InnerProduct", reads_rows=True, in_place=InPlace.OVERWRITES, learns=True),
    LayerType("LinearTransform", reads_rows=True, in_place=InPlace.OVERWRITES, learns=True),
    LayerType("Similarity", example=("NxC", "KxC"), in_place=InPlace.OVERWRITES, learns=True),
    LayerType("Tiling", in_place=InPlace.OVERWRITES),
    # Tops with the axes of the bottoms.
    LayerType("AbsVal", keeps_axes=True),
    LayerType("BNLL", keeps_axes=True),
    LayerType("BN", keeps_axes=True),
    LayerType("BReLU", keeps_axes=True),
    LayerType("BatchNorm", keeps_axes=True),
    LayerType("Bias", keeps_axes=True),
    LayerType("ChannelNorm", keeps_axes=True),
    LayerType("Clip", keeps_axes=True),
    LayerType("Concat", keeps_axes=True),
    LayerType("Dropout", keeps_axes=True),
    LayerType("ELU", keeps_axes=True),
    LayerType("Eltwise", keeps_axes=True, in_place=InPlace.OVERWRITES),
    LayerType("Exp", keeps_axes=True),
    LayerType("Flip", keeps_axes=True, in_place=InPlace.OVERWRITES),
    LayerType("Log", keeps_axes=True),
    LayerType("GroupNorm", keeps_axes=True),
    LayerType("HardSigmoid", keeps_axes=True),
    LayerType("HardSwish", without_parameters=True, keeps_axes=True),
    LayerType("Mish", without_parameters=True, keeps_axes=True),
    LayerType("NormL2", without_parameters=True),
    LayerType("Normalization", keeps_axes=True),
    LayerType("NormalizationL2", without_parameters=True, keeps_axes=True),
    LayerType("PReLU", keeps_axes=True),
    LayerType("PriorBoxClustered", ("prior_box_param",)),
    LayerType("Power", keeps_axes=True),
    LayerType("ReLU", keeps_axes=True),
    LayerType("ReLU6", ("relu_param", "relu6_param"), keeps_axes=True),
    LayerType("Reverse", keeps_axes=True),
    LayerType("ReverseAxis", keeps_axes=True, in_place=InPlace.OVERWRITES),
    LayerType("Scale", keeps_axes=True),
    LayerType("Sigmoid", keeps_axes=True),
    LayerType("ShuffleChannel", keeps_axes=True, in_place=InPlace.OVERWRITES),
    LayerType("SignedSqrt", without_parameters=True, keeps_axes=True),
    LayerType("Split", keeps_axes=True),
    LayerType("Swish", keeps_axes=True),
    LayerType("TanH", keeps_axes=True),
    LayerType("Threshold", keeps_axes=True),
    # The size of another blob.
    LayerType("AutoCrop", without_parameters=True, sizes_from=1),
    LayerType("Crop", sizes_from=1),
    LayerType("CropHed", without_parameters=True, sizes_from=1),
    LayerType("Downsample", sizes_from=1, without_parameters=True),
    # Not to be computed in place.
    LayerType("Add", without_parameters=True, in_place=InPlace.OVERWRITES),
    LayerType("Combination", in_place=InPlace.OVERWRITES),
    LayerType("CropCenter", in_place=InPlace.OVERWRITES),
    LayerType("DeephiResize", in_place=InPlace.OVERWRITES),
    LayerType("DepthToSpace", in_place=InPlace.OVERWRITES),
    LayerType("Division", in_place=InPlace.OVERWRITES),
    LayerType("MIL", in_place=InPlace.OVERWRITES),
    LayerType("Maxout", in_place=InPlace.OVERWRITES),
    LayerType("Mul", in_place=InPlace.OVERWRITES),
    LayerType("Pad", in_place=InPlace.OVERWRITES),
    LayerType("ResizeBilinear", in_place=InPlace.OVERWRITES),
    LayerType("ResizeNearestNeighbor", in_place=InPlace.OVERWRITES),
    LayerType("BatchReindex", in_place=InPlace.OVERWRITES),
    LayerType("BilinearInterpolation", in_place=InPlace.OVERWRITES),
    LayerType("Convolution", in_place=InPlace.OVERWRITES, learns=True),
    LayerType(
        "DeformableConvolution", in_place=InPlace.OVERWRITES, example=("NxCxHxW", "NxKxHxW"), learns=True
    ),
    LayerType("Deconvolution", ("convolution_param",), in_place=InPlace.OVERWRITES, learns=True),
    LayerType("Filter", in_place=InPlace.MOVES_FORWARDS),
    LayerType("Interp", in_place=InPlace.OVERWRITES, sizes_from=1),
    LayerType("LRN", in_place=InPlace.OVERWRITES),
    LayerType("Pooling", in_place=InPlace.OVERWRITES),
    LayerType("Reorg", in_place=InPlace.OVERWRITES),
    LayerType("Resample", in_place=InPlace.OVERWRITES, sizes_from=1),
    LayerType("SPP", in_place=InPlace.OVERWRITES),
    LayerType("Sum", without_parameters=True, in_place=InPlace.OVERWRITES),
    LayerType("Unpooling", in_place=InPlace.OVERWRITES),
    LayerType("Upsample", in_place=InPlace.OVERWRITES),
    # Without parameters.
    LayerType("GRUUnit", without_parameters=True),
    LayerType("Silence", without_parameters=True),
    # Code.
    LayerType("Proposal", example=("1xCxHxW", "1xCxHxW", "1x4")),
    LayerType("RPN", example=("1xCxHxW", "1xCxHxW", "1x3")),
    LayerType("Python", is_code=True),
    # What reads nothing.
    LayerType("ContinuationIndicator", role=Role.CONSTANT),
    LayerType("DummyData", role=Role.CONSTANT),
    LayerType("Input", role=Role.CONSTANT),
    LayerType("Parameter", role=Role.CONSTANT),
    # Data.
    LayerType("AnnotatedData", role=Role.DATA),
    LayerType("Data", role=Role.DATA),
    LayerType("DenseImageData", role=Role.DATA),
    LayerType("HDF5Data", role=Role.DATA, labels_from=None),
    LayerType("ImageData", role=Role.DATA),
    LayerType("ImageSegData", role=Role.DATA, labels_until=2),
    LayerType("MemoryData", role=Role.DATA),
    LayerType("VideoData", role=Role.DATA),
    LayerType("WindowData", role=Role.DATA),
    # What changes data while a net is trained.
    LayerType("DataRandTransform", passes_on=_EVERYTHING),
    LayerType("DetectNetTransformation", passes_on=1),
    LayerType("GradientScaler", passes_on=1),
    LayerType("LabelSpecificAdd", passes_on=1),
    LayerType("Noise", passes_on=1),
    LayerType("Python SpatialDropoutLayer", passes_on=1, is_code=True),
    LayerType("Python TripletSampleLayer", passes_on=1, is_code=True),
    LayerType("Python TripletSelectLayer", passes_on=1, is_code=True),
    # Losses and metrics.
    LayerType("Accuracy", role=Role.MEASURE, predictions=1),
    LayerType("HingeLoss", role=Role.MEASURE, predictions=1),
    LayerType("InfogainLoss", role=Role.MEASURE, predictions=1, answer="Softmax", shows_answer=True),
    LayerType("MultinomialLogisticLoss", role=Role.MEASURE, predictions=1),
    LayerType("Python BBoxTransformLayer", makes_labels=True, is_code=True),
    LayerType("Python ClusterGroundtruth", makes_labels=True, is_code=True),
    LayerType("Python IOULayer", role=Role.MEASURE, is_code=True),
    LayerType("Python ScoreDetections", role=Role.MEASURE, is_code=True),
    LayerType("Python mAP", role=Role.MEASURE, is_code=True),
    LayerType("SigmoidCrossEntropyLoss", role=Role.MEASURE, predictions=1, answer="Sigmoid"),
    LayerType(
        "SoftmaxWithLoss",
        ("softmax_param",),
        role=Role.MEASURE,
        predictions=1,
        answer="Softmax",
        shows_answer=True,
    ),
)

LAYER_TYPES = {row.name: row for row in _ROWS}
_MEASURES = ("Loss", "Accuracy", "Eval", "HDF5Output", "MarginInnerProduct", "WarpCTC")
"""Words in the names of measures, including those of forks."""
_TARGETS = "Target"
"""The word in the names of layers that make labels, as AnchorTarget."""
_CHOSEN = "ProposalTarget"
"""The word in the names of layers that choose regions by labels, and make the labels of the regions."""


@cache
def layer_type(name: str) -> LayerType:
    """The facts about a type: its row, or a guess from its name."""
    row = LAYER_TYPES.get(name)
    if row is not None:
        return row
    is_measure, is_code = any(word in name for word in _MEASURES), name.startswith("Python ")
    if is_measure:
        return LayerType(name, role=Role.MEASURE, is_code=is_code)
    if _TARGETS in name:
        return LayerType(name, makes_labels=True, passes_on=int(_CHOSEN in name), is_code=is_code)
    return LayerType(name, is_code=is_code)
