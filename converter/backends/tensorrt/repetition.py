"""Lowering of While to TensorRT's ILoop."""

from __future__ import annotations

import numpy as np

from prototrt.converter.backends.tensorrt.lowering import lower_nodes, lowers, tensor_of
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import While


@lowers(While)
def while_(network: Network, op: While, *inputs: Tensor) -> list[Tensor]:
    """A loop with a recurrence for each state, and one for the condition, which is true at first, if there is one."""
    roles = op.named_inputs(inputs)
    loop = network.definition.add_loop()
    if op.rounds is None:
        condition = network.add("recurrence", network.constant_array(np.array(True)), owner=loop)
        network.add("trip_limit", condition.get_output(0), network.enum("TripLimit", "WHILE"), owner=loop)
    else:
        count = network.constant_array(np.array(op.rounds, np.int32))
        network.add("trip_limit", count, network.enum("TripLimit", "COUNT"), owner=loop)
    recurrences = [network.add("recurrence", state, owner=loop) for state in roles.states]
    inside = [layer.get_output(0) for layer in recurrences]
    tensors = dict(zip(op.body.inputs, [*inside, *roles.invariants], strict=True))
    lower_nodes(network, op.body, tensors)
    results = op.round_outputs([tensor_of(network, value, tensors) for value in op.body.outputs])
    if results.another_round is not None:
        condition.set_input(1, results.another_round)
    for recurrence, state in zip(recurrences, results.states, strict=True):
        recurrence.set_input(1, state)
    kind = network.enum("LoopOutput", "LAST_VALUE")
    outputs = [network.add("loop_output", state, kind, 0, owner=loop) for state in inside]
    return [output.get_output(0) for output in outputs]
