"""What is the same in all programs: imports, the file of weights, the builder's options, the build."""

from __future__ import annotations

_NAMES = (
    "argparse json np Path trt WEIGHTS SIZES network weights note sizes results"
    " read_weights named shapes fill configured profile number_of_bytes build main"
)
NAMES = frozenset(_NAMES.split())
"""What a program names itself."""
ABOUT = (
    "Builds the engine: python {file} -o net.plan. It needs NumPy and TensorRT 10 or newer, or TensorRT for RTX. The"
    " precision is part of the network, whose types are fixed: another conversion changes it."
)
FILLED = "Add all inputs, layers and outputs to an empty network."
IMPORTS = """\
import argparse
import json
from pathlib import Path

import numpy as np

try:
    import tensorrt as trt
except ImportError:
    import tensorrt_rtx as trt"""
_HELPERS = '''\
def read_weights(path=WEIGHTS):
    """The arrays of a safetensors file by name: the length of a header, the header in JSON, the data."""
    content = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:start].tobytes())
    types = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}
    arrays = {}
    for name, fact in header.items():
        if name != "__metadata__":
            begin, end = fact["data_offsets"]
            array = content[start + begin : start + end].view(types[fact["dtype"]])
            arrays[name] = array.reshape(fact["shape"])
    return arrays


def named(name, note, *layers, result=""):
    """Give the layers of one step its name, and a note that TensorRT keeps; the last one's result has it as well.

    ``result`` is another name for that, or None.
    """
    for count, layer in enumerate(layers, 1):
        layer.name = name if count == 1 else f"{name}#{count}"
        layer.metadata = note
    if result is not None:
        layers[-1].get_output(0).name = result or name'''
_PROFILE = '''\
def profile(builder, ranges):
    """An optimization profile for sizes in these ranges, as in T=1:8:16; a size that is left out keeps its own."""
    chosen = dict(SIZES)
    for each in ranges:
        name, _, sizes = each.partition("=")
        if name not in SIZES:
            raise SystemExit(f"{name} is no size that varies: {', '.join(SIZES)}")
        chosen[name] = tuple(int(size) for size in sizes.split(":"))
    least, usual, most = (
        shapes({name: sizes[place] for name, sizes in chosen.items()}) for place in range(3)
    )
    made = builder.create_optimization_profile()
    for name in usual:
        made.set_shape(name, least[name], usual[name], most[name])
    return made'''
_BUILD = '''\
def number_of_bytes(text):
    """As in 512MiB."""
    units = {"KiB": 10, "MiB": 20, "GiB": 30}
    return int(text[:-3]) << units[text[-3:]] if text[-3:] in units else int(text)


def configured(builder, options):
    """The builder's options, as the arguments say."""
    config = builder.create_builder_config()
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    flags = {
        "VERSION_COMPATIBLE": options.version_compatible,
        "STRIP_PLAN": options.strip_weights,
        "REFIT": options.refit,
        "GPU_FALLBACK": options.allow_gpu_fallback,
    }
    for name in (name for name, is_set in flags.items() if is_set):
        config.set_flag(getattr(trt.BuilderFlag, name))
    if options.builder_optimization_level is not None:
        config.builder_optimization_level = options.builder_optimization_level
    for pool, _, size in (each.partition("=") for each in options.mem_pool_size):
        config.set_memory_pool_limit(getattr(trt.MemoryPoolType, pool.upper()), number_of_bytes(size))
    if options.hardware_compatibility_level is not None:
        level = options.hardware_compatibility_level.upper().replace("+", "_PLUS")
        config.hardware_compatibility_level = getattr(trt.HardwareCompatibilityLevel, level)
    if options.profiling_verbosity is not None:
        verbosity = options.profiling_verbosity.upper()
        config.profiling_verbosity = getattr(trt.ProfilingVerbosity, verbosity)
    if options.use_dla_core is not None:
        config.default_device_type, config.DLA_core = trt.DeviceType.DLA, options.use_dla_core
    if options.compute_capabilities:
        config.num_compute_capabilities = len(options.compute_capabilities)
        for place, each in enumerate(options.compute_capabilities):
            config.set_compute_capability(getattr(trt.ComputeCapability, f"SM{each.replace('.', '')}"), place)
    if options.timing_cache_file is not None:
        file = options.timing_cache_file
        cache = config.create_timing_cache(file.read_bytes() if file.exists() else b"")
        config.set_timing_cache(cache, False)
    return config


def build(options):
    """The engine, as bytes."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    flags = getattr(trt, "NetworkDefinitionCreationFlag", None)
    is_typed = getattr(flags, "STRONGLY_TYPED", None)  # where it is None, there are no other networks
    network = builder.create_network(0 if is_typed is None else 1 << int(is_typed))
    fill(network, read_weights())
    config = configured(builder, options)
PROFILES
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit("TensorRT built no engine; it said why above")
    if options.timing_cache_file is not None:
        options.timing_cache_file.write_bytes(config.get_timing_cache().serialize())
    return plan


def main():
    parser = argparse.ArgumentParser(description="Builds an engine through TensorRT's API.")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(".plan"))
ARGUMENTS
    parser.add_argument("--tf32", action="store_true", help="faster, but not Caffe's float32")
    parser.add_argument("--builder-optimization-level", type=int, choices=range(6))
    parser.add_argument("--mem-pool-size", action="append", default=[], metavar="workspace=512MiB")
    parser.add_argument("--version-compatible", action="store_true")
    parser.add_argument("--hardware-compatibility-level", choices=["ampere+", "same_compute_capability"])
    parser.add_argument("--compute-capabilities", nargs="+", default=[], help="TensorRT for RTX: as in 8.6 8.9")
    parser.add_argument("--strip-weights", action="store_true")
    parser.add_argument("--refit", action="store_true")
    parser.add_argument("--profiling-verbosity", choices=["layer_names_only", "detailed", "none"])
    parser.add_argument("--use-dla-core", type=int)
    parser.add_argument("--allow-gpu-fallback", action="store_true")
    parser.add_argument("--timing-cache-file", type=Path)
    options = parser.parse_args()
    options.output.write_bytes(build(options))


if __name__ == "__main__":
    main()'''
_PROFILES = """\
    for ranges in options.profile or [[]]:
        config.add_optimization_profile(profile(builder, ranges))"""
_PROFILE_ARGUMENT = """\
    parser.add_argument("--profile", nargs="+", action="append", help="ranges of sizes, as in T=1:8:16; repeatable")"""


def helpers(varies: bool) -> list[str]:
    """What stands before the functions that add layers. ``varies``: there are sizes that vary."""
    return [_HELPERS, *([_PROFILE] if varies else [])]


def endings(varies: bool) -> list[str]:
    """What stands after them."""
    text = _BUILD.replace("PROFILES\n", f"{_PROFILES}\n" if varies else "")
    return [text.replace("ARGUMENTS\n", f"{_PROFILE_ARGUMENT}\n" if varies else "")]
