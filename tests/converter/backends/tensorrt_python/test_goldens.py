"""The program of every golden makes our network: layer by layer, with all names, weights and loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from prototrt import Form
from prototrt.tests.converter.backends.onnx.test_parser import words_of
from prototrt.tests.converter.backends.tensorrt_python.programs import of_program, ours
from prototrt.tests.golden_cases import Case, caffe_cases, case_called, fork_cases, recurrent_runs, rewritten
from prototrt.tests.samples import one_of_each

pytestmark = pytest.mark.trt

DATA_DEPENDENT = {"filter"}
SAMPLE = [
    "argmax_topk_values", "batchnorm_running_sums", "clip", "conv_1d_group_dilation", "conv_two_bottoms",
    "crop_offsets", "deconv_bilinear_group", "eltwise_sum_coeff", "embed", "im2col_dilation", "lrn_across",
    "lstm_carry", "lstm_t20", "net_lrcn", "net_ssd", "pool_max_mask", "prelu_per_channel", "scale_axis_num_axes",
    "spatial_recurrent", "spn",
]  # fmt: skip
"""One of each family."""
CASES = [case for case in (*caffe_cases(), *fork_cases()) if str(case) not in DATA_DEPENDENT]


@pytest.mark.parametrize("name", SAMPLE)
def test_sample(name: str, tmp_path: Path) -> None:
    case = case_called(name)
    graph = rewritten(case, case.arrays("inputs")[0])
    assert of_program(graph, tmp_path) == ours(graph)


@pytest.mark.slow
@pytest.mark.parametrize("case", one_of_each(CASES, lambda case: case.families), ids=str)
def test_golden(case: Case, tmp_path: Path) -> None:
    graph = rewritten(case, case.arrays("inputs")[0])
    assert of_program(graph, tmp_path) == ours(graph)


@pytest.mark.slow
@pytest.mark.parametrize("run", one_of_each(recurrent_runs(), words_of), ids=lambda run: f"{run[0]}-{run[1]}")
def test_recurrent_golden_in_every_sequence(run: tuple[Case, Form], tmp_path: Path) -> None:
    case, sequence = run
    graph = rewritten(case, case.arrays("inputs")[0], sequence)
    assert of_program(graph, tmp_path) == ours(graph)
