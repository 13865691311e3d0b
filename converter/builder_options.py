"""The builder's options: what TensorRT for RTX, TensorRT itself and trtexec make of each. Light to import.

The names are those of trtexec and Polygraphy. Each option is passed on, or refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.memory import bytes_from_text
from prototrt.caffe_proto.common.options import Options
from prototrt.caffe_proto.common.records import dataclass, field, fields
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Command, Option, Worded
from prototrt.converter.files.machines import TRTEXEC_WORDS, version_text

Release: TypeAlias = tuple[int, int]
"""A release of TensorRT: 8.6 is ``(8, 6)``."""
_WITH_POOLS, _WITH_UNITS = TRTEXEC_WORDS["--memPoolSize"][0], (10, 0)
"""The first releases whose trtexec has ``--memPoolSize``, and reads sizes with a unit."""
STRONGLY_TYPED_SINCE = TRTEXEC_WORDS["--stronglyTyped"][0]
"""The first release whose trtexec takes the types of numbers from the model; from 11.0 on it always does."""
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


def _word(name: str, value: Any) -> list[str]:
    """The option of trtexec of this name, ``timingCacheFile=times`` of ``timing_cache_file``; a flag if it is true."""
    first, *others = name.split("_")
    spelled = f"--{first}{''.join(_CAPITALS.get(each, each.title()) for each in others)}"
    return [spelled if value is True else f"{spelled}={value}"]


_CAPITALS = {"dla": "DLA", "gpu": "GPU"}


@dataclass(frozen=True, slots=True)
class BuilderOption:
    """An option by the name of its field.

    ``spell`` gives trtexec's words for a value where they are not the name and the value. ``refused`` is by the name
    of a backend or a target; ``needs_gpu`` are the backends that take it only where they find a GPU.
    ``is_of_the_engine``: who runs the engine must know it.
    """

    name: str
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    spell: Callable[[Any], Sequence[str]] | None = None
    needs_gpu: tuple[str, ...] = ()
    is_of_the_engine: bool = False

    def words(self, value: Any) -> Sequence[str]:
        """Those of trtexec for a value."""
        return _word(self.name, value) if self.spell is None else self.spell(value)


def _pools(sizes: Mapping[str, str | int]) -> Sequence[str]:
    return _word("mem_pool_size", ",".join(f"{pool}:{pool_bytes(sizes, pool)}B" for pool in sizes))


def _pools_in_mebibytes(sizes: Mapping[str, str | int], release: Release) -> Sequence[str]:
    """As trtexec before 10 reads them: without a unit; up to 8.2 with an option for the workspace alone."""
    counts = {pool: f"{pool_bytes(sizes, pool) / (1 << 20):.12g}" for pool in sizes}
    if release >= _WITH_POOLS:
        return _word("mem_pool_size", ",".join(f"{pool}:{count}" for pool, count in counts.items()))
    if [*counts] != ["workspace"]:
        raise OptionsError(
            Worded("{} names other pools than workspace", Option("mem_pool_size")),
            because=f"trtexec of TensorRT {release[0]}.{release[1]} limits the workspace alone",
            fix=Worded("use {}", Option("mem_pool_size", {"workspace": "512MiB"})),
        )
    return _word("workspace", counts["workspace"])


def _compatibility(level: str) -> Sequence[str]:
    spelling = {"same_compute_capability": "sameComputeCapability"}
    return _word("hardware_compatibility_level", spelling.get(level, level))


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
_JETSONS = ("jetson", "jetpack4", "jetpack5", "jetpack6", "jetpack7")
_NO_JETSON = Refusal("TensorRT does not offer that on Jetson", "leave it out")

_ONE_PROFILE = Refusal(
    "the script builds one profile, for all sizes",
    Worded("leave it out, or build on that machine with {}", Option("backend", "enterprise")),
)

BUILDER_OPTIONS = (
    BuilderOption(
        "profiles",
        dict.fromkeys(("datacenter", *_JETSONS, "triton"), _ONE_PROFILE),
        list,
        is_of_the_engine=True,
    ),
    BuilderOption(
        "timing_cache_file",
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
    BuilderOption("mem_pool_size", spell=_pools),
    BuilderOption("builder_optimization_level"),
    BuilderOption(
        "version_compatible",
        {
            "rtx": Refusal(
                "TensorRT for RTX comes without the lean runtime that this needs", _WITH_ENTERPRISE
            ),
        },
        is_of_the_engine=True,
    ),
    BuilderOption(
        "hardware_compatibility_level",
        {
            "rtx": Refusal(
                "engines of TensorRT for RTX run on all GPUs from compute capability 8.0 on as they are",
                Worded(
                    "leave it out, or choose GPUs with {} instead of {}",
                    Option("compute_capabilities"),
                    Option("hardware_compatibility_level"),
                ),
            ),
            **dict.fromkeys(_JETSONS, _NO_JETSON),
        },
        _compatibility,
        is_of_the_engine=True,
    ),
    BuilderOption(
        "compute_capabilities",
        dict.fromkeys(("enterprise", "datacenter", *_JETSONS, "triton"), _ONE_GPU),
        list,
        is_of_the_engine=True,
    ),
    BuilderOption("strip_weights", needs_gpu=("rtx",), is_of_the_engine=True),
    BuilderOption("refit", needs_gpu=("rtx",), is_of_the_engine=True),
    BuilderOption("profiling_verbosity"),
    BuilderOption("export_layer_info", needs_gpu=("rtx", "enterprise")),
    BuilderOption("use_dla_core", dict.fromkeys(("rtx", "datacenter", "triton"), _NO_DLA)),
    BuilderOption("allow_gpu_fallback", dict.fromkeys(("rtx", "datacenter", "triton"), _NO_DLA)),
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
        elif option.name == "use_dla_core" and release < STRONGLY_TYPED_SINCE:
            words += ["--fp16", *option.words(value)]  # a DLA has no float32, and trtexec chooses the types
        else:
            words += option.words(value)
    return words


def refuse_for(place: Option, kind: str, building: Options, release: Release | None = None) -> None:
    """Raise ``OptionsError`` for what a backend, or a target of this kind, does not take.

    ``release`` is that of the trtexec that builds; None where no trtexec does.
    """
    for option, value in chosen_options(building):
        refusal = option.refused.get(kind) or (release and _refusal_before(option, value, release))
        if refusal:
            raise OptionsError(
                Worded("{} is not for {}", Option(option.name), place),
                because=refusal.because,
                fix=refusal.fix,
            )


def _refusal_before(option: BuilderOption, value: Any, release: Release) -> Refusal | None:
    """The refusal of an option that trtexec has only in a later release; pools have an older spelling."""
    if option.name == "mem_pool_size":
        return None
    since = max((TRTEXEC_WORDS[word.partition("=")[0]][0] for word in option.words(value)), default=release)
    return (
        Refusal(f"TensorRT has that from {version_text(since)} on", "leave it out")
        if since > release
        else None
    )


_ON_A_DLA = ("fp16", "int8")
"""The precisions that a DLA computes in. Source: ``work-with-dla.html`` of TensorRT 11.4.1."""


def refuse_dla(precision: str, building: Options) -> None:
    """Raise ``OptionsError`` for a DLA and a strongly typed network in types that no DLA computes."""
    if getattr(building, "use_dla_core", None) is None or precision in _ON_A_DLA:
        return
    raise OptionsError(
        Worded("{} does not take {}", Option("use_dla_core"), Option("precision", precision)),
        because="a DLA computes float16 and int8 only, and the engine has the types of the model",
        fix=Worded("use {} or {}", *(Option("precision", each) for each in _ON_A_DLA)),
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
