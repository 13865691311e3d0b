"""Convert Caffe models, above all recurrent ones, to TensorRT engines.

The way of a model::

    model = prototrt.load("deploy.prototxt", "digits.caffemodel")
    graph = prototrt.rewrite(model)
    prototrt.build(graph).save("digits.plan")

and without TensorRT's kernels, on the CPU::

    session = prototrt.Session(graph, on="network")
    outputs = session.run({"data": windows, "cont": cont})

docs/python.md lists all functions: each command has one. Every name is imported when it is first used:
``import prototrt`` alone costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""Not that of ``typing``: with ``python -m prototrt``, a file of that name in the current folder would be imported."""
if TYPE_CHECKING:
    from prototrt.caffe_proto import Model, load
    from prototrt.caffe_proto.common.errors import (
        BuildError,
        ConversionError,
        ConversionWarning,
        EngineError,
        MissingBlobError,
        MissingShapesError,
        NetError,
        OptionsError,
        Problems,
        ShapeError,
        UnreadableFileError,
        UnsupportedLayerError,
        VerificationError,
        WeightsError,
    )
    from prototrt.caffe_proto.forks import Fork
    from prototrt.caffe_proto.options import LoadOptions, Phase
    from prototrt.converter.backends.onnx.export import export_onnx
    from prototrt.converter.backends.tensorrt.builder import Plan, build
    from prototrt.converter.backends.tensorrt_python.export import export_tensorrt_python
    from prototrt.converter.backends.torch.export import export_torch
    from prototrt.converter.builder_options import (
        ComputeCapability,
        HardwareCompatibility,
        ProfilingVerbosity,
    )
    from prototrt.converter.files.readers.names import ReaderName
    from prototrt.converter.front.public import (
        bench,
        calibrate,
        convert,
        convert_batch,
        deepstream,
        deploy,
        doctor,
        draw,
        get_weights,
        inspect,
        layers,
        list_weights,
        new_rule,
        prune_cache,
        selftest,
        set_weights,
        survey,
        survey_batch,
        triton,
        upgrade,
        verify,
    )
    from prototrt.converter.options import (
        BackendName,
        BatchOptions,
        BuildOptions,
        CalibrateOptions,
        ChannelOrder,
        ConversionOptions,
        DeepStreamOptions,
        DeepStreamTarget,
        Platform,
        TargetName,
        TileLowering,
        TritonOptions,
        VerifyOptions,
        Way,
    )
    from prototrt.converter.running.runtime.device import DeviceName
    from prototrt.converter.running.sessions.session import Session
    from prototrt.converter.running.sessions.sessions import Sessions
    from prototrt.converter.showing.views.stages import Reader, StageName
    from prototrt.surgery.ir import Graph
    from prototrt.surgery.options import (
        Cont,
        Form,
        LayoutName,
        NmsForm,
        Precision,
        RewriteOptions,
        StateSource,
        TileForm,
        VaryingSize,
    )
    from prototrt.surgery.pipeline import rewrite
    from prototrt.surgery.recurrent import weights

__version__ = "0.2.0"

__all__ = [
    "BackendName",
    "BatchOptions",
    "BuildError",
    "BuildOptions",
    "CalibrateOptions",
    "ChannelOrder",
    "ComputeCapability",
    "Cont",
    "ConversionError",
    "ConversionOptions",
    "ConversionWarning",
    "DeepStreamOptions",
    "DeepStreamTarget",
    "DeviceName",
    "EngineError",
    "Fork",
    "Form",
    "Graph",
    "HardwareCompatibility",
    "LayoutName",
    "LoadOptions",
    "MissingBlobError",
    "MissingShapesError",
    "Model",
    "NetError",
    "NmsForm",
    "OptionsError",
    "Phase",
    "Plan",
    "Platform",
    "Precision",
    "Problems",
    "ProfilingVerbosity",
    "Reader",
    "ReaderName",
    "RewriteOptions",
    "Session",
    "Sessions",
    "ShapeError",
    "StageName",
    "StateSource",
    "TargetName",
    "TileForm",
    "TileLowering",
    "TritonOptions",
    "UnreadableFileError",
    "UnsupportedLayerError",
    "VaryingSize",
    "VerificationError",
    "VerifyOptions",
    "Way",
    "WeightsError",
    "bench",
    "build",
    "calibrate",
    "convert",
    "convert_batch",
    "deepstream",
    "deploy",
    "doctor",
    "draw",
    "export_onnx",
    "export_tensorrt_python",
    "export_torch",
    "get_weights",
    "inspect",
    "layers",
    "list_weights",
    "load",
    "new_rule",
    "prune_cache",
    "rewrite",
    "selftest",
    "set_weights",
    "survey",
    "survey_batch",
    "triton",
    "upgrade",
    "verify",
    "weights",
]

_HOMES = {
    **dict.fromkeys(
        (
            "Model",
            "load",
        ),
        "prototrt.caffe_proto",
    ),
    **dict.fromkeys(
        (
            "BuildError",
            "ConversionError",
            "EngineError",
            "MissingBlobError",
            "MissingShapesError",
            "NetError",
            "OptionsError",
            "Problems",
            "ShapeError",
            "UnreadableFileError",
            "UnsupportedLayerError",
            "VerificationError",
            "WeightsError",
        ),
        "prototrt.caffe_proto.common.errors",
    ),
    **dict.fromkeys(
        (
            "LoadOptions",
            "Phase",
        ),
        "prototrt.caffe_proto.options",
    ),
    "ConversionWarning": "prototrt.caffe_proto.common.errors",
    **dict.fromkeys(
        (
            "ComputeCapability",
            "HardwareCompatibility",
            "ProfilingVerbosity",
        ),
        "prototrt.converter.builder_options",
    ),
    "export_onnx": "prototrt.converter.backends.onnx.export",
    "export_tensorrt_python": "prototrt.converter.backends.tensorrt_python.export",
    "export_torch": "prototrt.converter.backends.torch.export",
    **dict.fromkeys(
        (
            "BackendName",
            "BatchOptions",
            "BuildOptions",
            "CalibrateOptions",
            "ChannelOrder",
            "ConversionOptions",
            "DeepStreamOptions",
            "DeepStreamTarget",
            "Platform",
            "TargetName",
            "TileLowering",
            "TritonOptions",
            "VerifyOptions",
            "Way",
        ),
        "prototrt.converter.options",
    ),
    **dict.fromkeys(
        (
            "bench",
            "calibrate",
            "convert",
            "convert_batch",
            "deepstream",
            "deploy",
            "doctor",
            "draw",
            "get_weights",
            "inspect",
            "layers",
            "list_weights",
            "new_rule",
            "prune_cache",
            "selftest",
            "set_weights",
            "survey",
            "survey_batch",
            "triton",
            "upgrade",
            "verify",
        ),
        "prototrt.converter.front.public",
    ),
    "DeviceName": "prototrt.converter.running.runtime.device",
    "Session": "prototrt.converter.running.sessions.session",
    "Sessions": "prototrt.converter.running.sessions.sessions",
    **dict.fromkeys(
        (
            "Reader",
            "StageName",
        ),
        "prototrt.converter.showing.views.stages",
    ),
    "ReaderName": "prototrt.converter.files.readers.names",
    **dict.fromkeys(
        (
            "Plan",
            "build",
        ),
        "prototrt.converter.backends.tensorrt.builder",
    ),
    "Fork": "prototrt.caffe_proto.forks",
    "Graph": "prototrt.surgery.ir",
    **dict.fromkeys(
        (
            "Cont",
            "Form",
            "LayoutName",
            "NmsForm",
            "Precision",
            "RewriteOptions",
            "StateSource",
            "TileForm",
            "VaryingSize",
        ),
        "prototrt.surgery.options",
    ),
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
