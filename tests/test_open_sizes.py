"""One graph for images of any size: open heights and widths, against Caffe's numbers and against fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.surgery.ir import Array, Graph, OpenSize
from prototrt.tests.golden_cases import Case, case_called
from prototrt.tests.samples import runs_on_ways
from prototrt.tests.small_nets import WAYS, numbers, op, rewritten, stored

Axes = Mapping[int, tuple[int, int]]
IMAGE: Axes = {2: (0, 9), 3: (0, 14)}
"""By axis: how much smaller and how much larger than in the golden a size may be."""
SMALLER: Axes = {2: (3, 9), 3: (2, 14)}
SEQUENCE: Axes = {2: (1, 6)}

OPEN: Mapping[str, Axes] = {
    "net_fcn": SMALLER,
    "net_fire": SMALLER,
    "net_inception": SMALLER,
    "net_mobilenet_block": SMALLER,
    "net_resnet_block": SMALLER,
    "conv_1d_group_dilation": SEQUENCE,
    "conv_dilation": IMAGE,
    "conv_rect": IMAGE,
    "deconv_bilinear_group": SMALLER,
    "deconv_group_dilation": IMAGE,
    "lrn_within": SMALLER,
    "mvn_default": SMALLER,
    "pool_ave_ceil": SMALLER,
    "pool_ave_pad": SMALLER,
    "pool_ave_stride_beyond": SMALLER,
    "pool_floor_pad": SMALLER,
    "pool_global_ave": SMALLER,
    "pool_global_max": SMALLER,
    "pool_max_ceil": SMALLER,
    "pool_max_pad_drop_last": SMALLER,
    "pool_rect": SMALLER,
    "conv_two_axes_of_items": {0: (1, 4), 1: (0, 3)},
    "flatten": SMALLER,
    "flatten_axes": SMALLER,
    "ip_axis2": {0: (1, 4), 1: (1, 3)},
    "depthwise": SMALLER,
    "im2col_dilation": IMAGE,
    "permute_nhwc": IMAGE,
    "reorg_reverse": IMAGE,
    "shuffle_channel": IMAGE,
    "upsample_scale2": IMAGE,
    "softmax_last_axis": SEQUENCE,
    "tile_axis": {2: (1, 3)},
    "concat_negative_axis": {2: (0, 3)},
    "pool_max_mask": SMALLER,
    "upsample_mask": {2: (2, 4), 3: (3, 3)},
    "argmax_default": SMALLER,
    "correlation": SMALLER,
    "im2col": IMAGE,
    "interp_pad": {2: (3, 9), 3: (2, 9)},
    "slice_points": {1: (2, 4), 2: (2, 3)},
    "spp_ave_uneven": SMALLER,
    "interp_height_width": SMALLER,
    "net_icnet": {2: (1, 1), 3: (1, 2)},
    "net_psp": {2: (2, 1), 3: (1, 2)},
    "upsample_mask_odd": SMALLER,
    "net_enet": {2: (1, 2), 3: (2, 1)},
    "net_segnet": {2: (3, 1), 3: (4, 1)},
}

MULTIPLES = {"net_enet": 8, "net_icnet": 16, "net_psp": 8, "net_segnet": 4, "upsample_mask": 2}
"""Nets for images whose sides grow in steps: what is above counts steps."""

STATED: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "net_icnet": {
        "pool_interp.interp_param.height": (2, 8),
        "pool_interp.interp_param.width": (3, 8),
    },
    "net_psp": {
        "pool*_interp.interp_param.height": (2, 4),
        "pool*_interp.interp_param.width": (3, 4),
    },
    "upsample_mask_odd": {
        "up.upsample_param.upsample_h": (2, 1),
        "up.upsample_param.upsample_w": (3, 1),
    },
}
"""Fields that state a usual size: the axis of the input, and how often strides have divided it."""


def stated_for(name: str, shape: tuple[int, ...]) -> dict[str, int]:
    """What these fields state in the net for an input of this shape."""
    fields = STATED.get(name, {})
    return {field: (shape[axis] - 1) // divisor + 1 for field, (axis, divisor) in fields.items()}


def shape_at(name: str, shape: tuple[int, ...], share: Fraction) -> tuple[int, ...]:
    """The shape of an input between the smallest (share 0) and the largest (share 1)."""
    step = MULTIPLES.get(name, 1)
    sizes = list(shape)
    for axis, (below, above) in OPEN[name].items():
        if axis < len(shape):
            sizes[axis] += step * (int((below + above) * share) - below)
    return tuple(sizes)


@cache
def opened(case: Case) -> Graph:
    name, usual = str(case), {name: array.shape for name, array in case.arrays("inputs")[0].items()}
    least, most = (
        {blob: shape_at(name, shape, share) for blob, shape in usual.items()}
        for share in (Fraction(0), Fraction(1))
    )
    outputs, step = list(case.arrays("outputs")[0]), MULTIPLES.get(name)
    if step is None:
        return prototrt.rewrite(
            case.load(), outputs=outputs, min_shapes=least, opt_shapes=usual, max_shapes=most
        )
    ((blob, shape),) = usual.items()
    named = tuple(
        f"{step}*{letter}+{size % step}" if axis in OPEN[name] else size
        for axis, (letter, size) in enumerate(zip("NCHW", shape, strict=True))
    )
    sizes = {
        "NCHW"[axis]: tuple(shapes[blob][axis] // step for shapes in (least, usual, most))
        for axis in OPEN[name]
    }
    return prototrt.rewrite(case.load(), outputs=outputs, shapes={blob: named}, sizes=sizes)


@cache
def runs(case: Case) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Caffe's numbers at the golden's size; at four others, those of the net with fixed shapes."""
    name, inputs, outputs = str(case), case.arrays("inputs")[0], case.arrays("outputs")[0]
    found = [(inputs, outputs)]
    for place in range(4):
        feeds = {
            blob: numbers(*shape_at(name, array.shape, Fraction(place, 3)), seed=place)
            for blob, array in inputs.items()
        }
        shapes = {blob: array.shape for blob, array in feeds.items()}
        model = case.load(stated_for(name, next(iter(shapes.values()))))
        fixed = prototrt.rewrite(model, outputs=list(outputs), shapes=shapes)
        found.append((feeds, prototrt.Session(fixed).run(feeds)))
    return found


@pytest.mark.parametrize(
    ("name", "on"), runs_on_ways([(name,) for name in OPEN], lambda name: case_called(name).layer_types)
)
def test_five_sizes(name: str, on: Way) -> None:
    case = case_called(name)
    session = prototrt.Session(opened(case), on=on)
    for feeds, wanted in runs(case):
        results = session.run(feeds)
        shapes = {blob: array.shape for blob, array in feeds.items()}
        for blob in case.arrays("outputs")[0]:
            np.testing.assert_allclose(
                results[blob], wanted[blob], *case.tolerance(blob), err_msg=f"{blob} {shapes}"
            )


@pytest.mark.trt
@pytest.mark.parametrize(
    "name", ["net_fcn", "net_inception", "pool_ave_pad", "conv_1d_group_dilation", "net_segnet"]
)
def test_plans_build(name: str) -> None:
    graph = opened(case_called(name))
    plan = prototrt.build(graph, backend="rtx")
    (described,) = plan.manifest["outputs"]
    assert described["shape"] == list(graph.outputs[0].shape)
    for dim in graph.outputs[0].shape:
        if isinstance(dim, OpenSize):
            span = dim.range
            assert described["profile"][dim] == [span.min, span.opt, span.max]


def test_stated_sizes_that_vary_are_told() -> None:
    told = [warning for warning in opened(case_called("net_icnet")).warnings if "usual" in warning]
    assert [warning.split("(Interp): ")[1] for warning in told] == [
        "the net states the usual size of an image that varies: 5 x 5 is 2*H+1 x 2*W+1"
    ]


def test_equal_sizes_are_one_size() -> None:
    """The branches of a net shrink and grow again: their sizes are compared as formulas."""
    assert opened(case_called("net_fcn")).outputs[0].shape == (1, 4, "H", "W")
    assert opened(case_called("net_resnet_block")).outputs[0].shape == (1, 8, "H", "W")
    assert opened(case_called("pool_ave_pad")).outputs[0].shape == (1, 2, "H//2+1", "W//2+1")


CONVOLUTION = "convolution_param { num_output: 1 kernel_size: 5 weight_filler { type: 'xavier' } }"


@pytest.mark.parametrize(
    ("layer", "least", "message"),
    [
        (
            op("Convolution", CONVOLUTION),
            (1, 1, 4, 8),
            "(Convolution): the kernel covers 5 elements of axis 2, which has 4 to 20 with its padding\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
        (
            op("Pooling", "pooling_param { kernel_size: 6 }"),
            (1, 1, 4, 8),
            "(Pooling): the window (6, 6) is larger than the shape (1, 1, H, W) with its padding\n"
            "  because H is 4 to 20\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
        (
            op("Deconvolution", CONVOLUTION.replace("kernel_size", "pad: 3 kernel_size")),
            (1, 1, 2, 8),
            "(Deconvolution): the pad 3 removes all of axis 2, which becomes 6 to 24 before\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
        (
            op("Slice", "slice_param { axis: 3 }", tops=("y", "z")),
            (1, 1, 4, 8),
            "(Slice): W elements cannot be cut into 2 equal parts\n"
            "  because W may be 9\n"
            "  fix: write 2*W for W in shapes",
        ),
        (
            op("Flatten", "", tops=("flat",)).replace('"op"', '"flat"')
            + op("Slice", "slice_param { axis: 1 }", ("flat",), ("y", "z", "w")),
            (1, 1, 6, 9),
            "(Slice): H*W elements cannot be cut into 3 equal parts\n"
            "  because H*W is 70 where H is 7 and W is 10\n"
            "  fix: choose steps for H and W in shapes, such as 3*H, so that 3 divides H*W",
        ),
        (
            op("Slice", "slice_param { axis: 2 slice_point: 4 }", tops=("y", "z")),
            (1, 1, 4, 8),
            "(Slice): slice_point is [4], expected increasing numbers between 0 and H\n"
            "  because H is 4 to 20\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
        (
            op("ArgMax", "argmax_param { axis: 2 top_k: 5 }"),
            (1, 1, 4, 8),
            "(ArgMax): top_k is 5, expected 1 to 4\n"
            "  because there are 4 to 20 elements to choose from\n"
            "  fix: set top_k to 4 or less",
        ),
        (
            op("SPP", "spp_param { pyramid_height: 3 }"),
            (1, 1, 4, 16),
            "(SPP): pyramid_height is 3, but level 2 cuts H x W elements into 4 x 4 windows\n"
            "  because at some sizes the pad around them is as large as a window,"
            " where H is 4 to 20\n"
            "  fix: use a pyramid_height of at most 2, or give H a larger smallest size in min_shapes",
        ),
        (
            op("SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }"),
            (1, 1, 4, 16),
            "(SPP): pool is STOCHASTIC, and H x W elements need a pad at some sizes for 2 x 2 windows\n"
            "  because Caffe pads for MAX and AVE only\n"
            "  fix: use MAX or AVE, or name sizes that 2 divides, such as 2*H, in shapes",
        ),
        (
            op("Correlation", "correlation_param { kernel_size: 1 max_displacement: 3 }", ("x", "x")),
            (1, 1, 6, 16),
            "(Correlation): H x W elements with a pad of 0 have no room for a border of 3\n"
            "  because border is max_displacement + kernel_size / 2, and H is 6 to 20 and W is 16 to 24\n"
            "  fix: set pad to 3, or feed a larger image",
        ),
        (
            op("SpatialTransformer", "", ("x", "x")),
            (1, 1, 4, 8),
            "(SpatialTransformer): the height, which output_H may state, is the symbol H,"
            " but its size must be known here\n"
            "  fix: give H one size in min_shapes and max_shapes",
        ),
        (
            op("Upsample", "upsample_param { upsample_h: 8 upsample_w: 8 }", ("x", "x")),
            (1, 1, 4, 8),
            "(Upsample): states upsample_h and upsample_w, but H and W vary\n"
            "  because no image in the net before this layer usually has 8 x 8 pixels\n"
            "  fix: remove both, so that the size doubles, and give the input sizes such as 32*H in shapes",
        ),
        (
            op("Unpooling", "unpooling_param { unpool_size: 8 }", ("x", "x")),
            (1, 1, 4, 16),
            "(Unpooling): states unpool_size, but H and W vary\n"
            "  because no image in the net before this layer usually has 8 x 8 pixels\n"
            "  fix: use the type Upsample, which doubles the size, and give the input sizes such as 32*H in shapes",
        ),
        (
            op("Interp", "interp_param { zoom_factor: 2 pad_beg: -2 pad_end: -2 }"),
            (1, 1, 4, 8),
            "(Interp): pad_beg -2 and pad_end -2 leave nothing of H x W pixels\n"
            "  because H is 4 to 20\n"
            "  fix: give H a larger smallest size in min_shapes",
        ),
        (
            op("InnerProduct", "inner_product_param { num_output: 2 }"),
            (1, 1, 4, 8),
            '(InnerProduct), bottom "x": shape is (1, 1, H, W), expected known sizes from axis 1 on\n'
            "  because the weights are for one number of inputs\n"
            "  fix: give H and W one size in min_shapes and max_shapes,"
            " or put a Pooling with global_pooling before this layer",
        ),
    ],
)
def test_message(layer: str, least: tuple[int, ...], message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        rewritten(layer, {"x": (1, 1, 16, 16)}, min_shapes={"x": least}, max_shapes={"x": (1, 1, 20, 24)})
    assert str(caught.value).split('layer "op" ', 1)[1] == message


def crop(offset: int) -> str:
    deeper = op("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops=("half",)).replace(
        '"op"', '"pool"'
    )
    return deeper + op("Crop", f"crop_param {{ axis: 2 offset: {offset} }}", ("x", "half"))


def test_crop_by_half() -> None:
    arguments: dict[str, Any] = {"min_shapes": {"x": (1, 1, 4, 4)}, "max_shapes": {"x": (1, 1, 20, 24)}}
    graph = rewritten(crop(2), {"x": (1, 1, 16, 16)}, **arguments)
    x = numbers(1, 1, 7, 10)
    for on in ("reference", "onnx"):
        np.testing.assert_array_equal(prototrt.Session(graph, on=on).run({"x": x})["y"], x[:, :, 2:6, 2:7])
    with pytest.raises(ConversionError) as caught:
        rewritten(crop(3), {"x": (1, 1, 16, 16)}, **arguments)
    assert str(caught.value).split('layer "op" ', 1)[1] == (
        '(Crop), bottom "x": axis 2 has H elements, expected at least (H+1)//2+3\n'
        '  because "half" has (H+1)//2 there, and the offset is 3, where H is 4 to 20\n'
        "  fix: use a smaller offset, or a smaller second bottom"
    )


ROWS = (
    op("Reshape", "reshape_param { shape { dim: -1 dim: 6 } }", tops=("rows",)).replace('"op"', '"rows"')
    + op("InnerProduct", "inner_product_param { num_output: 4 }", ("rows",), ("fc",)).replace('"op"', '"fc"')
    + op("Reshape", "reshape_param { shape { dim: 5 dim: 3 dim: 4 } }", ("fc",))
)
"""Steps and streams become rows and back again; the net states the usual numbers of both."""
BLOBS = stored("fc", [numbers(4, 6), numbers(4)])


def rows_graph() -> Graph:
    return rewritten(ROWS, {"x": (5, 3, 6)}, BLOBS, min_shapes={"x": (1, 1, 6)}, max_shapes={"x": (9, 8, 6)})


@pytest.mark.parametrize("on", WAYS)
def test_rows_of_steps_and_streams(on: Way) -> None:
    graph = rows_graph()
    assert graph.outputs[0].shape == (*graph.inputs[0].shape[:2], 4)
    (warning,) = [warning for warning in graph.warnings if "usual" in warning]
    first, second = graph.inputs[0].shape[:2]
    assert warning.endswith(
        f"the net states a shape of usual sizes, which vary: 5 is {first} and 3 is {second}"
    )
    session = prototrt.Session(graph, on=on)
    for steps, streams in ((5, 3), (1, 1), (9, 8), (2, 7), (8, 1)):
        x = numbers(steps, streams, 6, seed=steps)
        rows = ROWS.replace("dim: 5 dim: 3", f"dim: {steps} dim: {streams}")
        wanted = prototrt.Session(rewritten(rows, {"x": x.shape}, BLOBS)).run({"x": x})["y"]
        np.testing.assert_allclose(session.run({"x": x})["y"], wanted, 1e-5, 1e-6)


@pytest.mark.trt
def test_rows_of_steps_and_streams_build() -> None:
    assert prototrt.build(rows_graph(), backend="rtx").manifest["outputs"][0]["shape"][2] == 4


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (
            "dim: 4 dim: -1 dim: 6",
            "(Reshape): shape is (x.0, x.1, 6): its 6*x.0*x.1 elements cannot be cut into parts of 24\n"
            '  fix: state a shape that fits, as in overrides={"op.reshape_param.shape.dim": "-1,1,6"}',
        ),
        (
            "dim: 3 dim: 5 dim: 7",
            '(Reshape), bottom "x": shape is (x.0, x.1, 6), which cannot become (3, 5, 7)\n'
            "  because the numbers of elements differ\n"
            '  fix: state a shape that fits, as in overrides={"op.reshape_param.shape.dim": "3,-1,1"}',
        ),
    ],
)
def test_message_of_a_reshape(dims: str, message: str) -> None:
    layer = op("Reshape", f"reshape_param {{ shape {{ {dims} }} }}")
    with pytest.raises(ConversionError) as caught:
        rewritten(layer, {"x": (5, 3, 6)}, min_shapes={"x": (1, 1, 6)}, max_shapes={"x": (9, 8, 6)})
    assert str(caught.value).split('layer "op" ', 1)[1] == message


@pytest.mark.parametrize(
    ("shape", "sizes", "dims", "wanted"),
    [
        (("T", "N", 6), {"T": 40, "N": 1}, (40, 1, 6), "(T, N, 6)"),
        (("T", "N", 6), {"T": 40, "N": 2}, (-1, 2, 6), "(T, N, 6)"),
        (("T", "N", 6), {"T": 40, "N": 1}, (-1, 1, 6), "(N*T, 1, 6)"),
        (("T", "N", 6), {"T": 40, "N": 1}, (-1, 6), "(N*T, 6)"),
        ((24, "N", 6), {"N": 1}, (24, 1, 6), "(24, N, 6)"),
    ],
)
def test_rows_as_usual_sizes(
    shape: tuple[int | str, ...], sizes: dict[str, int], dims: tuple[int, ...], wanted: str
) -> None:
    """What a net states comes first; otherwise its numbers are usual sizes, as many as possible."""
    assert str(_of_rows(shape, sizes, dims).outputs[0].shape) == wanted


def _of_rows(shape: tuple[int | str, ...], sizes: dict[str, int], dims: tuple[int, ...]) -> Graph:
    """x as rows of 6, and these in the stated shape."""
    rows = op("Reshape", "reshape_param { shape { dim: -1 dim: 6 } }", tops=("rows",)).replace(
        '"op"', '"rows"'
    )
    back = op(
        "Reshape", f"reshape_param {{ shape {{ {' '.join(f'dim: {dim}' for dim in dims)} }} }}", ("rows",)
    )
    usual = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape)
    spans = {name: (1, size, 99) for name, size in sizes.items()}
    return rewritten(rows + back, {"x": usual}, shapes={"x": shape}, sizes=spans)


def test_axes_side_by_side_as_their_usual_size() -> None:
    """Rows and columns of a map as steps, as CRNNs state them: 24 are 2 rows of usually 12 columns."""
    layer = op("Reshape", "reshape_param { shape { dim: 1 dim: 5 dim: 24 } }")
    sizes = {"N": (1, 1, 4), "W": (2, 12, 50)}
    graph = rewritten(layer, {"x": (1, 5, 2, 12)}, shapes={"x": ("N", 5, 2, "W")}, sizes=sizes)
    assert str(graph.outputs[0].shape) == "(N, 5, 2*W)"
    (warning,) = graph.warnings
    assert warning.endswith("a shape of usual sizes, which vary: 1 is N and 24 is 2*W")
    x = numbers(3, 5, 2, 7)
    np.testing.assert_array_equal(prototrt.Session(graph).run({"x": x})["y"], x.reshape(3, 5, 14))


def test_message_of_usual_sizes_with_two_meanings() -> None:
    with pytest.raises(ConversionError) as caught:
        _of_rows(("T", "N", 6), {"T": 40, "N": 40}, (-1, 40, 6))
    assert str(caught.value).split('layer "op" ', 1)[1] == (
        "(Reshape): shape is (N*T, 6), which [-1, 40, 6] may make (N, T, 6) or (T, N, 6)\n"
        "  because its numbers are usual sizes of several things that vary\n"
        "  fix: give these different usual sizes in sizes, and state those here"
    )


def of_one(shape: tuple[int | str, ...], dims: tuple[int, ...], **sizes: int) -> Graph:
    """A Reshape of x, whose sizes usually are these."""
    layer = op("Reshape", f"reshape_param {{ shape {{ {' '.join(f'dim: {dim}' for dim in dims)} }} }}")
    usual = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape)
    spans = {name: (1, size, 99) for name, size in sizes.items()}
    return rewritten(layer, {"x": usual}, shapes={"x": shape}, sizes=spans)


@pytest.mark.parametrize(
    ("shape", "dims", "sizes", "literal", "usual", "what", "fix"),
    [
        (("N", 8), (4, -1), {"N": 4}, "(4, 2*N)", "(N, 8)", "N", "0,8"),
        (("N", 8, 3), (1, -1, 3), {"N": 1}, "(1, 8*N, 3)", "(N, 8, 3)", "N", "0,8,3"),
        ((20, "N", 6), (1, -1, 6), {"N": 1}, "(1, 20*N, 6)", "(N, 20, 6)", "N", "-1,20,6"),
    ],
)
def test_a_number_that_fits_as_it_stands_and_as_a_usual_size(
    shape: tuple[int | str, ...],
    dims: tuple[int, ...],
    sizes: dict[str, int],
    literal: str,
    usual: str,
    what: str,
    fix: str,
) -> None:
    with pytest.raises(ConversionError) as caught:
        of_one(shape, dims, **sizes)
    assert str(caught.value).split('layer "op" ', 1)[1] == (
        f"(Reshape): shape is {str(shape).replace(chr(39), '')}, which {list(dims)} may make {literal} or {usual}\n"
        f"  because a number in it is also the usual size of {what}\n"
        f'  fix: for {usual}, give overrides={{"op.reshape_param.shape.dim": "{fix}"}};'
        f" for {literal}, give what varies another usual size in sizes"
    )


@pytest.mark.parametrize(
    ("shape", "dims", "sizes", "wanted"),
    [
        (("N", 8), (0, 8), {"N": 4}, "(N, 8)"),
        (("N", 8), (4, -1), {"N": 3}, "(4, 2*N)"),
        (("N", 1, 8), (-1, 1, 8), {"N": 1}, "(N, 1, 8)"),
        (("N", 64, "H"), (0, 64, -1), {"N": 2, "H": 64}, "(N, 64, H)"),
        (("N", 4, 6), (-1, 4, 6, 1), {"N": 4}, "(N, 4, 6, 1)"),
        (("N", 8, 21), (-1, 21), {"N": 21}, "(8*N, 21)"),
    ],
)
def test_what_leaves_more_axes_needs_no_question(
    shape: tuple[int | str, ...], dims: tuple[int, ...], sizes: dict[str, int], wanted: str
) -> None:
    assert str(of_one(shape, dims, **sizes).outputs[0].shape) == wanted


def test_a_reshape_with_very_many_meanings_is_read_as_it_stands() -> None:
    ones = "dim: 1 " * 15
    with pytest.raises(ConversionError, match="which cannot become"):
        rewritten(
            op("Reshape", f"reshape_param {{ shape {{ dim: 2 {ones} }} }}"),
            {"x": (1, 1)},
            shapes={"x": ("T", "N")},
            sizes={"T": (1, 1, 9), "N": (1, 1, 9)},
        )
