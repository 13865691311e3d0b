"""At which stage of its way to a backend a net is shown. Light to import: the command line reads it for its help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from prototrt.caffe_proto.common.options import Options, one_of
from prototrt.caffe_proto.common.records import dataclass

if TYPE_CHECKING:
    from prototrt.surgery.ir import Graph

StageName: TypeAlias = Literal["parsed", "rewritten", "lowered"]
Reader: TypeAlias = Literal["tensorrt", "onnx", "onnx-lstm", "onnx-opencv", "onnx-openvino"]
STAGES: tuple[StageName, ...] = get_args(StageName)
READERS: Mapping[Reader, str] = {
    "tensorrt": "TensorRT",
    "onnx": "ONNX",
    "onnx-lstm": "ONNX with its LSTM",
    "onnx-opencv": "OpenCV",
    "onnx-openvino": "OpenVINO",
}
"""Backends that have passes of their own; a test compares them with the pipeline's."""


@dataclass(frozen=True)
class ShownStage(Options):
    """``name`` is ``parsed``, ``rewritten`` or ``lowered``; ``reader`` is the backend that a graph is lowered for."""

    name: StageName = one_of(
        StageName,
        "parsed: the net as written; rewritten: its graph of primitives; lowered: the graph for a backend.",
        called="stage",
    )
    reader: Reader = one_of(Reader, "The backend that the lowered graph is for.", called="for")

    @property
    def title(self) -> str:
        """What the graph is called beside the net as it is written."""
        return f"Given to {READERS[self.reader]}" if self.name == "lowered" else "Rewritten in primitives"

    def of(self, rewritten: Graph) -> Graph:
        """The rewritten graph, or the graph that the backend lowers it to."""
        return self.lower(rewritten) if self.name == "lowered" else rewritten

    def lower(self, rewritten: Graph) -> Graph:
        from prototrt.surgery.pipeline import lowered

        return lowered(rewritten, self.reader)
