"""What is told about operators of forks, such as those of TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.tests.layer_cases import Case, Message

IMAGE = [(2, 6, 4, 4)]
CASES: list[Case] = []
VARYING: list[Case] = []
CUT = '  fix: cut the net before this layer with outputs=["BLOB"]'


def message(kind: str, fields: str, text: str, shapes: Sequence[Sequence[int]] = IMAGE) -> Message:
    return Message(kind, fields, shapes, f'net.prototxt:{len(shapes) + 1}: layer "op" ({kind}){text}')


REGIONS_OF_TIME = "roi_pooling_param { pooled_l: 1 pooled_h: 2 pooled_w: 2 }"
BRIDGE = 'python_param { module: "pylayer.stage_bridge_layer" layer: "StageBridgeLayer" }'
TWINS = (
    'python_param { module: "rpn.proposal_layer" layer: "ProposalLayer"'
    " param_str: \"'feat_stride': 8 \\n'scales': [1, 2]\" }"
)
DEFORMABLE = "deformable_convolution_param { num_output: 2 kernel_size: 3 group: 1 deformable_group: "
PIECES = 'python_param { module: "layers.text_proposal_layer" layer: "ProposalLayer" param_str: "\'feat_stride\': 16" }'
REFUSALS = [
    message(
        "HyperColumns",
        "hypercolumns_param { is_train: true }",
        ": is_train is true: it reads pixels drawn at random\n"
        '  fix: read all of them: overrides={"op.hypercolumns_param.is_train": "false"}',
        [(1, 3, 4, 4), (1, 2, 2, 2)],
    ),
    message(
        "HyperColumns",
        "",
        ": has one bottom, expected an image and maps\n  fix: add the maps whose channels are joined",
    ),
    message(
        "HyperColumns",
        "",
        ', bottom "b1": shape is (1, 2, 2, 1), expected a part of (4, 6)\n'
        "  because a map is smaller than the image by a whole number\n"
        "  fix: use an image that the poolings divide",
        [(1, 3, 4, 6), (1, 2, 2, 1)],
    ),
    message(
        "LinearTransform",
        "",
        ": num_output is 0, expected at least 1\n  fix: set num_output in linear_transform_param",
    ),
    message(
        "Similarity",
        "",
        ', bottom "b1": shape is (5, 2), expected (K, 3)\n'
        '  because its rows are multiplied by those of "b0"\n'
        "  fix: give it prototypes of the size of a row",
        [(2, 3), (5, 2)],
    ),
    message(
        "Tiling",
        "tiling_param { tile_dim: 4 }",
        ": tile_dim is 4, but the bottom has 6 channels\n  fix: use a number whose square divides the channels",
    ),
    message(
        "Python",
        'python_param { module: "cut_roi_layer.layer" layer: "CutROILayer" }',
        ', bottom "b0": shape is (2, 6, 4, 4), expected (N, 1, H, W)\n'
        "  because one channel holds the chances\n  fix: give it that channel",
    ),
    message(
        "Python",
        'python_param { module: "cut_roi_layer.bbox_transform_inv_layer" layer: "BBoxTransformInvLayer" }',
        ', bottom "b1": shape is (2, 8), expected (2, 4)\n'
        "  because there are four moves for each box\n  fix: give it the blobs that the net was trained with",
        [(2, 4), (2, 8)],
    ),
    message(
        "DetectionOutput",
        "detection_output_param { num_classes: 2 }",
        ": has 6 bottoms, expected 3 to 5\n  fix: join the locations, confidences and priors by Concat",
        [(1, 16), (1, 8), (1, 2, 16), (1, 8), (1, 16), (1, 16)],
    ),
    message(
        "Python",
        PIECES,
        ', bottom "b0": shape is (1, 18, 2, 3), expected (1, 20, H, W)\n'
        "  because there are 10 anchors at each place, with two numbers for each\n"
        "  fix: use the net that CTPN was trained with",
        [(1, 18, 2, 3), (1, 20, 2, 3), (1, 2)],
    ),
    message(
        "Python",
        PIECES,
        ', bottom "b2": shape is (1, 1), expected at least 2 numbers\n'
        "  because it holds height and width of the image\n  fix: feed both",
        [(1, 20, 2, 3), (1, 20, 2, 3), (1, 1)],
    ),
    message(
        "DeformableConvolution",
        f"{DEFORMABLE} 4 }}",
        ": deformable_group is 4, expected a divisor of the 6 channels\n"
        "  fix: set deformable_group in deformable_convolution_param",
        [*IMAGE, (2, 18, 2, 2)],
    ),
    message(
        "DeformableConvolution",
        f"{DEFORMABLE} 2 }}",
        ', bottom "b1": shape is (2, 18, 2, 2), expected (2, 36, 2, 2)\n'
        "  because each element of the kernel has two offsets for each window and group\n"
        "  fix: give the layer that makes it the same kernel and stride",
        [*IMAGE, (2, 18, 2, 2)],
    ),
    message(
        "DeformableConvolution",
        f"{DEFORMABLE} 2 axis: 2 }}",
        ": axis is 2, expected 1\n  fix: remove axis",
        [*IMAGE, (2, 36, 2, 2)],
    ),
    message(
        "ROIPooling",
        REGIONS_OF_TIME,
        ', bottom "b1": shape is (4, 5), expected (R, 3)\n'
        "  because a stretch of time is the number of its item, x1 and x2\n"
        "  fix: give it the rois of a proposal layer of R-C3D",
        [(1, 2, 4, 7, 7), (4, 5)],
    ),
    message(
        "ROIPooling",
        "roi_pooling_param { pooled_l: 0 }",
        ": pooled_l is 0, expected at least 1\n  fix: set it in roi_pooling_param",
        [(1, 2, 4, 7, 7), (4, 3)],
    ),
    message(
        "Python",
        TWINS,
        ', bottom "b1": shape is (1, 8, 5, 1, 1), expected (1, 4, L, 1, 1)\n'
        "  because there are 2 scales, with two numbers for each at each step\n"
        "  fix: state the scales that the net was trained with",
        [(1, 4, 5, 1, 1), (1, 8, 5, 1, 1)],
    ),
    message(
        "MaskPooling",
        "",
        ', bottom "b1": shape is (2, 6, 4, 4), expected (2, 1, 4, 4)\n'
        "  because each region has one mask, as large as its map\n  fix: resize the mask with MaskResize",
        IMAGE * 2,
    ),
    message(
        "MaskResize",
        "mask_resize_param { output_height: 3 }",
        ": output_height is 3 and output_width 0, expected at least 1\n  fix: set both in mask_resize_param",
    ),
    message(
        "Python",
        'python_param { module: "pylayer.mask_layer" layer: "MaskLayer" }',
        ', bottom "b0": shape is (2, 8), expected (R, S * S)\n'
        "  because each row is a square mask\n  fix: change what makes the masks",
        [(2, 8)],
    ),
    message(
        "Python",
        BRIDGE,
        ', bottom "b1": shape is (2, 8), expected (R, 12)\n'
        "  because there are four moves for each class of each region\n"
        "  fix: give it the blobs that the net was trained with",
        [(2, 5), (2, 8), (2, 3), (1, 3)],
    ),
    message(
        "Python",
        BRIDGE,
        ', bottom "b3": shape is (1, 1), expected at least 2 numbers\n'
        "  because it holds height and width of the image\n  fix: feed both",
        [(2, 5), (2, 12), (2, 3), (1, 1)],
    ),
    message(
        "Maxout",
        "maxout_param { chgroup_sz: 4 }",
        ": chgroup_sz is 4, expected a divisor of the 6 channels\n  fix: set it in maxout_param",
    ),
    message(
        "Maxout",
        "maxout_param { chgroup_sz: 2 minout: true }",
        ": minout is true\n"
        f"  because the fork then compares with the lowest number, which no element is below\n{CUT}",
    ),
    message(
        "Maxout",
        "maxout_param { num_output: 4 }",
        ": num_output is 4, expected a divisor of the 6 channels\n  fix: set it in maxout_param",
    ),
    message(
        "GroupNorm",
        "group_norm_param { group_ratio: 4 }",
        ": group_ratio is 4, expected a divisor of the 6 channels\n  fix: set group_ratio in group_norm_param",
    ),
    message(
        "GroupNorm",
        "",
        ": group_num is 32, expected a divisor of the 6 channels\n  fix: set group_num in group_norm_param",
    ),
    message(
        "Normalization",
        "normalization_param { norm: L1 }",
        f": norm is L1\n  because the fork then divides the first number of each item alone\n{CUT}",
    ),
    message(
        "CropHed",
        "",
        ', bottom "b1": shape is (2, 6), expected 4 axes\n'
        '  because "b0" has the shape (2, 6, 4, 4), and is cropped to the sizes of this bottom\n'
        "  fix: add a Reshape before this layer to give this bottom 4 axes",
        [*IMAGE, (2, 6)],
    ),
    message(
        "CropHed",
        "",
        ', bottom "b0": axis 3 has 4 elements, expected at least 5\n'
        '  because "b1" has 5 there, and the first bottom is cut to that size\n'
        "  fix: swap the bottoms, or change the layers that make them",
        [*IMAGE, (2, 6, 4, 5)],
    ),
    message(
        "Region",
        "region_param { classes: 1 }",
        ": num is missing\n  fix: state num and classes in region_param",
    ),
    message(
        "Region",
        "region_param { num: 1 classes: 1 softmax: false }",
        f": softmax is false, which is not supported\n{CUT}",
    ),
    message(
        "Region",
        "region_param { num: 1 classes: 2 }",
        ', bottom "b0": shape is (2, 6, 4, 4), expected (N, 7, H, W)\n'
        "  because num is 1, and a box has 5 numbers and 2 classes\n"
        "  fix: state num and classes as in the cfg of darknet",
    ),
    message(
        "CropCenter",
        "crop_center_param { crop_size: 1 }",
        ": crop_size is stated 1 times, expected 4 times, once per axis\n"
        "  fix: state 0 for an axis that is not cut",
    ),
    message(
        "CropCenter",
        "crop_center_param { crop_size: 0 crop_size: 0 crop_size: 2 crop_size: 0 }",
        ": crop_size 2 leaves nothing of axis 2 of (2, 6, 4, 4)\n"
        "  fix: use a smaller crop_size, or a larger input",
    ),
    message(
        "Division",
        "division_param { width: 2 height: 3 xcoord: 3 ycoord: 1 }",
        ": parts of 3 x 2 pixels at [(1, 3)] are not all inside of 4 x 4 pixels\n"
        "  fix: change width, height, xcoord or ycoord",
    ),
    message(
        "Division",
        "division_param { width: 2 height: 3 xcoord: 3 }",
        ": has 1 xcoord and 0 ycoord for 1 parts\n  fix: give each part its row and its column",
    ),
    message(
        "Combination",
        "combination_param { xcoord: 0 xcoord: 3 ycoord: 0 ycoord: 0 }",
        f": its bottoms overlap, or leave gaps\n  because the fork keeps old numbers in a gap\n{CUT}",
        IMAGE * 2,
    ),
    message(
        "Add",
        "",
        ": shapes are (2, 6, 4, 4) and (3,), expected sizes that are equal or 1, from the last axis on\n"
        "  fix: change the layers that make them, or add axes of size 1 to one of them with a Reshape",
        [*IMAGE, (3,)],
    ),
    message(
        "Add",
        "",
        ": has one bottom, and no weights say what is added\n  fix: give the weights, or a second bottom",
    ),
    message(
        "Pad",
        "pad_param { paddings: 1 }",
        ": has 1 paddings, expected 8\n  because the bottom has the shape (2, 6, 4, 4)\n"
        "  fix: state two for each axis: before it and after it",
    ),
    message(
        "Squeeze",
        "squeeze_param { axis: 1 }",
        ', bottom "b0": shape is (2, 6, 4, 4), expected a size of 1 on axis 1\n'
        "  fix: remove that axis from squeeze_param",
    ),
    message(
        "SpaceToBatchND",
        "space_to_batch_nd_param { block_shape: 4 paddings: 0 paddings: 1 }",
        ": axis 1 has 7 elements with its paddings, which blocks of 4 do not divide\n"
        "  fix: change paddings or block_shape",
    ),
    message(
        "SpaceToBatchND",
        "space_to_batch_nd_param { block_shape: 2 }",
        ": block_shape has 1 sizes and paddings 0, for a bottom of the shape (2, 6, 4, 4)\n"
        "  fix: state a block_shape of 1 or more for each axis from the second on, and two paddings for each",
    ),
    message(
        "BatchToSpaceND",
        "batch_to_space_nd_param { block_shape: 3 crops: 0 crops: 0 }",
        ": the batch is 2, which blocks of 3 places do not divide\n  fix: change block_shape",
    ),
    message(
        "DepthToSpace",
        'depth_to_space_param { block_size: 2 data_format: "NCHW" }',
        ": block_size is 2, but the bottom has 6 channels\n"
        "  fix: use a number whose square divides the channels",
    ),
    message(
        "DepthToSpace",
        'depth_to_space_param { block_size: 2 data_format: "CHWN" }',
        ": data_format is CHWN, expected NHWC, NCHW, DCR or CRD\n  fix: remove it for NHWC",
    ),
    message(
        "ResizeBilinear",
        'resize_bilinear_param { data_format: "NCHWD" }',
        f": data_format is NCHWD, expected NHWC or NCHW\n{CUT}",
    ),
    message(
        "ResizeNearestNeighbor",
        "resize_nearest_neighbor_param { scale_height: 0.1 }",
        ": the top would be 0 x 4, expected at least 1 x 1\n  fix: state a larger size",
    ),
    message(
        "ResizeBilinear",
        "resize_bilinear_param { scale_width: nan }",
        ": an axis becomes nan elements long, expected at most 1048576\n  fix: use a smaller size",
    ),
    message(
        "ResizeNearestNeighbor",
        "resize_nearest_neighbor_param { scale_height: inf }",
        ": an axis becomes inf elements long, expected at most 1048576\n  fix: use a smaller size",
    ),
    message(
        "CompactBilinear",
        "compact_bilinear_param { num_output: 4 }",
        ": shapes are (2, 6, 4, 4) and (2, 6, 4, 5), expected the same but for axis 1\n"
        "  fix: give both bottoms the same number of images, of one size",
        [*IMAGE, (2, 6, 4, 5)],
    ),
    message(
        "CompactBilinear",
        "",
        ": num_output is 0, expected at least 1\n  fix: set it in compact_bilinear_param",
        IMAGE * 2,
    ),
]
