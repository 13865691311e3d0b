"""The third opinion: a Graph written as ONNX and run by onnxruntime, on the CPU unless another device is named."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from prototrt.caffe_proto.common.errors import (
    BuildError,
    ConversionError,
    UnreadableFileError,
    UnsupportedLayerError,
)
from prototrt.caffe_proto.common.files import identity_of
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.converter.backends.onnx.api import import_package
from prototrt.converter.backends.onnx.export import temporary_model
from prototrt.converter.files.companions.manifest import manifest_of
from prototrt.converter.files.companions.manifest_reading import (
    WRONG,
    foreign_manifest_error,
    signature_of_manifest,
)
from prototrt.converter.files.companions.pinning import Trusted, pin_of, trusted_copy, trusted_manifest
from prototrt.converter.options import ExportOptions
from prototrt.surgery.ir import Array, Graph, walk
from prototrt.surgery.ops import Plugin

_NOTHING_BUT_FATAL = 4
"""Its errors come as exceptions, too. Its log would write names of the model to the terminal as they are."""
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
RTX_PLUGIN = "onnxruntime_ep_nv_tensorrt_rtx"


class OnnxEvaluator:
    """Runs the very file that is exported, written to a temporary folder.

    ``device`` is ``"cpu"``, or ``"cuda"`` or ``"cuda:1"``, which need the package onnxruntime-gpu. There, onnxruntime
    computes in float32 without TF32. It is ``"rtx"`` for TensorRT for RTX, by the plugin of ``rtx_devices``. Raises
    ``BuildError`` where onnxruntime does not have the device.
    """

    def __init__(self, graph: Graph, exporting: ExportOptions | None = None, device: str = "cpu") -> None:
        _refuse_plugins(graph)
        options = exporting or ExportOptions()

        def open_model() -> _OpenModel:
            with temporary_model(graph, options) as path:
                return _OpenModel(path, device)

        self._model = _shared_model(device, (graph, options), open_model)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs, states included, for these inputs, states included."""
        return self._model.run(feeds)


def _refuse_plugins(graph: Graph) -> None:
    for node in walk(graph):
        if isinstance(node.op, Plugin):
            raise UnsupportedLayerError(
                f"onnxruntime cannot run the plugin {node.op.title}",
                origin=node.origin,
                fix=Worded(
                    "compute the net in NumPy, where its rule says what it means: `{}` with {}",
                    Command("run"),
                    Option("on", "reference"),
                ),
            )


class OnnxFileEvaluator:
    """Runs the file of a model that was exported before. ``signature`` is what its manifest states.

    ``device`` as for ``OnnxEvaluator``. If ``trust`` is a digest, the manifest must have it, and the model and its
    weights must be as it lists them. Raises ``UnreadableFileError`` if there is no model, or no manifest beside it
    that describes it, and ``EngineError`` for files that are not those of the digest.
    """

    def __init__(self, file: str | os.PathLike[str], device: str = "cpu", trust: Trusted = False) -> None:
        path, manifest, pin = os.fspath(file), manifest_of(file), pin_of(trust)
        if not Path(path).is_file():
            raise UnreadableFileError(
                "there is no such file",
                where=path,
                fix=Worded("give a model written by {}", Command("convert")),
            )
        facts = trusted_manifest(path, pin)
        try:
            self.signature = signature_of_manifest(facts)
        except WRONG as error:
            raise foreign_manifest_error(manifest, error) from error

        def open_model() -> _OpenModel:
            with nullcontext(Path(path)) if pin is None else trusted_copy(path, facts) as model:
                return _OpenModel(model, device)

        # Weights lie in a second file where they are too large for one.
        self._model = _shared_model(device, (pin, *map(identity_of, (path, f"{path}.data"))), open_model)
        _refuse_others("inputs", {value.name for value in self.signature.inputs}, self._model.inputs, path)
        _refuse_others("outputs", {value.name for value in self.signature.outputs}, self._model.outputs, path)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs, states included, for these inputs, states included."""
        return self._model.run(feeds)


class _OpenModel:
    def __init__(self, path: Path, device: str) -> None:
        runtime = import_package("onnxruntime")
        options = runtime.SessionOptions()
        if device == "rtx":
            devices = rtx_devices()
            options.add_provider_for_devices(devices, {})
        providers = None if device == "rtx" else _providers(runtime, device)
        options.log_severity_level = _NOTHING_BUT_FATAL
        # Products of 8 bits are computed exactly as the model states. onnxruntime's own kernels overflow 16
        # bits on some CPUs.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        try:
            self._session: Any = runtime.InferenceSession(str(path), options, providers=providers)
        except Exception as error:  # onnxruntime's errors share no base class
            raise BuildError("onnxruntime refuses the model", because=str(error)) from error
        # A provider whose libraries are missing is left out without an error.
        if device.startswith("cuda") and _CUDA not in self._session.get_providers():
            raise BuildError(
                "onnxruntime found no CUDA: its provider was not loaded",
                fix="pip install 'onnxruntime-gpu[cuda,cudnn]' installs the libraries of CUDA that it needs",
            )
        self.inputs = [item.name for item in self._session.get_inputs()]
        self.outputs = [item.name for item in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        arrays = {name: array for name, array in feeds.items() if name in self.inputs}
        try:
            results = self._session.run(self.outputs, arrays)
        except Exception as error:  # onnxruntime's errors share no base class
            raise ConversionError("onnxruntime fails", because=str(error)) from error
        return dict(zip(self.outputs, results, strict=True))


_OPEN: WeakValueDictionary[tuple[object, ...], _OpenModel] = WeakValueDictionary()


def _shared_model(device: str, key: tuple[object, ...], open_model: Callable[[], _OpenModel]) -> _OpenModel:
    """The model that another session has open, or that is opened now; it lives as long as a session of it.

    A model has no state, and onnxruntime runs it in several threads at once. On a GPU each session has its own.
    """
    return open_model() if device != "cpu" else _OPEN.setdefault(key, _OPEN.get(key) or open_model())


def _providers(runtime: Any, device: str) -> list[Any]:
    """What onnxruntime computes with. Raises ``BuildError`` where it does not have the device."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return [_CPU]
    available = runtime.get_available_providers()
    if kind != "cuda" or _CUDA not in available:
        raise BuildError(
            f"onnxruntime cannot compute on the device {device!r}: it has {', '.join(available)}",
            fix="leave device out to compute on the CPU, or install onnxruntime-gpu in place of onnxruntime for"
            ' device="cuda"',
        )
    runtime.preload_dlls()  # the libraries of CUDA that pip has installed, for PyTorch too
    return [(_CUDA, {"use_tf32": "0"} | ({"device_id": number} if number else {})), _CPU]


def rtx_devices() -> list[Any]:
    """The GPUs that NVIDIA's plugin of onnxruntime, onnxruntime-ep-nv-tensorrt-rtx, gives to TensorRT for RTX.

    Raises ``BuildError`` where it is not installed, cannot be loaded, or names none.
    """
    runtime, why = import_package("onnxruntime"), "it names no GPU that it supports"
    try:
        plugin = importlib.import_module(RTX_PLUGIN)
        runtime.register_execution_provider_library(plugin.get_ep_name(), plugin.get_library_path())
    except Exception as error:  # onnxruntime's errors share no base class; a second call raises one, too
        why = str(error)
    listed: list[Any] = getattr(
        runtime, "get_ep_devices", list
    )()  # onnxruntime 1.22 and older have no such plugins
    devices = [each for each in listed if each.ep_name == "NvTensorRTRTXExecutionProvider"]
    if not devices:
        raise BuildError(
            "onnxruntime cannot compute with TensorRT for RTX here",
            because=why,
            fix="pip install 'onnxruntime>=1.24' onnxruntime-ep-nv-tensorrt-rtx, on a machine with NVIDIA's driver"
            " and a GPU of compute capability 8.6, 8.9, or 12.0 and newer",
        )
    return devices


def _refuse_others(side: str, expected: Collection[str], present: Collection[str], path: str) -> None:
    if {*expected} != {*present}:
        raise UnreadableFileError(
            f"has {side} that differ from its manifest: {', '.join(sorted({*expected} ^ {*present}))}",
            where=path,
            fix="use the manifest that was written with the model, or convert the net again",
        )
