"""A rule for each layer type of Caffe and of several forks. A module is imported for the first of its layers."""

from __future__ import annotations

from prototrt.surgery.building.layer_builder import layer_rule
from prototrt.surgery.building.layer_rules import python_rule

FAMILIES = {
    "arithmetic.activation": "BNLL Clip ELU Insanity Mish PReLU ReLU ReLU6 SeLU SeLu Sigmoid Swish TanH Threshold",
    "arithmetic.batch_norm": "BN BatchNorm",
    "arithmetic.elementwise": "AbsVal Axpy AxpyFast Eltwise Exp Log Maxout Power Sum",
    "arithmetic.inner_product": "Embed InnerProduct",
    "arithmetic.normalization": "GroupNorm L2Normalize LRN MVN NormL2 Normalization NormalizationL2 Normalize Softmax",
    "arithmetic.reduction": "ArgMax MIL Reduction",
    "arithmetic.scale": "Bias Scale",
    "detection.detection_output": "DetectionOutput",
    "detection.prior_box": "PriorBox PriorBoxClustered",
    "detection.proposal": "Proposal",
    "images.motion": "SpatialTransformer",
    "images.resampling": "BilinearInterpolation Interp",
    "images.upsampling": "Unpooling Upsample",
    "inputs.data": "Dropout DummyData Input Parameter Silence Split",
    "recurrent.attention": "AttLstm",
    "recurrent.clips": "ConvGRU",
    "recurrent.dialects": "GRUUnit LSTMController LSTMNew LSTMTopic Lstm LstmUnit",
    "recurrent.maps": "ConvLSTM ConvLSTMReLU ConvolutionLSTM",
    "recurrent.rules": "GRU LSTM LSTMUnit RNN VanillaRNN",
    "recurrent.sequence": "CTCGreedyDecoder ContinuationIndicator ReverseTime",
    "recurrent.spatial": "GateRecurrent GateRecurrent2dnoind IRNN SpatialRecurrent",
    "regions.align": "ROIAlign",
    "regions.pooling": "ROIPooling",
    "regions.sensitive": "PSROIPooling",
    "shapes.reshaping": "Flatten Reshape",
    "shapes.selection": "AutoCrop BatchReindex Crop Filter",
    "shapes.shape": "Concat Permute Reorg Reverse ReverseAxis ShuffleChannel Slice Tile Transpose",
    "windows.convolution": "Convolution ConvolutionDepthwise Deconvolution DepthwiseConvolution Im2col",
    "windows.local": "Local",
    "windows.pooling": "Pooling",
    "windows.pyramid": "SPP",
    "windows.volumes": "Convolution3D Deconvolution3D NdConvolution NdPooling Pooling3D",
}
"""The types whose rules stand in a module."""
_FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds.split()}
_FAMILY_OF_PYTHON = {
    "ds2_cont_filler_layer.DS2ContFillerLayer": "recurrent.sequence",
    "l2norm_layer.L2NormLayer": "arithmetic.normalization",
    "norm2layer.Norm2Layer": "arithmetic.normalization",
    "pylayer.proposal_layer.ProposalLayer": "detection.proposal",
    "rpn.proposal_layer.ProposalLayer": "detection.proposal",
}

layer_rule.places_rules_in(__name__, FAMILIES, _FAMILY_OF.get)
python_rule.places_rules_in(__name__, {*_FAMILY_OF_PYTHON.values()}, _FAMILY_OF_PYTHON.get)
