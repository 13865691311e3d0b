"""From a net to the graph that a backend lowers: expansion, then the lists of passes, which are all here."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import OptionsError, tell
from prototrt.caffe_proto.common.memory import without_collector
from prototrt.caffe_proto.common.options import refuse_other, takes_options
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.common.wording import Command, Option, Together, Worded, listed
from prototrt.surgery.building.builder import names_in
from prototrt.surgery.expansion.expand import Expansion, expand
from prototrt.surgery.forms import refuse_impossible_form
from prototrt.surgery.ir import Graph, Value
from prototrt.surgery.ir.layout import STREAMS, Layout
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.ir.shapes import symbols_of
from prototrt.surgery.ops import Scan
from prototrt.surgery.options import Form, LayoutName, Precision, RewriteOptions
from prototrt.surgery.passes.compute_in_half import compute_in_bfloat16, compute_in_half
from prototrt.surgery.passes.drop_identities import drop_identities
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.passes.elide_tiles import elide_tiles
from prototrt.surgery.passes.fold_affines import fold_affines
from prototrt.surgery.passes.fold_constants import (
    fold_constant_outputs,
    fold_constant_windows,
    fold_constants,
)
from prototrt.surgery.passes.fuse_lstms import fuse_forward_lstms, fuse_lstms, fuse_whole_cells
from prototrt.surgery.passes.hoist_invariants import hoist_invariants
from prototrt.surgery.passes.join_columns import join_columns
from prototrt.surgery.passes.join_products import join_products
from prototrt.surgery.passes.keep_unit_axes import keep_unit_axes
from prototrt.surgery.passes.merge_reshapes import merge_reshapes
from prototrt.surgery.passes.mixed_steps import layers_that_mix_steps
from prototrt.surgery.passes.named_axes import caffe_layout
from prototrt.surgery.passes.put_batch_first import put_batch_first, put_in_columns
from prototrt.surgery.passes.rejoin_rows import rejoin_rows
from prototrt.surgery.passes.scan_bodies import scale_products, sink_sums
from prototrt.surgery.passes.share_products import share_products
from prototrt.surgery.passes.sink_moves import sink_moves
from prototrt.surgery.passes.stack_products import stack_products
from prototrt.surgery.passes.stack_scans import stack_scans
from prototrt.surgery.passes.stand_rows_up import stand_rows_up
from prototrt.surgery.passes.suit_opencv import suit_opencv
from prototrt.surgery.passes.suit_openvino import suit_openvino
from prototrt.surgery.passes.turn_scans import turn_scans
from prototrt.surgery.passes.unroll_scans import inline_single_steps, unroll_scans
from prototrt.surgery.passes.widen_products import widen_products
from prototrt.surgery.runner import Pass, PassList, inside_bodies, run

CANONICAL = PassList(
    "canonical",
    (
        turn_scans,
        inside_bodies(drop_identities),
        hoist_invariants,
        inside_bodies(fold_constants),
        share_products,
        drop_unused,
    ),
)
"""For every net: fold constants, and compute once what all steps share."""

TILES = {
    "broadcast": PassList("tiles as broadcasts", (inside_bodies(elide_tiles),)),
    "keep": PassList("tiles as they are"),
}

PRECISIONS: Mapping[Precision, PassList] = {
    "fp32": PassList("float32"),
    # Before Scans are unrolled: afterwards states cannot be recognized.
    "fp16": PassList("float16", (compute_in_half,)),
    "bf16": PassList("bfloat16", (compute_in_bfloat16,)),
}
"""What products compute in; ``quantization`` has the list for those of 8 bits."""

BEFORE_QUANTIZATION = PassList("before quantization", (fold_affines,))
"""For a net that is quantized: the values are those that scales are taken of."""

LAYOUTS: Mapping[LayoutName, PassList] = {
    "caffe": PassList("Caffe's layout"),
    # While there are Scans, which tell steps from streams. Moved inputs may tell sizes that another one was there for.
    "batch-first": PassList("batch first", (put_batch_first, drop_unused)),
}
"""The order of the axes of inputs, outputs and states."""

_LOOP = PassList("loop")
_STEP = PassList("step", (inline_single_steps, inside_bodies(fold_constants), drop_unused))
_UNROLL = PassList("unroll", (unroll_scans, inside_bodies(fold_constants), drop_unused))
FORMS: Mapping[Form, PassList] = {"auto": _STEP, "loop": _LOOP, "unroll": _UNROLL, "step": _STEP}
"""How Scans are written. ``"auto"`` leaves those of several steps as they are, ``"step"`` refuses them.

TensorRT writes out short loops itself: docs/decisions.md, 0028.
"""

SETTLED = {
    "caffe": PassList("Caffe's layout, for backends"),
    "batch-first": PassList("batch first, for backends", (sink_moves, drop_unused)),
}
"""The first passes for backends, by layout. They may drop blobs that nothing needs as they were."""

_FOR_TENSORRT = (
    fold_constant_outputs,
    # These prepare Scans, which become loops: docs/decisions.md, 0008.
    scale_products,
    sink_sums,
    stack_scans,
    inside_bodies(rejoin_rows),
    # These are for steps written out: docs/decisions.md, 0021.
    keep_unit_axes,
    join_products,
    join_columns,
    drop_unused,
    stack_products,
    inside_bodies(merge_reshapes),
    widen_products,
    stand_rows_up,
    drop_unused,
)

LOWERINGS = {
    "tensorrt": PassList("TensorRT", (fold_affines, *_FOR_TENSORRT)),
    "tensorrt-batch-norm": PassList("TensorRT with each BatchNorm", _FOR_TENSORRT),
    "onnx": PassList("ONNX"),
    "onnx-lstm": PassList("ONNX with its LSTM", (fuse_lstms, drop_unused)),
    # The operator for a whole LSTM, and steps for all other Scans: neither program reads a Scan as it is meant.
    "onnx-opencv": PassList(
        "OpenCV",
        (
            fuse_forward_lstms,
            unroll_scans,
            inside_bodies(fold_constants),
            fold_constant_windows,
            drop_unused,
            suit_opencv,
        ),
    ),
    "onnx-openvino": PassList(
        "OpenVINO",
        (fuse_forward_lstms, unroll_scans, suit_openvino, inside_bodies(fold_constants), drop_unused),
    ),
    "reference": PassList("the reference evaluator"),
    "torch": PassList("PyTorch", (fuse_whole_cells, merge_reshapes, drop_unused)),
}
"""The last passes for each backend, just before it reads the rewritten graph."""

_PRODUCTS = {"fp16": "that float16 can compute", "bf16": "that bfloat16 can compute"}
"""The products that a precision is for; ``fp32`` is for none."""


def all_passes() -> Mapping[str, Pass]:
    """Every pass of every list, by name. ``quantization`` has another, which depends on the options."""
    lists = (
        CANONICAL,
        *TILES.values(),
        BEFORE_QUANTIZATION,
        *PRECISIONS.values(),
        *LAYOUTS.values(),
        *FORMS.values(),
        *SETTLED.values(),
        *LOWERINGS.values(),
    )
    return {change.__name__: change for each in lists for change in each.passes}


def pass_names() -> list[str]:
    """The names of all passes, those that depend on options among them."""
    return [*all_passes(), quantization(RewriteOptions()).passes[0].__name__]


def lowered(graph: Graph, backend: str) -> Graph:
    """The graph that a backend of ``LOWERINGS`` reads."""
    own, settled = LOWERINGS[backend], SETTLED[graph.layout.name]
    if backend == "reference":
        return run(graph, [own])
    # An LSTM is recognized among values that are as Caffe has them.
    fuses = {fuse_lstms, fuse_forward_lstms, fuse_whole_cells} & {*own.passes}
    return run(graph, [own, settled] if fuses else [settled, own])


def quantization(options: RewriteOptions) -> PassList:
    """The passes that quantize a graph, with 16 bits around."""
    from prototrt.surgery.passes.quantize_products import quantize_products  # few nets are quantized

    @functools.wraps(quantize_products)
    def quantize(graph: Graph) -> Graph:
        return quantize_products(graph, _ranges(graph, options), options)

    around = compute_in_bfloat16 if options.precision.endswith("bf16") else compute_in_half
    return PassList("8 bits", (quantize, drop_unused, around))


def _ranges(graph: Graph, options: RewriteOptions) -> Mapping[str, float]:
    """The ranges that are given. A net without weights is not computed: its picture needs no numbers."""
    from prototrt.surgery.passes.quantization_placement import quantized_values

    if options.ranges is not None:
        _refuse_useless_ranges(options.ranges)
        return options.ranges
    if not options.require_weights:
        return dict.fromkeys(quantized_values(graph, options), 1.0)
    raise OptionsError(
        Worded("{} needs the ranges of the values of the net", Option("precision", options.precision)),
        fix=Worded(
            "measure them with `{}`, and give {}", Command("calibrate"), Option("scales", "scales.json")
        ),
    )


def _refuse_useless_ranges(ranges: Mapping[str, float]) -> None:
    for name, largest in ranges.items():
        if not 0 < largest < math.inf:
            raise OptionsError(
                f'the range of "{name}" is {largest:g}, expected a number above 0',
                fix="leave it out, and its products stay float16",
            )


@takes_options(RewriteOptions)
def quantizable(model: Model, options: RewriteOptions) -> Graph:
    """The float32 graph that quantization starts from, with Scans whatever ``sequence`` says: ranges are of its values.

    Raises ``ConversionError``.
    """
    tiles = TILES["broadcast" if options.tile == "broadcast" else "keep"]
    return run(expand(model, options=options).graph, [CANONICAL, tiles, BEFORE_QUANTIZATION])


def quantizable_values(graph: Graph) -> list[str]:
    """The names of the values of a quantizable graph whose ranges some conversion of its net needs."""
    from prototrt.surgery.passes.quantization_placement import quantized_values

    return quantized_values(graph, RewriteOptions(quantize_all=True))


def _refuse_unknown_layers(model: Model, options: RewriteOptions) -> None:
    """Raise ``OptionsError`` where a layer to keep in float is not in the net."""
    layers = [layer.name for layer in model.layers]
    for name in options.keep_float:
        if name not in layers:
            raise OptionsError(
                Worded('{} names "{}", which is not a layer of the net', Option("keep_float"), name),
                fix=f"use {choices(name, layers)}",
            )


def make_canonical(graph: Graph, options: RewriteOptions, sound: set[Hashable] | None = None) -> Graph:
    """The graph of a net after the passes for every net, for the pieces of a stream if the options say so."""
    tiles = TILES["broadcast" if options.tile == "broadcast" else "keep"]
    graph = run(graph, [CANONICAL, tiles], sound)
    if options.stream is None:
        return graph
    from prototrt.surgery.passes.stream_in_pieces import stream_in_pieces  # few nets are for streams

    return stream_in_pieces(graph, options.stream)


@takes_options(RewriteOptions)
@without_collector()
def rewrite(model: Model, options: RewriteOptions) -> Graph:
    """Rewrite a net as a graph of primitives. Raises ``ConversionError``; a doubt is a ``ConversionWarning``."""
    refuse_other("rewrite", model, Model)
    return rewrite_expansion(model, expand(model, options=options), options)


def rewrite_expansion(model: Model, expansion: Expansion, options: RewriteOptions) -> Graph:
    """``rewrite`` for a net that was expanded already, with these options."""
    if options.keep_float:
        _refuse_unknown_layers(model, options)
    sound: set[Hashable] = set()
    graph = make_canonical(expansion.graph, options, sound)
    if options.is_quantized and (options.scales or options.calibration_cache):
        from prototrt.surgery.scales.sources import scales_of_options

        calibrated = scales_of_options(model, options.scales, options.calibration_cache, names_in(graph))
        kept = () if options.quantize_all else calibrated.kept.get(options.precision.partition(",")[0], ())
        stay = f"{calibrated.file}: {listed(kept)} {'stay' if len(kept) > 1 else 'stays'} in 16 bits"
        graph = replace(graph, warnings=(*graph.warnings, *calibrated.warnings, *([stay] if kept else [])))
        options = replace(options, ranges=calibrated.ranges, keep_float=(*options.keep_float, *kept))
    quantized = options.is_quantized
    lists = [BEFORE_QUANTIZATION, quantization(options)] if quantized else [PRECISIONS[options.precision]]
    graph = run(graph, lists, sound)
    products = "that is quantized" if quantized else _PRODUCTS.get(options.precision)
    if products and precision_of(graph) != options.precision:
        warning = f"{model.file}: {options.precision} has no effect: the net has no product {products}"
        graph = replace(graph, warnings=(*graph.warnings, warning))
    graph = _warn_of_mixed_steps(graph, model.file)
    graph = lay_out(graph, options.layout, model.file, sound)
    if options.sequence != "auto":
        refuse_impossible_form(graph, options.sequence, options.force)
    is_for_operators = options.for_operators and options.sequence != "unroll"
    graph = run(graph, [_LOOP if is_for_operators else FORMS[options.sequence]], sound)
    graph = _without_lost_sizes(graph, expansion.graph.inputs, model.file)
    tell(graph.warnings, but=model.warnings)
    return graph


def _without_lost_sizes(graph: Graph, before: Iterable[Value], file: str) -> Graph:
    """The graph without the sizes that only inputs had which it lost, and with a warning of each of them."""
    kept = {symbol for value in graph.inputs for dim in value.shape for symbol in symbols_of(dim)}
    lost: dict[str, list[str]] = {}
    for value in before:
        for size in {symbol for dim in value.shape for symbol in symbols_of(dim)} - kept:
            lost.setdefault(size, []).append(f'"{value.name}"')
    if not lost:
        return graph
    warnings = [
        f"{file}: {size} does not vary: only {listed(names)} had it, which no output needs"
        for size, names in sorted(lost.items())
    ]
    symbols = {name: span for name, span in graph.symbols.items() if name not in lost}
    return replace(graph, symbols=symbols, warnings=(*graph.warnings, *warnings))


def _warn_of_mixed_steps(graph: Graph, file: str) -> Graph:
    """The graph; with a warning if it continues sequences over calls, but layers mix steps without a state."""
    layers = layers_that_mix_steps(graph) if graph.recurrences and graph.stream is None else []
    if not layers:
        return graph
    from prototrt.surgery.passes.stream_in_pieces import shortest_piece  # few nets need it

    whole = Together([Option("cont", "drop"), Option("state", "zero")])
    way_out = Worded("give each call a whole sequence, with {}", whole)
    if (piece := shortest_piece(graph)) is not None:
        way_out = Worded("{}, or a piece of a stream, with {}", way_out, Option("stream", piece))
    warning = Worded(
        "{}: {} {} the steps of a sequence: several calls have other results than one call; {}",
        file,
        listed([f'"{layer}"' for layer in layers]),
        "mixes" if len(layers) == 1 else "mix",
        way_out,
    )
    return replace(graph, warnings=(*graph.warnings, warning))


def lay_out(graph: Graph, layout: LayoutName, file: str, sound: set[Hashable] | None = None) -> Graph:
    """A graph of Caffe's layout, with inputs, outputs and states in this layout. It knows which axes are N and T."""
    original = replace(graph, layout=Layout(layout, {**caffe_layout(graph), **graph.layout.bindings}))
    moved = run(original, [LAYOUTS[layout]], sound)
    if layout == "caffe" or (warning := _without_batch(moved)) is None:
        return moved
    return replace(moved, warnings=(*moved.warnings, f"{file}: {warning}"))


def with_columns(graph: Graph, names: Collection[str]) -> Graph:
    """A graph with streams in front, whose inputs of these names are (N, 1)."""
    return put_in_columns(graph, names)


def _without_batch(graph: Graph) -> str | None:
    """A warning about inputs and outputs of a batch-first graph that do not begin with N."""
    bindings = [value.name for value in (*graph.inputs, *graph.outputs) if value.shape]
    others = [name for name in bindings if STREAMS not in graph.layout.bindings[name].names]
    if others and any(isinstance(node.op, Scan) for node in graph.nodes):
        named = listed([f'"{name}"' for name in others])
        return f"batch-first leaves {named} in Caffe's layout: which axis is the batch N is not known"
    if others == bindings:
        return "batch-first has no effect: the net has no recurrent layer"
    return None
