"""The help of a command with its options under headings: the ones that most users need come first."""

from __future__ import annotations

import click

OF_ALL = "Printing and help"
_INDENT = 2
SECTIONS = {
    "Images as inputs": "mean scale channels resize",
    "Sizes of the inputs": "sizes min_shapes opt_shapes max_shapes",
    "Recurrent layers": "cont recurrences stream sequence state layout force",
    "Precision": "calibration_cache quantize_all keep_float auto_keep tf32",
    "The net": (
        "phase level stages define allow_unknown keep_constant random_weights fork settings rules replace"
        " plugin overrides max_memory strict remainder"
    ),
    "The ONNX model, and files beside the result": "opset onnx_lstm nms emit_header",
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
    "ways inputs data_loader on device method expect calls layer_times draw labels seed layers atol rtol runtime_cache"
    " export_cache merge dry_run keep_going report_junit report_json report_md cache"
    " target precision shapes dynamic outputs scales preprocess backend verify"
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
            rows[heading_of(option)].append(_record_within(option, record, formatter.width - _INDENT))
    for heading, records in rows.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def _record_within(option: click.Option, record: tuple[str, str], width: int) -> tuple[str, str]:
    """The row of an option in the help. Where its choices make it wider than the terminal, the text names them."""
    spelling, meaning = record
    if len(spelling) <= width or not isinstance(option.type, click.Choice):
        return record
    names_all = all(choice in meaning for choice in option.type.choices)
    text = meaning if names_all else f"{meaning} [{' | '.join(option.type.choices)}]"
    return f"{', '.join(option.opts)} NAME", text


def heading_of(option: click.Option) -> str:
    if "--help" in option.opts:  # click's own, whose name differs between its releases
        return OF_ALL
    return _HEADING.get(option.name or "", "Options")
