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
    # isort: off
    # Type checkers take a name for public where "as" repeats it.
    from prototrt.caffe_proto import Model as Model, load as load
    from prototrt.caffe_proto.common.errors import (
        BuildError as BuildError,
        ConversionError as ConversionError,
        ConversionWarning as ConversionWarning,
        EngineError as EngineError,
        MissingBlobError as MissingBlobError,
        MissingShapesError as MissingShapesError,
        NetError as NetError,
        OptionsError as OptionsError,
        Problems as Problems,
        ShapeError as ShapeError,
        UnreadableFileError as UnreadableFileError,
        UnsupportedLayerError as UnsupportedLayerError,
        VerificationError as VerificationError,
        WeightsError as WeightsError,
    )
    from prototrt.caffe_proto.forks import Fork as Fork
    from prototrt.caffe_proto.options import LoadOptions as LoadOptions, Phase as Phase
    from prototrt.converter.backends.onnx.export import export_onnx as export_onnx
    from prototrt.converter.backends.tensorrt.builder import Plan as Plan, build as build
    from prototrt.converter.backends.tensorrt_python.export import (
        export_tensorrt_python as export_tensorrt_python,
    )
    from prototrt.converter.backends.torch.export import export_torch as export_torch
    from prototrt.converter.builder_options import (
        ComputeCapability as ComputeCapability,
        HardwareCompatibility as HardwareCompatibility,
        ProfilingVerbosity as ProfilingVerbosity,
    )
    from prototrt.converter.files.readers.names import ReaderName as ReaderName
    from prototrt.converter.front.public import (
        bench as bench,
        calibrate as calibrate,
        convert as convert,
        convert_batch as convert_batch,
        deepstream as deepstream,
        deploy as deploy,
        doctor as doctor,
        draw as draw,
        get_weights as get_weights,
        inspect as inspect,
        layers as layers,
        list_weights as list_weights,
        new_rule as new_rule,
        prune_cache as prune_cache,
        selftest as selftest,
        set_weights as set_weights,
        survey as survey,
        survey_batch as survey_batch,
        triton as triton,
        upgrade as upgrade,
        verify as verify,
    )
    from prototrt.converter.options import (
        BackendName as BackendName,
        BatchOptions as BatchOptions,
        BuildOptions as BuildOptions,
        CalibrateOptions as CalibrateOptions,
        ChannelOrder as ChannelOrder,
        ConversionOptions as ConversionOptions,
        DeepStreamOptions as DeepStreamOptions,
        DeepStreamTarget as DeepStreamTarget,
        Platform as Platform,
        TargetName as TargetName,
        TileLowering as TileLowering,
        TritonOptions as TritonOptions,
        VerifyOptions as VerifyOptions,
        Way as Way,
    )
    from prototrt.converter.running.runtime.device import DeviceName as DeviceName
    from prototrt.converter.running.sessions.session import Session as Session
    from prototrt.converter.running.sessions.sessions import Sessions as Sessions
    from prototrt.converter.showing.views.stages import Reader as Reader, StageName as StageName
    from prototrt.surgery.ir import Graph as Graph
    from prototrt.surgery.options import (
        Cont as Cont,
        Form as Form,
        LayoutName as LayoutName,
        NmsForm as NmsForm,
        Precision as Precision,
        RewriteOptions as RewriteOptions,
        StateSource as StateSource,
        TileForm as TileForm,
        VaryingSize as VaryingSize,
    )
    from prototrt.surgery.pipeline import rewrite as rewrite
    from prototrt.surgery.recurrent import weights as weights
    # isort: on

__version__ = "0.3.0"

_NAMES = {
    "caffe_proto": "Model load",
    "caffe_proto.common.errors": (
        "BuildError ConversionError ConversionWarning EngineError MissingBlobError MissingShapesError "
        "NetError OptionsError Problems ShapeError UnreadableFileError UnsupportedLayerError "
        "VerificationError WeightsError"
    ),
    "caffe_proto.forks": "Fork",
    "caffe_proto.options": "LoadOptions Phase",
    "converter.backends.onnx.export": "export_onnx",
    "converter.backends.tensorrt.builder": "Plan build",
    "converter.backends.tensorrt_python.export": "export_tensorrt_python",
    "converter.backends.torch.export": "export_torch",
    "converter.builder_options": "ComputeCapability HardwareCompatibility ProfilingVerbosity",
    "converter.files.readers.names": "ReaderName",
    "converter.front.public": (
        "bench calibrate convert convert_batch deepstream deploy doctor draw get_weights inspect layers "
        "list_weights new_rule prune_cache selftest set_weights survey survey_batch triton upgrade verify"
    ),
    "converter.options": (
        "BackendName BatchOptions BuildOptions CalibrateOptions ChannelOrder ConversionOptions "
        "DeepStreamOptions DeepStreamTarget Platform TargetName TileLowering TritonOptions VerifyOptions "
        "Way"
    ),
    "converter.running.runtime.device": "DeviceName",
    "converter.running.sessions.session": "Session",
    "converter.running.sessions.sessions": "Sessions",
    "converter.showing.views.stages": "Reader StageName",
    "surgery.ir": "Graph",
    "surgery.options": (
        "Cont Form LayoutName NmsForm Precision RewriteOptions StateSource TileForm VaryingSize"
    ),
    "surgery.pipeline": "rewrite",
    "surgery.recurrent": "weights",
}
"""By the module that each is imported from when it is first used."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'prototrt' has no attribute {name!r}")
    return getattr(__import__(f"prototrt.{_HOMES[name]}", fromlist=[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
