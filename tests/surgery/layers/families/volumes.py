"""Corners of the layers that slide windows over videos, against numbers worked by hand."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.small_nets import numbers

# Two frames of 2 x 3 elements, 0 to 11.
VIDEO = np.arange(12).reshape(1, 1, 2, 2, 3)
X = numbers(2, 2, 3, 4, 4)


def with_holes(x: Array, dilation: tuple[int, int], kernel: int, stride: int, pad: int) -> Array:
    """The largest element of each window, as loops."""
    counts = [
        -(-(size + 2 * pad - step * (kernel - 1) - 1) // stride) + 1
        for size, step in zip(x.shape[2:], dilation, strict=True)
    ]
    counts = [n - ((n - 1) * stride >= size + pad) for n, size in zip(counts, x.shape[2:], strict=True)]
    y = np.empty((*x.shape[:2], *counts), np.float32)
    for i, j in np.ndindex(*counts):
        rows = [i * stride - pad + k * dilation[0] for k in range(kernel)]
        columns = [j * stride - pad + k * dilation[1] for k in range(kernel)]
        inside = [[r for r in rows if 0 <= r < x.shape[2]], [c for c in columns if 0 <= c < x.shape[3]]]
        y[:, :, i, j] = x[:, :, inside[0]][..., inside[1]].max((2, 3))
    return y


C3D = "kernel_depth: 2 kernel_size: 2"
SUMS = np.ones((1, 1, 2, 2, 2))
SHAPES = "kernel_shape { dim: 2 dim: 1 dim: 2 }"
CASES = [
    Case("old message", "Convolution3D", f"convolution_param {{ num_output: 1 {C3D} }}", [VIDEO], [[[[[41, 49]]]]],
         [SUMS, [1]]),
    Case("new message, strides and pads", "Convolution3D",
         f"convolution3d_param {{ num_output: 1 {C3D} stride: 3 pad: 1 temporal_stride: 2 temporal_pad: 1 }}", [VIDEO],
         [[[[[0, 2]], [[6, 8]]]]], [SUMS, np.zeros((1, 1, 1, 1, 1))]),
    Case("groups of filters", "Convolution3D",
         "convolution_param { num_output: 2 kernel_depth: 1 kernel_size: 1 filter_group: 2 bias_term: false }", [X],
         np.stack([X.sum(1), X[:, 0] - X[:, 1]], 1), [np.reshape([1, 1, 1, -1], (2, 2, 1, 1, 1))]),
    Case("rounds up", "Pooling3D", "pooling_param { kernel_depth: 1 kernel_size: 2 stride: 2 }", [VIDEO],
         [[[[[4, 5]], [[10, 11]]]]]),
    # Padding of the rows drops the second frame's window, which would begin after the last frame.
    Case("padding on another axis", "Pooling3D",
         "pooling3d_param { kernel_h: 2 kernel_w: 1 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 kernel_l: 1"
         " stride_l: 3 }", [VIDEO], [[[[[0, 1, 2], [3, 4, 5]]]]]),
    Case("mean of what is there", "Pooling3D",
         "pooling3d_param { pool: AVE kernel_depth: 2 kernel_size: 2 stride: 2 temporal_stride: 2 }", [VIDEO],
         [[[[[5, 6.5]]]]]),
    Case("mean with padding", "Pooling3D",
         "pooling_param { pool: AVE kernel_depth: 1 kernel_size: 3 stride: 2 pad: 1 }",
         [VIDEO], [[[[[8 / 9, 12 / 9], [7 / 6, 9 / 6]], [[32 / 9, 36 / 9], [19 / 6, 21 / 6]]]]]),
    Case("an axis of one window", "NdConvolution", f"convolution_param {{ num_output: 1 {SHAPES} bias_term: false }}",
         [VIDEO], [[[[14, 18], [26, 30]]]], [np.ones((1, 1, 2, 1, 2))]),
    Case("strides and pads", "NdConvolution",
         f"convolution_param {{ num_output: 1 {SHAPES} stride_shape {{ dim: 1 dim: 2 dim: 2 }}"
         " pad_shape { dim: 1 dim: 0 dim: 1 } }",
         [VIDEO], [[[[1, 4], [7, 19], [7, 16]]]], [np.ones((1, 1, 2, 1, 2)), [1]]),
    Case("rounds down", "NdPooling", f"pooling_param {{ {SHAPES} stride_shape {{ dim: 2 dim: 1 dim: 2 }} }}", [VIDEO],
         [[[7, 10]]]),
    Case("mean counts padding", "NdPooling",
         f"pooling_param {{ pool: AVE {SHAPES} pad_shape {{ dim: 1 dim: 0 dim: 1 }} }}",
         [VIDEO[..., :1]], [[[[[0, 0], [0.75, 0.75]], [[1.5, 1.5], [3, 3]], [[1.5, 1.5], [2.25, 2.25]]]]]),
    Case("flat images", "NdPooling", "pooling_param { kernel_shape { dim: 2 dim: 2 } }", [X[:, :, 0]],
         np.max([X[:, :, 0, i : i + 3, j : j + 3] for i in (0, 1) for j in (0, 1)], 0)),
]  # fmt: skip
PLANE = numbers(1, 2, 6, 7)
CASES += [
    Case("rounds down", "Pooling", "pooling_param { kernel_size: 2 stride: 2 ceil_mode: false }", [PLANE],
         PLANE[:, :, :, :6].reshape(1, 2, 3, 2, 3, 2).max((3, 5))),
    Case("no holes", "Pooling", "pooling_param { kernel_size: 2 stride: 2 dilation: 1 ceil_mode: false }", [PLANE],
         PLANE[:, :, :, :6].reshape(1, 2, 3, 2, 3, 2).max((3, 5))),
    Case("with holes", "Pooling", "pooling_param { kernel_size: 2 dilation: 2 }", [PLANE],
         np.max([PLANE[:, :, i : i + 4, j : j + 5] for i in (0, 2) for j in (0, 2)], 0)),
    Case("with holes, strides and padding", "Pooling",
         "pooling_param { kernel_size: 3 stride: 2 pad: 2 dilation: 3 dilation: 1 }", [PLANE],
         with_holes(PLANE, (3, 1), 3, 2, 2)),
]  # fmt: skip
CASES += [
    Case("a window per axis", "Pooling", "pooling_param { kernel_size: [1, 2] stride: 1 stride: 2 }", [PLANE],
         np.pad(PLANE, [(0, 0)] * 3 + [(0, 1)], constant_values=-9).reshape(1, 2, 6, 4, 2).max(4)),
    Case("over a volume", "Pooling", "pooling_param { kernel_size: 1 kernel_size: 2 kernel_size: 2 stride: [1, 2, 2] }",
         [VIDEO], [[[[[4, 5]], [[10, 11]]]]]),
    Case("mean over a volume", "Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 }", [VIDEO],
         [[[[[5, 6.5]]]]]),
    Case("holes in a volume", "Pooling",
         "pooling_param { kernel_size: [1, 2, 2] dilation: [1, 1, 2] stride: [2, 1, 1] }", [X],
         np.max([X[:, :, ::2, i : i + 3, j : j + 2] for i in (0, 1) for j in (0, 2)], 0)),
]  # fmt: skip
VARYING = [case for case in CASES if case.bottoms[0] is X]

OP = 'net.prototxt:2: layer "op" '
VOLUME = [(1, 2, 4, 6, 6)]
REFUSALS = [
    Message("Pooling", "pooling_param { kernel_size: 999 pad: 998 dilation: 2 }", [(1, 2, 6, 6)],
            f"{OP}(Pooling): kernel_size is 999, expected at most 256\n"
            "  because a net of a few lines must not take gigabytes\n  fix: use a smaller number"),
    Message("Convolution3D", "convolution_param { num_output: 1 kernel_size: 3 }", VOLUME,
            f"{OP}(Convolution3D): kernel_depth is 0, expected at least 1\n"
            "  fix: write a positive number for kernel_depth"),
    Message("Convolution3D", f"convolution_param {{ num_output: 1 {C3D} stride: [1, 2, 3] }}", VOLUME,
            f"{OP}(Convolution3D): stride is stated 3 times, expected once or 2 times\n"
            "  because it is for height and width\n"
            "  fix: state stride once for all axes, or once per axis"),
    Message("Convolution3D", f"convolution_param {{ num_output: 3 {C3D} filter_group: 2 }}", VOLUME,
            f"{OP}(Convolution3D): filter_group is 2, expected a divisor of num_output, 3\n"
            "  fix: leave filter_group out"),
    Message("Convolution3D", f"convolution_param {{ num_output: 3 {C3D} }}", [(1, 2, 4, 6)],
            f'{OP}(Convolution3D), bottom "b0": shape is (1, 2, 4, 6), expected (N, C, L, H, W)\n'
            "  fix: add a Reshape before this layer to 5 axes"),
    Message("Pooling3D", f"pooling_param {{ {C3D} pad: 1 }}", VOLUME,
            f"{OP}(Pooling3D): pad is 1, but pool is not AVE\n  fix: remove pad: C3D pads only for AVE"),
    Message("Pooling3D", f"pooling_param {{ {C3D} pool: AVE pad: 2 }}", VOLUME,
            f"{OP}(Pooling3D): pad is (0, 2, 2), expected less than the kernel (2, 2, 2)\n"
            "  fix: use a smaller pad or a larger kernel"),
    Message("Pooling3D", f"pooling_param {{ {C3D} pool: STOCHASTIC }}", VOLUME,
            f"{OP}(Pooling3D): pool is STOCHASTIC, expected MAX or AVE\n  fix: remove pool to use MAX"),
    Message("Pooling3D", "pooling_param { kernel_depth: 9 kernel_size: 2 }", VOLUME,
            f"{OP}(Pooling3D): the window (9, 2, 2) is larger than the shape (1, 2, 4, 6, 6) with its"
            " padding\n  fix: use a smaller window or a larger input"),
    Message("Pooling3D", "pooling3d_param { kernel_size: 2 kernel_l: 2 kernel_depth: 2 }", VOLUME,
            f"{OP}(Pooling3D): states kernel_depth beside kernel_l\n"
            "  because the first belongs to the Pooling3D of C3D, the others to that of P3D\n"
            "  fix: remove the fields of the layer that is not meant"),
    Message("Pooling3D", "pooling3d_param { kernel_size: 2 kernel_l: 2 stride_l: 0 }", VOLUME,
            f"{OP}(Pooling3D): stride_l is 0, expected at least 1\n  fix: write a positive number for stride_l"),
    Message("Pooling3D", "pooling3d_param { kernel_l: 2 }", VOLUME,
            f"{OP}(Pooling3D): states no kernel_size\n  fix: set kernel_size, or kernel_h and kernel_w"),
    Message("Pooling3D", "pooling3d_param { global_pooling: true stride_l: 2 }", VOLUME,
            f"{OP}(Pooling3D): with global_pooling, pad must be 0 and stride 1\n  fix: remove pad and stride"),
    Message("Pooling3D", "pooling3d_param { kernel_size: 2 kernel_l: 2 pool: STOCHASTIC }", VOLUME,
            f"{OP}(Pooling3D): pool is STOCHASTIC, expected MAX or AVE\n  fix: remove pool to use MAX"),
    Message("Pooling", "pooling_param { kernel_size: 2 kernel_l: 2 }", [(1, 2, 6, 6)],
            f"{OP}(Pooling): states kernel_l, which this type does not read\n"
            "  fix: use the type Pooling3D, or remove kernel_l"),
    Message("NdPooling", "", VOLUME,
            f"{OP}(NdPooling): states no kernel_shape\n  fix: set kernel_shape, with one dim for each axis"),
    Message("NdPooling", f"pooling_param {{ {SHAPES} pad_shape {{ dim: 0 }} }}", VOLUME,
            f"{OP}(NdPooling): pad_shape has 1 dim, expected 3\n"
            "  because the bottom has 3 spatial axes\n  fix: add or remove dims, one for each axis"),
    Message("NdConvolution", f"convolution_param {{ num_output: 4 group: 3 {SHAPES} }}", VOLUME,
            f"{OP}(NdConvolution): group is 3, which does not divide 2 channels into 4 outputs\n"
            "  fix: set group to a divisor of 2"),
    Message("Convolution", f"convolution_param {{ num_output: 1 {C3D} }}", [(1, 2, 6, 6)],
            f"{OP}(Convolution): states kernel_depth, which this type does not read\n"
            "  fix: use the type Convolution3D, or remove kernel_depth"),
    Message("Pooling", f"pooling_param {{ {SHAPES} }}", [(1, 2, 6, 6)],
            f"{OP}(Pooling): states kernel_shape, which this type does not read\n"
            "  fix: use the type NdPooling, or remove kernel_shape"),
    Message("Pooling", "pooling_param { kernel_size: 2 dilation: 0 }", [(1, 2, 6, 6)],
            f"{OP}(Pooling): dilation is 0, expected at least 1\n  fix: write a positive number for dilation"),
    Message("Pooling", "pooling_param { pool: AVE kernel_size: 2 dilation: 2 }", [(1, 2, 6, 6)],
            f"{OP}(Pooling): dilation is (2, 2), which is supported only for MAX with one top\n"
            '  fix: cut the net before this layer with outputs=["BLOB"]'),
]  # fmt: skip
