"""Graphs that no network of TensorRT can express, whether an engine is built here or a parser reads a model."""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import Origin, UnsupportedLayerError, raise_all
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.surgery.ir import Graph, walk

WITHOUT_ENGINE = Worded(
    "run it as `{}` does with {}, or cut the net before it with {}",
    Command("run"),
    Option("on", "reference"),
    Option("outputs", ["BLOB"]),
)
"""What to do about what TensorRT cannot."""
MOST_AXES = 8
"""Axes that a tensor of TensorRT may have."""


def refuse_beyond_tensorrt(graph: Graph) -> None:
    """Raise ``UnsupportedLayerError`` where the values decide a size, or a tensor has too many axes."""
    of_values, of_axes = dict[Origin, str](), dict[Origin, str]()
    for node in walk(graph):
        if node.op.data_dependent:
            of_values[node.origin] = "its output size depends on input values"
        axes = max(len(value.shape) for value in (*node.inputs, *node.outputs))
        if axes > MOST_AXES:
            of_axes[node.origin] = f"works on {axes} axes, expected at most {MOST_AXES}"
    for problems, because in (
        (of_values, "sizes in an engine depend only on the sizes of its inputs"),
        (of_axes, "TensorRT's tensors have at most that many"),
    ):
        raise_all(
            [
                UnsupportedLayerError(problem, origin=origin, because=because, fix=WITHOUT_ENGINE)
                for origin, problem in problems.items()
            ]
        )
