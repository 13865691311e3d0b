"""The builder's options: what TensorRT for RTX, TensorRT itself and trtexec make of each. Light to import.

The names are those of trtexec and Polygraphy. Each option is passed on, or refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.memory import bytes_from_text
from prototrt.caffe_proto.common.options import Options
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Command, Option, Worded

Release: TypeAlias = tuple[int, int]
"""A release of TensorRT: 8.6 is ``(8, 6)``."""
_WITH_POOLS, _WITH_UNITS = (8, 4), (10, 0)
"""The first releases whose trtexec has ``--memPoolSize``, and reads sizes with a unit."""
POOLS = {
    "workspace": "WORKSPACE",
    "dlaSRAM": "DLA_MANAGED_SRAM",
    "dlaLocalDRAM": "DLA_LOCAL_DRAM",
    "dlaGlobalDRAM": "DLA_GLOBAL_DRAM",
    "tacticSharedMem": "TACTIC_SHARED_MEMORY",
}
"""Pools of memory as trtexec calls them, and TensorRT's own names."""
HardwareCompatibility: TypeAlias = Literal["none", "ampere+", "same_compute_capability"]
COMPATIBILITY: Mapping[HardwareCompatibility, str] = {
    "none": "NONE",
    "ampere+": "AMPERE_PLUS",
    "same_compute_capability": "SAME_COMPUTE_CAPABILITY",
}
ComputeCapability: TypeAlias = Literal["7.5", "8.0", "8.6", "8.9", "12.0", "12.1"]
"""Those that TensorRT for RTX builds for."""
ProfilingVerbosity: TypeAlias = Literal["layer_names_only", "detailed", "none"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a builder does not take an option, and what helps."""

    because: str
    fix: str


@dataclass(frozen=True, slots=True)
class BuilderOption:
    """An option by the name of its field.

    ``words`` are those of trtexec for a value. ``refused`` is by the name of a backend or a target; ``needs_gpu`` are
    the backends that take it only where they find a GPU. ``is_of_the_engine``: who runs the engine must know it.
    """

    name: str
    words: Callable[[Any], Sequence[str]]
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    needs_gpu: tuple[str, ...] = ()
    is_of_the_engine: bool = False


def _flag(spelling: str) -> Callable[[Any], Sequence[str]]:
    return lambda value: [f"--{spelling}"]


def _value(spelling: str) -> Callable[[Any], Sequence[str]]:
    return lambda value: [f"--{spelling}={value}"]


def _pools(sizes: Mapping[str, str | int]) -> Sequence[str]:
    return _value("memPoolSize")(",".join(f"{pool}:{pool_bytes(sizes, pool)}B" for pool in sizes))


def _pools_in_mebibytes(sizes: Mapping[str, str | int], release: Release) -> Sequence[str]:
    """As trtexec before 10 reads them: without a unit; up to 8.2 with an option for the workspace alone."""
    counts = {pool: f"{pool_bytes(sizes, pool) / (1 << 20):g}" for pool in sizes}
    if release >= _WITH_POOLS:
        return _value("memPoolSize")(",".join(f"{pool}:{count}" for pool, count in counts.items()))
    if [*counts] != ["workspace"]:
        raise OptionsError(
            Worded("{} names other pools than workspace", Option("mem_pool_size")),
            because=f"trtexec of TensorRT {release[0]}.{release[1]} limits the workspace alone",
            fix=Worded("use {}", Option("mem_pool_size", {"workspace": "512MiB"})),
        )
    return _value("workspace")(counts["workspace"])


def _compatibility(level: str) -> Sequence[str]:
    spelling = {"same_compute_capability": "sameComputeCapability"}
    return _value("hardwareCompatibilityLevel")(spelling.get(level, level))


_WITH_ENTERPRISE = Worded("build with {}", Option("backend", "enterprise"))
_NO_DLA = Refusal(
    "only Jetson and DRIVE have a DLA", Worded("leave it out, or use {}", Option("target", "jetson"))
)
_ONE_GPU = Refusal(
    "TensorRT itself builds for the GPU that it finds",
    Worded(
        "use {} instead of {}",
        Option("hardware_compatibility_level", "ampere+"),
        Option("compute_capabilities"),
    ),
)
_OLD_JETSONS = ("jetpack4", "jetpack5", "jetpack6")
_SINCE_8_6 = Refusal("TensorRT has that from 8.6 on", "leave it out")
_SINCE_10 = Refusal("TensorRT has that from 10.0 on", "leave it out")
_NO_JETSON = Refusal("TensorRT does not offer that on Jetson", "leave it out")

_ONE_PROFILE = Refusal(
    "the script builds one profile, for all sizes",
    Worded("leave it out, or build on that machine with {}", Option("backend", "enterprise")),
)

BUILDER_OPTIONS = (
    BuilderOption(
        "profiles",
        list,
        dict.fromkeys(("datacenter", "jetson", *_OLD_JETSONS, "triton"), _ONE_PROFILE),
        is_of_the_engine=True,
    ),
    BuilderOption(
        "timing_cache_file",
        _value("timingCacheFile"),
        {
            "rtx": Refusal(
                "TensorRT for RTX times no kernels when it builds",
                Worded(
                    "leave it out: what `{}` compiles it keeps with {}",
                    Command("run"),
                    Option("runtime_cache"),
                ),
            )
        },
    ),
    BuilderOption("mem_pool_size", _pools),
    BuilderOption(
        "builder_optimization_level",
        _value("builderOptimizationLevel"),
        dict.fromkeys(("jetpack4", "jetpack5"), _SINCE_8_6),
    ),
    BuilderOption(
        "version_compatible",
        _flag("versionCompatible"),
        {
            "rtx": Refusal(
                "TensorRT for RTX comes without the lean runtime that this needs", _WITH_ENTERPRISE
            ),
            **dict.fromkeys(("jetpack4", "jetpack5"), _SINCE_8_6),
        },
        is_of_the_engine=True,
    ),
    BuilderOption(
        "hardware_compatibility_level",
        _compatibility,
        {
            "rtx": Refusal(
                "engines of TensorRT for RTX run on all GPUs from compute capability 8.0 on as they are",
                Worded(
                    "leave it out, or choose GPUs with {} instead of {}",
                    Option("compute_capabilities"),
                    Option("hardware_compatibility_level"),
                ),
            ),
            **dict.fromkeys(("jetson", *_OLD_JETSONS), _NO_JETSON),
        },
        is_of_the_engine=True,
    ),
    BuilderOption(
        "compute_capabilities",
        list,
        dict.fromkeys(("enterprise", "datacenter", "jetson", *_OLD_JETSONS, "triton"), _ONE_GPU),
        is_of_the_engine=True,
    ),
    BuilderOption(
        "strip_weights",
        _flag("stripWeights"),
        dict.fromkeys(_OLD_JETSONS, _SINCE_10),
        needs_gpu=("rtx",),
        is_of_the_engine=True,
    ),
    BuilderOption("refit", _flag("refit"), needs_gpu=("rtx",), is_of_the_engine=True),
    BuilderOption("profiling_verbosity", _value("profilingVerbosity")),
    BuilderOption("export_layer_info", _value("exportLayerInfo"), needs_gpu=("rtx", "enterprise")),
    BuilderOption(
        "use_dla_core", _value("useDLACore"), dict.fromkeys(("rtx", "datacenter", "triton"), _NO_DLA)
    ),
    BuilderOption(
        "allow_gpu_fallback",
        _flag("allowGPUFallback"),
        dict.fromkeys(("rtx", "datacenter", "triton"), _NO_DLA),
    ),
)


def chosen_options(building: Options) -> Iterator[tuple[BuilderOption, Any]]:
    """The builder's options that differ from their defaults, with their values."""
    defaults = {each.name: each.default for each in fields(building)}
    for option in BUILDER_OPTIONS:
        value = getattr(building, option.name)
        if value != defaults[option.name]:
            yield option, value


def trtexec_words(building: Options, release: Release) -> list[str]:
    """The builder's options as a release of trtexec spells them."""
    words: list[str] = []
    for option, value in chosen_options(building):
        if option.name == "mem_pool_size" and release < _WITH_UNITS:
            words += _pools_in_mebibytes(value, release)
        else:
            words += option.words(value)
    return words


def refuse_for(place: Option, building: Options) -> None:
    """Raise ``OptionsError`` for what this backend, or this target, does not take."""
    for option, _ in chosen_options(building):
        refusal = option.refused.get(str(place.value))
        if refusal is not None:
            raise OptionsError(
                Worded("{} is not for {}", Option(option.name), place),
                because=refusal.because,
                fix=refusal.fix,
            )


def refuse_without_gpu(backend: str, building: Options, has_gpu: Callable[[], bool]) -> None:
    """Raise ``OptionsError`` for what this backend takes only on a machine with a GPU, which few options ask for."""
    for option, _ in chosen_options(building):
        if backend in option.needs_gpu and not has_gpu():
            raise OptionsError(
                Worded("{} needs a GPU, and there is none here", Option(option.name)),
                because=Worded("{} uses one to build", Option("backend", backend))
                if option.name != "export_layer_info"
                else "TensorRT lists the layers of an engine only when a GPU has loaded it",
                fix=Worded("build on a machine with a GPU, or leave out {}", Option(option.name)),
            )


def pool_bytes(sizes: Mapping[str, str | int], pool: str) -> int:
    """The size of a pool. Raises ``OptionsError`` for an unknown pool, and for a size without a unit."""
    if pool not in POOLS:
        likely = [*close_names(pool, POOLS), "workspace"][0]
        raise OptionsError(
            Worded(
                "{} has the pool {}, expected one of {}",
                Option("mem_pool_size"),
                repr(pool),
                ", ".join(POOLS),
            ),
            fix=Worded("use {}", Option("mem_pool_size", {likely: str(sizes[pool])})),
        )
    size = sizes[pool]
    if isinstance(size, int):
        return size
    count = None if size.strip().isdecimal() else bytes_from_text(size)
    if not count:
        raise OptionsError(
            Worded(
                "{} of {} is {}, expected a size with its unit", Option("mem_pool_size"), pool, repr(size)
            ),
            fix=Worded("write it as in {}", Option("mem_pool_size", {pool: "512MiB"})),
        )
    return count


def refuse_contradictions(
    pools: Mapping[str, str | int], use_dla_core: int | None, allow_gpu_fallback: bool
) -> None:
    """Raise ``OptionsError`` for options of the builder that make no sense together."""
    for pool in pools:
        pool_bytes(pools, pool)
    if allow_gpu_fallback and use_dla_core is None:
        raise OptionsError(
            Worded(
                "{} is for layers that a DLA cannot run, but no DLA is asked for",
                Option("allow_gpu_fallback"),
            ),
            fix=Worded("also give {}", Option("use_dla_core", 0)),
        )
