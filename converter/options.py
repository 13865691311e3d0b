"""How a graph is converted and checked. Light to import: the command line reads it for its help."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import (
    Options,
    PathLike,
    at_least,
    meaning,
    not_in_lists,
    one_of,
    only_in_python,
    option,
    same_as,
)
from prototrt.caffe_proto.common.records import KW_ONLY, dataclass, field, fields
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.options import TEXT_SUFFIXES, LoadOptions
from prototrt.converter.builder_options import (
    ComputeCapability,
    HardwareCompatibility,
    ProfilingVerbosity,
    refuse_contradictions,
)
from prototrt.converter.files.machines import MACHINE_WORDS, MACHINES, close_machines, find_machine
from prototrt.converter.files.readers.names import ReaderName
from prototrt.surgery.options import RewriteOptions

O = TypeVar("O", bound=Options)  # noqa: E741  options

BackendName: TypeAlias = Literal["auto", "rtx", "enterprise"]
TargetName: TypeAlias = Literal[
    "rtx",
    "datacenter",
    "jetson",
    "jetpack4",
    "jetpack5",
    "jetpack6",
    "jetpack7",
    "triton",
    "onnx",
    "opencv",
    "openvino",
    "tensorrt-python",
]
"""The machines and programs that results are made for; see ``TARGETS``."""
TileLowering: TypeAlias = Literal["broadcast", "native", "plugin"]
PoolSizes: TypeAlias = Mapping[str, str | int]
"""Sizes of pools of memory by the names of ``POOLS``: bytes, or a text with a unit."""
Profiles: TypeAlias = Sequence[Mapping[str, Sequence[int]]]
"""The smallest, usual and largest size, by the name of the size, for each profile."""
Way: TypeAlias = Literal[
    "reference", "network", "onnx", "onnx-lstm", "torch", "tensorrt-python", "opencv", "openvino", "openvino-f32",
    "engine",
]  # fmt: skip
"""The ways to run a graph; see ``Session``."""
WAY_NAMES: tuple[Way, ...] = get_args(Way)
ON_DEVICES: tuple[Way, ...] = ("onnx", "onnx-lstm", "torch")
"""The ways that compute on the CPU, or on a GPU if that is asked for."""


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


UpgradeStage: TypeAlias = Literal["parsed", "rewritten"]
"""Whether ``upgrade`` keeps recurrent layers, or writes them out in plain ones."""
UPGRADE_STAGES: tuple[UpgradeStage, ...] = get_args(UpgradeStage)
SectionName: TypeAlias = Literal[
    "machine", "backends", "goldens", "speed", "torch", "builds", "reference", "onnxruntime"
]
SECTION_NAMES: tuple[SectionName, ...] = get_args(SectionName)
"""Of ``selftest``, by importance: time may run out."""
ParameterNames: TypeAlias = Literal["prototrt", "pytorch"]
"""Whose names ``weights get`` gives."""
PARAMETER_NAMES: tuple[ParameterNames, ...] = get_args(ParameterNames)
NO_SUFFIX = ""
HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", NO_SUFFIX)
OLDEST_OPSET = 11
"""The first in which all that a model is made of exists."""
BatchProgress: TypeAlias = Callable[[int], Callable[[Any], object]]
"""Hears how many models there are; what it returns is called with the ``Outcome`` of each."""
MOST_CALLS = 1_000_000
"""All outputs of ``prototrt run`` are in memory until they are written."""


@dataclass(frozen=True)
class BuildOptions(Options):
    """How an engine is built. Not every backend has each of TensorRT's options: see docs/building.md."""

    backend: BackendName = one_of(
        BackendName,
        "rtx: TensorRT for RTX, for GeForce and RTX GPUs, needs no GPU to build. enterprise: TensorRT"
        " itself, needs a GPU of the kind that runs the engine. auto: enterprise if it can build here,"
        " else rtx.",
    )
    _: KW_ONLY
    tf32: bool = option("Allow TF32: faster, but not Caffe's float32.", False)
    tile: TileLowering = one_of(
        TileLowering,
        "How to lower a Tile, such as that of cont: as a broadcast where possible, a slice that wraps,"
        " or a plugin (not for TensorRT for RTX).",
    )
    keep_batch_norm: bool = option(
        "Keep BatchNorm and Scale as layers of the engine. Else they are in the weights of the convolution before"
        " them, unless weights can be replaced in the engine.",
        False,
    )
    profiles: Profiles = option(
        Worded(
            "Optimization profiles: ranges of the sizes that vary, each with its own kernels, as in {}.",
            Option("profiles", {"N": (1, 1, 1)}),
        ),
        (),
        called="profile",
    )
    timing_cache_file: str | None = option(
        "Read and update the times of kernels in this file.", reads=True, writes=()
    )
    mem_pool_size: PoolSizes | None = option(
        Worded(
            "The most memory that the builder may use, as in {}.",
            Option("mem_pool_size", {"workspace": "512MiB"}),
        )
    )
    builder_optimization_level: int | None = at_least(
        0, "How long TensorRT searches for faster kernels; its default is 3.", most=5
    )
    version_compatible: bool = option("Build an engine that later releases of TensorRT run.", False)
    hardware_compatibility_level: HardwareCompatibility = one_of(
        HardwareCompatibility,
        "Build for more GPUs than the one here: of compute capability 8.0 and newer, or of the same one.",
    )
    compute_capabilities: Sequence[ComputeCapability] = one_of(
        ComputeCapability,
        "The GPUs that TensorRT for RTX builds for; by default all from 8.0 on.",
        default=(),
        shown="CAPABILITY,...",
    )
    strip_weights: bool = option("Leave out weights that the application puts back into the engine.", False)
    refit: bool = option("Let the application replace weights in the engine.", False)
    profiling_verbosity: ProfilingVerbosity = one_of(
        ProfilingVerbosity, "How much the engine records about its layers."
    )
    export_layer_info: str | None = option(
        "Write the layers of the engine to this JSON file; needs a GPU.", shown="FILE.json", writes=()
    )
    use_dla_core: int | None = at_least(0, "Build for this core of the DLA of a Jetson.")
    allow_gpu_fallback: bool = option("Run on the GPU what the DLA cannot.", False)
    progress: Progress | None = only_in_python("Called with the progress of the build.")

    @property
    def keeps_batch_norm(self) -> bool:
        """Whether the engine has the weights of the caffemodel: an application that replaces weights has those."""
        return self.keep_batch_norm or self.refit or self.strip_weights

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_contradictions(self.mem_pool_size or {}, self.use_dla_core, self.allow_gpu_fallback)


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """How an ONNX model is written."""

    onnx_lstm: bool = option("Use ONNX's LSTM, GRU or RNN where a recurrence equals it.", False)
    opset: int | None = at_least(OLDEST_OPSET, "The opset of the ONNX model.")
    readers: Sequence[ReaderName] = one_of(
        ReaderName,
        "The programs that will read the model; a target names them.",
        default=(),
        only_in_python=True,
    )


def _machine_name(word: str) -> str | None:
    """A word for a machine as the table has it; None for a word that names none."""
    machine, lower = find_machine(word), word.lower()
    return None if machine is None else lower if lower in machine.words else machine.words[0]


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(Options):
    """What is done with what is made, before it is written."""

    target: TargetName | str | None = one_of(
        TargetName,
        "The machine or program that will run the result: rtx gets an engine; onnx, opencv and openvino an ONNX model;"
        " tensorrt-python a program that builds the engine through TensorRT's API;"
        " the others (jetpack4 to jetpack7 are Jetsons by their JetPack, jetson is JetPack 6.1 and 6.2) an ONNX model"
        " and a script that builds the engine there. Or the name of a machine, such as orin-nano, thor, xavier, nano,"
        " t4, a100, rtx4090: then what it cannot compute is refused.",
        default=None,
        others=MACHINE_WORDS,
        other_spelling=_machine_name,
        close=close_machines,
    )
    verify: bool = option("Check the result on random inputs before writing it.", False)
    emit_header: str | None = option(
        "Also write a C++ header with inputs, outputs and recurrent pairs.",
        shown="FILE.h",
        writes=HEADER_SUFFIXES,
    )
    remainder: str | None = option(
        Worded(
            "With {}: also write the layers after those before which the net is cut, as a net of their own.",
            Option("outputs", ["auto"]),
        ),
        shown="FILE",
        writes=(*TEXT_SUFFIXES.values(),),
    )


ENGINE_SUFFIXES = (".plan", ".engine", ".trt")
PRODUCT_NAMES = (*ENGINE_SUFFIXES, ".onnx", ".py", NO_SUFFIX)
"""How the names of engines, ONNX models and PyTorch modules end."""


@dataclass(frozen=True)
class ConversionOptions(ConvertOptions, ExportOptions, BuildOptions, RewriteOptions, LoadOptions):
    """All options of a conversion: of loading, rewriting, building and exporting."""

    weights: PathLike | None = field(
        metadata=meaning("The weights; None where the net has them, or with random weights.")
    )
    file: PathLike = field(
        metadata=meaning(
            "The file to write: an ONNX model if it ends in .onnx, a PyTorch module if in .py (or a program, for"
            " target tensorrt-python), else an engine.",
            not_in_lists=True,
        )
    )
    _: KW_ONLY
    backend: BackendName = same_as(BuildOptions, "backend")
    tile: TileLowering = same_as(BuildOptions, "tile")

    def part(self, kind: type[O]) -> O:
        """Those of one step."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(kind)})


Inputs: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A file or a folder; or arrays by the names of inputs: those of one call, or of each."""
PythonFunction: TypeAlias = str
"""``FILE.py:FUNCTION``"""
Numbers: TypeAlias = Sequence[float]
ImageSize: TypeAlias = Sequence[int]
"""Height and width, or the shorter side."""
ChannelOrder: TypeAlias = Literal["bgr", "rgb"]


@dataclass(frozen=True, kw_only=True)
class DataOptions(Options):
    """Where the inputs of calls come from. Images become ``(pixels - mean) * scale``.

    In Python, inputs may also be arrays by the names of inputs: those of one call, or a list of them.
    """

    inputs: Inputs | None = option(
        "An npz file with arrays by blob name, an npy file, an image, or a folder of these.",
        shown="DATA",
        reads=True,
    )
    data_loader: PythonFunction | None = not_in_lists(
        "A Python function that yields dictionaries of arrays by blob, as in Polygraphy.",
        shown="FILE.py:FUNCTION",
        reads=True,
    )
    mean: Numbers = not_in_lists("Subtract this from pixels of 0 to 255.", ())
    scale: float = not_in_lists("Multiply by this after the subtraction.", 1.0)
    channels: ChannelOrder = one_of(ChannelOrder, "The order of an image's channels.", not_in_lists=True)
    resize: ImageSize | None = not_in_lists(
        "Resize to this height and width, or this shorter side, and crop the middle."
    )

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
    """The ways to compute a net, and how far their results may be apart."""

    ways: Sequence[Way] = one_of(
        Way,
        f"The ways to compare: {', '.join(WAY_NAMES)}.",
        default=("network",),
        shown="WAY,...",
        called="on",
    )
    layers: bool = option("Compare every blob that remains, not only the outputs.", False)
    exporting: ExportOptions | None = only_in_python("How the model for onnx and onnx-lstm is written.")
    device: str | None = option(
        f"What {', '.join(ON_DEVICES)} compute on: cpu, as by default, or cuda; onnx also on rtx, TensorRT for RTX.",
        shown="DEVICE",
    )
    atol: float | None = option(
        "How far each number may be off; the default depends on the precision.", shown="NUMBER"
    )
    rtol: float | None = option(
        "How far beyond that, as a share of its blob's largest magnitude.", shown="NUMBER"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.device is not None and not {*self.ways} & {*ON_DEVICES}:
            raise OptionsError(
                Worded("{} has no effect", Option("device", self.device)),
                because=f"only {', '.join(ON_DEVICES)} compute on a device",
                fix=Worded("use {}", Option("ways", ["onnx"])),
            )
        for name, number in (("atol", self.atol), ("rtol", self.rtol)):
            if number is not None and not 0 <= number < math.inf:
                raise OptionsError(
                    Worded("{} is {}, expected 0 or more", Option(name), number),
                    fix=Worded("use {}", Option(name, 0.0001)),
                )


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(CompareOptions, DataOptions):
    """The ways to compute a net, the inputs, and what results are compared with."""

    expect: str | None = option(
        "Expected outputs, such as those of your old program.", shown="FILE.npz", reads=True
    )
    calls: int | None = at_least(1, "Number of calls; state carries over from call to call.", most=MOST_CALLS)
    seed: int = at_least(0, "Seed of the random inputs.", 0)
    rewriting: RewriteOptions | None = only_in_python("How the net is rewritten.", compare=True)
    progress: Started | None = only_in_python("Called while the cost of 8 bits is measured.")
    auto_keep: float | None = option(
        "With int8 or fp8: find the fewest layers to keep in float, so that this share of decisions"
        " (as in 0.99) stays as in float32.",
        shown="SHARE",
    )

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
    """The data on which the ranges of values are measured, and the method."""

    method: str = option(
        "How a range is chosen: max, percentile:99.99 (the default), mse or entropy.",
        "percentile:99.99",
        shown="METHOD",
    )
    auto_keep: float = option(
        "Layers stay in 16 bits until the cosine of every output with float32 is this; 0: none does.",
        0.99,
        shown="COSINE",
    )
    rewriting: RewriteOptions | None = only_in_python("How the net is rewritten.", compare=True)
    progress: Started | None = only_in_python("Called while the data are read.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.auto_keep <= 1:
            raise OptionsError(
                Worded("{} is {}, expected a cosine of 0 to 1", Option("auto_keep"), self.auto_keep),
                fix=Worded("use {}", Option("auto_keep", 0.99)),
            )


Platform: TypeAlias = Literal["onnxruntime", "tensorrt", "python"]
"""What computes a model in Triton: its backends for ONNX models, for plans, and for models in Python."""


@dataclass(frozen=True, kw_only=True)
class TritonOptions(Options):
    """How a net becomes a model in a repository of Triton."""

    name: str | None = option("The name of the model; by default, the name of the net.", shown="NAME")
    max_batch_size: int | None = at_least(
        1,
        "How many requests are computed together; by default 8, or 1 if the net takes no batch.",
        most=65_536,
    )
    platform: Platform = one_of(
        Platform,
        "What computes the model; python is prototrt in Triton's Python backend.",
    )
    labels: str | None = option(
        "A text file with a class in each line, for the output with as many classes.",
        shown="FILE",
        reads=True,
    )


DeepStreamTarget: TypeAlias = Literal["datacenter", "jetson", "jetpack4", "jetpack5", "jetpack6", "jetpack7"]
"""The machines that run DeepStream, by their TensorRT."""


@dataclass(frozen=True)
class DeepStreamOptions(Options):
    """How a net becomes a folder for DeepStream's Gst-nvinfer."""

    name: str | None = same_as(TritonOptions, "name")
    target: DeepStreamTarget | str | None = one_of(
        DeepStreamTarget,
        "The machine whose TensorRT builds the engine, as of convert; by default datacenter.",
        default=None,
        others=[
            word
            for machine in MACHINES
            if machine.target in get_args(DeepStreamTarget)
            for word in machine.words
        ],
        other_spelling=_machine_name,
        close=close_machines,
    )
    labels: str | None = option("A text file with a class in each line.", shown="FILE", reads=True)
    old_config: str | None = option(
        "Take over the keys of this old config of Gst-nvinfer.", shown="FILE", reads=True
    )
    mean: Numbers = same_as(DataOptions, "mean")
    scale: float = same_as(DataOptions, "scale")
    channels: ChannelOrder = same_as(DataOptions, "channels")


@dataclass(frozen=True)
class BatchOptions(Options):
    """How a list of models is converted."""

    folder: PathLike = field(metadata=meaning("The folder for engines; created if needed.", shown="FOLDER"))
    _: KW_ONLY
    jobs: int | None = at_least(1, "Number of processes; by default one per core.")
    scheduler: str | None = option("Convert on the Dask cluster at this address.", shown="tcp://HOST:PORT")
    keep_going: bool = option("Convert the remaining models when one fails.", False)
    report_junit: str | None = option("Write JUnit XML, for GitLab and Jenkins.", writes=())
    report_json: str | None = option("Write all facts about each model.", writes=())
    report_md: str | None = option("Write a table in Markdown, for the page of a job.", writes=())
    cache: str | None = option(
        "Keep conversions in this folder; convert only models that changed.", shown="FOLDER"
    )
    progress: BatchProgress | None = only_in_python(
        "Called with the number of models; what it returns is called with the outcome of each."
    )
