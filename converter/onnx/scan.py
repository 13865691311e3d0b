"""Lowering of Scan to ONNX's Scan."""

from __future__ import annotations

from prototrt.converter.onnx.lowering import distinct, lower_nodes, lowers
from prototrt.converter.onnx.model import OnnxModel, Proto, Tensor
from prototrt.surgery.ops import Scan


@lowers(Scan)
def scan(model: OnnxModel, op: Scan, *inputs: Tensor) -> list[str]:
    """States, then sequences; what every step reads keeps its name, which the body knows, too.

    Run backwards, inputs are read from the last element on, and outputs grow at the front.
    """
    read = op.states + op.sequences
    body = _body(model, op, inputs[read:])
    outputs = len(op.body.outputs)
    backwards = {}
    if op.reverse:
        backwards["scan_input_directions"] = [1] * op.sequences
        backwards["scan_output_directions"] = [1] * (outputs - op.states)
    return model.add_all("Scan", inputs[:read], outputs, body=body, num_scan_inputs=op.sequences, **backwards)


def _body(model: OnnxModel, op: Scan, invariants: tuple[Tensor, ...]) -> Proto:
    inside = op.body.inputs[: op.states + op.sequences]
    name = model.unique("__body")
    with model.body() as nodes:
        for outer, inner in zip(invariants, op.body.inputs[len(inside) :], strict=True):
            model.alias(inner, outer)
        lower_nodes(model, op.body)
        results = distinct(model, op.body.outputs, op.body)
    outputs = [model.info(value, result) for value, result in zip(op.body.outputs, results, strict=True)]
    return model.helper.make_graph(nodes, name, [model.info(value) for value in inside], outputs)
