"""What a user's file of rules imports: see docs/forks.md."""

from prototrt.caffe_proto import Layer
from prototrt.surgery import ops
from prototrt.surgery.expansion.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.expansion.python_layers import python_parameters, python_rule
from prototrt.surgery.ir import Value
from prototrt.surgery.ir.expression import Expression

__all__ = [
    "Expression",
    "Layer",
    "LayerBuilder",
    "Value",
    "layer_rule",
    "ops",
    "python_parameters",
    "python_rule",
]
