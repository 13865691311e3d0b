"""Convert Caffe models, above all recurrent ones, to TensorRT engines.

The way of a model::

    model = prototrt.load("deploy.prototxt", "digits.caffemodel")
    graph = prototrt.rewrite(model)
    prototrt.build(graph).save("digits.plan")

and without TensorRT's kernels, on the CPU::

    session = prototrt.Session(graph, on="network")
    outputs = session.run({"data": windows, "cont": cont})

Every name is imported when it is first used: ``import prototrt`` alone costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model, load
    from prototrt.caffe_proto.errors import ConversionError
    from prototrt.converter.onnx.export import export_onnx
    from prototrt.converter.sessions.session import Session
    from prototrt.converter.tensorrt.builder import Plan, build
    from prototrt.surgery.ir import Graph
    from prototrt.surgery.pipeline import rewrite
    from prototrt.surgery.recurrent import weights

__version__ = "0.1.0"

__all__ = [
    "ConversionError",
    "Graph",
    "Model",
    "Plan",
    "Session",
    "build",
    "export_onnx",
    "load",
    "rewrite",
    "weights",
]

_HOMES = {
    "ConversionError": "prototrt.caffe_proto.errors",
    "Graph": "prototrt.surgery.ir",
    "Model": "prototrt.caffe_proto",
    "Plan": "prototrt.converter.tensorrt.builder",
    "Session": "prototrt.converter.sessions.session",
    "build": "prototrt.converter.tensorrt.builder",
    "export_onnx": "prototrt.converter.onnx.export",
    "load": "prototrt.caffe_proto",
    "rewrite": "prototrt.surgery.pipeline",
    "weights": "prototrt.surgery.recurrent.weights",
}
_MODULES = {"weights"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'prototrt' has no attribute {name!r}")
    from importlib import import_module

    home = import_module(_HOMES[name])
    return home if name in _MODULES else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
