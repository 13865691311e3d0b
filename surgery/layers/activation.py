"""Functions of one element."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.surgery.ir import Value
from prototrt.surgery.layer_builder import LayerBuilder, layer_rule
from prototrt.surgery.ops import LeakyReLU, Sigmoid, TanH


@layer_rule("ReLU")
def relu(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``max(x, 0) + negative_slope * min(x, 0)``. The field ``engine`` never changes the result.

    Becomes: LeakyReLU.
    Bottoms: ``x``, any shape. Tops: one, the shape of ``x``.
    Source: caffe ``src/caffe/layers/relu_layer.cpp``, ``Forward_cpu``.
    """
    return [build.add(LeakyReLU(slope=layer.param.negative_slope), x)]


@layer_rule("Sigmoid")
def sigmoid(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``1 / (1 + exp(-x))``.

    Becomes: Sigmoid.
    Source: caffe ``src/caffe/layers/sigmoid_layer.cpp``.
    """
    return [build.add(Sigmoid(), x)]


@layer_rule("TanH")
def tanh(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``tanh(x)``.

    Becomes: TanH.
    Source: caffe ``src/caffe/layers/tanh_layer.cpp``.
    """
    return [build.add(TanH(), x)]
