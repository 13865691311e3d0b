"""Calling a net again and again. State is carried from one call to the next."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, overload

import numpy as np

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.options import narrow, refuse_other
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.converter.files.companions.pinning import Trusted, pin_of
from prototrt.converter.files.signatures.signature import Signature, refuse_fed_states, refuse_no_steps
from prototrt.converter.options import ON_DEVICES, WAY_NAMES, ExportOptions, Way
from prototrt.converter.running.sessions.evaluation import Evaluator, EvaluatorRunner
from prototrt.converter.running.sessions.stream import Steps, calls_of, with_cont
from prototrt.converter.showing.views.notebook import notebook_progress
from prototrt.surgery.ir import Array, AtMost, Graph, Value
from prototrt.surgery.ir.shapes import sizes

if TYPE_CHECKING:
    from prototrt.converter.backends.tensorrt.builder import Plan
    from prototrt.converter.running.runtime.device import Device
    from prototrt.converter.running.runtime.engine import Engine
    from prototrt.converter.running.runtime.runner import EngineRunner

Runnable: TypeAlias = "Graph | Plan | Engine | str | os.PathLike[str]"
"""A graph; an engine: built, already loaded by another session, or the file of a plan; or the file of an ONNX model."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call whose arrays stay the same while their contents change.

    ``run()`` runs it with what the inputs hold now. Each run overwrites the arrays of the outputs.
    """

    run: Callable[[], dict[str, Any]]


def _reference(graph: Graph, *_: object) -> Evaluator:
    from prototrt.converter.backends.reference import ReferenceEvaluator

    return ReferenceEvaluator(graph)


def _network(graph: Graph, *_: object) -> Evaluator:
    from prototrt.converter.backends.readback import NetworkInterpreter
    from prototrt.converter.backends.tensorrt.api import find_backend
    from prototrt.converter.backends.tensorrt.builder import network_of

    network = network_of(graph, find_backend())
    # The definition only points to the weights, which ``network`` keeps.
    return NetworkInterpreter(network.trt, network.definition, owner=network)


def _onnx(graph: Graph, exporting: ExportOptions | None = None, device: str = "cpu") -> Evaluator:
    from prototrt.converter.backends.onnx.evaluator import OnnxEvaluator

    return OnnxEvaluator(graph, exporting, device)


def _onnx_lstm(graph: Graph, exporting: ExportOptions | None = None, device: str = "cpu") -> Evaluator:
    return _onnx(graph, replace(exporting or ExportOptions(), onnx_lstm=True), device)


def _torch(graph: Graph, _: object, device: str) -> Evaluator:
    from prototrt.converter.backends.torch.evaluator import TorchEvaluator

    return TorchEvaluator(graph, device)


def _tensorrt_python(graph: Graph, *_: object) -> Evaluator:
    from prototrt.converter.backends.tensorrt_python.evaluator import program_evaluator

    return program_evaluator(graph)


def _is_prototxt(source: object) -> bool:
    return isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith((".prototxt", ".pbtxt"))


def is_onnx_file(source: Runnable) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it is the file of an ONNX model, by its suffix."""
    return isinstance(source, (str, os.PathLike)) and os.fspath(source).lower().endswith(".onnx")


def _onnx_file(file: str | os.PathLike[str], device: str, trust: Trusted) -> EvaluatorRunner:
    from prototrt.converter.backends.onnx.evaluator import OnnxFileEvaluator

    evaluator = OnnxFileEvaluator(file, device, trust)
    return EvaluatorRunner(evaluator.signature, evaluator)


def _program(name: str, settings: Mapping[str, str] | None = None) -> Callable[..., Evaluator]:
    def evaluator(graph: Graph, *_: object) -> Evaluator:
        from prototrt.converter.backends.onnx.programs import ProgramEvaluator

        return ProgramEvaluator(graph, name, settings)

    return evaluator


WAYS: dict[Way, Callable[..., Evaluator]] = {
    "reference": _reference,
    "network": _network,
    "onnx": _onnx,
    "onnx-lstm": _onnx_lstm,
    "torch": _torch,
    "tensorrt-python": _tensorrt_python,
    "opencv": _program("opencv"),
    "openvino": _program("openvino"),
    "openvino-f32": _program("openvino", {"INFERENCE_PRECISION_HINT": "f32"}),
}
"""The ways to run a graph on arrays of NumPy; beside them there is ``ENGINE``."""

ENGINE: Final = "engine"


class Session:
    """A net that is called again and again.

    State is zero at first and after ``reset()``; each call starts where the last one ended,
    exactly as in Caffe from one ``forward()`` to the next. So does state that the net exposes,
    unless it is given. ``on`` is ``"reference"`` (the primitives in NumPy), ``"network"`` (the
    network that TensorRT is given, read back and evaluated in NumPy), ``"onnx"`` (the ONNX
    export, run by onnxruntime), ``"onnx-lstm"`` (the same with ONNX's own LSTM where that fits),
    ``"torch"`` (the PyTorch module), ``"tensorrt-python"`` (as ``"network"``, of the network that the
    program for TensorRT's API makes), ``"opencv"`` and ``"openvino"`` (the model for this program, with the
    settings that it has by itself; ``"openvino-f32"`` with float32 as its precision) or ``"engine"``
    (TensorRT, on a GPU). Unless it is said, a graph is run on
    ``"reference"``, a plan on ``"engine"``, and the file of an ONNX model, which needs its manifest, on ``"onnx"``.

    A detector's results have room for as many rows as there may be, and an output that counts them.
    With ``cut`` ``run()`` leaves out the rows that do not count, so that the results have the shapes of
    Caffe's; ``prepare()`` and ``run_steps()`` give all rows.

    ``exporting`` says how a graph is written as an ONNX model for ``"onnx"`` and ``"onnx-lstm"``.

    ``device`` is what computes. With ``"onnx"``, ``"onnx-lstm"`` and ``"torch"`` it is ``"cpu"``, as by default, or
    ``"cuda"`` (``"cuda:1"`` is the second GPU), in float32 without TF32; PyTorch takes all names that it knows. For
    onnxruntime it is also ``"rtx"``: TensorRT for RTX, by NVIDIA's plugin onnxruntime-ep-nv-tensorrt-rtx. With
    ``"engine"`` it is ``"cuda-python"`` or ``"pycuda"``, or a device made by the caller.

    ``trust="sha256:..."``, the digest that ``inspect`` shows, opens the files of that conversion alone: the file of a
    plan, or of an ONNX model, is refused unless it and its manifest are those.

    What ``"engine"`` alone heeds: ``trust=True`` runs a plan that has no manifest. ``stream`` is the caller's
    stream: a handle, or an object of torch, cupy, pycuda or cuda-python. ``graphs``
    lets CUDA graphs replay calls, where TensorRT allows it. ``runtime_cache`` is the file in which
    TensorRT for RTX keeps the kernels that it compiles for this GPU; without it there is one
    beside the plan. See docs/running.md.

    A session may be used by one thread at a time. Several sessions may run one engine, each
    with its own state, from as many threads: ``Session(first.engine)``. ``close()``, or the
    end of a ``with`` block, frees what it holds.
    """

    def __init__(
        self,
        source: Runnable,
        on: Way | None = None,
        *,
        cut: bool = False,
        exporting: ExportOptions | None = None,
        trust: Trusted = False,
        device: Device | str | None = None,
        stream: Any = None,
        graphs: bool = True,
        runtime_cache: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(source, Model) or _is_prototxt(source):
            refuse_other("Session", source, Graph)
        if pin_of(trust) is not None and not isinstance(source, (str, os.PathLike)):
            raise ValueError(
                "trust is a digest, but only a file has a manifest: give the file of the plan or model"
            )
        own: Way = "reference" if isinstance(source, Graph) else "onnx" if is_onnx_file(source) else ENGINE
        on = own if on is None else narrow("on", on, WAY_NAMES)
        if on != own and not isinstance(source, Graph):
            what = "an engine" if own == ENGINE else "an ONNX model"
            raise ValueError(f"on is {on!r}, but {what} runs on {own!r} alone")
        self.on = on
        self._graph = source if isinstance(source, Graph) else None
        self._engine: Engine | None = None
        self._cut = cut
        self._runner: EvaluatorRunner | EngineRunner
        place = "cpu" if device is None else str(device)
        if isinstance(source, Graph) and on in WAYS:
            if on not in ON_DEVICES and device is not None:
                raise ValueError(f"device is {device!r}, but {on!r} computes in NumPy")
            self._runner = EvaluatorRunner(Signature.of_graph(source), WAYS[on](source, exporting, place))
        elif not isinstance(source, Graph) and is_onnx_file(source):
            self._runner = _onnx_file(source, place, trust)
        else:
            from prototrt.converter.running.runtime.runner import EngineRunner
            from prototrt.converter.running.runtime.sources import engine_of

            self._engine = engine_of(source, device, trust, runtime_cache)
            self._runner = EngineRunner(self._engine, stream=stream, graphs=graphs)

    def __repr__(self) -> str:
        def text_of(values: Sequence[Value]) -> str:
            return ", ".join(f"{value.name} {sizes(value.shape)}" for value in values) or "none"

        signature = self.signature
        inputs = [value for value in signature.inputs if value.name not in signature.states]
        return f"<Session on {self.on}: inputs {text_of(inputs)}, outputs {text_of(signature.results)}>"

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and recurrent pairs."""
        return self._runner.signature

    @property
    def graph(self) -> Graph:
        """The graph that the session was made from. Raises ``NetError`` if it was an engine or an ONNX model."""
        if self._graph is None:
            raise NetError("this session was made from a file or an engine, which has no graph")
        return self._graph

    @property
    def engine(self) -> Engine:
        """The engine that runs, to be shared with another session. Raises ``NetError`` if there is none."""
        if self._engine is None:
            raise NetError(
                "this session does not run an engine",
                fix='make it with on="engine", and ask before it is closed',
            )
        return self._engine

    @overload
    def run(self, feeds: Mapping[str, Any]) -> dict[str, Array]: ...

    @overload
    def run(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> dict[str, Any]: ...

    def run(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One call: the outputs of the net for these inputs.

        An input for state (``NAME_h_0``) may also be given; it then replaces the carried state.
        ``outputs`` are arrays to write to, by name; the others are new.
        On an engine, both may live on the GPU: anything with ``__cuda_array_interface__`` or DLPack is used
        where it is. Raises ``NetError`` for inputs that are missing or unknown, and ``ShapeError`` for one that
        does not fit. After a call that failed the state is what it was before.
        """
        results = self._runner.run(feeds, outputs or {})
        return _what_counts(self.signature.results, results) if self._cut else results

    def prepare(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> PreparedCall:
        """A call with these arrays, checked now; ``run()`` runs it any number of times.

        Each run reads what the arrays hold then, and writes to the same outputs: those of ``outputs``,
        or arrays made now. On an engine, little is left to do in Python. Arrays on
        the GPU must be filled on the session's stream, or on CUDA's default stream.
        Raises what ``run()`` raises.
        """
        return PreparedCall(self._runner.prepare(feeds, outputs or {}))

    def run_steps(
        self, feeds: Mapping[str, Any], steps: int, outputs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """``steps`` calls in a row: inputs and outputs are (steps, ...), with one row for each call.

        State is fed back from step to step. On an engine the steps are queued, or replayed from one
        CUDA graph, without Python in between. Raises what ``run()`` raises; after a failure
        the state is what it was before the first step. State cannot be among the inputs.
        """
        refuse_no_steps(steps)
        refuse_fed_states(self.signature, feeds)
        return self._runner.run_steps(feeds, steps, outputs or {})

    @contextmanager
    def stream(self, steps: Steps) -> Iterator[Iterator[dict[str, Any]]]:
        """One sequence from its beginning, as a context: it yields the outputs of each step when that is asked for.

        ``steps`` are the inputs of each call, one after another, or arrays (steps, ...) as for ``run_steps()``. An
        input "cont" may be left out: it is 0 at the first step, then 1. State is zero at first, and after the
        context what it was before it. A notebook shows a bar. Raises what ``run()`` raises.
        """
        calls, count = calls_of(steps)
        before = self.get_state()
        self.reset()
        try:
            yield self._outputs(calls, count)
        finally:
            self.set_state(before)

    def _outputs(self, calls: Iterable[Mapping[str, Any]], count: int | None) -> Iterator[dict[str, Any]]:
        advance = notebook_progress("steps")(count)
        for feeds in with_cont(self.signature, calls):
            yield self.run(feeds)
            advance()

    @property
    def replays(self) -> bool:
        """Whether a CUDA graph has been captured for a repeated call."""
        return self._runner.replays

    def profile(self, feeds: Mapping[str, Any]) -> list[tuple[str, float]]:
        """One more call, on an engine: TensorRT's layers, and the seconds that each took. It is empty on the CPU,
        and where TensorRT does not report them.
        """
        return self._runner.profile(feeds)

    def reset(self, streams: Sequence[int] | None = None) -> None:
        """Set all state to zero, or only the state of these streams (indices along N). Raises ``ShapeError``."""
        self._runner.reset(streams)

    def get_state(self) -> dict[str, Array]:
        """The state that the next call starts with, as copies, by the name of its input; empty if it is zero."""
        return self._runner.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from state that ``get_state()`` returned; an empty mapping sets it to zero.

        Raises ``NetError`` unless all states are given, and ``ShapeError`` for a shape that does not fit.
        """
        self._runner.set_state(self.signature.checked_state(state))

    @property
    def state(self) -> dict[str, Array]:
        """``get_state()``."""
        return self.get_state()

    def close(self) -> None:
        """Free what the session holds. An engine is freed with its last session."""
        self._runner.close()
        self._engine = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _what_counts(values: Iterable[Value], results: Mapping[str, Any]) -> dict[str, Any]:
    """The results, cut to the elements that count, as views. ``values`` are the outputs that they belong to.

    Objects that are not NumPy arrays stay as they are.
    """
    cut = dict(results)
    for value in values:
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, AtMost) and isinstance(cut[value.name], np.ndarray):
                count = int(np.asarray(results[dim.count])[0])
                cut[value.name] = cut[value.name][(slice(None),) * axis + (slice(count),)]
    return cut
