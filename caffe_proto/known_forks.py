"""Types and fields of forks without a rule: their forks and their effects.

They are not misspellings, and messages must not advise to remove such a field: it changes the result.
"""

from __future__ import annotations

from collections.abc import Mapping

TYPES: Mapping[str, str] = {
    type_: fork
    for fork, types in {
        "bottom-up-attention": "EltwiseAccuracy PythonLayerWithBlobs",
        "cascade R-CNN and MS-CNN": "BoxAnnotatorOHEM BoxIOU DecodeBBoxByClass RepeatLayer ScaleRoute",
        "Caffe for light fields": "Warping",
        "C3D": "VoxelWiseSoftmax",
        "ConvLSTM's fork": "ConvLSTM ConvGRU ConvRNN",
        "CRF-RNN": "MultiStageMeanfield",
        "DeconvNet and DecoupledNet": "Duplicate SelectSegBinary WindowSegData",
        "DeepDetect": "SparseInnerProduct",
        "DeepHand and DeepModel": "DeepHandModel",
        "DeepLab": "DenseCRF DenseCrf DomainTransform MatRead MatWrite SegAccuracy",
        "deformable ConvNets": "DeformableConvolution DeformablePSROIPooling",
        "Depth-VO-Feat": "GeoTransform InverseWarping PinHole",
        "DIGITS": "ClusterDetections ClusterGroundtruth",
        "DRFN": "PwAttend",
        "dynamic network surgery": "CConvolution CInnerProduct",
        "FlowNet": "BlackAugmentation CustomData DataAugmentation Downsample FlowAugmentation"
        " GenerateAugmentationParameters LpqLoss Mean",
        "Hypercolumn nets": "HyperColumns SparseHistogramExtractor SparseHypercolumnExtractor",
        "JAA-Net and ARL": "AUMaskBasedLand Combination Division MultiStageMeanfieldAU3",
        "JEDDi-Net and R-C3D": "ProposalTwinSegment SoftNMS TwinSegment",
        "LearnableDilationNetwork": "Truncation",
        "MNC": "MaskOverlay MaskPooling MaskResize MNCData ROIWarping",
        "MobileNet-YOLO": "AssistedExcitation Region YoloSeg Yolov3 Yolov4",
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
"""The forks of types, by type."""

FIELDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("AccuracyParameter", "min_is_better"): ("other forks", "it compares labels the other way round"),
    ("BatchNormParameter", "relu"): ("Intel Caffe", "a ReLU follows"),
    ("ConcatParameter", "crop"): ("other forks", "the bottoms are cropped first"),
    ("ConvolutionParameter", "binary"): ("XNOR nets", "the weights are rounded to their sign"),
    ("ConvolutionParameter", "fusion_type"): ("Intel Caffe", "the second bottom is added to the result"),
    ("ConvolutionParameter", "negative_slope"): ("Intel Caffe", "it is the slope of the ReLU that follows"),
    ("ConvolutionParameter", "relu"): ("Intel Caffe", "a ReLU follows"),
    ("DetectionOutputParameter", "use_polygon"): ("TextBoxes++", "boxes have eight coordinates"),
    ("EltwiseParameter", "relu"): ("Intel Caffe", "a ReLU follows"),
    ("LayerParameter", "quantization_param"): (
        "Intel Caffe and Ristretto",
        "numbers are rounded to few bits: without it, they are not",
    ),
    ("PoolingParameter", "avg_include_pad"): ("Intel Caffe", "it says whether padding counts in a mean"),
    ("PriorBoxParameter", "denser_prior_boxes"): ("TextBoxes++", "there are twice as many boxes"),
    ("ROIPoolingParameter", "pooled_l"): ("R-C3D", "it pools along the time axis, too"),
    ("ROIPoolingParameter", "temporal_scale"): ("R-C3D", "it scales the time axis"),
    ("SoftmaxParameter", "normalize_type"): ("NormFace", "the bottom is normalized first"),
}
"""By message and field: the fork, and what the field changes."""
