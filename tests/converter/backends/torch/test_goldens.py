"""Every case of Caffe, its forks and Caffe2, computed by the PyTorch module that is written for it."""

from __future__ import annotations

from functools import partial

import pytest

from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.converter.backends.torch.torch_session import TorchSession, torch
from prototrt.tests.golden_cases import Case, caffe_cases, check, fork_cases
from prototrt.tests.samples import one_of_each


@pytest.mark.parametrize(
    "case", one_of_each([*caffe_cases(), *fork_cases()], lambda case: case.layer_types), ids=str
)
def test_module_agrees_with_caffe(case: Case) -> None:
    check(case, TorchSession)


HAS_GPU = torch.cuda.is_available()


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="there is no PyTorch that sees a GPU")
@pytest.mark.parametrize("case", [*caffe_cases(), *fork_cases()] if HAS_GPU else caffe_cases()[:1], ids=str)
def test_module_on_a_gpu_agrees_with_caffe(case: Case) -> None:
    check(case, partial(TorchSession, device="cuda"))


@pytest.mark.parametrize("case", one_of_each(caffe2_cases(), lambda case: case.families), ids=str)
def test_module_agrees_with_caffe2(case: Caffe2Case) -> None:
    case.check(TorchSession(case.rewritten()).run(case.arrays("inputs")))
