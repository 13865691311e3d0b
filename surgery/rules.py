"""What a user's file of rules imports: see docs/forks.md."""

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.model import one_layer
from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.building.layer_rules import python_parameters, python_rule
from prototrt.surgery.building.plugin_rules import plugin_rule

__all__ = [
    "Expression",
    "Layer",
    "LayerBuilder",
    "Value",
    "layer_rule",
    "one_layer",
    "ops",
    "plugin_rule",
    "python_parameters",
    "python_rule",
]


class _Itself(Value):
    """``Expression(build, x)`` is ``x``, for rules from when values had no operators."""

    def __new__(cls, build: Builder, value: Value) -> Value:  # type: ignore[misc]  # no instance of its own
        return value


Expression = _Itself
