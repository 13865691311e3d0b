"""Crop, MergeCrop, BatchReindex and Filter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototrt import Session, Way, build, rewrite
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ops import Slice
from prototrt.tests.small_nets import (
    WAYS,
    builds,
    failure,
    inputs_of,
    loaded,
    numbers,
    op,
    refusal,
    rewritten,
    run,
    stored,
    told,
)

CROPS = {
    "": (slice(None), slice(None), slice(0, 3), slice(0, 2)),
    "axis: -1 offset: 3": (slice(None), slice(None), slice(None), slice(3, 5)),
    "axis: 2 offset: 1": (slice(None), slice(None), slice(1, 4), slice(1, 3)),
    "axis: 1 offset: 0 offset: 2 offset: 3": (slice(None), slice(0, 2), slice(2, 5), slice(3, 5)),
    "axis: -4 offset: 1 offset: 1 offset: 0 offset: 0": (slice(1, 2), slice(1, 3), slice(0, 3), slice(0, 2)),
}


def crop(param: str) -> str:
    return op("Crop", f"crop_param {{ {param} }}", ["x", "like"])


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("param", CROPS)
def test_crop(on: Way, param: str) -> None:
    x = numbers(2, 3, 6, 5)
    like = numbers(1, 2, 3, 2)
    np.testing.assert_array_equal(run(crop(param), {"x": x, "like": like}, on=on)["y"], x[CROPS[param]])


def vgg(pad: int) -> list[str]:
    """The layers of VGG16 up to pool5 with one channel, as FCN and HED pad them."""
    net, before = [], "x"
    for block in range(1, 6):
        name = f"conv{block}"
        sizes = f"kernel_size: 3 pad: {pad if block == 1 else 1}"
        net.append(window("Convolution", before, name, sizes))
        net.append(
            f'layer {{ name: "pool{block}" type: "Pooling" bottom: "{name}" top: "pool{block}"'
            " pooling_param { pool: MAX kernel_size: 2 stride: 2 } }"
        )
        before = f"pool{block}"
    return net


def window(kind: str, bottom: str, top: str, sizes: str) -> str:
    return (
        f'layer {{ name: "{top}" type: "{kind}" bottom: "{bottom}" top: "{top}"'
        f" convolution_param {{ num_output: 1 {sizes} }} }}"
    )


def fcn_8s(kind: str) -> list[str]:
    return [
        *vgg(100),
        window("Convolution", "pool5", "fc6", "kernel_size: 7"),
        window("Deconvolution", "fc6", "up2", "kernel_size: 4 stride: 2"),
        f'layer {{ name: "c4" type: "{kind}" bottom: "pool4" bottom: "up2" top: "c4" }}',
        'layer { name: "sum4" type: "Eltwise" bottom: "up2" bottom: "c4" top: "sum4" }',
        window("Deconvolution", "sum4", "up4", "kernel_size: 4 stride: 2"),
        f'layer {{ name: "c3" type: "{kind}" bottom: "pool3" bottom: "up4" top: "c3" }}',
        'layer { name: "sum3" type: "Eltwise" bottom: "up4" bottom: "c3" top: "sum3" }',
        window("Deconvolution", "sum3", "up8", "kernel_size: 16 stride: 8"),
        f'layer {{ name: "c0" type: "{kind}" bottom: "up8" bottom: "x" top: "y" }}',
    ]


def hed(kind: str) -> list[str]:
    net = vgg(35)
    for block in range(1, 6):
        stride = 2 ** (block - 1)
        sizes = f"kernel_size: {2 * stride} stride: {stride}"
        net += [window("Deconvolution", f"conv{block}", f"up{block}", sizes)] if block > 1 else []
        side = "conv1" if block == 1 else f"up{block}"
        net.append(
            f'layer {{ name: "c{block}" type: "{kind}" bottom: "{side}" bottom: "x" top: "y{block}" }}'
        )
    return net


def graph_of(folder: Path, net: list[str], **options: Any) -> Graph:
    text = inputs_of({"x": (1, 1, 500, 500)}) + "\n".join(net)
    return rewrite(loaded(folder, text, random_weights=1), **options)


OFFSETS = [(fcn_8s, [5, 9, 31]), (hed, [34, 35, 36, 38, 42])]
"""What the published nets of FCN state, where Caffe's Crop needs it, and where HED's middles are."""


@pytest.mark.parametrize("kind", ["Crop", "AutoCrop"])
@pytest.mark.parametrize(("net", "offsets"), OFFSETS)
def test_crops_of_forks_begin_where_windows_say(
    tmp_path: Path, net: Callable[[str], list[str]], offsets: list[int], kind: str
) -> None:
    graph = graph_of(tmp_path, net(kind), fork="fcn" if kind == "Crop" else None)
    starts = [node.op.start for node in graph.nodes if isinstance(node.op, Slice)]
    assert starts == [offset for offset in offsets for _ in range(2)]
    assert not graph.warnings


def test_a_crop_of_caffe_begins_at_0(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, fcn_8s("Crop"))
    assert {node.op.start for node in graph.nodes if isinstance(node.op, Slice)} == {0}
    assert [told(warning).partition(" (Crop): ")[2] for warning in graph.warnings] == [
        "read as the layer of bvlc: it begins at the first element; use"
        ' fork="fcn" if it begins where the windows of the layers before put the second bottom'
    ] * 3
    assert not graph_of(tmp_path, fcn_8s("Crop"), fork="bvlc").warnings


def test_auto_crop_needs_places() -> None:
    shapes = {"x": (1, 1, 4, 4), "like": (1, 1, 3, 3)}
    assert refusal(op("AutoCrop", "", ["x", "like"]), shapes) == (
        'net.prototxt:3: layer "op" (AutoCrop): nothing says where to begin\n'
        "  because the layers before move its bottoms by parts of an element, past each other, or not from one blob\n"
        "  fix: use a Crop with an offset"
    )


CROP = 'net.prototxt:3: layer "op" (Crop)'
REFUSED_CROPS = {
    "axis: 4": f"{CROP}: axis is 4, but the bottom has 4 axes: (2, 3, 6, 5)\n  fix: use an axis from -4 to 3",
    "offset: 1 offset: 1 offset: 1": (
        f"{CROP}: offset is stated 3 times, expected once or 2 times\n"
        "  because 2 axes are cropped, those from axis 2 on\n"
        "  fix: remove all but the first offset to crop all axes alike"
    ),
    "offset: 4": (
        f'{CROP}, bottom "x": axis 2 has 6 elements, expected at least 7\n'
        '  because "like" has 3 there, and the offset is 4\n'
        "  fix: use a smaller offset, or a smaller second bottom"
    ),
}


@pytest.mark.parametrize("param", REFUSED_CROPS)
def test_refused_crop(param: str) -> None:
    assert refusal(crop(param), {"x": (2, 3, 6, 5), "like": (1, 2, 3, 2)}) == REFUSED_CROPS[param]


def test_crop_to_a_blob_of_fewer_axes_is_refused() -> None:
    assert refusal(crop(""), {"x": (2, 3, 6, 5), "like": (3, 2)}) == (
        f'{CROP}, bottom "like": shape is (3, 2), expected at least 4 axes\n'
        '  because "x" has the shape (2, 3, 6, 5), and is cropped to the sizes of this bottom\n'
        "  fix: add a Reshape before this layer to give this bottom 4 axes"
    )


def merge(fields: str) -> str:
    return op("MergeCrop", fields, ["x", "larger"])


def test_merge_crop_of_a_multiple_of_channels() -> None:
    x, larger = numbers(1, 4, 3), numbers(1, 2, 6, seed=1)
    expected = np.concatenate([x, larger[:, :, 1:4]], 1)
    np.testing.assert_array_equal(run(merge(""), {"x": x, "larger": larger})["y"], expected)


MERGE = 'net.prototxt:3: layer "op" (MergeCrop)'
MIXED = (
    "  because the fork mixes up other numbers of channels, unless there is one item and the first is a multiple\n"
    '  fix: cut the net before this layer with outputs=["BLOB"]'
)
REFUSED_MERGES = [
    ("mergecrop_param { forward: true forward: false }", (1, 2, 3), (1, 2, 3),
     f'{MERGE}: forward is false, which is not supported\n  fix: cut the net before this layer with outputs=["BLOB"]'),
    ("", (1, 2), (1, 2),
     f'{MERGE}, bottom "x": shape is (1, 2), expected (N, C, ...), at least 3 axes\n'
     "  fix: add a Reshape before this layer to give this bottom an axis after its channels"),
    ("", (2, 2, 3), (1, 2, 3),
     f'{MERGE}, bottom "larger": shape is (1, 2, 3), expected 3 axes and 2 items\n'
     '  because "x" has the shape (2, 2, 3)\n'
     "  fix: change the net so that both bottoms have equal numbers of axes and items"),
    ("", (1, 2, 4), (1, 2, 3),
     f'{MERGE}, bottom "larger": axis 2 has 3 elements, expected at least 4\n'
     '  because "x" has 4 there, and the second bottom is cut to that size\n'
     "  fix: swap the bottoms, or change the layers that make them"),
    ("", (1, 2, 3), (1, 4, 3), f"{MERGE}: puts 4 channels after 2, expected equal numbers\n{MIXED}"),
    ("", (2, 4, 3), (2, 2, 3), f"{MERGE}: puts 2 channels after 4, expected equal numbers\n{MIXED}"),
    ("mergecrop_param { operation: ADD }", (1, 4, 3), (1, 2, 3),
     f"{MERGE}: adds 2 channels to 4, expected equal numbers\n"
     "  fix: give both bottoms equal numbers of channels"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "x", "larger", "message"), REFUSED_MERGES)
def test_refused_merge_crop(fields: str, x: tuple[int, ...], larger: tuple[int, ...], message: str) -> None:
    assert refusal(merge(fields), {"x": x, "larger": larger}) == message


REINDEX = 'layer { name: "op" type: "BatchReindex" bottom: "x" bottom: "index" top: "y" }'


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 4, 1)])
def test_batch_reindex(on: Way, shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    result = run(REINDEX, {"x": x, "index": np.array([2, 0, 0, 1], np.float32)}, on=on)["y"]
    np.testing.assert_array_equal(result, x[[2, 0, 0, 1]])


@pytest.mark.trt
def test_batch_reindex_builds() -> None:
    assert builds(REINDEX, {"x": (3, 2), "index": (4,)})


@pytest.mark.parametrize("wrong", [-1, 3])
def test_index_outside_is_refused_by_the_reference(wrong: int) -> None:
    assert failure(lambda: run(REINDEX, {"x": numbers(3, 2), "index": np.array([0, wrong], np.float32)})) == (
        f'net.prototxt:3: layer "op" (BatchReindex): index {wrong} is outside the 3 rows that it picks from\n'
        "  fix: give indices from 0 to 2"
    )


def test_index_of_two_axes_is_refused() -> None:
    assert refusal(REINDEX, {"x": (3, 2), "index": (4, 1)}) == (
        'net.prototxt:3: layer "op" (BatchReindex), bottom "index": shape is (4, 1), expected one axis\n'
        "  fix: add a Reshape before this layer to give this bottom one axis"
    )


FILTER = 'layer { name: "op" type: "Filter" bottom: "a" bottom: "b" bottom: "s" top: "y" top: "z" }\n'
SHAPES = {"a": (4, 3), "b": (4, 2, 2), "s": (4, 1, 1)}


def filtered(chosen: list[float]) -> dict[str, Array]:
    """Inputs, and which of their items stay."""
    selector = np.array(chosen, np.float32).reshape(4, 1, 1)
    return {"a": numbers(4, 3), "b": numbers(4, 2, 2, seed=1), "s": selector}


@pytest.mark.parametrize("chosen", [[0, 2, 0, -1], [0, 0, 0, 0], [1, 1, 1, 1]])
def test_filter(chosen: list[float]) -> None:
    inputs = filtered(chosen)
    results = run(FILTER, inputs)
    kept = [index for index, value in enumerate(chosen) if value]
    np.testing.assert_array_equal(results["y"], inputs["a"][kept])
    np.testing.assert_array_equal(results["z"], inputs["b"][kept])


def test_what_a_filter_leaves_goes_on() -> None:
    """InnerProduct, Softmax and Eltwise do not ask how many items there are."""
    after = (
        'layer { name: "ip" type: "InnerProduct" bottom: "z" top: "i" inner_product_param { num_output: 3 } }\n'
        'layer { name: "sum" type: "Eltwise" bottom: "i" bottom: "y" top: "t" }\n'
        'layer { name: "soft" type: "Softmax" bottom: "t" top: "p" }'
    )
    weights = {"ip/0": numbers(3, 4, seed=2), "ip/1": numbers(3, seed=3)}
    inputs = filtered([1, 0, 1, 1])
    kept = [0, 2, 3]
    total = inputs["a"][kept] + inputs["b"][kept].reshape(3, 4) @ weights["ip/0"].T + weights["ip/1"]
    exponentials = np.exp(total)
    expected = exponentials / exponentials.sum(1, keepdims=True)
    np.testing.assert_allclose(run(FILTER + after, inputs, weights)["p"], expected, 1e-5)


SLIDING = "convolution_param { num_output: 2 kernel_size: 1 group: 2 bias_term: false }"


@pytest.mark.parametrize(
    ("kind", "param", "shape"),
    [
        ("Convolution", SLIDING, (0, 2, 2, 1)),
        ("Deconvolution", SLIDING, (0, 2, 2, 1)),
        ("Softmax", "softmax_param { axis: 0 }", (0, 2, 2, 1)),
        ("InnerProduct", "inner_product_param { num_output: 2 bias_term: false }", (0, 2)),
        ("PReLU", "", (0, 2, 2, 1)),
        ("MVN", "", (0, 2, 2, 1)),
        ("ArgMax", "", (0, 1, 1, 1)),
    ],
)
def test_nothing_may_be_left(kind: str, param: str, shape: tuple[int, ...]) -> None:
    """No item is chosen: the layers behind work on none, as Caffe's do."""
    filtered = 'layer { name: "f" type: "Filter" bottom: "a" bottom: "s" top: "x" }\n'
    inputs = {"a": numbers(4, 2, 2, 1), "s": np.zeros(4, np.float32)}
    blobs = {
        "Convolution": (2, 1, 1, 1),
        "Deconvolution": (2, 1, 1, 1),
        "InnerProduct": (2, 4),
        "PReLU": (2,),
    }
    weights = stored("op", [numbers(*blobs[kind])]) if kind in blobs else {}
    assert run(filtered + op(kind, param), inputs, weights)["y"].shape == shape


def test_what_needs_the_size_is_refused() -> None:
    after = 'layer { name: "cut" type: "Slice" bottom: "y" top: "p" top: "q" slice_param { axis: 0 } }'
    assert refusal(FILTER + after, SHAPES) == (
        'net.prototxt:5: layer "cut" (Slice): the size of axis 0 depends on the input\'s values (op_count),'
        " but it must be known here\n"
        '  fix: cut the net before this layer with outputs=["BLOB"]'
    )


NO_ENGINE = (
    'net.prototxt:4: layer "op" (Filter): its output size depends on input values\n'
    "  because sizes in an engine depend only on the sizes of its inputs\n"
    '  fix: run it as `prototrt.Session(...)` does with on="reference",'
    ' or cut the net before it with outputs=["BLOB"]'
)


@pytest.fixture
def graph() -> Graph:
    return rewritten(FILTER, SHAPES)


@pytest.mark.trt
def test_filter_is_refused_for_an_engine(graph: Graph) -> None:
    assert failure(lambda: build(graph, backend="rtx")) == NO_ENGINE


@pytest.mark.trt
def test_filter_is_refused_for_the_network(graph: Graph) -> None:
    assert failure(lambda: Session(graph, on="network")) == NO_ENGINE


def test_selector_of_several_columns_is_refused() -> None:
    assert refusal(FILTER, {**SHAPES, "s": (4, 2)}) == (
        'net.prototxt:4: layer "op" (Filter), bottom "s": shape is (4, 2), expected (N,), optionally followed'
        " by axes of size 1\n"
        "  because the last bottom of a Filter says which items stay\n"
        "  fix: add a Reshape before this layer to give this bottom one axis"
    )


def test_selector_of_another_length_is_refused() -> None:
    assert refusal(FILTER, {**SHAPES, "b": (5, 2, 2)}) == (
        'net.prototxt:4: layer "op" (Filter), bottom "b": shape is (5, 2, 2), expected (4, ...)\n'
        '  because the selector "s" has the shape (4, 1, 1)\n'
        "  fix: give each of them an element of the selector"
    )
