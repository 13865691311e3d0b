"""The builder's options and the optimization profiles, as TensorRT's ``IBuilderConfig`` takes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prototrt.caffe_proto.common.errors import BuildError, OptionsError
from prototrt.caffe_proto.common.files import LARGEST_CACHE, errors_for_user, read_regular
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.tensorrt.network import Network
from prototrt.converter.builder_options import COMPATIBILITY, POOLS, pool_bytes
from prototrt.converter.options import BuildOptions
from prototrt.surgery.ir import Graph, Range, size_at
from prototrt.surgery.ir.range_words import another_range


def configure(config: Any, network: Network, options: BuildOptions) -> None:
    """Set everything that differs from TensorRT's defaults. Raises ``BuildError`` for what TensorRT refuses.

    Its setters may fail without raising, so what they have set is read back.
    """
    _set_flags(config, network.trt, options)
    if options.builder_optimization_level is not None:
        config.builder_optimization_level = options.builder_optimization_level
    for pool in options.mem_pool_size or {}:
        _limit_pool(config, network, pool, pool_bytes(options.mem_pool_size or {}, pool))
    if options.hardware_compatibility_level != BuildOptions.hardware_compatibility_level:
        _set_compatibility(config, network, COMPATIBILITY[options.hardware_compatibility_level])
    if options.profiling_verbosity != BuildOptions.profiling_verbosity:
        verbosity = options.profiling_verbosity.upper()
        config.profiling_verbosity = _member(network.trt, "ProfilingVerbosity", verbosity)
    if options.use_dla_core is not None:
        _use_dla(config, network, options.use_dla_core)
    if options.compute_capabilities:
        _set_capabilities(config, network.trt, options.compute_capabilities)
    if options.timing_cache_file is not None:
        _read_timing_cache(config, network, options.timing_cache_file)


def _set_flags(config: Any, trt: Any, options: BuildOptions) -> None:
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    flags = {
        "VERSION_COMPATIBLE": options.version_compatible,
        "STRIP_PLAN": options.strip_weights,
        "REFIT": options.refit,
        "GPU_FALLBACK": options.allow_gpu_fallback,
    }
    for flag in (flag for flag, is_set in flags.items() if is_set):
        config.set_flag(_member(trt, "BuilderFlag", flag))


def _limit_pool(config: Any, network: Network, pool: str, size: int) -> None:
    """``size`` is in bytes."""
    kind = _member(network.trt, "MemoryPoolType", POOLS[pool])
    config.set_memory_pool_limit(kind, size)
    if config.get_memory_pool_limit(kind) != size:
        raise network.error(f"does not take {size} bytes for the pool {pool}")


def _set_compatibility(config: Any, network: Network, level: str) -> None:
    member = _member(network.trt, "HardwareCompatibilityLevel", level)
    config.hardware_compatibility_level = member
    if config.hardware_compatibility_level != member:
        raise network.error(f"does not take the hardware compatibility level {level}")


def _use_dla(config: Any, network: Network, core: int) -> None:
    device = (network.trt.DeviceType.DLA, core)
    config.default_device_type, config.DLA_core = device
    if (config.default_device_type, config.DLA_core) != device:
        raise network.error(f"has no DLA core {core} here")


def _member(trt: Any, kind: str, name: str) -> Any:
    """A member of one of TensorRT's enumerations. Raises ``BuildError`` where this release lacks it."""
    member = getattr(getattr(trt, kind), name, None)
    if member is None:
        raise BuildError(
            f"{trt.__name__} {trt.__version__} has no {kind}.{name}", fix="install a newer release"
        )
    return member


def _set_capabilities(of_rtx: Any, trt: Any, capabilities: Sequence[str]) -> None:
    """Choose the GPUs; only the configuration of TensorRT for RTX has this choice."""
    of_rtx.num_compute_capabilities = len(capabilities)
    for place, capability in enumerate(capabilities):
        member = _member(trt, "ComputeCapability", f"SM{capability.replace('.', '')}")
        if not of_rtx.set_compute_capability(member, place):
            raise BuildError(
                f"{trt.__name__} {trt.__version__} does not build for compute capability {capability}",
                fix=Worded("leave it out of {}", Option("compute_capabilities")),
            )


def _read_timing_cache(config: Any, network: Network, file: str) -> None:
    """A file that does not exist yet is an empty cache."""
    with errors_for_user(file, "a timing cache"):
        content = read_regular(file, "a timing cache", LARGEST_CACHE) if os.path.exists(file) else b""
    cache = config.create_timing_cache(content)
    if cache is None or not config.set_timing_cache(cache, False):
        error = network.error(f'does not take the timing cache "{file}"')
        error.fix = Worded("give another file as {}, or remove this one", Option("timing_cache_file"))
        raise error


def timing_cache_of(config: Any) -> bytes:
    """What was in the cache, and what the build has added."""
    return bytes(config.get_timing_cache().serialize())


def layer_info(network: Network, plan: bytes | memoryview) -> str:
    """What an engine tells of its layers, as JSON. Needs a GPU, on which it is loaded."""
    trt = network.trt
    engine = trt.Runtime(network.logger).deserialize_cuda_engine(plan)
    if engine is None:
        raise network.error("could not load the engine to list its layers")
    return str(engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON))


def profiles_of(
    graph: Graph, network: Network, asked: Sequence[Mapping[str, Sequence[int]]]
) -> Iterator[Any]:
    """The profiles of a graph: one for all sizes, or those that were asked for; none where no size varies.

    Raises ``OptionsError`` for profiles that do not fit the sizes.
    """
    varying = [value for value in graph.inputs if any(not isinstance(dim, int) for dim in value.shape)]
    chosen = [_ranges(graph.symbols, each) for each in asked] or [dict(graph.symbols)]
    if asked:
        _refuse_gaps(graph.symbols, chosen)
    for ranges in chosen if varying else ():
        profile = network.builder.create_optimization_profile()
        sizes = [
            dict(zip(ranges, each, strict=True))
            for each in zip(*((span.min, span.opt, span.max) for span in ranges.values()), strict=True)
        ]
        for value in varying:
            profile.set_shape(value.name, *([size_at(dim, each) for dim in value.shape] for each in sizes))
        yield profile


def _ranges(ranges: Mapping[str, Range], asked: Mapping[str, Sequence[int]]) -> dict[str, Range]:
    """The range of every size in a profile; a size that it does not name keeps its whole range."""
    for name, sizes in asked.items():
        if name not in ranges:
            raise OptionsError(
                Worded("{} names the size {}, which does not vary", Option("profiles"), name),
                because=f"those that vary are {', '.join(ranges)}" if ranges else "all sizes are fixed",
                fix=Worded("let it vary with {} and {}", Option("shapes"), Option("sizes")),
            )
        whole = ranges[name]
        if len(sizes) != 3 or not whole.min <= sizes[0] <= sizes[1] <= sizes[2] <= whole.max:
            raise OptionsError(
                Worded("{} has {}={}", Option("profiles"), name, "..".join(map(str, sizes))),
                because=f"the sizes must not decrease, and must lie in {whole.min} to {whole.max}",
                fix=Worded("change it, or {}", another_range({name: whole})),
            )
    return {name: Range(*asked[name]) if name in asked else span for name, span in ranges.items()}


def _refuse_gaps(ranges: Mapping[str, Range], profiles: Sequence[Mapping[str, Range]]) -> None:
    """The smallest and the largest size must each be in a profile: a manifest promises that they run."""
    for name, whole in ranges.items():
        least, most = min(each[name].min for each in profiles), max(each[name].max for each in profiles)
        if (least, most) != (whole.min, whole.max):
            raise OptionsError(
                Worded("{} covers {} from {} to {}", Option("profiles"), name, least, most),
                because=f"the net was rewritten for {name} from {whole.min} to {whole.max}",
                fix=Worded("add a profile, or {}", another_range({name: whole})),
            )
