"""Every primitive is lowered by every backend."""

from __future__ import annotations

import inspect
from types import ModuleType

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


@pytest.mark.parametrize("lowerings", [onnx_elementwise, tensorrt_elementwise])
def test_every_kind_of_arithmetic_is_lowered(lowerings: ModuleType) -> None:
    assert set(lowerings._BINARY) == set(ops.BinaryKind)
    assert set(lowerings._UNARY) == set(ops.UnaryKind)
