"""What TensorRT for RTX writes into a plan on whether it can become a CUDA graph. A plan holds its program as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import prototrt
from prototrt import Form
from prototrt.converter.checking.selftest.nets import Size, lstm_graph
from prototrt.surgery.ir import Graph
from prototrt.tests.dynamic_lstm import dynamic_graph

pytestmark = pytest.mark.trt

WITH_LENGTHS = """
layer {
  name: "in" type: "Input" top: "x" top: "cont" top: "lengths"
  input_param { shape { dim: 12 dim: 2 dim: 16 } shape { dim: 12 dim: 2 } shape { dim: 2 } }
}
layer {
  name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" bottom: "lengths" top: "h"
  recurrent_param { num_output: 16 sequence_lengths: true weight_filler { type: "uniform" } }
}
"""


def can_be_captured(graph: Graph) -> bool:
    plan = bytes(prototrt.build(graph, backend="rtx").plan)
    (told,) = set(re.findall(rb"stream_capturable\s*=\s*(\d)", plan))
    return bool(int(told))


@pytest.mark.parametrize("sequence", ["loop", "unroll"])
def test_a_fixed_number_of_steps_can_be_captured(sequence: Form) -> None:
    assert can_be_captured(lstm_graph(Size(16, 12, 2), sequence))


def test_a_number_of_steps_that_varies_cannot() -> None:
    assert not can_be_captured(dynamic_graph())


def test_padded_sequences_with_lengths_can(tmp_path: Path) -> None:
    """So that sequences of any length up to the largest get a graph."""
    path = tmp_path / "net.prototxt"
    path.write_text(WITH_LENGTHS)
    assert can_be_captured(prototrt.rewrite(prototrt.load(path, random_weights=1)))
