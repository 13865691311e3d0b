"""Corners of the layers that compare or move images, against numbers worked by hand."""

from __future__ import annotations

import numpy as np

from prototrt.tests.layer_cases import Case, Message

A = [[[[1, 2, 3]], [[0, 1, 0]]]]
B = [[[[4, 5, 6]], [[2, 2, 2]]]]
WIDE = np.arange(1, 26).reshape(1, 1, 5, 5)
ONES = np.ones((1, 1, 5, 5))
MAP = np.arange(12).reshape(1, 1, 3, 4)
STILL = np.zeros((1, 2, 3, 4))
FLOW = np.broadcast_to(np.reshape([0.5, 1], (1, 2, 1, 1)), (1, 2, 3, 4))
SAME = [[1, 0, 0, 0, 1, 0]]
PROJECTIVE = 'st_param { transform_type: "projective" }'
CASES = [
    Case("no displacement", "Correlation", "correlation_param { kernel_size: 1 max_displacement: 0 }", [A, B],
         [[[[2, 6, 9]]]]),
    Case("a row on each side", "Correlation", "correlation_param { kernel_size: 1 max_displacement: 1 pad: 1 }", [A, B],
         [[[[0, 0, 0]], [[0, 0, 0]], [[0, 0, 0]],
           [[0, 5, 7.5]], [[2, 6, 9]], [[2.5, 7, 0]],
           [[0, 0, 0]], [[0, 0, 0]], [[0, 0, 0]]]]),
    Case("a window", "Correlation", "correlation_param { kernel_size: 3 max_displacement: 0 stride_1: 2 }",
         [WIDE, ONES], [[[[7, 9], [17, 19]]]]),
    Case("a window that moves", "Correlation",
         "correlation_param { kernel_size: 1 max_displacement: 2 stride_1: 2 stride_2: 2 do_abs: true }", [ONES, WIDE],
         [[[[1]], [[3]], [[5]], [[11]], [[13]], [[15]], [[21]], [[23]], [[25]]]]),
    Case("still", "FlowWarp", "", [MAP, STILL], MAP),
    Case("outside", "FlowWarp", "", [MAP, FLOW], [[[[4.5, 5.5, 6.5, 7], [8.5, 9.5, 10.5, 11], [0, 0, 0, 0]]]]),
    Case("not a number outside", "FlowWarp", "flow_warp_param { fill_value: NOT_A_NUMBER }", [MAP, FLOW],
         [[[[4.5, 5.5, 6.5, 7], [8.5, 9.5, 10.5, 11], [np.nan] * 4]]]),
    Case("a flow that is no number", "FlowWarp", "", [MAP, np.full((1, 2, 3, 4), np.nan)], np.zeros((1, 1, 3, 4))),
    Case("behind the last element", "Warp", "", [MAP, FLOW],
         [[[[4.5, 5.5, 6.5, 0], [8.5, 9.5, 10.5, 0], [0, 0, 0, 0]]]]),
    Case("on the last element", "Warp", "", [MAP, STILL], MAP),
    Case("a flow that is no number", "Warp", "", [MAP, np.full((1, 2, 3, 4), np.nan)], np.zeros((1, 1, 3, 4))),
    Case("same", "SpatialTransformer", "", [MAP, SAME], MAP),
    Case("half the size", "SpatialTransformer", "st_param { output_H: 3 output_W: 2 }", [MAP, SAME], MAP[..., ::2]),
    Case("moved right by half a pixel", "SpatialTransformer", "st_param { theta_1_1: 1 theta_1_2: 0 theta_2_1: 0 }",
         [MAP, [[0, 1, 0.25]]], [[[[0.5, 1.5, 2.5, 1.5], [4.5, 5.5, 6.5, 3.5], [8.5, 9.5, 10.5, 5.5]]]]),
    Case("all of it", "SpatialTransformer", PROJECTIVE, [MAP, [[1, 0, 0, 0, 1, 0, 0, 0]]], MAP),
    Case("infinitely far", "SpatialTransformer", PROJECTIVE, [MAP, [[1, 0, 0, 0, 1, 0, 1, 0]]],
         [[[[0, 0.75, 2.875, 4.25], [0, 4.75, 5.875, 6.25], [8, 8.75, 8.875, 8.25]]]]),
    Case("outside", "SpatialTransformer", "", [MAP, [[1, 0, 9, 0, 1, -9]]], np.zeros((1, 1, 3, 4))),
]  # fmt: skip
VARYING: list[Case] = []

OP = 'net.prototxt:3: layer "op" '
IMAGE = (2, 3, 4, 5)
REFUSALS = [
    Message("Correlation", "correlation_param { kernel_size: 1 max_displacement: 999 pad: 999 }", [IMAGE, IMAGE],
            f"{OP}(Correlation): max_displacement / stride_2 is 999, expected at most 128\n"
            "  because a net of a few lines must not take gigabytes\n  fix: use a smaller number"),
    Message("SpatialTransformer", "st_param { output_W: 99999 }", [IMAGE, (2, 6)],
            f"{OP}(SpatialTransformer): output_W is 99999, expected at most 4096\n"
            "  because a net of a few lines must not take gigabytes\n  fix: use a smaller number"),
    Message("Correlation1D", "correlation_param { kernel_size: 1 max_displacement: 1 single_direction: -1 }",
            [IMAGE, IMAGE],
            f"{OP}(Correlation1D): single_direction is -1, expected 0 or 1\n"
            "  because with -1, the source reads elements before the row, and there are no others\n"
            "  fix: use a model that was trained with single_direction: 1"),
    Message("Correlation", "", [IMAGE, IMAGE],
            f"{OP}(Correlation): states no kernel_size\n  fix: set kernel_size in correlation_param"),
    Message("Correlation", "correlation_param { kernel_size: 2 max_displacement: 1 }", [IMAGE, IMAGE],
            f"{OP}(Correlation): kernel_size is 2, expected an odd number\n"
            "  because a window has a middle element\n  fix: use 3"),
    Message("Correlation", "correlation_param { kernel_size: 1 max_displacement: 1 stride_2: 0 }", [IMAGE, IMAGE],
            f"{OP}(Correlation): stride_1 is 1 and stride_2 0, expected at least 1\n  fix: set both to 1 or more"),
    Message("Correlation", "correlation_param { kernel_size: 3 max_displacement: 2 }", [IMAGE, IMAGE],
            f"{OP}(Correlation): 4 x 5 elements with a pad of 0 have no room for a border of 3\n"
            "  because border is max_displacement + kernel_size / 2\n  fix: set pad to 3, or feed a larger image"),
    Message("Correlation", "correlation_param { kernel_size: 1 max_displacement: 1 }", [IMAGE, (2, 3, 4, 4)],
            f'{OP}(Correlation), bottom "b1": shape is (2, 3, 4, 4), expected (2, 3, 4, 5)\n'
            '  because that is the shape of the first bottom, "b0"\n  fix: give both bottoms one shape'),
    Message("FlowWarp", "", [IMAGE, IMAGE],
            f'{OP}(FlowWarp), bottom "b1": shape is (2, 3, 4, 5), expected (2, 2, 4, 5)\n'
            '  because it has a place for each element of "b0"\n  fix: give it two channels: x and y'),
    Message("SpatialTransformer", 'st_param { transform_type: "grid" }', [IMAGE, (2, 6)],
            f'{OP}(SpatialTransformer): transform_type is "grid", expected "affine" or "projective"\n'
            '  fix: use "affine", or leave it out'),
    Message("SpatialTransformer", 'st_param { transform_type: "projective" }', [IMAGE, (2, 6)],
            f'{OP}(SpatialTransformer), bottom "b1": shape is (2, 6), expected (2, 8)\n'
            "  because theta is 3 x 3, and its last number is 1\n  fix: give it 8 numbers for each image"),
    Message("SpatialTransformer", 'st_param { transform_type: "projective" output_H: 1 }', [IMAGE, (2, 8)],
            f"{OP}(SpatialTransformer): output_H is 1 and output_W 5, expected at least 2\n"
            "  because the grid reaches from border to border\n  fix: set both to 2 or more"),
    Message("SpatialTransformer", 'st_param { sampler_type: "nearest" }', [IMAGE, (2, 6)],
            f'{OP}(SpatialTransformer): sampler_type is "nearest", expected "bilinear"\n'
            '  fix: use "bilinear", or leave it out'),
    Message("SpatialTransformer", "st_param { output_H: 0 }", [IMAGE, (2, 6)],
            f"{OP}(SpatialTransformer): output_H is 0 and output_W 5, expected at least 1\n"
            "  fix: set both to 1 or more"),
    Message("SpatialTransformer", "", [IMAGE, (2, 5)],
            f'{OP}(SpatialTransformer), bottom "b1": shape is (2, 5), expected (2, 6)\n'
            "  because theta is 2 x 3\n  fix: give it the rest of theta"),
    Message("SpatialTransformer", "st_param { theta_2_2: 1 theta_1_3: 0 theta_2_3: 0 }", [IMAGE, (2, 6)],
            f'{OP}(SpatialTransformer), bottom "b1": shape is (2, 6), expected (2, 3)\n'
            "  because theta_1_3 and theta_2_2 and theta_2_3 are stated\n  fix: give it the rest of theta"),
]  # fmt: skip
