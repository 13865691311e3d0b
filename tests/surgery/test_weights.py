"""What surgery makes of stored, shared, random and broken weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto import ConversionError
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.building.blob_numbers import count_not_finite
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.npz import write_npz
from prototrt.tests.small_nets import numbers, op, refusal, run

FC = 'layer { name: "%s" type: "InnerProduct" bottom: "x" top: "%s" inner_product_param { num_output: %d } %s }'
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: %d } } }\n'

HALF = (
    'layer { name: "half" type: "Reshape" bottom: "x" top: "half" '
    "reshape_param { shape { dim: 2 dim: -1 } } }\n"
)

Rewrite = Callable[..., Graph]


def fc(name: str, outputs: int = 2, more: str = "") -> str:
    return FC % (name, name, outputs, more) + "\n"


@pytest.fixture
def rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rewrite:
    """Write a net and an npz of weights; the graph."""
    monkeypatch.chdir(tmp_path)

    def rewrite(text: str, arrays: dict[str, Array] | None = None, inputs: int = 3, **options: Any) -> Graph:
        Path("net.prototxt").write_text(INPUT % inputs + text)
        if arrays is None:
            return prototrt.rewrite(prototrt.load("net.prototxt", random_weights=1), **options)
        write_npz("weights.npz", arrays)
        return prototrt.rewrite(prototrt.load("net.prototxt", "weights.npz"), **options)

    return rewrite


def constants(graph: Graph, name: str) -> list[Array]:
    """The weights of a layer, in the order of reading, without the ones around their shapes."""
    nodes = [node for node in graph.nodes if node.origin.layer == name]
    found = [value.data for node in nodes for value in node.inputs if value.data is not None]
    return [array.squeeze() for array in found]


STORED = {"fc/0": np.ones((2, 3), np.float32), "fc/1": np.ones(2, np.float32)}


def broken() -> dict[str, Array]:
    weights = np.ones((2, 3), np.float32)
    weights[0, 1], weights[1, 2] = np.nan, -np.inf
    return {**STORED, "fc/0": weights}


def test_nan_and_infinity_are_told(rewrite: Rewrite) -> None:
    assert rewrite(fc("fc"), broken()).warnings == (
        'net.prototxt:2: layer "fc" (InnerProduct), blob 0 (weights): 2 of 6 numbers are NaN or infinite',
    )


def test_strict_refuses_nan_and_infinity(rewrite: Rewrite) -> None:
    with pytest.raises(ConversionError) as caught:
        rewrite(fc("fc"), broken(), strict=True)
    assert str(caught.value) == (
        'net.prototxt:2: layer "fc" (InnerProduct), blob 0 (weights): 2 of 6 numbers are NaN or infinite\n'
        "  fix: get the weights file again, or omit strict to continue with such numbers"
    )


def test_large_numbers_are_finite(rewrite: Rewrite) -> None:
    graph = rewrite(fc("fc"), {**STORED, "fc/0": np.full((2, 3), 3e38, np.float32)}, strict=True)
    assert graph.warnings == ()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_counting(count: int) -> None:
    numbers = np.ones(200_000, np.float32)
    numbers[[0, 99_999, 199_999][:count]] = np.inf
    assert count_not_finite(numbers.reshape(2, -1)) == count
    mapped = np.frombuffer(b"abc" + numbers.tobytes(), np.float32, offset=3)
    assert not mapped.flags.aligned
    assert count_not_finite(mapped.reshape(2, -1)) == count


def test_weights_of_another_net(rewrite: Rewrite) -> None:
    arrays = {f"layer{index}/0": np.zeros(1, np.float32) for index in range(7)}
    with pytest.raises(ConversionError) as caught:
        rewrite(fc("a") + fc("b"), arrays)
    assert str(caught.value) == (
        "weights.npz: no layer of this file is in the net net.prototxt: it has weights for "
        '"layer0", "layer1", "layer2", "layer3", "layer4" and 2 more\n'
        "  because layers are matched by name\n"
        "  fix: use the prototxt that these weights were trained with"
    )


def test_a_net_without_parameters_does_not_care(rewrite: Rewrite) -> None:
    relu = 'layer { name: "r" type: "ReLU" bottom: "x" top: "r" }'
    assert rewrite(relu, {"fc/0": np.zeros(1, np.float32)}).warnings == (
        'weights.npz: the net has no layers for the weights of "fc"',
    )


def test_random_weights_are_shared(rewrite: Rewrite) -> None:
    spec = 'param { name: "w" } param { name: "b" }'
    graph = rewrite(fc("a", 2, spec) + fc("b", 2, spec) + fc("c"))
    first, second, third = (constants(graph, name) for name in "abc")
    for one, other, strange in zip(first, second, third, strict=True):
        np.testing.assert_array_equal(one, other)
        assert not np.array_equal(one, strange)


def test_random_weights_are_shared_in_other_shapes(rewrite: Rewrite) -> None:
    """PERMISSIVE: the same six numbers, as 2 x 3 and as 3 x 2."""
    spec = 'param { name: "w" share_mode: PERMISSIVE } param { lr_mult: 1 }'
    half = HALF
    graph = rewrite(
        fc("a", 1, spec) + half + fc("b", 2, spec).replace('bottom: "x"', 'bottom: "half"'), inputs=6
    )
    np.testing.assert_array_equal(constants(graph, "a")[0].ravel(), constants(graph, "b")[0].ravel())


def test_a_cut_off_owner_still_gives_its_numbers(rewrite: Rewrite) -> None:
    net = fc("a", 2, 'param { name: "w" }') + fc("b", 2, 'param { name: "w" }')
    alone = constants(rewrite(net, outputs=["b"]), "b")[0]
    np.testing.assert_array_equal(alone, constants(rewrite(net), "b")[0])


@pytest.mark.parametrize("mode", ["STRICT", "PERMISSIVE"])
def test_shared_weights_of_other_sizes(rewrite: Rewrite, mode: str) -> None:
    spec = f'param {{ name: "w" share_mode: {mode} }}'
    with pytest.raises(ConversionError) as caught:
        rewrite(fc("a", 2, spec) + fc("b", 4, spec))
    assert str(caught.value) == (
        'net.prototxt:3: layer "b" (InnerProduct), blob 0 (weights): shape is (4, 3), but it is shared with '
        'blob 0 of layer "a", which has the shape (2, 3)\n'
        "  fix: give both layers the same num_output and bottoms of the same size, or the blobs different param names"
    )


def test_shared_weights_of_other_shapes_are_refused_unless_permissive(rewrite: Rewrite) -> None:
    spec, half = 'param { name: "w" }', HALF
    with pytest.raises(ConversionError) as caught:
        rewrite(fc("a", 1, spec) + half + fc("b", 2, spec).replace('bottom: "x"', 'bottom: "half"'), inputs=6)
    assert str(caught.value) == (
        'net.prototxt:4: layer "b" (InnerProduct), blob 0 (weights): shape is (2, 3), but it is shared with '
        'blob 0 of layer "a", which has the shape (1, 6)\n'
        "  fix: give both layers the same num_output and bottoms of the same size, or the blobs different param"
        " names, or add share_mode: PERMISSIVE"
    )


def test_a_caffemodel_cut_short_anywhere(rewrite: Rewrite) -> None:
    """Also where a prefix is a sound message: then the layer is missing."""
    net = message_class("NetParameter")(name="stored")
    for name in ("ahead", "fc"):
        layer = net.layer.add(name=name, type="InnerProduct")
        layer.blobs.add(data=[1.0] * 6).shape.dim.extend([2, 3])
        layer.blobs.add(data=[1.0] * 2).shape.dim.extend([2])
    whole = net.SerializeToString()
    Path("net.prototxt").write_text(INPUT % 3 + fc("fc") + fc("ahead"))
    for size in range(len(whole)):
        Path("cut.caffemodel").write_bytes(whole[:size])
        with pytest.raises(ConversionError) as caught:
            prototrt.rewrite(prototrt.load("net.prototxt", "cut.caffemodel"))
        assert str(caught.value).startswith(
            ("cut.caffemodel: ", 'net.prototxt:2: layer "fc" (InnerProduct): the w')
        )
    Path("cut.caffemodel").write_bytes(whole)
    assert prototrt.rewrite(prototrt.load("net.prototxt", "cut.caffemodel")).warnings == ()


def test_permissive_sharing_where_only_the_owner_is_stored() -> None:
    spec = 'param { name: "w" share_mode: PERMISSIVE }'
    field = "inner_product_param { bias_term: false num_output:"
    layers = (
        f'layer {{ name: "a" type: "InnerProduct" bottom: "x" top: "h" {spec} {field} 3 }} }}\n'
        f'layer {{ name: "b" type: "InnerProduct" bottom: "h" top: "y" {spec} {field} 4 }} }}\n'
    )
    weights = numbers(3, 4)
    x = numbers(2, 4, seed=1)
    expected = x @ weights.T @ weights.reshape(4, 3).T
    np.testing.assert_allclose(run(layers, {"x": x}, {"a/0": weights})["y"], expected, rtol=1e-5)


def test_more_param_than_blobs() -> None:
    assert refusal(op("ReLU", "param { lr_mult: 1 }"), {"x": (2, 3)}) == (
        'net.prototxt:2: layer "op" (ReLU): param is stated 1 times, expected at most 0, once per blob of the layer\n'
        "  fix: remove param 0"
    )


def test_what_is_stated_once_a_bottom_or_top() -> None:
    fields = "propagate_down: true propagate_down: true loss_weight: 1 loss_weight: 1"
    assert refusal(op("ReLU", fields), {"x": (2, 3)}) == (
        'net.prototxt:2: layer "op" (ReLU): propagate_down is stated 2 times, expected 1, one per bottom\n'
        "  fix: remove propagate_down: it only matters to training\n"
        'net.prototxt:2: layer "op" (ReLU): loss_weight is stated 2 times, expected 1, one per top\n'
        "  fix: remove loss_weight: it only matters to training\n"
        "2 problems"
    )
