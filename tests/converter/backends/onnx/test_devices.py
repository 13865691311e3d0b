"""ONNX models on a GPU: every golden where there is one, and what is refused where there is none."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import prototrt
from prototrt import Form, Way
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.onnx import evaluator
from prototrt.tests.caffe2_cases import Caffe2Case, caffe2_cases
from prototrt.tests.dynamic_lstm import dynamic_graph
from prototrt.tests.golden_cases import Case, caffe_cases, check, check_half, fork_cases, recurrent_runs

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install '.[onnx]'")
CUDA = "CUDAExecutionProvider"
HAS_GPU = CUDA in onnxruntime.get_available_providers()
CAFFE = caffe_cases() if HAS_GPU else caffe_cases()[:1]
"""Without a GPU, each test is skipped once rather than for each golden."""
FORKS, CAFFE2 = (fork_cases(), caffe2_cases()) if HAS_GPU else ([], caffe2_cases()[:1])
RECURRENT = recurrent_runs() if HAS_GPU else recurrent_runs()[:1]
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs onnxruntime-gpu")


def on_gpu(way: Way) -> Any:
    return partial(prototrt.Session, on=way, device="cuda", cut=True)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("way", ["onnx", "onnx-lstm"])
@pytest.mark.parametrize("case", [*CAFFE, *FORKS], ids=str)
def test_model_on_a_gpu_agrees_with_caffe(case: Case, way: Way) -> None:
    check(case, on_gpu(way))


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize(("case", "form"), RECURRENT, ids=str)
def test_recurrent_model_on_a_gpu_in_every_sequence(case: Case, form: Form) -> None:
    check(case, on_gpu("onnx"), form)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("case", CAFFE, ids=str)
def test_model_on_a_gpu_in_float16(case: Case) -> None:
    check_half(case, on_gpu("onnx"))


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("case", CAFFE2, ids=str)
def test_model_on_a_gpu_agrees_with_caffe2(case: Caffe2Case) -> None:
    case.check(on_gpu("onnx")(case.rewritten()).run(case.arrays("inputs")))


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "abacus"])
def test_a_device_that_onnxruntime_does_not_have(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(BuildError) as caught:
        prototrt.Session(dynamic_graph(), on="onnx", device=device)
    assert str(caught.value) == (
        f"onnxruntime cannot compute on the device {device!r}: it has CPUExecutionProvider\n"
        "  fix: leave device out to compute on the CPU, or install onnxruntime-gpu in place of onnxruntime for"
        ' device="cuda"'
    )


def test_libraries_of_cuda_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime computes on the CPU then, and says so in its log alone."""
    asked: list[Any] = []

    def session(path: str, options: Any, providers: Any) -> Any:
        asked.append(providers)
        return SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"])

    runtime = SimpleNamespace(
        SessionOptions=onnxruntime.SessionOptions,
        get_available_providers=lambda: [CUDA, "CPUExecutionProvider"],
        InferenceSession=session,
        preload_dlls=lambda: None,
    )
    monkeypatch.setattr(evaluator, "import_package", lambda name: runtime)
    with pytest.raises(BuildError) as caught:
        prototrt.Session(dynamic_graph(), on="onnx", device="cuda:1")
    assert asked == [[(CUDA, {"use_tf32": "0", "device_id": "1"}), "CPUExecutionProvider"]]
    assert str(caught.value) == (
        "onnxruntime found no CUDA: its provider was not loaded\n"
        "  fix: pip install 'onnxruntime-gpu[cuda,cudnn]' installs the libraries of CUDA that it needs"
    )


@pytest.mark.parametrize("way", ["reference", "network"])
def test_what_numpy_computes_has_no_device(way: Way) -> None:
    with pytest.raises(ValueError, match=f"device is 'cuda', but '{way}' computes in NumPy"):
        prototrt.Session(dynamic_graph(), on=way, device="cuda")
