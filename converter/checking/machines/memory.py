"""What computing a net takes at least, told before it is taken."""

from __future__ import annotations

from math import prod

from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.memory import bytes_from_text, text_of_bytes, usual_limit
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.ir import DataSize, Graph, Value, size_at
from prototrt.surgery.options import RewriteOptions


def refuse_large_values(graph: Graph, options: RewriteOptions) -> None:
    """Raise ``NetError`` where one node reads and writes more than ``max_memory``: that is there at once."""
    most = usual_limit() if options.max_memory is None else bytes_from_text(options.max_memory)
    if most is None:
        return
    for node in graph.nodes:
        values = {*node.inputs, *node.outputs}
        needed = sum(_bytes(graph, value) for value in values if value.data is None)
        if needed > most:
            raise NetError(
                f"computing the layer takes {text_of_bytes(needed)}, expected at most {text_of_bytes(most)}",
                origin=node.origin,
                fix=Worded(
                    "use smaller shapes, or allow more with {}",
                    Option("max_memory", f"{-(-needed // 10**9)}GB"),
                ),
            )


def _bytes(graph: Graph, value: Value) -> int:
    """The least that a value takes: a size that depends on data may be 1."""
    usual = {name: span.opt for name, span in graph.symbols.items()}
    sizes = (1 if isinstance(dim, DataSize) else size_at(dim, usual) for dim in value.shape)
    return prod(sizes) * int(value.dtype.numpy.itemsize)
