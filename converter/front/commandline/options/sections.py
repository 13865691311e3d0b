"""The help of a command with its options under headings: the ones that most users need come first."""

from __future__ import annotations

import click

OF_ALL = "Printing and help"
SECTIONS = {
    "Images as inputs": "mean scale channels resize",
    "Sizes of the inputs": "shapes dynamic sizes min_shapes opt_shapes max_shapes",
    "Recurrent layers": "cont recurrences stream sequence state layout force onnx_lstm",
    "Precision and scales": "precision scales calibration_cache quantize_all keep_float auto_keep tf32",
    "The net": (
        "phase level stages define allow_unknown outputs keep_constant random_weights fork settings rules replace"
        " plugin overrides preprocess max_memory strict nms"
    ),
    "TensorRT's builder": (
        "tile keep_batch_norm profiles timing_cache_file mem_pool_size builder_optimization_level version_compatible"
        " hardware_compatibility_level compute_capabilities strip_weights refit profiling_verbosity export_layer_info"
        " use_dla_core allow_gpu_fallback"
    ),
    "Trust": "trust",
    OF_ALL: "print_after as_json verbose quiet debug version",
}
"""Names of parameters by heading, in the order of the help. All others stand first, under "Options"."""

_HEADINGS = ("Options", *SECTIONS)
_LAST = (
    "backend opset verify emit_header ways inputs data_loader on device shown method expect calls profile draw labels"
    " seed layers atol rtol runtime_cache export_cache merge dry_run keep_going report_junit report_json report_md"
    " cache verify_cache"
)
"""The order of options without a heading, below those whose place is where they are declared."""
_PLACES = {
    name: place for names in (_LAST, *SECTIONS.values()) for place, name in enumerate(names.split(), start=1)
}
_HEADING = {name: heading for heading, names in SECTIONS.items() for name in names.split()}


def place_in_help(parameter: click.Parameter) -> tuple[int, bool, int]:
    """What to sort the parameters of a command by: arguments stand first, then required options."""
    if not isinstance(parameter, click.Option):
        return -1, False, 0
    heading = _HEADINGS.index(heading_of(parameter))
    return heading, not parameter.required, _PLACES.get(parameter.name or "", 0)


def write_sections(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The options under their headings. A heading without options is left out."""
    rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in _HEADINGS}
    for option in command.get_params(ctx):
        record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
        if isinstance(option, click.Option) and record is not None:
            rows[heading_of(option)].append(record)
    for heading, records in rows.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def heading_of(option: click.Option) -> str:
    if "--help" in option.opts:  # click's own, whose name differs between its releases
        return OF_ALL
    return _HEADING.get(option.name or "", "Options")
