"""Corners of the layers that give an image another size, against numbers worked by hand."""

from __future__ import annotations

import numpy as np

from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.small_nets import numbers

X = numbers(2, 3, 4, 5)
ROW = [[[[0, 6, 12]]]]
SQUARE = [[[[1, 2], [3, 4]]]]
MASK = [[[[5, 0], [7, 8]]]]
LIKE = np.zeros((1, 7, 1, 4))
JOINED = 'python_param { module: "layers.resize" layer: "resize_to_same_size" }'
CASES = [
    Case("a row and a column are left", "Python", JOINED, [np.zeros((1, 1, 3, 5)), SQUARE],
         [[[[0] * 5] * 3, [[1, 1, 2, 2, 0], [3, 3, 4, 4, 0], [0] * 5]]]),
    Case("default scale", "Upsample", "", [X], X),
    Case("scale 3", "Upsample", "upsample_param { scale: 3 }", [X], np.kron(np.asarray(X), np.ones((3, 3)))),
    Case("stated size", "Upsample", "upsample_param { upsample_h: 3 upsample_w: 4 }", [SQUARE, MASK],
         [[[[2, 0, 0, 0], [0, 1, 0, 3], [4, 0, 0, 0]]]]),
    Case("default scale and a row less", "Upsample", "upsample_param { pad_out_h: true }", [SQUARE, MASK],
         [[[[2, 0, 0, 0], [0, 1, 0, 3], [4, 0, 0, 0]]]]),
    Case("two scales", "Upsample", "upsample_param { scale_h: 2 scale_w: 3 }", [[[[[1]]]], [[[[4]]]]],
         [[[[0, 0, 0], [0, 1, 0]]]]),
    Case("each item and channel by itself", "Upsample", "upsample_param { upsample_h: 1 upsample_w: 3 }",
         [[[[[1]], [[2]]], [[[3]], [[4]]]], [[[[0]], [[1]]], [[[2]], [[0]]]]],
         [[[[1, 0, 0]], [[0, 2, 0]]], [[[0, 0, 3]], [[4, 0, 0]]]]),
    Case("one side", "Unpooling", "unpooling_param { kernel_size: 2 unpool_size: 3 }", [SQUARE, MASK],
         [[[[2, 0, 0], [0, 0, 1], [0, 3, 4]]]]),
    Case("size of the windows", "Unpooling", "unpooling_param { kernel_h: 1 kernel_w: 3 stride: 2 pad_w: 1 }",
         [SQUARE, MASK], [[[[2, 0, 0], [0, 0, 1], [0, 3, 4]]]]),
    Case("two sides", "Unpooling", "unpooling_param { unpool_h: 1 unpool_w: 9 }", [SQUARE, MASK],
         [[[[2, 0, 0, 0, 0, 1, 0, 3, 4]]]]),
    Case("twice by the nearest", "DeephiResize",
         "deephi_resize_param { scale_h: 2 scale_w: 2 resize_type: NEAREST }", [X],
         np.kron(np.asarray(X), np.ones((2, 2)))),
    Case("middles", "DeephiResize", "deephi_resize_param { new_height: 1 new_width: 6 }", [ROW],
         [[[[0, 1.5, 4.5, 7.5, 10.5, 12]]]]),
    Case("a scale with a fraction", "DeephiResize", "deephi_resize_param { scale_h: 1.9 scale_w: 0.4 }", [ROW],
         [[[[6]]]]),
    Case("one row becomes two", "Interp", "interp_param { height: 2 width: 5 }", [ROW], [[[[0, 3, 6, 9, 12]] * 2]]),
    Case("to one pixel", "Interp", "interp_param { height: 1 width: 1 }", [SQUARE], [[[[1]]]]),
    Case("zoom before size", "Interp", "interp_param { zoom_factor: 2 height: 9 width: 9 }", [ROW],
         [[[[0, 3, 6, 9, 12]]]]),
    Case("shrink", "Interp", "interp_param { shrink_factor: 2 }", [ROW], [[[[0, 12]]]]),
    Case("size before both factors", "Interp",
         "interp_param { zoom_factor: 2 shrink_factor: 2 height: 1 width: 2 }", [ROW], [[[[0, 12]]]]),
    Case("both factors", "Interp", "interp_param { zoom_factor: 3 shrink_factor: 2 }", [ROW], [[[[0, 4, 8, 12]]]]),
    Case("crop alone", "Interp", "interp_param { zoom_factor: 1 pad_beg: -1 pad_end: -2 }", [X], X[:, :, 1:-2, 1:-2]),
    Case("as a bottom", "Interp", "", [ROW, LIKE], [[[[0, 4, 8, 12]]]]),
    Case("factor", "BilinearInterpolation", "bilinear_interpolation_param { interpolation_factor: 2 }", [ROW],
         [[[[0, 2.4, 4.8, 7.2, 9.6, 12]] * 2]]),
    Case("as a bottom", "BilinearInterpolation", "", [ROW, LIKE], [[[[0, 4, 8, 12]]]]),
    Case("nearest to fewer", "Resample", "resample_param { height: 1 width: 1 type: NEAREST }", [numbers(1, 1, 3, 3)],
         numbers(1, 1, 3, 3)[:, :, 1:2, 1:2]),
    # Both scales are 3: the kernel covers the row, whose middle counts 3 / 7, and the ends 2 / 7.
    Case("linear to fewer", "Resample", "resample_param { height: 1 width: 1 }",
         [[[[[0, 0, 0], [3, 7, 3], [0, 0, 0]]]]], [[[[3 / 7 * (2 * 3 + 3 * 7 + 2 * 3) / 7]]]]),
    Case("linear without antialias", "Resample", "resample_param { height: 1 width: 1 antialias: false }",
         [[[[[0, 0, 0], [3, 7, 3], [0, 0, 0]]]]], [[[[7]]]]),
    # At -1 / 4 and 5 / 4 of two pixels the kernel is cut, and what is left counts as all.
    Case("cubic to more", "Resample", "resample_param { height: 4 width: 4 type: CUBIC }",
         [[[[[0, 1], [0, 1]]]]],
         [[[[-0.0703125 / 0.796875, 0.2265625 / 1.09375, 0.8671875 / 1.09375, 0.8671875 / 0.796875]] * 4]]),
    Case("as a bottom", "Resample", "resample_param { type: NEAREST }", [SQUARE, np.zeros((1, 1, 4, 4))],
         np.kron(np.asarray(SQUARE), np.ones((2, 2)))),
    Case("shift beyond float32", "ExpMax", "expmax_param { shift: 1000 }", [SQUARE], np.full((1, 1, 2, 2), np.inf)),
]  # fmt: skip
VARYING = [case for case in CASES if case.bottoms[0] is X]

OP = 'net.prototxt:2: layer "op" '
OF_TWO = 'net.prototxt:3: layer "op" '
IMAGE = [(1, 2, 4, 6)]
REFUSALS = [
    Message("Python", JOINED, [(1, 2, 3, 4), (1, 1, 4, 4)],
            'net.prototxt:3: layer "op" (Python), bottom "b1": shape is (1, 1, 4, 4), expected a smaller map\n'
            '  because the first bottom, "b0", has 3 x 4 pixels\n'
            "  fix: give the largest map first"),
    Message("BilinearInterpolation", "", IMAGE,
            f"{OP}(BilinearInterpolation): states no size\n"
            "  fix: set interpolation_factor in bilinear_interpolation_param, or add a second bottom"),
    Message("BilinearInterpolation", "bilinear_interpolation_param { interpolation_factor: 0 }", IMAGE,
            f"{OP}(BilinearInterpolation): interpolation_factor is 0, expected at least 1\n"
            "  fix: set interpolation_factor in bilinear_interpolation_param, or add a second bottom"),
    Message("Upsample", "", [(2, 3)],
            f'{OP}(Upsample), bottom "b0": shape is (2, 3), expected (N, C, H, W)\n'
            "  fix: add a Reshape before this layer to 4 axes"),
    Message("Upsample", "upsample_param { scale: 0 }", IMAGE,
            f"{OP}(Upsample): scale is 0, expected at least 1\n  fix: set scale in upsample_param"),
    Message("Upsample", "upsample_param { scale: 2 pad_out_h: true }", IMAGE,
            f"{OP}(Upsample): states pad_out_h, but has no mask\n"
            "  because pad_out_h belongs to the Upsample of SegNet, which has two bottoms: x and a mask\n"
            "  fix: give it the second top of the Pooling as second bottom, or state scale alone"),
    Message("Upsample", "", [(1, 2, 4, 6), (1, 2, 4, 5)],
            f'{OF_TWO}(Upsample), bottom "b1": shape is (1, 2, 4, 5), expected (1, 2, 4, 6)\n'
            '  because it says where each element of "b0" belongs\n'
            "  fix: give it the second top of the Pooling that made an image of this size"),
    Message("Upsample", "upsample_param { scale: 2 scale_h: 2 }", IMAGE * 2,
            f"{OF_TWO}(Upsample): states both scale and scale_h\n"
            "  fix: remove scale if height and width differ, else the others"),
    Message("Upsample", "upsample_param { scale_w: 2 }", IMAGE * 2,
            f"{OF_TWO}(Upsample): states scale_w alone\n  fix: state both scale_h and scale_w, or scale for both"),
    Message("Upsample", "upsample_param { scale: 1 }", IMAGE * 2,
            f"{OF_TWO}(Upsample): the scale is (1, 1), expected more than 1\n  fix: remove scale to use 2"),
    Message("Upsample", "upsample_param { scale: 3 pad_out_w: true }", IMAGE * 2,
            f"{OF_TWO}(Upsample): the scale is (3, 3), but pad_out_h and pad_out_w work only with 2\n"
            "  fix: remove them, or state upsample_h and upsample_w"),
    Message("Upsample", "upsample_param { upsample_h: 0 upsample_w: 4 }", IMAGE * 2,
            f"{OF_TWO}(Upsample): the top would be 0 x 4, expected at least 1 x 1\n  fix: state a larger size"),
    Message("Unpooling", "unpooling_param { unpool_size: 8 }", IMAGE,
            f"{OP}(Unpooling): works without a mask\n"
            "  because only MAX with a mask is supported\n"
            '  fix: cut the net before this layer with outputs=["BLOB"]'),
    Message("Unpooling", "unpooling_param { unpool: AVE unpool_size: 8 }", IMAGE * 2,
            f"{OF_TWO}(Unpooling): spreads each element over a window\n"
            "  because only MAX with a mask is supported\n"
            '  fix: cut the net before this layer with outputs=["BLOB"]'),
    Message("Unpooling", "", IMAGE * 2,
            f"{OF_TWO}(Unpooling): states neither its size nor a window\n"
            "  fix: set unpool_size in unpooling_param, or kernel_size and stride as the Pooling has them"),
    Message("Unpooling", "unpooling_param { unpool_h: 8 }", IMAGE * 2,
            f"{OF_TWO}(Unpooling): states unpool_h alone\n"
            "  fix: state both unpool_h and unpool_w, or unpool_size for both"),
    Message("Resize", "resize_param { height: 2 width: 3 type: NEAREST }", IMAGE,
            f"{OP}(Resize): NEAREST reads by resize_ratio, which makes another size\n  fix: state type: BILINEAR"),
    Message("Resize", "", IMAGE,
            f"{OP}(Resize): states no size\n"
            "  fix: state height and width, or is_pyramid_test with out_height_scale and out_width_scale"),
    Message("DeephiResize", "", IMAGE,
            f"{OP}(DeephiResize): states no size\n"
            "  fix: state scale_h and scale_w in deephi_resize_param, or new_height and new_width"),
    Message("DeephiResize", "deephi_resize_param { scale_h: 2 scale_w: 2 new_height: 3 new_width: 3 }", IMAGE,
            f"{OP}(DeephiResize): states both a size and scales\n"
            "  fix: state scale_h and scale_w in deephi_resize_param, or new_height and new_width"),
    Message("DeephiResize", "deephi_resize_param { scale_h: 2 }", IMAGE,
            f"{OP}(DeephiResize): states scale_h alone\n  fix: state both scale_h and scale_w"),
    Message("DeephiResize", "deephi_resize_param { scale_h: 0.1 scale_w: 1 }", IMAGE,
            f"{OP}(DeephiResize): the top would be 0 x 6\n  fix: state a larger size, or larger scales"),
    Message("Interp", "", IMAGE,
            f"{OP}(Interp): states no size\n"
            "  fix: set height and width, zoom_factor or shrink_factor in interp_param"),
    Message("Interp", "interp_param { height: 3 }", IMAGE,
            f"{OP}(Interp): states no size\n"
            "  fix: set height and width, zoom_factor or shrink_factor in interp_param"),
    Message("Interp", "interp_param { height: 3 width: 0 }", IMAGE,
            f"{OP}(Interp): height is 3 and width 0, expected at least 1\n  fix: set both to 1 or more"),
    Message("Interp", "interp_param { zoom_factor: 0 }", IMAGE,
            f"{OP}(Interp): zoom_factor is 0, expected at least 1\n  fix: use a factor of 1 or more"),
    Message("Interp", "interp_param { zoom_factor: 2 pad_beg: 1 }", IMAGE,
            f"{OP}(Interp): pad_beg is 1 and pad_end 0, expected 0 or less\n"
            "  because they crop; the layer does not pad\n"
            "  fix: add a layer that pads before this one"),
    Message("Interp", "interp_param { zoom_factor: 2 pad_beg: -2 pad_end: -2 }", IMAGE,
            f"{OP}(Interp): pad_beg -2 and pad_end -2 leave nothing of 4 x 6 pixels\n  fix: cut off less"),
    Message("Interp", "interp_param { height: 2 width: 2000000 }", IMAGE,
            f"{OP}(Interp): an axis becomes 2000000 elements long, expected at most 1048576\n"
            "  fix: use a smaller size"),
    Message("Resample", "resample_param { height: 3 width: 3 type: AREA }", IMAGE,
            f"{OP}(Resample): type is AREA, expected NEAREST, LINEAR or CUBIC\n  fix: cut the net before this layer"
            ' with outputs=["BLOB"]'),
    Message("Resample", "resample_param { width: 3 height: 2147483647 }", IMAGE,
            f"{OP}(Resample): an axis becomes 2147483647 elements long, expected at most 1048576\n"
            "  fix: use a smaller size"),
    Message("Resample", "resample_param { height: 3 }", IMAGE,
            f"{OP}(Resample): height is 3 and width 0, expected at least 1\n"
            "  fix: set both in resample_param, or add a bottom of that size"),
    Message("Resample", "resample_param { height: 4 width: 1 type: NEAREST }", IMAGE,
            f"{OP}(Resample): some of the nearest elements would be outside an axis of 4 elements\n"
            "  because FlowNet's layer exchanges the scales of height and width, which differ here\n"
            "  fix: scale height and width by one factor, or use the type LINEAR"),
    Message("Resample", "resample_param { height: 4 width: 1000000 }", [(1, 1, 4, 20)],
            f"{OP}(Resample): an axis of 20 elements becomes 1000000 long, which takes 20000000 weights,"
            " expected at most 16777216\n"
            "  fix: use a smaller size"),
    Message("Downsample", "downsample_param { top_height: 1 top_width: 3 }", [(1, 1, 4, 5)],
            f"{OP}(Downsample): the top has a size of 1 along axis 2, expected 2 to 4\n"
            "  because the bottom has 4 elements there, and the corners of both meet\n"
            "  fix: use Resample, or give it a smaller size"),
    Message("Downsample", "downsample_param { top_height: 4 top_width: 6 }", [(1, 1, 4, 5)],
            f"{OP}(Downsample): the top has a size of 6 along axis 3, expected 2 to 5\n"
            "  because the bottom has 5 elements there, and the corners of both meet\n"
            "  fix: use Resample, or give it a smaller size"),
    Message("NNInterp", "nninterp_param { height: 3 zoom_factor: 2 shrink_factor: 2 }", [(1, 1, 4, 5)],
            f"{OP}(NNInterp): nninterp_param states zoom_factor and shrink_factor,"
            " expected one way to a size of 1 or more\n"
            "  fix: state height and width, or zoom_factor, or shrink_factor"),
    Message("ExpMax", "", [(2, 1, 4, 5)],
            f"{OP}(ExpMax): axis 0 has a size of 2, expected 1\n"
            "  because LiteFlowNet finds the largest channel of the first image alone\n"
            "  fix: use a batch of 1"),
    Message("ExpMax", "expmax_param { base: 0 }", [(1, 1, 4, 5)],
            f"{OP}(ExpMax): base is 0, expected more than 0\n  fix: remove base to use e"),
]  # fmt: skip
