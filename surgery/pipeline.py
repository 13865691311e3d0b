"""From a net to the graph that a backend lowers: expansion, then lists of passes. All lists stand here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prototrt.caffe_proto import Model
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.forms import refuse_impossible_form
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ir.profiles import Profile
from prototrt.surgery.passes.compute_in_half import compute_in_half
from prototrt.surgery.passes.drop_identities import drop_identities
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.passes.elide_tiles import elide_tiles
from prototrt.surgery.passes.fold_constants import fold_constants
from prototrt.surgery.passes.fuse_lstms import fuse_lstms
from prototrt.surgery.passes.hoist_invariants import hoist_invariants
from prototrt.surgery.passes.inline_single_steps import inline_single_steps
from prototrt.surgery.passes.merge_reshapes import merge_reshapes
from prototrt.surgery.passes.precision import precision_of
from prototrt.surgery.passes.rejoin_rows import rejoin_rows
from prototrt.surgery.passes.scale_products import scale_products
from prototrt.surgery.passes.share_products import share_products
from prototrt.surgery.passes.sink_sums import sink_sums
from prototrt.surgery.passes.stack_scans import stack_scans
from prototrt.surgery.passes.turn_scans import turn_scans
from prototrt.surgery.passes.unroll_scans import unroll_scans
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
"""For every net: what is known is computed now, what every step shares is computed once."""

TILES = {
    "broadcast": PassList("tiles as broadcasts", (inside_bodies(elide_tiles),)),
    "keep": PassList("tiles as they are"),
}

PRECISIONS = {
    "fp32": PassList("float32"),
    # Before Scans are written out: what is a state is seen here alone.
    "fp16": PassList("float16", (compute_in_half,)),
}

_LOOP = PassList("loop")
_STEP = PassList("step", (inline_single_steps, inside_bodies(fold_constants), drop_unused))
_UNROLL = PassList("unroll", (unroll_scans, inside_bodies(fold_constants), drop_unused))
FORMS = {"auto": _STEP, "loop": _LOOP, "unroll": _UNROLL, "step": _STEP}
"""How Scans are written. ``"auto"`` leaves those of several steps as they are, ``"step"`` refuses them."""

LOWERINGS = {
    # A Scan becomes a loop: see docs/decisions/0008-loops-are-prepared-late.md.
    "tensorrt": PassList(
        "TensorRT",
        (
            scale_products,
            sink_sums,
            stack_scans,
            inside_bodies(rejoin_rows),
            inside_bodies(merge_reshapes),
            drop_unused,
        ),
    ),
    "onnx": PassList("ONNX"),
    "onnx-lstm": PassList("ONNX with its LSTM", (fuse_lstms, drop_unused)),
    "reference": PassList("the reference evaluator"),
}
"""What each backend asks for of the rewritten graph, just before it reads it."""

_NO_PRODUCT = "fp16 changes nothing: no layer of the net is a product that float16 can compute"


def all_passes() -> Mapping[str, Pass]:
    """Every pass of every list, by name."""
    lists = (CANONICAL, *TILES.values(), *PRECISIONS.values(), *FORMS.values(), *LOWERINGS.values())
    return {change.__name__: change for each in lists for change in each.passes}


def lowered(graph: Graph, backend: str) -> Graph:
    """The graph that a backend reads: ``"tensorrt"``, ``"onnx"``, ``"onnx-lstm"`` or ``"reference"``."""
    return run(graph, [LOWERINGS[backend]])


def rewrite(
    model: Model,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    min_shapes: Mapping[str, Sequence[int]] | None = None,
    opt_shapes: Mapping[str, Sequence[int]] | None = None,
    max_shapes: Mapping[str, Sequence[int]] | None = None,
    sequence: str = "auto",
    outputs: Sequence[str] | None = None,
    cont: str = "keep",
    state: str | Mapping[str, Array] = "bind",
    tile: str = "broadcast",
    precision: str = "fp32",
    force: bool = False,
    preprocess: bool = False,
    strict: bool = False,
    require_weights: bool = True,
) -> Graph:
    """Rewrite a net as a graph of primitives.

    ``shapes`` override those of the file, by input. ``min_shapes``, ``opt_shapes`` and
    ``max_shapes`` let sizes vary when an engine runs; what is missing in one of them is the
    shape of the file. ``sequence`` says how recurrences are
    written: ``"loop"``, ``"unroll"`` (at most 64 steps unless ``force``), ``"step"`` (one
    step: T must be 1), or ``"auto"``: step where T is 1, else loop. ``outputs`` are blobs at
    which the net is cut. ``cont`` ``"drop"`` takes every sequence as continuing: cont is 1
    everywhere and no input. ``state`` says where recurrent state comes from: ``"bind"`` (inputs
    and outputs, fed back by the caller), ``"zero"`` at every call, or arrays by the names of
    these inputs. ``tile`` ``"broadcast"`` leaves out every Tile whose reader broadcasts,
    ``"keep"`` none. ``precision`` ``"fp16"`` lets products compute in float16; inputs, outputs and
    state stay float32. ``preprocess`` makes mean and scale of the data layers the first nodes of
    the graph. ``strict`` refuses weights that are NaN or infinite. Without ``require_weights``
    a net without weights gets zeros.
    Raises ``ConversionError``.
    """
    if sequence not in FORMS:
        raise ValueError(f"sequence is {sequence!r}, expected one of {', '.join(FORMS)}")
    if cont not in ("keep", "drop"):
        raise ValueError(f"cont is {cont!r}, expected 'keep' or 'drop'")
    if state not in ("bind", "zero") and not isinstance(state, Mapping):
        raise ValueError(f"state is {state!r}, expected 'bind', 'zero' or arrays by name")
    if tile not in TILES:
        raise ValueError(f"tile is {tile!r}, expected one of {', '.join(TILES)}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}, expected one of {', '.join(PRECISIONS)}")
    profile = Profile(_sizes(min_shapes), _sizes(opt_shapes), _sizes(max_shapes))
    expansion = expand(
        model,
        shapes=shapes,
        profile=profile,
        outputs=outputs,
        cont=cont,
        state=state,
        preprocess=preprocess,
        strict=strict,
        require_weights=require_weights,
    )
    graph = run(expansion.graph, [CANONICAL, TILES[tile], PRECISIONS[precision]])
    if precision == "fp16" and precision_of(graph) == "fp32":
        graph = replace(graph, warnings=(*graph.warnings, f"{model.file}: {_NO_PRODUCT}"))
    refuse_impossible_form(graph, sequence, force)
    return run(graph, [FORMS[sequence]])


def _sizes(shapes: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape in (shapes or {}).items()}
