"""Corners of the layers that read regions, against numbers worked by hand."""

from __future__ import annotations

import numpy as np

from prototrt.tests.layer_cases import Case, Message

MAP = np.arange(16).reshape(1, 1, 4, 4)
MAPS = np.concatenate([MAP, -MAP], 0)
WHOLE = [[0, 0, 0, 3, 3]]
TWO_BY_TWO = "pooled_h: 2 pooled_w: 2"
OF_GROUPS = np.arange(16).reshape(1, 4, 2, 2)

CASES = [
    Case("whole map", "ROIPooling", f"roi_pooling_param {{ {TWO_BY_TWO} }}", [MAP, WHOLE], [[[[5, 7], [13, 15]]]]),
    Case("four axes of rois", "ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 1 }",
         [MAP, np.reshape(WHOLE, (1, 5, 1, 1))], [[[[15]]]]),
    Case("one for each image", "ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 1 }",
         [MAPS, np.reshape([[2, 2, 3, 3], [1, 2, 2, 3]], (2, 4, 1, 1))], [[[[15]]], [[[-9]]]]),
    Case("of the second image", "ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 1 }",
         [MAPS, [[1, 2, 2, 3, 3], [0, 2, 2, 3, 3]]], [[[[-10]]], [[[15]]]]),
    Case("halves away from zero", "ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 1 spatial_scale: 0.5 }",
         [MAP, [[0, 1, 1, 1, 1], [0, -1, -1, -1, -1]]], [[[[5]]], [[[0]]]]),
    Case("outside", "ROIPooling", f"roi_pooling_param {{ {TWO_BY_TWO} }}", [MAP + 1, [[0, 3, 2, 6, 5]]],
         [[[[16, 0], [0, 0]]]]),
    Case("ends exchanged", "ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 2 }", [MAP, [[0, 2, 2, 0, 0]]],
         [[[[10, 10]]]]),
    Case("overlapping bins", "ROIPooling", "roi_pooling_param { pooled_h: 3 pooled_w: 2 }", [MAP, [[0, 0, 0, 0, 1]]],
         [[[[0, 0], [4, 4], [4, 4]]]]),
    Case("widened", "ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 1 pad_ratio: 0.5 }",
         [MAP, [[0, 1, 1, 2, 2]]], [[[[15]]]]),
    Case("one row", "ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 2 }",
         [[[[[4, -1, 2, 3, 9]]]], [[0, 1, 0, 4, 0]]], [[[[2, 9]]]]),
    Case("a channel a bin", "PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 1 group_size: 2 }",
         [OF_GROUPS, [[0, 0, 0, 1, 1]]], [[[[0, 5], [10, 15]]]]),
    Case("of the second image", "PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 1 group_size: 1 }",
         [MAPS, [[1, 0, 0, 3, 3], [0, 2, 0, 3, 0], [0, 8, 8, 9, 9]]], [[[[-7.5]]], [[[2.5]]], [[[0]]]]),
    Case("rounded before scaling", "PSROIPooling",
         "psroi_pooling_param { spatial_scale: 0.5 output_dim: 1 group_size: 1 }", [MAP, [[0, 1.4, 1.5, 2.5, 2.4]]],
         [[[[4.5]]]]),
    Case("one point", "PSROIAlign", "psroi_align_param { spatial_scale: 1 output_dim: 1 group_size: 1 sample_num: 1 }",
         [MAP, [[0, 0, 0, 2, 1]]], [[[[5.5]]]]),
    Case("beyond the end", "PSROIAlign", "psroi_align_param { spatial_scale: 1 output_dim: 1 group_size: 1 }",
         [MAP, [[0, 2, 0, 4, 2]]], [[[[0]]]]),
    Case("grid of corners", "ROIAlign", f"roi_pooling_param {{ {TWO_BY_TWO} }}", [MAP, [[0, 0.5, 0.5, 2.5, 2.5]]],
         [[[[0, 1, 2], [4, 5, 6], [8, 9, 10]]]]),
    Case("widened", "ROIAlign", "roi_pooling_param { pooled_h: 1 pooled_w: 1 pad_ratio: 0.5 }",
         [MAP, [[0, 1, 1, 2, 2]]], [[[[0, 2.5], [10, 12.5]]]]),
    Case("partly outside", "ROIAlign", "roi_pooling_param { pooled_h: 1 pooled_w: 1 }",
         [MAP, [[0, 2, 2, 5, 5]]], [[[[7.5, 0], [0, 0]]]]),
    Case("without extent", "ROIAlign", "roi_pooling_param { pooled_h: 1 pooled_w: 1 }", [MAP, [[0, 2, 1, 2, 3]]],
         np.zeros((1, 1, 2, 2))),
    Case("bilinear in the middle", "ROIAlign",
         f"roi_pooling_param {{ {TWO_BY_TWO} bi_type: 0 is_multi_interpolate: false }}", [MAP, [[0, 0, 0, 1.5, 1]]],
         [[[[2 + 0.625, 2 + 1.875], [6 + 0.625, 6 + 1.875]]]]),
    Case("bilinear on the last element", "ROIAlign",
         "roi_pooling_param { pooled_h: 1 pooled_w: 1 bi_type: 0 is_multi_interpolate: false }",
         [MAP, [[0, 3, 3, 3, 3]]], [[[[0]]]]),
    # Half the way between columns 1 and 2, which count 5 / 8 each; rows are all one.
    Case("bicubic", "ROIAlign", "roi_pooling_param { pooled_h: 1 pooled_w: 1 is_multi_interpolate: false }",
         [np.broadcast_to([0.0, 0, 8, 0], (1, 1, 4, 4)), [[0, 1, 0, 1, 0]]], [[[[5]]]]),
]  # fmt: skip
VARYING: list[Case] = []
CASES += [
    # From 1 - 2 / 2 on, and from 3.25 - 3 / 2, rounded down, on.
    Case("around one point", "MultiROIPooling", f"multi_roi_pooling_param {{ {TWO_BY_TWO} }}", [MAP, [[[1, 3]]]],
         [[[[8, 9], [12, 13]]]]),
    Case("halves away from zero", "MultiROIPooling",
         "multi_roi_pooling_param { pooled_h: 1 pooled_w: 3 spatial_scale: 0.5 }", [MAP, [[[-1, 3]]]], [[[[0, 0, 8]]]]),
    Case("each of its image", "MultiROIPooling", f"multi_roi_pooling_param {{ {TWO_BY_TWO} }}",
         [MAPS, [[[9, 9]], [[0, 4]]]], [[[[0, 0], [0, 0]]], [[[0, -12], [0, 0]]]]),
]  # fmt: skip

OP = 'net.prototxt:3: layer "op" '
BOTTOMS = [(1, 4, 6, 6), (3, 5)]
DEFORMABLE = "deformable_psroi_pooling_param { spatial_scale: 1 output_dim: 1 group_size: 2"
REFUSALS = [
    Message("ROIPooling", "roi_pooling_param { pooled_h: 2000000000 pooled_w: 1 }", BOTTOMS,
            f"{OP}(ROIPooling): pooled_h is 2000000000, expected at most 1024\n"
            "  because a net of a few lines must not take gigabytes\n  fix: use a smaller number"),
    Message("MultiROIPooling", f"multi_roi_pooling_param {{ {TWO_BY_TWO} top_num: 24 }}", [(1, 4, 6, 6), (1, 1, 2)],
            f"{OP}(MultiROIPooling): top_num is 24, but the layer has 1 top\n"
            "  fix: set top_num to 1, or change the tops"),
    Message("MultiROIPooling", f"multi_roi_pooling_param {{ {TWO_BY_TWO} }}", [(1, 4, 6, 6), (1, 24, 2)],
            f'{OP}(MultiROIPooling), bottom "b1": shape is (1, 24, 2), expected (1, 1, 2)\n'
            "  because each top is of one landmark, which is x and y\n  fix: give it as many landmarks as tops"),
    Message("MultiROIPooling", "multi_roi_pooling_param { pooled_h: 2 pooled_w: 7 }", [(1, 4, 6, 6), (1, 1, 2)],
            f'{OP}(MultiROIPooling), bottom "b0": shape is (1, 4, 6, 6), expected at least 2 x 7 elements\n'
            "  because the fork reads beyond the rows of a smaller map\n  fix: use smaller windows"),
    Message("PSROIAlign", "psroi_align_param { spatial_scale: 1 output_dim: 1 group_size: 2 sample_num: 65 }", BOTTOMS,
            f"{OP}(PSROIAlign): sample_num is 65, expected at most 64\n"
            "  because a net of a few lines must not take gigabytes\n  fix: use a smaller number"),
    Message("ROIPooling", "roi_pooling_param { pooled_h: 2 }", BOTTOMS,
            f"{OP}(ROIPooling): pooled_h is 2 and pooled_w 0, expected at least 1\n"
            "  fix: set both to 1 or more"),
    Message("ROIPooling", f"roi_pooling_param {{ {TWO_BY_TWO} }}", [(1, 4, 6, 6), (3, 4)],
            f'{OP}(ROIPooling), bottom "b1": shape is (3, 4), expected (R, 5)\n'
            "  because a roi is the number of its image, and x1, y1, x2 and y2\n"
            "  fix: give it the rois of a proposal layer, or such an input"),
    Message("ROIPooling", f"roi_pooling_param {{ {TWO_BY_TWO} }}", [(4, 6), (3, 5)],
            f'{OP}(ROIPooling), bottom "b0": shape is (4, 6), expected (N, C, H, W)\n'
            "  fix: add a Reshape before this layer to 4 axes"),
    Message("PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 1 group_size: 3 }", BOTTOMS,
            f'{OP}(PSROIPooling), bottom "b0": shape is (1, 4, 6, 6), expected 9 channels\n'
            "  because output_dim is 1 and group_size 3\n"
            "  fix: use another output_dim or group_size, or a Convolution before it with as many outputs"),
    Message("PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 4 group_size: 0 }", BOTTOMS,
            f"{OP}(PSROIPooling): output_dim is 4 and group_size 0, expected at least 1\n"
            "  fix: set both to 1 or more"),
    Message("PSROIAlign", "psroi_align_param { spatial_scale: 1 output_dim: 1 group_size: 2 sample_num: 0 }", BOTTOMS,
            f"{OP}(PSROIAlign): sample_num is 0, expected at least 1\n  fix: set sample_num in psroi_align_param"),
    Message("DeformablePSROIPooling", f"{DEFORMABLE} pooled_size: 7 no_trans: true }}", BOTTOMS,
            f"{OP}(DeformablePSROIPooling): pooled_size is 7, expected group_size, 2\n"
            "  because the fork makes group_size x group_size bins, whatever pooled_size says\n"
            "  fix: set both to one number"),
    Message("DeformablePSROIPooling", f"{DEFORMABLE} sample_per_part: 0 no_trans: true }}", BOTTOMS,
            f"{OP}(DeformablePSROIPooling): sample_per_part is 0, expected at least 1\n"
            "  fix: set it in deformable_psroi_pooling_param"),
    Message("DeformablePSROIPooling", f"{DEFORMABLE} part_size: 2 }}", BOTTOMS,
            f"{OP}(DeformablePSROIPooling): has 2 bottoms and part_size 2, expected 3 and at least 1\n"
            "  fix: give it the offsets and their part_size, or set no_trans"),
    Message("DeformablePSROIPooling", f"{DEFORMABLE} part_size: 2 }}", [*BOTTOMS, (3, 4, 2, 2)],
            'net.prototxt:4: layer "op" (DeformablePSROIPooling), bottom "b2": shape is (3, 4, 2, 2),'
            " expected (R, 2 K, 2, 2)\n  because part_size is 2, and output_dim 1\n"
            "  fix: make K a divisor of output_dim"),
    Message("ROIAlign", f"roi_pooling_param {{ {TWO_BY_TWO} bi_type: 2 }}", BOTTOMS,
            f"{OP}(ROIAlign): bi_type is 2, expected 0 (bilinear) or 1 (bicubic)\n  fix: remove bi_type to use 1"),
    Message("ROIAlign", f"roi_pooling_param {{ {TWO_BY_TWO} bi_type: 0 spatial_scale: 0 }}", BOTTOMS,
            f"{OP}(ROIAlign): spatial_scale is 0, expected more than 0\n  fix: set it in roi_pooling_param"),
]  # fmt: skip
WARNINGS = [
    Message("ROIAlign", f"roi_pooling_param {{ {TWO_BY_TWO} bi_type: 0 }}", BOTTOMS,
            f"{OP}(ROIAlign): is_multi_interpolate is ignored, as in the CPU code of makefile/frcnn"),
]  # fmt: skip
