"""Forks of Caffe: types and fields that only they have, and types with different meanings. Light to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Fork: TypeAlias = Literal[
    "bottom-up-attention",
    "bvlc",
    "cascade-rcnn",
    "faceboxes",
    "fcn",
    "happynear",
    "makefile",
    "pspnet",
    "pvanet",
    "segnet",
    "ssd",
    "textboxes",
]

MEANINGS: Mapping[str, Mapping[Fork, str]] = {
    "BN": {
        "happynear": "the fourth blob is 1 / sqrt(variance + eps)",
        "pspnet": "blobs are slope, bias, mean and variance",
        "segnet": "blobs are scale and shift",
    },
    "Crop": {
        "bvlc": "it begins at the first element",
        "fcn": "it begins where the windows of the layers before put the second bottom",
    },
    "Embed": {
        "bottom-up-attention": "a last axis of size 1 becomes num_output",
        "bvlc": "num_output is one more axis",
    },
    "Normalize": {
        "happynear": "there is no learned scale",
        "ssd": "the result is multiplied by a learned scale",
    },
    "PriorBox": {
        "faceboxes": "squares of 32 and 64 pixels stand side by side",
        "ssd": "each box is around its place",
        "textboxes": "each box is followed by the same box half a step below",
    },
    "Proposal": {
        "happynear": "scale is the side of an anchor in pixels",
        "pvanet": "scale multiplies base_size",
    },
    "ROIAlign": {
        "cascade-rcnn": "the corners of bins are read, pooled_h + 1 by pooled_w + 1",
        "makefile": "the middles of pooled_h by pooled_w bins are read",
    },
}
"""By type and by the name of a fork, the difference from the other forks.

They decide only if the fields, bottoms or blobs of a layer do not show the fork. Other types are not listed.
"""

TYPES: Mapping[str, str] = {
    type_: fork
    for fork, types in {
        "bottom-up-attention": "EltwiseAccuracy PythonLayerWithBlobs",
        "cascade R-CNN and MS-CNN": "BoxAnnotatorOHEM BoxIOU DecodeBBoxByClass RepeatLayer ScaleRoute",
        "Caffe for light fields": "Warping",
        "C3D": "VoxelWiseSoftmax",
        "ConvLSTM's fork": "ConvRNN",
        "DeconvNet and DecoupledNet": "Duplicate SelectSegBinary WindowSegData",
        "DeepDetect": "SparseInnerProduct",
        "DeepHand and DeepModel": "DeepHandModel",
        "DeepLab": "DomainTransform MatRead MatWrite SegAccuracy",
        "Depth-VO-Feat": "GeoTransform InverseWarping PinHole",
        "DIGITS": "ClusterDetections ClusterGroundtruth",
        "DRFN": "PwAttend",
        "dynamic network surgery": "CConvolution CInnerProduct",
        "ErlangZ's Caffe": "ShowImage UNPooling",
        "FlowNet": "BlackAugmentation CustomData FlowAugmentation"
        " GenerateAugmentationParameters LpqLoss Mean",
        "Hypercolumn nets": "SparseHistogramExtractor SparseHypercolumnExtractor",
        "JAA-Net and ARL": "AUMaskBasedLand",
        "JEDDi-Net and R-C3D": "ProposalTwinSegment SoftNMS TwinSegment",
        "LearnableDilationNetwork": "Truncation",
        "MNC": "MaskOverlay MNCData",
        "MobileNet-YOLO": "AssistedExcitation YoloSeg Yolov3 Yolov4",
        "NVIDIA's TensorRT samples": "IPlugin RPROI",
        "recognition of speech": "ContFiller",
        "Ristretto": "ConvolutionRistretto DeconvolutionRistretto FcRistretto LRNRistretto",
        "SemanticLabeling": "Segmentation",
        "SphereFace, NormFace and AMSoftmax": "Combine CosineFace FeatureFlip"
        " LabelSpecificAffine LabelSpecificRescale NoiseTolerantFR",
        "the spatial transformer's forks": "AffineGenerator AffineTransformer PowerFile STLoss",
        "the U-Nets for neural tissue": "Affinity ConnectedComponent Malis",
        "VReLU": "MinReLU VReLU",
    }.items()
    for type_ in types.split()
}
"""The forks of types without a rule, by type.

These types and the fields below are not misspellings, and messages must not advise to remove such a field: it changes
the result.
"""

FIELDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("AccuracyParameter", "min_is_better"): ("other forks", "it compares labels the other way round"),
    ("BatchNormParameter", "filler"): ("Intel Caffe", "a scale and a bias follow"),
    ("BatchNormParameter", "relu"): ("Intel Caffe", "a ReLU follows"),
    ("ConcatParameter", "crop"): ("other forks", "the bottoms are cropped first"),
    ("ConvolutionParameter", "binary"): ("XNOR nets", "the weights are rounded to their sign"),
    ("ConvolutionParameter", "bottom_is_im2col"): (
        "segmentation-aware nets",
        "the bottom holds what each window sees",
    ),
    ("ConvolutionParameter", "fuse_type"): ("naibaf7's Caffe", "the layers that follow are part of it"),
    ("ConvolutionParameter", "fusion_type"): ("Intel Caffe", "the second bottom is added to the result"),
    ("ConvolutionParameter", "negative_slope"): ("Intel Caffe", "it is the slope of the ReLU that follows"),
    ("ConvolutionParameter", "relu"): ("Intel Caffe", "a ReLU follows"),
    ("EltwiseParameter", "relu"): ("Intel Caffe", "a ReLU follows"),
    ("LRNParameter", "fuse_type"): ("naibaf7's Caffe", "a Pooling is part of it"),
    ("LayerParameter", "quantization_param"): (
        "Intel Caffe and Ristretto",
        "numbers are rounded to few bits: without it, they are not",
    ),
    ("PoolingParameter", "avg_include_pad"): ("Intel Caffe", "it says whether padding counts in a mean"),
    **{
        ("PoolingParameter", name): ("fully convolutional forks", "it is the dilation of the windows")
        for name in ("kstride", "kstride_h", "kstride_w")
    },
    **{
        ("PoolingParameter", name): ("Synopsys' Caffe", "it pads one side alone")
        for name in ("pad_h0", "pad_h1", "pad_w0", "pad_w1")
    },
    ("RecurrentParameter", "lstm_additional_forget_bias"): ("DSCLRCN", "it is added to the forget gate"),
    ("RecurrentParameter", "static_input_only_start"): ("DSCLRCN", "only the first step reads x_static"),
    ("ROIPoolingParameter", "bb_type"): ("UberNet", "it chooses a part of each region"),
    ("ROIPoolingParameter", "is_rich"): ("UberNet", "every second element of a bin is read"),
    ("ScaleParameter", "max_value"): ("caffe-windows", "the learned scale is limited to it"),
    ("ScaleParameter", "min_value"): ("caffe-windows", "the learned scale is at least this"),
    ("SoftmaxParameter", "normalize_type"): ("NormFace", "the bottom is normalized first"),
}
"""By message and field: the fork, and what the field changes."""
