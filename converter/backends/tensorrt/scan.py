"""Lowering of Scan to TensorRT's ILoop."""

from __future__ import annotations

from prototrt.converter.backends.tensorrt.lowering import lower_nodes, lowers, tensor_of
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import Scan


@lowers(Scan)
def scan(network: Network, op: Scan, *inputs: Tensor) -> list[Tensor]:
    """A loop with a recurrence per state and an iterator per sequence.

    The states after the last step leave through LAST_VALUE outputs, the output sequences
    through CONCATENATE; run backwards, iterators and outputs reverse.
    """
    roles = op.named_inputs(inputs)
    assert network.node is not None
    steps = network.scalar_size(op.steps([value.shape for value in network.node.inputs]))
    loop = network.definition.add_loop()
    network.add("trip_limit", steps, network.enum("TripLimit", "COUNT"), owner=loop)
    recurrences = [network.add("recurrence", state, owner=loop) for state in roles.states]
    iterators = [network.add("iterator", sequence, 0, op.reverse, owner=loop) for sequence in roles.sequences]
    inside = [layer.get_output(0) for layer in (*recurrences, *iterators)]
    tensors = dict(zip(op.body.inputs, [*inside, *roles.invariants], strict=True))
    lower_nodes(network, op.body, tensors)
    results = op.named_outputs([tensor_of(network, value, tensors) for value in op.body.outputs])
    for recurrence, state in zip(recurrences, results.states, strict=True):
        recurrence.set_input(1, state)
    stacking = "REVERSE" if op.reverse else "CONCATENATE"
    return [
        *(_output(network, loop, layer.get_output(0), "LAST_VALUE") for layer in recurrences),
        *(_output(network, loop, result, stacking, steps) for result in results.stacked),
    ]


def _output(network: Network, loop: object, value: Tensor, kind: str, steps: Tensor | None = None) -> Tensor:
    """A value of the last step, or those of all steps."""
    layer = network.add("loop_output", value, network.enum("LoopOutput", kind), 0, owner=loop)
    if steps is not None:
        layer.set_input(1, steps)
    return layer.get_output(0)
