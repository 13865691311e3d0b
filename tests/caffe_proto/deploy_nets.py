"""Training nets for the tests of deploy nets."""

from __future__ import annotations


def layer(kind: str, name: str, bottoms: str, tops: str, more: str = "") -> str:
    blobs = [f"bottom: '{b}'" for b in bottoms.split()] + [f"top: '{t}'" for t in tops.split()]
    return f"layer {{ name: '{name}' type: '{kind}' {' '.join(blobs)} {more} }}"


DATA = layer("Data", "in", "", "x y")
FC = layer("InnerProduct", "fc", "x", "s", "inner_product_param { num_output: 2 }")
LOSS = layer("SoftmaxWithLoss", "loss", "s y", "loss", "softmax_param { axis: 2 }")
