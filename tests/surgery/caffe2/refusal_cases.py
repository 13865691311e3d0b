"""Operators that Caffe2 does not run: the type, its inputs in test_refusals.py, its arguments, what is said."""

from __future__ import annotations

from typing import Any

ORDER = ': order is "NHWC", expected "NCHW"\n  fix: export the net in NCHW'
WHOLE = ', input "{}": holds float32, expected int32\n  fix: insert a Cast before it'

REFUSALS: list[tuple[str, str, dict[str, Any], str]] = [
    ("MaxPool", "image", {}, ": states no kernel\n  fix: export the net again"),
    (
        "MaxPool",
        "image",
        {"kernel": 2, "kernels": [2, 2]},
        ": states both kernels and kernel, expected one of them\n  fix: remove kernel",
    ),
    (
        "MaxPool",
        "volume",
        {"kernel": 2},
        ": kernel has 2 entries, expected 3\n  fix: correct the arguments, or export the net again",
    ),
    (
        "MaxPool",
        "image",
        {"kernels": [2]},
        ": kernels has 1 entries, expected 2\n  fix: correct the arguments, or export the net again",
    ),
    (
        "MaxPool",
        "image",
        {"kernel": 2, "pads": [1, 1]},
        ": pads has 2 entries, expected 4\n  fix: correct the arguments, or export the net again",
    ),
    (
        "MaxPool",
        "image",
        {"kernel": 2, "stride": 2, "pads": [0, 0, 2, 0]},
        ": the padding is (0, 0, 2, 0), expected less than the kernel (2, 2)\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "AveragePool",
        "image",
        {"global_pooling": 1, "stride": 2},
        ": with global_pooling, pad must be 0, and stride and dilation 1\n"
        "  fix: remove pad, stride and dilation",
    ),
    (
        "AveragePool",
        "image",
        {"kernel": 2, "pad": 0, "legacy_pad": 2},
        ": legacy_pad is 2, so no padding may be stated\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "MaxPool",
        "image",
        {"kernel": 1, "stride": 4, "legacy_pad": 3},
        ": the last window of axis 3 starts after the end of the input (1, 2, 5, 6)\n"
        "  fix: use a larger window, or a smaller stride or padding",
    ),
    (
        "Conv",
        "image kernel",
        {"kernel": 3, "dilation": 2, "legacy_pad": 3},
        ": legacy_pad is 3 and dilation (2, 2), expected 1\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "Conv",
        "image kernel",
        {"kernel": 3, "legacy_pad": 4},
        ": legacy_pad is 4, expected 0, 1, 2 or 3\n"
        '  fix: cut the net before this operator with outputs=["BLOB"]',
    ),
    (
        "ConvTranspose",
        "sequences kernel",
        {"kernel": 3},
        ', input "sequences": shape is (3, 2, 4), expected (N, C, H, W)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "PRelu",
        "image three",
        {},
        ', input "three": shape is (3,), expected (2,) or (1,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "PRelu",
        "three one",
        {},
        ', input "three": shape is (3,), expected (N, C, ...)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "ElementwiseLinear",
        "rows one one",
        {},
        ', input "one": shape is (1,), expected (4,)\n'
        '  because "rows" has the shape (2, 4), flattened from axis 1 on\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "Add",
        "sequences middle",
        {"broadcast": 1},
        ', input "middle": shape is (2, 1, 4), expected the shape of the first input, (3, 2, 4), from axis 0 on\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "FC",
        "rows weights one",
        {},
        ', input "one": shape is (1,), expected (3,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "BatchMatMul",
        "sequences rows",
        {"trans_b": 1},
        ": shapes are (3, 2, 4) and (2, 4), which differ before the last two axes\n  fix: set broadcast to 1",
    ),
    (
        "LSTMUnit",
        "state rows gates step",
        {"sequence_lengths": 0},
        ', input "rows": shape is (2, 4), expected (1, 2, 4)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "Shape",
        "rows",
        {"axes": [-1]},
        ": axes are [-1], expected axes from 0 to 1\n  fix: correct the arguments, or export the net again",
    ),
    ("Pow", "rows", {}, ": states no exponent\n  fix: add the argument exponent, as in exponent: 2.0"),
    (
        "Glu",
        "sequences",
        {"dim": 0},
        ": axis 0 has 3 elements, expected an even number\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "LeakyRelu",
        "rows",
        {"alpha": 1},
        ': argument "alpha" holds a whole number, expected a number\n'
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "Cast",
        "rows",
        {"to": "int"},
        ': to is "int", expected float, int32, int64 or bool\n'
        '  fix: cut the net before this operator with outputs=["BLOB"]',
    ),
    (
        "ReduceFrontSum",
        "rows",
        {"num_reduce_dim": 3},
        ": num_reduce_dim is 3, but the input has 2 axes: (2, 4)\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "ReduceSum",
        "rows",
        {"axes": [2]},
        ": axes is 2, but the input has 2 axes: (2, 4)\n  fix: use an axis from -2 to 1",
    ),
    (
        "TopK",
        "rows",
        {"k": 5},
        ": k is 5, expected from 1 to 4, the size of axis 1\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "GroupNorm",
        "image three three",
        {"group": 3},
        ": 2 channels cannot be cut into 3 groups\n  fix: state parts that fit, or feed another size",
    ),
    (
        "AffineChannel",
        "image three three",
        {},
        ', input "three": shape is (3,), expected (2,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    ("GroupNorm", "image one one", {"order": "NHWC"}, ORDER),
    (
        "RMSNorm",
        "rows three three",
        {},
        ', input "three": shape is (3,), expected (4,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "DotProduct",
        "rows weights",
        {},
        ', input "weights": shape is (3, 4), expected (2, 4)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "RowMul",
        "rows three",
        {},
        ', input "three": shape is (3,), expected (2,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "WeightedSum",
        "rows one rows",
        {},
        ": has 3 inputs, expected a weight after each blob\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "WeightedSum",
        "rows three",
        {},
        ', inputs "rows" and "three": shapes are (2, 4) and (3,), expected (2, 4) and (1,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "ResizeNearest",
        "image",
        {"height_scale": 0.1},
        ": a size of 5 times 0.1 is less than 1\n  fix: use a larger scale, or a larger input",
    ),
    (
        "ResizeNearest",
        "image",
        {"height_scale": 3e38},
        ": an axis becomes 1.500000002748878e+39 elements long, expected at most 1048576\n  fix: use a smaller size",
    ),
    (
        "ResizeNearest",
        "image three",
        {},
        ', input "three": shape is (3,), expected (2,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "UpsampleBilinear",
        "image",
        {"width_scale": 0.0},
        ": the scales are [1.0, 0.0], expected more than 0\n"
        "  fix: set height_scale and width_scale to positive numbers",
    ),
    (
        "UpsampleBilinear",
        "rows",
        {},
        ', input "rows": shape is (2, 4), expected (N, C, H, W)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "PadImage",
        "image",
        {"pad": 1, "mode": "wrap"},
        ': mode is "wrap", expected constant, edge or reflect\n'
        '  fix: cut the net before this operator with outputs=["BLOB"]',
    ),
    (
        "PadImage",
        "image",
        {"pad": 5, "mode": "reflect"},
        ": axis 2 has 5 elements, expected more than 5, which are mirrored\n  fix: use a smaller pad or a larger input",
    ),
    (
        "PackedInt8BGRANHWCToNCHWCStylizerPreprocess",
        "image three",
        {},
        ', input "image": shape is (1, 2, 5, 6), expected (N, H, W, 4)'
        "\n  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "PackedInt8BGRANHWCToNCHWCStylizerPreprocess",
        "places one",
        {},
        ', input "one": shape is (1,), expected (3,)'
        "\n  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "BRGNCHWCToPackedInt8BGRAStylizerDeprocess",
        "image three",
        {},
        ', input "image": shape is (1, 2, 5, 6), expected (N, 3, H, W)'
        "\n  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "PrependDim",
        "rows",
        {"dim_size": 3},
        ": dim_size is 3, which does not divide axis 0 of (2, 4)\n"
        "  fix: state parts that fit, or feed another size",
    ),
    (
        "MergeDim",
        "three",
        {},
        ', input "three": shape is (3,), expected two axes or more\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    ("Expand", "rows lengths", {}, ": (2, 4) cannot be stretched to (1, 2)\n  fix: state sizes that fit"),
    (
        "LengthsSum",
        "rows matrix",
        {},
        ', input "matrix": shape is (1, 2), expected (N,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "SparseLengthsWeightedSum",
        "rows three lengths lengths",
        {},
        ', input "three": shape is (3,), expected (2,)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    ("Gather", "rows one", {}, WHOLE.format("one")),
    ("SequenceMask", "rows one", {"mode": "sequence"}, WHOLE.format("one")),
    ("LSTMUnit", "state state gates one step", {}, WHOLE.format("one")),
    ("LengthsSum", "rows one", {}, WHOLE.format("one")),
    (
        "Tile",
        "rows",
        {"axis": 1},
        ": tiles is neither stated nor an input\n  fix: add the argument tiles, or a blob with it as input",
    ),
    (
        "Tile",
        "rows lengths",
        {"axis": 1},
        ', input "lengths": shape is (2,), expected one number\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "NCHW2NHWC",
        "rows",
        {},
        ', input "rows": shape is (2, 4), expected (N, C, ...) or (N, ..., C)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "ReversePackedSegs",
        "rows lengths",
        {},
        ', input "rows": shape is (2, 4), expected (T, N, D)\n'
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "VariableLengthSequencePadding",
        "rows lengths",
        {},
        ": shapes are (2, 4) and (2,), expected (T, N, D...) and (N,)\n"
        "  fix: give the shapes and the init net that belong to this predict net",
    ),
    (
        "ConstantFill",
        "",
        {"shape": [-1, 2]},
        ": shape is (-1, 2), expected sizes that are not negative\n"
        "  fix: correct the arguments, or export the net again",
    ),
    (
        "GivenTensorFill",
        "",
        {"values": [1.0, 2.0]},
        ": the shape () has 1 elements, but there are 2 values\n  fix: get the init net again: it is damaged",
    ),
]
