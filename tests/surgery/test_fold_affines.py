"""BatchNorm and Scale in the weights before them: the numbers stay, in every type, or the layers do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Precision
from prototrt.converter.options import BuildOptions
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import Graph
from prototrt.surgery.passes.fold_affines import fold_affines
from prototrt.tests.golden_cases import case_called
from prototrt.tests.small_nets import inputs_of, loaded, numbers, rewritten, stored


def layer(kind: str, bottom: str, top: str, fields: str = "") -> str:
    return f'layer {{ name: "{top}" type: "{kind}" bottom: "{bottom}" top: "{top}" {fields} }}'


@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("group", [1, 2])
def test_a_folded_affine_computes_the_same(kind: str, group: int, tmp_path: Path) -> None:
    text = layer(kind, "x", "c", f"convolution_param {{ num_output: 6 kernel_size: 3 group: {group} }}")
    text += layer("BatchNorm", "c", "n") + layer("Scale", "n", "y", "scale_param { bias_term: true }")
    kernel = (6, 4 // group, 3, 3) if kind == "Convolution" else (4, 6 // group, 3, 3)
    blobs = stored("c", [numbers(*kernel), numbers(6, seed=1)])
    blobs |= stored("n", [numbers(6, seed=2), np.abs(numbers(6, seed=3)) + 1, np.ones(1)])
    blobs |= stored("y", [numbers(6, seed=4), numbers(6, seed=5)])
    before = expand(loaded(tmp_path, inputs_of({"x": (2, 4, 5, 5)}) + text, blobs)).graph
    after = fold_affines(before)
    x = numbers(2, 4, 5, 5, seed=6)
    assert kinds(after) == [kind]
    np.testing.assert_allclose(after.evaluate(x)[0], before.evaluate(x)[0], rtol=1e-5, atol=1e-5)


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


def scaled(factor: float, precision: Precision = "fp32", weight: float = 1) -> Graph:
    """A convolution with equal weights, and a Scale by this factor."""
    text = layer("Convolution", "x", "c", "convolution_param { num_output: 2 kernel_size: 1 }")
    text += layer("Scale", "c", "y")
    kernel = np.full((2, 3, 1, 1), weight, np.float32)
    blobs = {**stored("c", [kernel, kernel[:, 0, 0, 0]]), **stored("y", [np.full(2, factor, np.float32)])}
    return rewritten(text, {"x": (1, 3, 2, 2)}, blobs, precision=precision)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_weights_of_16_bits_keep_their_type(precision: Precision) -> None:
    graph = scaled(0.1, precision)
    folded = fold_affines(graph)
    assert kinds(graph).count("Affine") == 1
    assert kinds(folded).count("Affine") == 0
    x = numbers(1, 3, 2, 2)
    np.testing.assert_allclose(folded.evaluate(x)[0], graph.evaluate(x)[0], rtol=2e-2)


@pytest.mark.parametrize(
    "graph",
    [
        scaled(np.inf),
        scaled(np.inf, weight=0),
        scaled(np.nan),
        scaled(1e38, weight=1e10),
        scaled(300, "fp16", weight=300),
    ],
)
@pytest.mark.filterwarnings("error")
def test_products_that_the_type_does_not_hold_stay(graph: Graph) -> None:
    assert kinds(graph).count("Affine") == 1
    assert fold_affines(graph) is graph


@pytest.mark.trt
def test_an_engine_has_no_batch_norm_of_its_own_unless_that_is_asked_for() -> None:
    graph = prototrt.rewrite(case_called("net_resnet_block").load())
    folded, kept = (
        prototrt.build(graph, "rtx", keep_batch_norm=keep).manifest["layers"] for keep in (False, True)
    )
    assert kept - folded == 4


@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        (BuildOptions(), False),
        (BuildOptions(keep_batch_norm=True), True),
        (BuildOptions(refit=True), True),
        (BuildOptions(strip_weights=True), True),
    ],
    ids=["none", "keep_batch_norm", "refit", "strip_weights"],
)
def test_weights_that_are_replaced_are_those_of_the_caffemodel(options: BuildOptions, keeps: bool) -> None:
    assert options.keeps_batch_norm is keeps
