"""Tiny products get zeros to add, and give what they gave; plans of tiny cells stay small."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form, Precision
from prototrt.surgery.ir import Graph, Value, fixed, walk
from prototrt.surgery.ops import MatMul
from prototrt.surgery.passes.widen_products import WIDTH, widen_products
from prototrt.surgery.pipeline import lowered
from prototrt.tests.small_nets import inputs_of, loaded, numbers

CELL = (
    'layer {{ name: "l" type: "{kind}" bottom: "x" bottom: "cont" top: "l" recurrent_param {{ {fields} }} }}'
)


def net(kind: str, fields: str, steps: int, streams: int = 1, inputs: int = 3, **options: Any) -> Graph:
    shapes = {"x": (steps, streams, inputs), "cont": (steps, streams)}
    with tempfile.TemporaryDirectory() as folder:
        text = inputs_of(shapes) + CELL.format(kind=kind, fields=fields)
        graph = prototrt.rewrite(loaded(Path(folder), text, random_weights=1), **options)
        return replace(graph, sources=())  # the file is gone when a plan would be told its digest


def weights(graph: Graph) -> list[Value]:
    return [node.inputs[1] for node in walk(graph) if isinstance(node.op, MatMul)]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("sequence", ["loop", "unroll"])
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("LSTM", "num_output: 5 num_proj: 2 peephole: true"),
        ("LSTM", "num_output: 4 num_layers: 2 bidirectional: CONCAT"),
        ("GRU", "num_output: 3"),
        ("VanillaRNN", "num_output: 6"),
    ],
)
def test_the_numbers_stay_the_same(kind: str, fields: str, sequence: Form, precision: Precision) -> None:
    graph = net(kind, fields, 6, sequence=sequence, precision=precision)
    wide = widen_products(graph)
    wide.verify()
    assert any(value.shape[-1] == WIDTH for value in weights(wide))
    feeds = [numbers(*(fixed(dim, "a size") for dim in value.shape)) for value in graph.inputs]
    for new, old in zip(wide.evaluate(*feeds), graph.evaluate(*feeds), strict=True):
        np.testing.assert_allclose(new, old, 1e-5, 1e-6)


def test_copies_of_a_step_share_the_wider_weights() -> None:
    wide = weights(widen_products(net("VanillaRNN", "num_output: 5", 6, sequence="unroll")))
    assert len({id(value.data) for value in wide if value.shape[-1] == WIDTH}) == 1


@pytest.mark.parametrize(("sequence", "is_wide"), [("unroll", True), ("loop", False)])
def test_several_matrices(sequence: Form, is_wide: bool) -> None:
    """In a loop they are not spelled out."""
    graph = net("LSTM", "num_output: 4 bidirectional: CONCAT", 6, sequence=sequence)
    after = lowered(graph, "tensorrt")
    assert any(value.shape == (2, 16, WIDTH) for value in weights(after)) == is_wide


@pytest.mark.parametrize(("hidden", "is_wide"), [(4, True), (5, False)])
def test_any_number_of_streams(hidden: int, is_wide: bool) -> None:
    least, most = ({"x": (4, streams, 3), "cont": (4, streams)} for streams in (1, 5))
    graph = net("VanillaRNN", f"num_output: {hidden}", 4, min_shapes=least, max_shapes=most)
    assert (widen_products(graph) is not graph) == is_wide


@pytest.mark.trt
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fields", "steps", "sequence"),
    [
        ("LSTM", "num_output: 5", 24, "loop"),
        ("LSTM", "num_output: 4 num_layers: 3", 8, "loop"),
        ("LSTM", "num_output: 6", 16, "unroll"),
        ("LSTM", "num_output: 6 num_layers: 3", 1, "step"),
        ("GRU", "num_output: 6", 64, "loop"),
        ("RNN", "num_output: 3", 16, "unroll"),
        ("LSTM", "num_output: 3 num_proj: 3 bidirectional: CONCAT", 8, "unroll"),
    ],
)
def test_plans_of_tiny_cells_are_small(kind: str, fields: str, steps: int, sequence: Form) -> None:
    """Unless products are widened, the first takes minutes and 195 MB, the third never ends."""
    graph = net(kind, fields, steps, inputs=6, sequence=sequence)
    since = time.process_time()
    assert prototrt.build(graph, backend="rtx").plan.nbytes < 10e6
    assert time.process_time() - since < 10
