"""The help of a command with its options under headings: the ones that most users need come first."""

from __future__ import annotations

import click

OF_ALL = "Printing and help"
SECTIONS = {
    "Images as inputs": ("mean", "scale", "channels", "resize"),
    "Sizes of the inputs": ("shapes", "dynamic", "sizes", "min_shapes", "opt_shapes", "max_shapes"),
    "Recurrent layers": ("cont", "recurrences", "sequence", "state", "layout", "force", "onnx_lstm"),
    "Precision and scales": (
        "precision",
        "scales",
        "calibration_cache",
        "quantize_all",
        "keep_float",
        "auto_keep",
        "tf32",
    ),
    "The net": (
        "outputs",
        "keep_constant",
        "phase",
        "level",
        "stages",
        "define",
        "overrides",
        "allow_unknown",
        "random_weights",
        "fork",
        "settings",
        "rules",
        "replace",
        "plugin",
        "strict",
        "max_memory",
        "preprocess",
        "nms",
    ),
    "TensorRT's builder": (
        "profiles",
        "tile",
        "keep_batch_norm",
        "timing_cache_file",
        "mem_pool_size",
        "builder_optimization_level",
        "version_compatible",
        "hardware_compatibility_level",
        "compute_capabilities",
        "strip_weights",
        "refit",
        "profiling_verbosity",
        "export_layer_info",
        "use_dla_core",
        "allow_gpu_fallback",
    ),
    "Trust": ("trust",),
    OF_ALL: ("print_after", "as_json", "verbose", "quiet", "debug", "version"),
}
"""Names of parameters by heading. All others stand first, under "Options", beginning with the required ones."""

_HEADING = {name: heading for heading, names in SECTIONS.items() for name in names}


def write_sections(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The options under their headings. A heading without options is left out."""
    rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *SECTIONS)}
    options = [parameter for parameter in command.get_params(ctx) if isinstance(parameter, click.Option)]
    for option in sorted(options, key=lambda option: not option.required):
        record = option.get_help_record(ctx)
        if record is not None:
            rows[heading_of(option)].append(record)
    for heading, records in rows.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def heading_of(option: click.Option) -> str:
    if "--help" in option.opts:  # click's own, whose name differs between its releases
        return OF_ALL
    return _HEADING.get(option.name or "", "Options")
