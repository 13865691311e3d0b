"""Every primitive is lowered by every backend."""

from __future__ import annotations

import inspect

import pytest

from prototrt.converter.backends.onnx import elementwise as onnx_elementwise
from prototrt.converter.backends.onnx.lowering import lowers as onnx_lowers
from prototrt.converter.backends.tensorrt import elementwise as tensorrt_elementwise
from prototrt.converter.backends.tensorrt.lowering import lowers as tensorrt_lowers
from prototrt.surgery import ops
from prototrt.surgery.ir import Op

PRIMITIVES = [
    kind for name in ops.__all__ if inspect.isclass(kind := getattr(ops, name)) and issubclass(kind, Op)
]


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda kind: kind.__name__)
def test_every_primitive_has_lowerings(primitive: type[Op]) -> None:
    assert primitive in onnx_lowers.rules
    assert primitive in tensorrt_lowers.rules or primitive.data_dependent, "no engine has such sizes"


def test_all_primitives_are_listed() -> None:
    modules = [module for _, module in inspect.getmembers(ops, inspect.ismodule)]
    defined = {
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Op) and kind.__module__ == module.__name__ and kind.evaluate is not Op.evaluate
    }
    assert defined <= set(PRIMITIVES)


@pytest.mark.parametrize("kind", [*ops.BinaryKind, *ops.UnaryKind])
def test_every_kind_of_arithmetic_has_an_operator(kind: ops.BinaryKind | ops.UnaryKind) -> None:
    onnx_defs = pytest.importorskip("onnx.defs", reason="knows the operators")
    assert onnx_defs.has(onnx_elementwise._operator(kind))


@pytest.mark.trt
@pytest.mark.parametrize("kind", [*ops.BinaryKind, *ops.UnaryKind])
def test_every_kind_of_arithmetic_has_an_operation(kind: ops.BinaryKind | ops.UnaryKind) -> None:
    trt = pytest.importorskip("tensorrt_rtx", reason="knows the operations")
    names = trt.UnaryOperation if isinstance(kind, ops.UnaryKind) else trt.ElementWiseOperation
    assert hasattr(names, tensorrt_elementwise._operation(kind))
