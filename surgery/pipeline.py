"""From a net to the graph that backends lower: expansion, then the list of passes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.errors import ConversionError, NetError, raise_all
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import Array, Dim, Graph, Node
from prototrt.surgery.ir.profiles import Profile
from prototrt.surgery.ops import Scan
from prototrt.surgery.passes.compute_in_half import compute_in_half
from prototrt.surgery.passes.drop_identities import drop_identities
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.passes.elide_tiles import elide_tiles
from prototrt.surgery.passes.fold_constants import fold_constants
from prototrt.surgery.passes.hoist_invariants import hoist_invariants
from prototrt.surgery.passes.merge_reshapes import merge_reshapes
from prototrt.surgery.passes.precision import PRECISIONS, precision_of
from prototrt.surgery.passes.rejoin_rows import rejoin_rows
from prototrt.surgery.passes.scale_products import scale_products
from prototrt.surgery.passes.share_products import share_products
from prototrt.surgery.passes.sink_sums import sink_sums
from prototrt.surgery.passes.stack_scans import stack_scans
from prototrt.surgery.passes.turn_scans import turn_scans
from prototrt.surgery.passes.unroll_scans import unroll_scans

log = logging.getLogger(__name__)

Pass: TypeAlias = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    turn_scans,
    drop_identities,
    hoist_invariants,
    fold_constants,
    elide_tiles,
    share_products,
    drop_unused,
)

LOOP_PASSES: tuple[Pass, ...] = (
    scale_products,
    sink_sums,
    stack_scans,
    rejoin_rows,
    merge_reshapes,
    drop_unused,
)
"""What makes loops small and fast where a Scan becomes one, as in TensorRT."""

TILES = ("broadcast", "keep")

SEQUENCES = ("auto", "loop", "unroll", "step")
_NO_PRODUCT = "fp16 changes nothing: no layer of the net is a product that float16 can compute"
UNROLL_AT_MOST = 64
"""Steps: TensorRT's time to build an unrolled net grows faster than their number."""


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
    if sequence not in SEQUENCES:
        raise ValueError(f"sequence is {sequence!r}, expected one of {', '.join(SEQUENCES)}")
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
    passes = [change for change in PASSES if tile == "broadcast" or change is not elide_tiles]
    graph = run_passes(expansion.graph, passes)
    if precision == "fp16":
        # Before Scans are written out: what is a state is seen here alone.
        graph = run_passes(graph, [compute_in_half])
        if precision_of(graph) == "fp32":
            graph = replace(graph, warnings=(*graph.warnings, f"{model.file}: {_NO_PRODUCT}"))
    return lower_scans(graph, sequence, force)


def _sizes(shapes: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape in (shapes or {}).items()}


def run_passes(graph: Graph, passes: Sequence[Pass]) -> Graph:
    """Run passes one after the other; the graph is verified after each."""
    graph.verify()
    for change in passes:
        before = graph
        graph = change(graph)
        if graph is not before:
            graph.verify()
            log.debug("%s: %d nodes, before %d", change.__name__, len(graph.nodes), len(before.nodes))
    return graph


def lower_scans(graph: Graph, sequence: str, force: bool = False) -> Graph:
    """Choose how the Scans of a graph run: as loops, written out, or as a single step."""
    scans = [node for node in graph.nodes if isinstance(node.op, Scan)]
    steps = {node: _steps(node) for node in scans}
    if sequence == "step":
        raise_all([_not_one_step(node, steps[node]) for node in scans if steps[node] != 1])
    if sequence == "unroll":
        copies = {node: _copies(node) for node in scans}
        raise_all([_unknown(node, count) for node, count in copies.items() if isinstance(count, str)])
        if not force:
            raise_all([_too_many(node, count) for node, count in copies.items() if _exceeds(count)])
    chosen = {
        node for node in scans if sequence in ("unroll", "step") or (sequence == "auto" and steps[node] == 1)
    }
    if not chosen:
        return graph
    return run_passes(graph, [lambda before: unroll_scans(before, chosen), fold_constants, drop_unused])


def _steps(node: Node) -> Dim:
    assert isinstance(node.op, Scan)
    return node.op.steps([value.shape for value in node.inputs])


def _copies(node: Node) -> int | str:
    """How often the innermost steps of a Scan run."""
    assert isinstance(node.op, Scan)
    steps = _steps(node)
    inner = [_copies(each) for each in node.op.body.nodes if isinstance(each.op, Scan)]
    unknown = next((count for count in (steps, *inner) if isinstance(count, str)), None)
    return unknown or int(steps) * max([1, *map(int, inner)])


def _exceeds(steps: int | str) -> bool:
    return isinstance(steps, int) and steps > UNROLL_AT_MOST


def _unknown(node: Node, steps: str) -> ConversionError:
    return NetError(
        Worded(
            "runs {} steps, which are known only when the engine runs, but {} writes them out",
            steps,
            Option("sequence", "unroll"),
        ),
        origin=node.origin,
        fix=Worded(
            "use {}, or give {} one size in {} and {}",
            Option("sequence", "loop"),
            steps,
            Option("min_shapes"),
            Option("max_shapes"),
        ),
    )


def _not_one_step(node: Node, steps: int | str) -> ConversionError:
    return NetError(
        Worded("runs {} steps, but {} is for nets of one step", steps, Option("sequence", "step")),
        origin=node.origin,
        fix=Worded(
            "give the inputs shapes with T = 1 ({}), or use {}", Option("shapes"), Option("sequence", "loop")
        ),
    )


def _too_many(node: Node, steps: int | str) -> ConversionError:
    return NetError(
        Worded(
            "runs {} steps, expected at most {} with {}", steps, UNROLL_AT_MOST, Option("sequence", "unroll")
        ),
        origin=node.origin,
        because="TensorRT's time to build an unrolled net grows faster than the number of its steps",
        fix=Worded("use {}, or {}", Option("sequence", "loop"), Option("force", True)),
    )
