"""Lowering of Scan to ONNX's Scan."""

from __future__ import annotations

from prototrt.converter.backends.onnx.lowering import lower_body, lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Proto, Tensor
from prototrt.surgery.ops import Scan


@lowers(Scan)
def scan(model: OnnxModel, op: Scan, *inputs: Tensor) -> list[str]:
    """States, then sequences. Invariants keep their names in the body.

    Run backwards, inputs are read from the last element on, and outputs grow at the front.
    """
    roles, outputs = op.named_inputs(inputs), op.named_outputs(op.body.outputs)
    backwards = {}
    if op.reverse:
        backwards["scan_input_directions"] = [1] * len(roles.sequences)
        backwards["scan_output_directions"] = [1] * len(outputs.stacked)
    return model.add_all(
        "Scan",
        [*roles.states, *roles.sequences],
        len(op.body.outputs),
        body=_body(model, op, roles.invariants),
        num_scan_inputs=len(roles.sequences),
        **backwards,
    )


def _body(model: OnnxModel, op: Scan, invariants: tuple[Tensor, ...]) -> Proto:
    inside = op.named_inputs(op.body.inputs)
    name = model.unique("__body")
    nodes, results = lower_body(model, op.body, zip(inside.invariants, invariants, strict=True))
    outputs = [model.info(value, result) for value, result in zip(op.body.outputs, results, strict=True)]
    inputs = [model.info(value) for value in (*inside.states, *inside.sequences)]
    return model.helper.make_graph(nodes, name, inputs, outputs)
