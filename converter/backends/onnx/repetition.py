"""Lowering of While to ONNX's Loop."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.onnx.api import ELEMENT_TYPES, element_type
from prototrt.converter.backends.onnx.lowering import lower_body, lowers
from prototrt.converter.backends.onnx.model import OnnxModel, Proto, Tensor
from prototrt.surgery.ir import DType
from prototrt.surgery.ops import While


@lowers(While)
def while_(model: OnnxModel, op: While, *inputs: Tensor) -> list[str]:
    """A Loop, without a trip count unless the number of rounds is fixed. Invariants keep their names in the body."""
    roles = op.named_inputs(inputs)
    body = _body(model, op, roles.invariants)
    count = "" if op.rounds is None else model.array(np.array(op.rounds))
    at_first = model.array(np.array(True))
    return model.add_all("Loop", [count, at_first, *roles.states], len(roles.states), body=body)


def _body(model: OnnxModel, op: While, invariants: tuple[Tensor, ...]) -> Proto:
    """Reads the number of the round, the condition, the states; writes the condition, the states."""
    inside = op.named_inputs(op.body.inputs)
    name = model.unique("__body")
    nodes, names = lower_body(model, op.body, zip(inside.invariants, invariants, strict=True))
    outputs, results = op.round_outputs(op.body.outputs), op.round_outputs(names)
    round_number = model.helper.make_tensor_value_info(
        model.unique("__round"), element_type(np.dtype(np.int64)), []
    )
    again = model.helper.make_tensor_value_info(model.unique("__again"), ELEMENT_TYPES[DType.BOOL], [])
    if outputs.another_round is not None:
        goes_on = model.info(outputs.another_round, results.another_round)
    else:
        goes_on = model.helper.make_tensor_value_info(
            model.unique("__goes_on"), ELEMENT_TYPES[DType.BOOL], []
        )
        nodes = [*nodes, model.helper.make_node("Identity", [again.name], [goes_on.name])]
    reads = [round_number, again, *map(model.info, inside.states)]
    states = zip(outputs.states, results.states, strict=True)
    return model.helper.make_graph(
        nodes, name, reads, [goes_on, *(model.info(value, result) for value, result in states)]
    )
