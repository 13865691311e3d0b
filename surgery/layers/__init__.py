"""One rule per Caffe layer type. A module is a family: it is imported for the first of its layers."""

from __future__ import annotations

from prototrt.surgery.building.layer_builder import layer_rule
from prototrt.surgery.building.layer_rules import python_rule

FAMILIES = {
    "activation": "BNLL BReLU Clip ELU HardSigmoid HardSwish Mish PReLU ReLU ReLU6 SeLU SeLu Sigmoid "
    "Swish TanH Threshold",
    "augmentation": "DataAugmentation",
    "batch_norm": "BN BatchNorm",
    "compact_bilinear": "CompactBilinear SignedSqrt",
    "convolution": "Convolution ConvolutionDepthwise Deconvolution DepthwiseConvolution Im2col",
    "data": "Dropout DummyData Input Parameter Silence Split",
    "deformable": "DeformableConvolution",
    "dense_block": "DenseBlock",
    "detection.detection_output": "DetectionOutput",
    "detection.mscnn": "BoxGroupOutput BoxOutput DecodeBBox",
    "detection.prior_box": "PriorBox PriorBoxClustered",
    "detection.proposal": "FrcnnProposal Proposal RPN",
    "detection.yolo": "YoloDetectionOutput Yolov3DetectionOutput",
    "elementwise": "AbsVal Add Axpy AxpyFast Eltwise Exp Log Maxout Mul Power Sum",
    "flow_resampling": "Resample",
    "hypercolumns": "HyperColumns",
    "inner_product": "Embed InnerProduct LinearTransform Similarity",
    "lstm_unit": "LSTMUnit",
    "mean_field": "MultiStageMeanfield",
    "motion": "Correlation FlowWarp SpatialTransformer Warp",
    "normalization": "ChannelNorm GroupNorm LRN MVN NormL2 Normalization NormalizationL2 Normalize Softmax",
    "pooling": "Pooling",
    "pyramid": "SPP",
    "recurrent.attention": "AttLstm",
    "recurrent.clips": "ConvGRU",
    "recurrent.dialects": "GRUUnit LSTMController LSTMNew LSTMTopic Lstm LstmUnit",
    "recurrent.maps": "ConvLSTM ConvLSTMReLU ConvolutionLSTM",
    "recurrent.spatial": "GateRecurrent GateRecurrent2dnoind IRNN SpatialRecurrent",
    "recurrent.rules": "GRU LSTM RNN VanillaRNN",
    "reduction": "ArgMax MIL Reduction",
    "regions.align": "MultiROIPooling ROIAlign ROIWarping",
    "regions.deformable": "DeformablePSROIPooling",
    "regions.masks": "MaskPooling MaskResize",
    "regions.pooling": "ROIPooling",
    "regions.sensitive": "PSROIAlign PSROIPooling",
    "resampling": "BilinearInterpolation Interp",
    "reshaping": "Flatten Reshape Squeeze",
    "scale": "Bias Scale",
    "selection": "BatchReindex Combination Crop CropCenter Division Filter MergeCrop",
    "sequence": "CTCGreedyDecoder ContinuationIndicator ReverseTime",
    "shape": "Concat Flip Pad Permute Reorg Reverse ReverseAxis ShuffleChannel Slice Tile Transpose",
    "space_blocks": "BatchToSpaceND DepthToSpace SpaceToBatchND Tiling",
    "tensorflow_resizing": "ResizeBilinear ResizeNearestNeighbor",
    "upsampling": "DeephiResize Unpooling Upsample",
    "volumes": "Convolution3D Deconvolution3D NdConvolution NdPooling Pooling3D",
}
"""The types whose rules stand in a module."""
_FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds.split()}
_FAMILY_OF_PYTHON = {
    "SSH.layers.proposal_layer.ProposalLayer": "detection.proposal",
    "caffe.layers.detectnet.clustering.ClusterDetections": "detection.clustering",
    "cut_roi_layer.bbox_transform_inv_layer.BBoxTransformInvLayer": "regions.masks",
    "cut_roi_layer.layer.CutROILayer": "regions.masks",
    "caffe_traininglayers.SpatialRepLayer": "spreading",
    "cmap_layer.CmapLayer": "spreading",
    "ds2_cont_filler_layer.DS2ContFillerLayer": "sequence",
    "l2norm_layer.L2NormLayer": "normalization",
    "norm2layer.Norm2Layer": "normalization",
    "layers.text_proposal_layer.ProposalLayer": "detection.text_proposals",
    "pylayer.mask_layer.MaskLayer": "regions.masks",
    "pylayer.proposal_layer.ProposalLayer": "detection.proposal",
    "pylayer.stage_bridge_layer.StageBridgeLayer": "regions.masks",
    "resize.resize_to_same_size": "upsampling",
    "rpn.proposal_layer.ProposalLayer": "detection.proposal",
}

layer_rule.places_rules_in(__name__, FAMILIES, _FAMILY_OF.get)
python_rule.places_rules_in(__name__, {*_FAMILY_OF_PYTHON.values()}, _FAMILY_OF_PYTHON.get)
