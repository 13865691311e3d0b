"""A rule for each layer type of Caffe and of several forks. A module is imported for the first of its layers."""

from __future__ import annotations

from prototrt.surgery.building.layer_builder import layer_rule
from prototrt.surgery.building.layer_rules import python_rule

FAMILIES = {
    "activation": "BNLL Clip ELU Mish PReLU ReLU ReLU6 SeLU SeLu Sigmoid Swish TanH Threshold",
    "batch_norm": "BN BatchNorm",
    "convolution": "Convolution ConvolutionDepthwise Deconvolution DepthwiseConvolution Im2col",
    "data": "Dropout DummyData Input Parameter Silence Split",
    "detection.detection_output": "DetectionOutput",
    "detection.prior_box": "PriorBox PriorBoxClustered",
    "detection.proposal": "Proposal",
    "elementwise": "AbsVal Axpy AxpyFast Eltwise Exp Log Maxout Power Sum",
    "inner_product": "Embed InnerProduct",
    "lstm_unit": "LSTMUnit",
    "motion": "SpatialTransformer",
    "normalization": "GroupNorm LRN MVN NormL2 Normalization NormalizationL2 Normalize Softmax",
    "pooling": "Pooling",
    "pyramid": "SPP",
    "recurrent.attention": "AttLstm",
    "recurrent.clips": "ConvGRU",
    "recurrent.dialects": "GRUUnit LSTMController LSTMNew LSTMTopic Lstm LstmUnit",
    "recurrent.maps": "ConvLSTM ConvLSTMReLU ConvolutionLSTM",
    "recurrent.spatial": "GateRecurrent GateRecurrent2dnoind IRNN SpatialRecurrent",
    "recurrent.rules": "GRU LSTM RNN VanillaRNN",
    "reduction": "ArgMax MIL Reduction",
    "regions.align": "ROIAlign",
    "regions.pooling": "ROIPooling",
    "regions.sensitive": "PSROIPooling",
    "resampling": "BilinearInterpolation Interp",
    "reshaping": "Flatten Reshape",
    "scale": "Bias Scale",
    "selection": "AutoCrop BatchReindex Crop Filter",
    "sequence": "CTCGreedyDecoder ContinuationIndicator ReverseTime",
    "shape": "Concat Permute Reorg Reverse ReverseAxis ShuffleChannel Slice Tile Transpose",
    "upsampling": "Unpooling Upsample",
    "volumes": "Convolution3D Deconvolution3D NdConvolution NdPooling Pooling3D",
}
"""The types whose rules stand in a module."""
_FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds.split()}
_FAMILY_OF_PYTHON = {
    "ds2_cont_filler_layer.DS2ContFillerLayer": "sequence",
    "l2norm_layer.L2NormLayer": "normalization",
    "norm2layer.Norm2Layer": "normalization",
    "pylayer.proposal_layer.ProposalLayer": "detection.proposal",
    "rpn.proposal_layer.ProposalLayer": "detection.proposal",
}

layer_rule.places_rules_in(__name__, FAMILIES, _FAMILY_OF.get)
python_rule.places_rules_in(__name__, {*_FAMILY_OF_PYTHON.values()}, _FAMILY_OF_PYTHON.get)
