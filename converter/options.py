"""How a graph is converted and checked. Light to import: the command line reads it for its help."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import (
    NOT_IN_LISTS,
    ONLY_IN_PYTHON,
    Options,
    PathLike,
    at_least,
    not_in_lists,
    one_of,
    only_in_python,
)
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.builder_options import (
    ComputeCapability,
    HardwareCompatibility,
    ProfilingVerbosity,
    refuse_contradictions,
)
from prototrt.converter.machines.targets import TargetName
from prototrt.converter.readers.names import ReaderName
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.converter.batch.runner import BatchProgress

O = TypeVar("O", bound=Options)  # noqa: E741  options

BackendName: TypeAlias = Literal["auto", "rtx", "enterprise"]
TileLowering: TypeAlias = Literal["broadcast", "native", "plugin"]
PoolSizes: TypeAlias = Mapping[str, str | int]
"""Sizes of pools of memory by the names of ``POOLS``: bytes, or a text with a unit."""
Profiles: TypeAlias = Sequence[Mapping[str, Sequence[int]]]
"""The smallest, usual and largest size, by the name of the size, for each profile."""
Way: TypeAlias = Literal["reference", "network", "onnx", "onnx-lstm", "engine"]
"""The ways to run a graph; see ``Session``."""
WAY_NAMES: tuple[Way, ...] = get_args(Way)


class Progress(Protocol):
    """Hears how a build goes on; ``step`` returning False cancels it."""

    def phase(self, name: str, parent: str | None, steps: int) -> None: ...

    def step(self, name: str, step: int) -> bool: ...

    def finish(self, name: str) -> None: ...


Started: TypeAlias = Callable[[int | None], Callable[[], object]]
"""Hears that work begins, and of how many parts, if that is known; what it returns is called after each part."""


def without_progress(parts: int | None) -> Callable[[], object]:
    """A ``Started`` for those who do not watch."""
    return lambda: None


OLDEST_OPSET = 11
"""The first in which all that a model is made of exists."""
MOST_CALLS = 1_000_000
"""All outputs of ``prototrt run`` are in memory until they are written."""


@dataclass(frozen=True)
class BuildOptions(Options):
    """How an engine is built.

    - ``backend``: ``"rtx"``, ``"enterprise"``, or ``"auto"``: enterprise where it can build, else rtx.
    - ``tf32``: lets float32 matrix products round their factors to 10 bits.
    - ``tile``: what the Tiles in the graph become: ``"native"`` layers, or our ``"plugin"``, which RTX does not
      load.
    - ``progress``: is called with the progress of the build.

    The others are options of TensorRT's builder. Not every backend has each of them: see docs/building.md.

    - ``profiles``: ranges of sizes, each with its own kernels, as in ``{"N": (1, 1, 1)}``: smallest, usual,
      largest.
    - ``timing_cache_file``: a file of times of kernels; it is read and written.
    - ``mem_pool_size``: limits for pools of memory, as in ``{"workspace": "512MiB"}``.
    - ``builder_optimization_level``: 0 to 5; TensorRT's default is 3.
    - ``version_compatible``: the engine runs with later releases of TensorRT.
    - ``hardware_compatibility_level``: the engine runs on other GPUs, too.
    - ``compute_capabilities``: the GPUs that TensorRT for RTX builds for.
    - ``strip_weights``: leaves weights out; the application must put them back.
    - ``refit``: lets the application replace weights.
    - ``profiling_verbosity``: how much the engine records about its layers.
    - ``export_layer_info``: a JSON file for the layers of the engine.
    - ``use_dla_core``: builds for this core of a DLA.
    - ``allow_gpu_fallback``: runs on the GPU what the DLA cannot.
    """

    backend: BackendName = one_of(BackendName)
    _: KW_ONLY
    tf32: bool = False
    tile: TileLowering = one_of(TileLowering)
    profiles: Profiles = ()
    timing_cache_file: str | None = None
    mem_pool_size: PoolSizes | None = None
    builder_optimization_level: int | None = at_least(0, most=5)
    version_compatible: bool = False
    hardware_compatibility_level: HardwareCompatibility = one_of(HardwareCompatibility)
    compute_capabilities: Sequence[ComputeCapability] = one_of(ComputeCapability, default=())
    strip_weights: bool = False
    refit: bool = False
    profiling_verbosity: ProfilingVerbosity = one_of(ProfilingVerbosity)
    export_layer_info: str | None = None
    use_dla_core: int | None = at_least(0)
    allow_gpu_fallback: bool = False
    progress: Progress | None = only_in_python(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_contradictions(self)


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """How an ONNX model is written.

    ``onnx_lstm``: with ONNX's own LSTM where a recurrence is exactly that. ``opset``: in this set of ONNX's operators.
    ``readers``: for these programs, which a target has.
    """

    onnx_lstm: bool = False
    opset: int | None = at_least(OLDEST_OPSET)
    readers: Sequence[ReaderName] = one_of(ReaderName, default=(), **ONLY_IN_PYTHON)


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(Options):
    """What is done with what is made, before it is written.

    ``target`` is the kind of machine that will run it, see ``TARGETS``. ``verify`` compares it with the reference, on
    random inputs. ``sign`` is a file with an Ed25519 private key, which signs the manifest of an engine.
    ``emit_header`` is a file for constants of C++ with the content of the manifest.
    """

    target: TargetName | None = one_of(TargetName, default=None)
    verify: bool = False
    sign: str | None = None
    emit_header: str | None = None


NO_SUFFIX = ""
ENGINE_SUFFIXES = (".plan", ".engine", ".trt")
PRODUCT_NAMES = (*ENGINE_SUFFIXES, ".onnx", NO_SUFFIX)
"""How the names of engines and ONNX models end."""
HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", NO_SUFFIX)


@dataclass(frozen=True)
class ConversionOptions(ConvertOptions, ExportOptions, BuildOptions, RewriteOptions, LoadOptions):
    """All options of a conversion: those of ``LoadOptions``, ``RewriteOptions`` and ``BuildOptions``, and some more.

    ``weights`` may be None where a net has them, or with ``random_weights``. ``file`` is an ONNX model if it ends in
    ``.onnx``, else an engine. ``onnx_lstm`` writes ONNX's own LSTM where a recurrence is exactly that, and ``opset`` is
    the set of ONNX's operators of the model. ``target`` is the kind of machine that will run the result, ``verify``
    compares it with the reference, on random inputs, ``sign`` is a file with an Ed25519 private key, which signs the
    manifest of an engine, and ``emit_header`` is a file for constants of C++ with the content of the manifest.
    """

    weights: PathLike | None = field()
    file: PathLike = field()
    _: KW_ONLY
    backend: BackendName = one_of(BackendName)
    tile: TileLowering = one_of(TileLowering)

    def part(self, kind: type[O]) -> O:
        """Those of one step."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(kind)})


Inputs: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A file or a folder; or arrays by the names of inputs: those of one call, or of each."""
ChannelOrder: TypeAlias = Literal["bgr", "rgb"]


@dataclass(frozen=True, kw_only=True)
class DataOptions(Options):
    """Where the inputs of calls come from.

    ``inputs`` is an npz or npy file, an image, or a folder of ``.npz`` and ``.npy`` files, or of images; in Python
    also arrays by the names of inputs, of one call or a list of them. ``data_loader`` is a Python function that yields
    the inputs of call after call, ``"load.py:batches"``. Images become ``(pixels - mean) * scale``, with ``channels``
    in this order, ``resize`` before their middle is cropped to the size of the input: one number for the shorter
    side, or height and width.
    """

    inputs: Inputs | None = None
    data_loader: str | None = not_in_lists(None)
    mean: Sequence[float] = not_in_lists(())
    scale: float = not_in_lists(1.0)
    channels: ChannelOrder = one_of(ChannelOrder, **NOT_IN_LISTS)
    resize: Sequence[int] | None = not_in_lists(None)

    def refuse_no_source(self) -> None:
        """Raise ``OptionsError`` unless there is one source of data."""
        if (self.inputs is None) != (self.data_loader is None):
            return
        problem = "there are no inputs" if self.inputs is None else "there are two sources of inputs"
        raise OptionsError(
            problem, fix=Worded("give {} or {}", Option("inputs", "FILE"), Option("data_loader", "FILE.py"))
        )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """The ways to compute a net, and how far their results may be apart.

    ``layers`` compares every blob that is left, not the outputs alone. A number may be off by ``atol`` plus ``rtol``
    times the largest magnitude of its blob; each precision has usual numbers. ``exporting`` says how
    the model for ``"onnx"`` and ``"onnx-lstm"`` is written.
    """

    ways: Sequence[Way] = one_of(Way, default=("network",))
    layers: bool = False
    exporting: ExportOptions | None = only_in_python(None)
    atol: float | None = None
    rtol: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, number in (("atol", self.atol), ("rtol", self.rtol)):
            if number is not None and not 0 <= number < math.inf:
                raise OptionsError(
                    Worded("{} is {}, expected 0 or more", Option(name), number),
                    fix=Worded("use {}", Option(name, 0.0001)),
                )


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(CompareOptions, DataOptions):
    """The ways to compute a net, the inputs, and what results are compared with.

    Without ``inputs`` and ``data_loader``, inputs are random, from ``seed``. ``expect`` is an npz file of outputs that
    every way must give. ``rewriting`` says how the net is rewritten, and ``progress`` is called while
    the cost of 8 bits is measured. ``calls`` is how many calls are made, each with the state of the last. ``auto_keep``
    looks for the fewest layers that must stay float, so that a quantized net chooses the same class as float32 in
    this share of all places.
    """

    expect: str | None = None
    calls: int | None = at_least(1, most=MOST_CALLS)
    seed: int = at_least(0, 0)
    rewriting: RewriteOptions | None = field(default=None, metadata=ONLY_IN_PYTHON)
    progress: Started | None = only_in_python(None)
    auto_keep: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expect is None and not {*self.ways} - {"reference"}:
            raise OptionsError(
                Worded("{} compares nothing", Option("ways", [*self.ways])),
                because="every way is compared with reference",
                fix=Worded("name another way, as in {}", Option("ways", ["network"])),
            )
        if self.auto_keep is not None and not 0 < self.auto_keep <= 1:
            raise OptionsError(
                Worded("{} is {}, expected a share above 0, up to 1", Option("auto_keep"), self.auto_keep),
                fix=Worded("use {}", Option("auto_keep", 0.99)),
            )


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(DataOptions):
    """The data on which the ranges of values are measured, and the method.

    ``method`` chooses the range: ``"max"``, ``"percentile:99.99"``, ``"mse"`` or ``"entropy"``.
    ``rewriting`` says how the net is rewritten, and ``progress`` is called while the data are read.
    """

    method: str = "percentile:99.99"
    rewriting: RewriteOptions | None = field(default=None, metadata=ONLY_IN_PYTHON)
    progress: Started | None = only_in_python(None)


Platform: TypeAlias = Literal["onnxruntime", "tensorrt", "python"]
"""What computes a model in Triton: its backends for ONNX models, for plans, and for models in Python."""


@dataclass(frozen=True, kw_only=True)
class TritonOptions(Options):
    """How a net becomes a model in a repository of Triton.

    ``name`` is the model's, by default that of the net. ``max_batch_size`` is the largest number of requests in one
    call; by default 8, or no batch if the net cannot take one. ``platform`` computes it. ``labels`` is a file with the
    name of a class in each line, for the output that has as many.
    """

    name: str | None = None
    max_batch_size: int | None = at_least(1, most=65_536)
    platform: Platform = one_of(Platform)
    labels: str | None = None


@dataclass(frozen=True)
class BatchOptions(Options):
    """How a list of models is converted.

    ``folder`` is for engines; it is made if needed. ``jobs`` is the number of processes, by default one per core.
    ``scheduler`` is the address of a Dask cluster that converts instead, ``"tcp://HOST:PORT"``. ``keep_going`` converts
    the remaining models when one fails. ``report_junit``, ``report_json`` and ``report_md`` are files for reports.
    ``cache`` is a folder of conversions, so that only models that changed are converted; ``verify_cache`` hashes its
    files before they are used: all, none, or by default those of a cache that was restored or moved. ``progress``
    is called with the number of models, and what it returns with the outcome of each.
    """

    folder: PathLike
    _: KW_ONLY
    jobs: int | None = at_least(1)
    scheduler: str | None = None
    keep_going: bool = False
    report_junit: str | None = None
    report_json: str | None = None
    report_md: str | None = None
    cache: str | None = None
    verify_cache: bool | None = None
    progress: BatchProgress | None = only_in_python(None)
