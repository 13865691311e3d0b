"""What a graph is converted to: ``BuildOptions``, ``ExportOptions``, ``ConvertOptions``."""

from __future__ import annotations

from prototrt.converter.front.commandline.options.groups import field_option, options
from prototrt.converter.front.commandline.options.parameter_types import (
    Capabilities,
    OutputFile,
    Pools,
    ProductFile,
    ProfileText,
    joined,
)
from prototrt.converter.options import (
    HEADER_SUFFIXES,
    PRODUCT_NAMES,
    BuildOptions,
    ConversionOptions,
    ConvertOptions,
    ExportOptions,
)

build_options = options(
    field_option(ConversionOptions, "file", "-o", type=ProductFile(*PRODUCT_NAMES), required=True),
    field_option(ConvertOptions, "target"),
    field_option(BuildOptions, "backend"),
    field_option(BuildOptions, "tile"),
    field_option(BuildOptions, "tf32"),
    field_option(BuildOptions, "keep_batch_norm"),
    field_option(BuildOptions, "profiles", "--profile", type=ProfileText(), multiple=True),
    field_option(BuildOptions, "timing_cache_file", type=OutputFile()),
    field_option(BuildOptions, "mem_pool_size", type=Pools()),
    field_option(BuildOptions, "builder_optimization_level"),
    field_option(BuildOptions, "version_compatible"),
    field_option(BuildOptions, "hardware_compatibility_level"),
    field_option(BuildOptions, "compute_capabilities", type=Capabilities(), multiple=True, collect=joined),
    field_option(BuildOptions, "strip_weights"),
    field_option(BuildOptions, "refit"),
    field_option(BuildOptions, "profiling_verbosity"),
    field_option(BuildOptions, "export_layer_info", type=OutputFile(), metavar="FILE.json"),
    field_option(BuildOptions, "use_dla_core"),
    field_option(BuildOptions, "allow_gpu_fallback"),
    field_option(ExportOptions, "onnx_lstm"),
    field_option(ExportOptions, "opset"),
    field_option(ConvertOptions, "verify"),
    field_option(ConvertOptions, "emit_header", type=OutputFile(*HEADER_SUFFIXES), metavar="FILE.h"),
)
