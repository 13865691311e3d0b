"""What a net is told of that Caffe would compute wrongly without a word."""

from __future__ import annotations

from prototrt.tests.small_nets import rewritten


def test_layer_in_place_that_cannot_be() -> None:
    sum_in_place = 'layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "a" }'
    graph = rewritten(sum_in_place, {"a": (2,), "b": (2,)})
    (warning,) = graph.warnings
    assert warning.endswith(
        'net.prototxt:3: layer "sum" (Eltwise): works in place, where Caffe overwrites'
        " what it still has to read: taken as if it did not"
    )


def test_layer_in_place_that_can_be() -> None:
    assert rewritten('layer { name: "r" type: "ReLU" bottom: "a" top: "a" }', {"a": (2,)}).warnings == ()
    product = 'bottom: "a" bottom: "b" top: "a" eltwise_param { operation: PROD }'
    layers = f'layer {{ name: "p" type: "Eltwise" {product} }}'
    assert rewritten(layers, {"a": (2,), "b": (2,)}).warnings == ()
