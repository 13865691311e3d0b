"""What Caffe2's operators and weights tell about inputs, held against the arrays on which Caffe2 ran each net."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.caffe2.shape_examples import UNKNOWN, example_shapes
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases

RECURRENT = [case for case in caffe2_cases() if case.is_recurrent]


@pytest.mark.parametrize("case", caffe2_cases(), ids=str)
def test_examples_fit_the_arrays(case: Caffe2Case) -> None:
    """The rank, and each size that is not a letter."""
    model, arrays = case.load(), case.arrays("inputs")
    for name, example in example_shapes([*arrays], model.layers, model.stored).items():
        if example != UNKNOWN and case.folder.name != "lstm_unrolled":
            shape = arrays[name].shape
            assert len(example) == len(shape), name
            assert [size for size in example if isinstance(size, int)] == [
                size for size, known in zip(shape, example, strict=True) if isinstance(known, int)
            ], name


def test_states_and_lengths_need_no_shape() -> None:
    """With the shape of the sequence alone, most nets are the same graph; the others name what is missing."""
    alone = {str(case): _with_the_sequence_alone(case) for case in RECURRENT}
    assert len([case for case, missing in alone.items() if not missing]) > len(alone) // 2
    assert alone["caffe2-lstm_basic"] == alone["caffe2-inference_lstm_2l"] == alone["caffe2-gru_ragged"] == ""
    assert "attention_context_init" in alone["caffe2-attn_dot"]


def _with_the_sequence_alone(case: Caffe2Case) -> str:
    arrays = case.arrays("inputs")
    first = next(iter(arrays))
    try:
        graph = prototrt.rewrite(case.load(), shapes={first: arrays[first].shape})
    except ConversionError as error:
        return str(error)
    for value in graph.inputs:
        assert value.name not in arrays or value.shape == arrays[value.name].shape
    return ""


def test_states_follow_the_range_of_the_sequence() -> None:
    case = next(case for case in RECURRENT if case.folder.name == "lstm_basic")
    graph = prototrt.rewrite(
        case.load(),
        min_shapes={"data": (1, 1, 4)},
        opt_shapes={"data": (5, 2, 4)},
        max_shapes={"data": (9, 4, 4)},
    )
    data, lengths, h, c = graph.inputs
    assert lengths.shape == data.shape[1:2]
    assert h.shape == c.shape == (1, data.shape[1], 3)
    results = prototrt.Session(graph).run(case.arrays("inputs"))
    for name, expected in case.arrays("outputs").items():
        np.testing.assert_allclose(results[name], expected, 1e-4, 1e-5)
