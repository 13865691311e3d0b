"""A rule for each layer type of a single fork, written with the words of surgery/rules.py alone."""

from __future__ import annotations

from prototrt.surgery.building.layer_builder import layer_rule
from prototrt.surgery.building.layer_rules import python_rule

FAMILIES = {
    "compact_bilinear": "CompactBilinear SignedSqrt",
    "dense_block": "DenseBlock",
    "detectors.mscnn": "BoxGroupOutput BoxOutput DecodeBBox",
    "detectors.proposals": "FrcnnProposal RPN",
    "detectors.yolo": "Region YoloDetectionOutput Yolov3DetectionOutput",
    "devise": "LinearTransform Similarity",
    "flow.augmentation": "DataAugmentation",
    "flow.correlation": "ChannelNorm Correlation Correlation1D",
    "flow.matching": "ExpMax NegSquare",
    "flow.resampling": "Downsample Resample",
    "flow.warping": "FlowWarp Grid Warp",
    "hypercolumns": "HyperColumns",
    "images": "BReLU Flip",
    "lstm_node": "LSTMNode",
    "mean_field": "DenseCRF MultiStageMeanfield MultiStageMeanfieldAU3",
    "parts": "Combination CropCenter CropHed Division MergeCrop",
    "places": "ChannelScale MultiSoftmax Norm SpatialProduct",
    "regions.deformable_convolution": "DeformableConvolution",
    "regions.deformable_regions": "DeformablePSROIPooling",
    "regions.masks": "MaskPooling MaskResize",
    "regions.points": "MultiROIPooling PSROIAlign ROIAlignment ROIWarping",
    "resizing": "DeephiResize NNInterp Resize",
    "soft_proposal": "SoftProposal",
    "space_blocks": "BatchToSpaceND DepthToSpace SpaceToBatchND Tiling",
    "synopsys.elementwise": "Add HardSigmoid HardSwish Mul",
    "synopsys.resizing": "ResizeBilinear ResizeNearestNeighbor",
    "synopsys.shape": "Pad Squeeze",
}
"""The types whose rules stand in a module."""
_FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds.split()}
_FAMILY_OF_PYTHON = {
    "SSH.layers.proposal_layer.ProposalLayer": "detectors.proposals",
    "caffe.layers.detectnet.clustering.ClusterDetections": "detectors.detectnet",
    "caffe_traininglayers.SpatialRepLayer": "images",
    "cmap_layer.CmapLayer": "images",
    "cut_roi_layer.bbox_transform_inv_layer.BBoxTransformInvLayer": "regions.masks",
    "cut_roi_layer.layer.CutROILayer": "regions.masks",
    "layers.text_proposal_layer.ProposalLayer": "detectors.text_proposals",
    "pylayer.mask_layer.MaskLayer": "regions.masks",
    "pylayer.stage_bridge_layer.StageBridgeLayer": "regions.masks",
    "resize.resize_to_same_size": "resizing",
}

layer_rule.places_rules_in(__name__, FAMILIES, _FAMILY_OF.get)
python_rule.places_rules_in(__name__, {*_FAMILY_OF_PYTHON.values()}, _FAMILY_OF_PYTHON.get)
