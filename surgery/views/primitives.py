"""A primitive in the field's words, for pictures: ``ReLU``, ``Reshape to 40x1x64``, ``MaxPool`` with ``stride 2x2``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prototrt.caffe_proto.common.records import MISSING, fields
from prototrt.surgery.ir import Graph, Node
from prototrt.surgery.ir.shapes import sizes
from prototrt.surgery.ops import Binary, Cast, LeakyReLU, MatMul, Reduce, Reshape, Slice, Unary

_NEUTRAL: Mapping[str, Any] = {"stride": 1, "dilation": 1, "group": 1, "pad": 0, "before": 0, "after": 0}
"""What changes nothing, along every axis."""


def words_of(node: Node) -> Iterator[str]:
    """The name of a node's primitive, then its settings. Numbers have the digits of float32."""
    op = node.op
    if isinstance(op, Binary | Unary):
        yield op.kind.name.capitalize()
    elif isinstance(op, Reduce):
        axes = ", ".join(map(str, op.axes))
        yield f"{op.kind.name.capitalize()} over {'axis' if len(op.axes) == 1 else 'axes'} {axes}"
    elif isinstance(op, Cast):
        yield f"Cast to {op.to.value}"
    elif isinstance(op, Reshape):
        yield f"Reshape to {sizes(node.outputs[0].shape)}"
    elif isinstance(op, Slice):
        yield f"Slice {op.start} to {op.start + op.size} of axis {op.axis}"
    elif isinstance(op, LeakyReLU) and op.slope == 0:
        yield "ReLU"
    else:
        yield type(op).__name__
        if not isinstance(op, MatMul):
            yield from (
                _setting(each.name, getattr(op, each.name))
                for each in fields(op)
                if each.repr and not _says_nothing(each.name, each.default, getattr(op, each.name))
            )


def _says_nothing(name: str, default: Any, value: Any) -> bool:
    if isinstance(value, Graph) or (default is not MISSING and value == default):
        return True
    numbers = value if isinstance(value, tuple) else (value,)
    return name in _NEUTRAL and all(number == _NEUTRAL[name] for number in numbers)


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_number, value))})"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _setting(name: str, value: Any) -> str:
    is_window = name in ("window", "stride", "pad", "dilation") and isinstance(value, tuple)
    return f"{name.replace('_', ' ')} {'x'.join(map(str, value)) if is_window else _number(value)}"
