"""Every primitive, alone in a net, as a PyTorch module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prototrt.surgery.ir import Op
from prototrt.surgery.ops import Dequantize, Quantize
from prototrt.tests.converter.backends.onnx.test_primitives import graph_of
from prototrt.tests.converter.backends.torch.torch_session import TorchSession
from prototrt.tests.surgery.test_ops import CASES, arrays, name_of

WRITTEN = [case for case in CASES if type(case[0]) not in (Quantize, Dequantize)]
"""A module computes in float32 or float16: nets in 8 bits are refused before."""


@pytest.mark.parametrize(("op", "operands", "expected"), WRITTEN, ids=name_of)
def test_numbers(op: Op, operands: list[Any], expected: Any) -> None:
    graph = graph_of(op, arrays(operands))
    feeds = {f"x{place}": array for place, array in enumerate(arrays(operands))}
    results = TorchSession(graph).run({value.name: feeds[value.name] for value in graph.inputs})
    for value, wanted in zip(
        graph.outputs, arrays(expected if len(graph.outputs) > 1 else [expected]), strict=True
    ):
        assert results[value.name].shape == wanted.shape
        np.testing.assert_allclose(results[value.name], wanted, rtol=1e-6)
