"""One table of layer types: the facts that modules need about a type, besides its rule.

A type needs a row only where it differs from the defaults of ``LayerType``, which fit a layer that computes
on images and whose parameters stand under its own name (``relu_param`` for ``ReLU``). The computation of
a layer is not here: that is its rule, in ``surgery/layers``.

To add a fact about types, add a field to ``LayerType`` with a default that fits most types, and set it in
the rows that differ. ``layer_type(NAME)`` returns the row of a type, also for unknown types.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cache
from typing import Any

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


def _alike(names: str, **facts: Any) -> Iterator[LayerType]:
    """Rows of the same facts."""
    return (LayerType(name, **facts) for name in names.split())


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
    LayerType("CTCBeamSearchDecoder", ("ctc_decoder_param",), labels_at=2),
    LayerType("CTCGreedyDecoder", ("ctc_decoder_param",), labels_at=2),
    LayerType("Region", labels_at=1),
    LayerType(
        "Deconvolution3D", ("convolution3d_param", "convolution_param"), example=("NxCxLxHxW",), learns=True
    ),
    LayerType("DecodeBBox", ("bbox_reg_param",)),
    *_alike("ConvolutionDepthwise DepthwiseConvolution", parameters=("convolution_param",), learns=True),
    LayerType("FrcnnProposal", ("proposal_param",), example=("1xCxHxW", "1xCxHxW", "1x3")),
    LayerType("Im2col", ("convolution_param",)),
    LayerType("NdConvolution", ("convolution_param",), example=("NxCxLxHxW",), learns=True),
    LayerType("NdPooling", ("pooling_param",), example=("NxCxLxHxW",)),
    LayerType("Normalize", ("norm_param", "normalize_param")),
    LayerType("ROIAlign", ("roi_pooling_param",), example=_REGIONS),
    LayerType("Pooling3D", ("pooling3d_param", "pooling_param"), example=("NxCxLxHxW",)),
    LayerType("SpatialTransformer", ("st_param",), example=("NxCxHxW", "Nx6")),
    # Regions: the map, and a row per region.
    LayerType("DeformablePSROIPooling", example=(*_REGIONS, "RxKxPxP")),
    *_alike("PSROIAlign PSROIPooling ROIAlignment ROIPooling ROIWarping", example=_REGIONS),
    LayerType("MultiROIPooling", example=("NxCxHxW", "NxRx2")),
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
    *_alike("GRU RNN VanillaRNN", parameters=("recurrent_param",), example=_STEPS, states=1, learns=True),
    *_alike(
        "LSTM LSTMController LSTMNew LSTMTopic",
        parameters=("recurrent_param",),
        example=_STEPS,
        states=2,
        learns=True,
    ),
    LayerType("LSTMNode", ("lstm_param",), example=("NxI", "NxI", "N"), learns=True),
    LayerType("Lstm", example=_STEPS, learns=True),
    # Others with weights.
    *_alike(
        "DenseBlock GateRecurrent GateRecurrent2dnoind IRNN MultiStageMeanfield"
        " MultiStageMeanfieldAU3 SpatialRecurrent",
        learns=True,
    ),
    # Rows and ids.
    LayerType("Embed", reads_ids=True, learns=True),
    *_alike("InnerProduct LinearTransform", reads_rows=True, in_place=InPlace.OVERWRITES, learns=True),
    LayerType("Similarity", example=("NxC", "KxC"), in_place=InPlace.OVERWRITES, learns=True),
    # Tops with the axes of the bottoms.
    *_alike(
        "AbsVal BatchNorm Bias BN BNLL BReLU ChannelNorm Clip Concat Dropout ELU Exp GroupNorm"
        " HardSigmoid Insanity Log Normalization Power PReLU ReLU Reverse Scale SeLU SeLu Sigmoid Split Swish"
        " TanH Threshold",
        keeps_axes=True,
    ),
    *_alike("Eltwise Flip ReverseAxis ShuffleChannel", keeps_axes=True, in_place=InPlace.OVERWRITES),
    *_alike(
        "HardSwish MaskPooling Mish MultiSoftmax NegSquare Norm NormalizationL2 SignedSqrt",
        without_parameters=True,
        keeps_axes=True,
    ),
    LayerType("Correlation1D", ("correlation_param",)),
    LayerType("ChannelScale", keeps_axes=True, example=("NxCxHxW", "Nx1xHxW")),
    LayerType("ExpMax", keeps_axes=True),
    LayerType("SpatialProduct", without_parameters=True, keeps_axes=True, example=("NxCxHxW", "Nx1xHxW")),
    LayerType("PriorBoxClustered", ("prior_box_param",)),
    LayerType("ReLU6", ("relu_param", "relu6_param"), keeps_axes=True),
    # The size of another blob.
    *_alike("AutoCrop CropHed", without_parameters=True, sizes_from=1),
    *_alike("Crop Downsample", sizes_from=1),
    # Not to be computed in place.
    *_alike(
        "BatchReindex BatchToSpaceND BilinearInterpolation Combination CropCenter DeephiResize"
        " DepthToSpace Division LRN MaskResize Maxout MergeCrop MIL Mul NNInterp Pad Pooling Reorg"
        " Resize ResizeBilinear ResizeNearestNeighbor SpaceToBatchND SPP Tiling Unpooling Upsample",
        in_place=InPlace.OVERWRITES,
    ),
    *_alike("Convolution Local", in_place=InPlace.OVERWRITES, learns=True),
    LayerType(
        "DeformableConvolution", in_place=InPlace.OVERWRITES, example=("NxCxHxW", "NxKxHxW"), learns=True
    ),
    LayerType("Deconvolution", ("convolution_param",), in_place=InPlace.OVERWRITES, learns=True),
    LayerType("Filter", in_place=InPlace.MOVES_FORWARDS),
    *_alike("Add Sum", without_parameters=True, in_place=InPlace.OVERWRITES),
    *_alike("Interp Resample", in_place=InPlace.OVERWRITES, sizes_from=1),
    # Without parameters.
    *_alike("Grid GRUUnit L2Normalize NormL2 Silence", without_parameters=True),
    # Code.
    LayerType("Proposal", example=("1xCxHxW", "1xCxHxW", "1x4")),
    LayerType("RPN", example=("1xCxHxW", "1xCxHxW", "1x3")),
    LayerType("Python", is_code=True),
    # What reads nothing.
    *_alike("ContinuationIndicator DummyData Input Parameter", role=Role.CONSTANT),
    # Data.
    *_alike("AnnotatedData Data DenseImageData ImageData MemoryData VideoData WindowData", role=Role.DATA),
    LayerType("HDF5Data", role=Role.DATA, labels_from=None),
    LayerType("ImageSegData", role=Role.DATA, labels_until=2),
    # What changes data while a net is trained.
    LayerType("DataRandTransform", passes_on=_EVERYTHING),
    *_alike("DetectNetTransformation GradientScaler LabelSpecificAdd Noise SeLuDropout", passes_on=1),
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
