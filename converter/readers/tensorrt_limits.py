"""Graphs that no network of TensorRT can express, whether an engine is built here or a parser reads a model."""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import UnsupportedLayerError, raise_all
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
    _refuse_data_dependent(graph)
    _refuse_many_axes(graph)


def _refuse_data_dependent(graph: Graph) -> None:
    """Raise where the size of a result depends on the values of the inputs."""
    raise_all(
        [
            UnsupportedLayerError(
                "its output size depends on input values",
                origin=origin,
                because="sizes in an engine depend only on the sizes of its inputs",
                fix=WITHOUT_ENGINE,
            )
            for origin in dict.fromkeys(node.origin for node in walk(graph) if node.op.data_dependent)
        ]
    )


def _refuse_many_axes(graph: Graph) -> None:
    """Raise where something has more axes than TensorRT's tensors may have."""
    large = {
        node.origin: len(value.shape)
        for node in walk(graph)
        for value in (*node.inputs, *node.outputs)
        if len(value.shape) > MOST_AXES
    }
    raise_all(
        [
            UnsupportedLayerError(
                f"works on {axes} axes, expected at most {MOST_AXES}",
                origin=origin,
                because="TensorRT's tensors have at most that many",
                fix=WITHOUT_ENGINE,
            )
            for origin, axes in large.items()
        ]
    )
