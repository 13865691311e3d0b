"""One rule per operator of Caffe2. A module is a family: it is imported for the first of its operators."""

from __future__ import annotations

from prototrt.surgery.caffe2.operator_rule import operator_rule

FAMILIES = {
    "activation": (
        "Abs Ceil Clip Cos Cube Elu Erf Exp Floor Gelu Glu HardSigmoid LeakyRelu Log Logit Mish Negative PRelu Pow "
        "Reciprocal Relu ReluN Rsqrt Scale Selu Sigmoid Sign Sin Softplus Softsign Sqr Sqrt Swish Tanh ThresholdedRelu"
    ),
    "convolution": "Conv Conv1D Conv2D Conv3D ConvRelu ConvTranspose",
    "data": (
        "Alias AliasWithName ConstantFill Copy CopyCPUToGPU CopyFromCPUInput CopyGPUToCPU "
        "CopyOnDeviceLike Dropout EnsureCPUOutput EnsureDense GivenTensorBoolFill GivenTensorDoubleFill "
        "GivenTensorFill GivenTensorInt16Fill GivenTensorInt64Fill GivenTensorIntFill Input "
        "ScatterAssign StopGradient"
    ),
    "detections": "BBoxTransform BoxWithNMSLimit",
    "elementwise": (
        "Add And Cast Conditional Div EQ ElementwiseLinear GE GT LE LT Max Mean Min Mul NE Not Or RowMul "
        "Sub Sum SumRelu WeightedSum Where Xor"
    ),
    "groups": (
        "AffineChannel CosineSimilarity DotProduct GroupNorm InstanceNorm L1Distance Normalize "
        "NormalizeL1 RMSNorm SquaredL2Distance"
    ),
    "images": (
        "BRGNCHWCToPackedInt8BGRAStylizerDeprocess PackedInt8BGRANHWCToNCHWCStylizerPreprocess PadImage "
        "ResizeNearest UpsampleBilinear UpsampleNearest"
    ),
    "keypoints": "HeatmapMaxKeypoint",
    "linear": "BatchGather BatchMatMul FC FCTransposed Gather MatMul",
    "masks": "ReversePackedSegs SequenceMask VariableLengthSequencePadding",
    "normalization": "LRN LayerNorm Softmax SpatialBN",
    "pooling": "AveragePool AveragePool1D AveragePool2D AveragePool3D MaxPool MaxPool1D MaxPool2D MaxPool3D",
    "proposals": "GenerateProposals GenerateProposalsCPP",
    "pyramid": "CollectAndDistributeFpnRpnProposals CollectRpnProposals DistributeFpnProposals",
    "recurrent_network": "RecurrentNetwork",
    "reductions": (
        "ArgMax ArgMin ColwiseMax ReduceBackMax ReduceBackMean ReduceBackSum ReduceFrontMax "
        "ReduceFrontMean ReduceFrontSum ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum "
        "RowwiseMax SumElements TopK"
    ),
    "reshaping": (
        "Expand ExpandDims Flatten FlattenToVec MergeDim PrependDim Reshape ResizeLike Shape Size Squeeze"
    ),
    "regions": "BatchPermutation RoIAlign RoIPool RoIPoolF",
    "segments": "LengthsMean LengthsSum SparseLengthsMean SparseLengthsSum SparseLengthsWeightedSum",
    "shape": "ChannelShuffle Concat DepthConcat DepthSplit NCHW2NHWC NHWC2NCHW Slice Split Tile Transpose",
    "stacks": "InferenceLSTM Recurrent RecurrentParamGet RecurrentParamSet",
    "units": "GRUUnit LSTMUnit",
}
"""The operators whose rules stand in a module."""
_FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds.split()}

operator_rule.places_rules_in(__name__, FAMILIES, _FAMILY_OF.get)
