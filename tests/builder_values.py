"""A value for each option of TensorRT's builder that is not its default."""

from __future__ import annotations

from typing import Any

from prototrt.converter.builder_options import BuilderOption

VALUES: dict[str, Any] = {
    "profiles": ({"N": (1, 1, 1)},),
    "timing_cache_file": "times.cache",
    "mem_pool_size": {"workspace": "512MiB", "dlaSRAM": 1 << 20},
    "builder_optimization_level": 0,
    "version_compatible": True,
    "hardware_compatibility_level": "ampere+",
    "compute_capabilities": ("7.5", "8.9"),
    "strip_weights": True,
    "refit": True,
    "profiling_verbosity": "detailed",
    "export_layer_info": "layers.json",
    "use_dla_core": 0,
    "allow_gpu_fallback": True,
}


def trtexec_words_of(option: BuilderOption) -> list[str]:
    """How trtexec spells the option with this value; nothing if it has no such option."""
    return [word for word in option.words(VALUES[option.name]) if str(word).startswith("--")]
