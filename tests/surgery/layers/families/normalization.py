"""Corners of the normalizing layers, against their formulas in float64."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.small_nets import float32, numbers

X = numbers(2, 3, 4, 5)
ROWS = numbers(4, 3, seed=1)
DEEP = numbers(2, 3, 2, 2, 3, seed=2)
MEANS, VARIANCES = float32([1, -2, 0.5]), float32([4, 0.25, 9])


def stored(x: Array, factor: float, eps: float = 1e-5) -> Array:
    """BatchNorm with MEANS and VARIANCES over ``factor``."""
    per_channel = (3, *(1,) * (x.ndim - 2))
    means, variances = (sums.astype(float).reshape(per_channel) / factor for sums in (MEANS, VARIANCES))
    return (x - means) / np.sqrt(variances + eps)


def normalized(x: Array, axes: tuple[int, ...], inside: float = 0, outside: float = 0) -> Array:
    """Mean 0 and deviation 1 over the axes; ``inside`` goes under the root."""
    wide = x.astype(float)
    centred = wide - wide.mean(axes, keepdims=True)
    return np.asarray(centred / (np.sqrt(wide.var(axes, keepdims=True) + inside) + outside))


def lrn_across(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    """Channel by channel, as the definition says."""
    wide = x.astype(float)
    y = np.empty_like(wide)
    for channel in range(x.shape[1]):
        first, last = max(0, channel - size // 2), channel + size // 2
        total = (wide[:, first : last + 1] ** 2).sum(1)
        y[:, channel] = wide[:, channel] / (k + alpha / size * total) ** beta
    return y


def lrn_within(x: Array, size: int, alpha: float, beta: float) -> Array:
    """Pixel by pixel, as the definition says."""
    wide, half = x.astype(float), size // 2
    y = np.empty_like(wide)
    for row, column in np.ndindex(x.shape[2:]):
        rows = slice(max(0, row - half), row + half + 1)
        columns = slice(max(0, column - half), column + half + 1)
        total = (wide[:, :, rows, columns] ** 2).sum((2, 3))
        y[:, :, row, column] = wide[:, :, row, column] / (1 + alpha / size**2 * total) ** beta
    return y


def batch_norm(note: str, fields: str, x: object, blobs: list[object], expected: object) -> Case:
    return Case(note, "BatchNorm", f"batch_norm_param {{ {fields} }}", [x], expected, blobs, atol=1e-5)


def with_scale(x: Array, eps: float) -> Array:
    """MEANS and VARIANCES made 0 and 1, times 2, 3, 4, plus 1, -1, 0."""
    shape = (3, *(1,) * (x.ndim - 2))
    return np.asarray(stored(x, 1, eps) * np.reshape([2, 3, 4], shape) + np.reshape([1, -1, 0], shape))


def per_channel(*blobs: object) -> list[Array]:
    return [float32(blob).reshape(1, -1, 1, 1) for blob in blobs]


def bn(note: str, fields: str, x: object, blobs: list[Array], expected: object) -> Case:
    return Case(note, "BN", f"bn_param {{ {fields} }}", [x], expected, blobs, atol=1e-5)


def lrn(note: str, fields: str, expected: object) -> Case:
    return Case(note, "LRN", f"lrn_param {{ {fields} }}", [X], expected, atol=1e-5)


STORED = [MEANS, VARIANCES, [1]]
CASES = [
    Case(
        "rows of length 1 and of length 0",
        "Python",
        'python_param { module: "l2norm_layer" layer: "L2NormLayer" }',
        [[[3, 4], [0, 0], [0, -2]]],
        [[0.6, 0.8], [0, 0], [0, -1]],
    ),
    batch_norm("rank 2", "", ROWS, STORED, stored(ROWS, 1)),
    batch_norm("rank 5", "eps: 0.5", DEEP, STORED, stored(DEEP, 1, 0.5)),
    batch_norm("sums", "", X, [MEANS, VARIANCES, [999.5]], stored(X, 999.5)),
    batch_norm("negative factor", "eps: 20", X, [MEANS, VARIANCES, [-2]], stored(X, -2, 20)),
    batch_norm("factor 0", "eps: 0.25", X, [MEANS, VARIANCES, [0]], X * 2),
    batch_norm("stored on request", "use_global_stats: true", X, STORED, stored(X, 1)),
    Case("three learning rates", "BatchNorm", "param { } param { } param { lr_mult: 2 }", [ROWS],
         stored(ROWS, 1), STORED),
    batch_norm("of the batch", "use_global_stats: false", X, STORED, normalized(X, (0, 2, 3), 1e-5)),
    batch_norm("of the batch, nothing stored", "use_global_stats: false", X, [], normalized(X, (0, 2, 3), 1e-5)),
    batch_norm("of the batch, rank 2", "use_global_stats: false eps: 0.5", ROWS, [], normalized(ROWS, (0,), 0.5)),
    batch_norm("of the batch, rank 5", "use_global_stats: false", DEEP, [], normalized(DEEP, (0, 2, 3, 4), 1e-5)),
    batch_norm("of a batch of one", "use_global_stats: false", [[1, -2, 5]], [], [[0, 0, 0]]),
    Case("channels apart", "MVN", "", [X], normalized(X, (2, 3)), atol=1e-5),
    Case("channels together", "MVN", "mvn_param { across_channels: true }", [X], normalized(X, (1, 2, 3)), atol=1e-5),
    Case("eps on the deviation", "MVN", "mvn_param { eps: 3 }", [X], normalized(X, (2, 3), 0, 3)),
    Case("no variance", "MVN", "mvn_param { normalize_variance: false }", [X],
         X - X.astype(float).mean((2, 3), keepdims=True)),
    Case("rank 2 becomes 4", "MVN", "mvn_param { across_channels: true }", [ROWS],
         normalized(ROWS, (1,))[:, :, None, None], atol=1e-5),
    Case("rank 1 becomes 4", "MVN", "", [[3, -4]], [[[[0]]], [[[0]]]]),
    Case("rank 3", "MVN", "mvn_param { normalize_variance: false }", [[[[1, 3, 8]]]], [[[[-3], [-1], [4]]]]),
    lrn("defaults", "", lrn_across(X, 5, 1, 0.75, 1)),
    lrn("one channel", "local_size: 1 alpha: 2", lrn_across(X, 1, 2, 0.75, 1)),
    lrn("more than there are", "local_size: 15 k: 2", lrn_across(X, 15, 1, 0.75, 2)),
    lrn("more than TensorRT takes", "local_size: 17 k: 2", lrn_across(X, 17, 1, 0.75, 2)),
    lrn("k below TensorRT's", "local_size: 3 k: 0", lrn_across(X, 3, 1, 0.75, 0)),
    lrn("beta below TensorRT's", "local_size: 3 beta: 0.005", lrn_across(X, 3, 1, 0.005, 1)),
    lrn("beta 0", "local_size: 3 beta: 0", X),
    lrn("negative beta", "local_size: 3 beta: -1.5", lrn_across(X, 3, 1, -1.5, 1)),
    lrn("pixels", "local_size: 3 norm_region: WITHIN_CHANNEL", lrn_within(X, 3, 1, 0.75)),
    lrn("one pixel", "local_size: 1 norm_region: WITHIN_CHANNEL beta: 1", X / (1 + X.astype(float) ** 2)),
    lrn("all pixels", "local_size: 9 alpha: 40 norm_region: WITHIN_CHANNEL", lrn_within(X, 9, 40, 0.75)),
    lrn("k is ignored", "local_size: 3 k: 7 norm_region: WITHIN_CHANNEL", lrn_within(X, 3, 1, 0.75)),
    Case("rank 1", "Softmax", "softmax_param { axis: 0 }", [np.log([1, 3])], [0.25, 0.75]),
    Case("axis 0", "Softmax", "softmax_param { axis: 0 }", [np.log([[1, 2], [3, 2]])], [[0.25, 0.5], [0.75, 0.5]]),
    Case("negative axis", "Softmax", "softmax_param { axis: -2 }", [np.log([[[1, 2], [3, 2]]])],
         [[[0.25, 0.5], [0.75, 0.5]]]),
    Case("one element", "Softmax", "", [[[-1000], [3]]], [[1], [1]]),
    Case("no overflow", "Softmax", "", [[[1000, 1000, -1000]]], [[0.5, 0.5, 0]]),
    Case("rank 5", "Softmax", "softmax_param { axis: 3 }", [np.zeros((1, 2, 1, 4, 1))], np.full((1, 2, 1, 4, 1), 0.25)),
    batch_norm("with scale and bias", "scale_bias: true", X,
               [*STORED[:2], [7], [2, 3, 4], [1, -1, 0]], with_scale(X, 1e-5)),
    batch_norm("with a filler alone, eps too small", "bias_filler { } eps: 0", X,
               [*STORED[:2], [7], [2, 3, 4], [1, -1, 0]], with_scale(X, 1e-5)),
    batch_norm("scale and bias, never of the batch", "scale_bias: true use_global_stats: false eps: 2", ROWS,
               [*STORED[:2], [0], [2, 3, 4], [1, -1, 0]], with_scale(ROWS, 2)),
    bn("PSPNet's blobs", "", X, per_channel([2, 3, 4], [1, -1, 0], MEANS, VARIANCES), with_scale(X, 1e-5)),
    bn("eps of PSPNet", "eps: 2 momentum: 0.5", X, per_channel([2, 3, 4], [1, -1, 0], MEANS, VARIANCES),
       with_scale(X, 2)),
    bn("rank 2", "frozen: true", ROWS, per_channel([2, 3, 4], [1, -1, 0], MEANS, VARIANCES), with_scale(ROWS, 1e-5)),
    bn("SegNet's blobs", "", X, per_channel([1, 1, 1], [0, 0, 0]), normalized(X, (0, 2, 3), 1e-9)),
    bn("no statistics", "bn_mode: INFERENCE", X, per_channel([2, 2, 2], [1, 1, 1]), X * 2 + 1),
    Case("of an image", "Normalize", "norm_param { eps: 3 }", [X],
         X * 2 / np.sqrt((X**2).sum((1, 2, 3), keepdims=True) + 3), [np.float32(2)], atol=1e-5),
    Case("of a place", "Normalize", "norm_param { across_spatial: false channel_shared: false }", [ROWS],
         ROWS * [2, 3, 4] / np.sqrt((ROWS**2).sum(1, keepdims=True)), [[2, 3, 4]]),
    Case("L2 of a place", "Normalize", "normalize_param { bp_norm: true }", [X],
         X / np.sqrt((X**2).sum(1, keepdims=True) + 1e-6)),
    Case("L1 of a place", "Normalize", 'normalize_param { normalize_type: "L1" }', [[[3, -1]]],
         [[[[0.75]], [[-0.25]]]]),
    Case("nothing stored or stated", "Normalize", "", [[[3, -4]]], [[[[0.6]], [[-0.8]]]]),
    Case("of all channels", "ChannelNorm", "", [[[[[3]], [[-4]]]]], [[[[5]]]]),
]  # fmt: skip
VARYING = [case for case in CASES if case.bottoms[0] is X or case.note in ("rank 5", "one element")]

FEW_AXES = 'net.prototxt:2: layer "op" ({}), bottom "b0": shape is {}, expected {}'
REFUSALS = [
    Message(
        "Python",
        'python_param { module: "l2norm_layer" layer: "L2NormLayer" }',
        [(2, 3, 4)],
        'net.prototxt:2: layer "op" (Python), bottom "b0": shape is (2, 3, 4), expected (N, C)\n'
        "  fix: flatten it to two axes",
    ),
    Message(
        "Python",
        'python_param { module: "l2norm_layer" layer: "L2NormLayer" }',
        [(2, 3), (2, 3)],
        'net.prototxt:3: layer "op" (Python): there is no rule for this Python layer, "l2norm_layer.L2NormLayer"\n'
        "  because the known layer of this name has the bottom x\n"
        "  fix: write a rule for it, which `prototrt.new_rule(...)` begins",
    ),
    Message(
        "BN",
        "bn_param { bn_mode: LEARN frozen: true }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (BN): states bn_mode and frozen\n'
        "  because the first belongs to the BN of SegNet, the second to the BN of PSPNet\n"
        "  fix: remove the fields of the layer that is not meant",
    ),
    Message(
        "BN",
        "bn_param { bn_mode: LEARN decay: 0.05 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (BN): states bn_mode and decay\n'
        "  because the first belongs to another BN than the second, which JULE and HydraPlus-Net have\n"
        "  fix: remove the fields of the layer that is not meant",
    ),
    Message(
        "BN",
        "bn_param { scale_filler { value: 1 } decay: 0.05 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (BN): states no moving_average\n'
        "  because without it, some forks read stored statistics, others compute those of the batch\n"
        "  fix: state moving_average: true if the net was tested with stored statistics",
    ),
    Message(
        "BN",
        "bn_param { moving_average: false }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (BN): moving_average is false, expected true\n'
        "  because Caffe keeps no statistics then, and its output outside of training is undefined\n"
        "  fix: use a model that was trained with moving_average: true",
    ),
    Message(
        "Normalize",
        "norm_param { } normalize_param { }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (Normalize): states both norm_param and normalize_param\n'
        "  because the first belongs to SSD, the second to NormFace\n"
        "  fix: remove the one that is not meant",
    ),
    Message(
        "Normalize",
        'normalize_param { normalize_type: "L3" }',
        [(2, 3)],
        'net.prototxt:2: layer "op" (Normalize): normalize_type is "L3", expected "L2" or "L1"\n'
        "  fix: remove it to use L2",
    ),
    Message(
        "ChannelNorm",
        "",
        [(2, 3)],
        FEW_AXES.format(
            "ChannelNorm", "(2, 3)", "(N, C, H, W)\n  fix: add a Reshape before this layer to 4 axes"
        ),
    ),
    Message(
        "BatchNorm",
        "",
        [(3,)],
        FEW_AXES.format(
            "BatchNorm",
            "(3,)",
            "(N, C, ...)\n  fix: add a Reshape before this layer to 2 axes",
        ),
    ),
    Message(
        "BatchNorm",
        "param { lr_mult: 0 } param { decay_mult: 0 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (BatchNorm): lr_mult of param 1 is 1, expected 0\n'
        "  because the layer's blobs are statistics, which are not learned\n"
        "  fix: write param { lr_mult: 0 }, or leave param out",
    ),
    Message(
        "MVN",
        "",
        [(1, 2, 3, 4, 5)],
        FEW_AXES.format("MVN", "(1, 2, 3, 4, 5)", "at most four axes")
        + "\n  fix: add a Reshape before this layer to 4 axes",
    ),
    Message(
        "LRN",
        "",
        [(2, 3, 4)],
        FEW_AXES.format(
            "LRN",
            "(2, 3, 4)",
            "(N, C, H, W)\n  fix: add a Reshape before this layer to 4 axes",
        ),
    ),
    Message(
        "LRN",
        "lrn_param { local_size: 4 norm_region: WITHIN_CHANNEL }",
        [(1, 3, 4, 4)],
        'net.prototxt:2: layer "op" (LRN): local_size is 4, expected an odd number\n'
        "  because the element itself is in the middle\n"
        "  fix: use 5",
    ),
    Message(
        "Softmax",
        "softmax_param { axis: -3 }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (Softmax): axis is -3, but the bottom has 2 axes: (2, 3)\n'
        "  fix: use an axis from -2 to 1",
    ),
    Message(  # the shapes of stored blobs count even where the batch's own statistics are used
        "BatchNorm",
        "batch_norm_param { use_global_stats: false }",
        [(2, 3)],
        'net.prototxt:2: layer "op" (BatchNorm), blob 0 (mean): shape in the weights file is (2,), expected (3,)\n'
        "  fix: use the prototxt that these weights were trained with",
        [[1, 2], [1, 2], [1]],
    ),
]

WARNINGS = [
    Message(
        "LRN",
        "lrn_param { k: 2 norm_region: WITHIN_CHANNEL }",
        [(1, 3, 4, 4)],
        'net.prototxt:2: layer "op" (LRN): k is ignored, as in Caffe: with WITHIN_CHANNEL it is 1',
    ),
]
