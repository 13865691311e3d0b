"""A net as a server offers it: one that takes a batch of sequences, a step or more of each in one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import ConversionError, NetError, OptionsError
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.common.wording import Option, Together, Worded
from prototrt.caffe_proto.layer_types import layer_type
from prototrt.converter.options import Platform, TritonOptions
from prototrt.surgery.ir import (
    Array,
    DataSize,
    Dim,
    Graph,
    OpenSize,
    Shape,
    Value,
    computable,
)
from prototrt.surgery.ir.layout import STREAMS, Factors
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite, with_columns

USUAL_BATCH = 8
"""The largest batch, unless the user says another one."""
_OPEN_RESHAPE = "a Reshape to (T, N, 64) with one step has shape { dim: 1 dim: -1 dim: 64 }"


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """A graph and how a server feeds it.

    ``batch`` is the largest number of streams in one call, 0 if requests are not batched. If they are, the
    first axis of every input, output and state counts them; if that axis is 1, streams are computed one by one.
    ``controls`` are the inputs that mark the start of a sequence (cont). ``initial`` is the state that it starts with
    where that is not zero, (1, H). ``unbatched`` says why a net that need not take a batch takes none.
    """

    graph: Graph
    batch: int
    controls: tuple[Value, ...] = ()
    initial: Mapping[str, Array] = field(default_factory=dict)
    unbatched: str | None = None

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What clients send."""
        states = {pair.input for pair in self.graph.recurrences}
        return tuple(
            value for value in self.graph.inputs if value not in states and value not in self.controls
        )

    @property
    def outputs(self) -> tuple[Value, ...]:
        """What clients get."""
        hidden = {pair.output for pair in self.graph.recurrences if not pair.exposed}
        return tuple(value for value in self.graph.outputs if value not in hidden)

    @property
    def bindings(self) -> tuple[Value, ...]:
        """All inputs and outputs of the graph."""
        return (*self.graph.inputs, *self.graph.outputs)

    @property
    def is_stateful(self) -> bool:
        """Whether requests of a client belong to a sequence."""
        return bool(self.graph.recurrences)

    def sizes(self, value: Value) -> Shape:
        """The shape of an input or output in one request, without the axis of the batch."""
        return value.shape[1:] if self.batch else value.shape

    def of_request(self, value: Value) -> Shape:
        """The shape of an input or output as one client sends or receives it."""
        return (1, *value.shape[1:]) if self.batch else value.shape


def serve(model: Model, rewriting: RewriteOptions, asked: TritonOptions) -> ServedGraph:
    """Rewrite a net for a server. Raises ``ConversionError`` for a net that the platform cannot serve."""
    options = rewriting
    if rewriting.state_arrays:  # cont would clear them in the first step of a sequence
        options = replace(rewriting, state="bind", cont="drop", implied=("cont",))
    fixed = rewrite(model, options=replace(options, cont="keep"))
    result = _serve_batches(model, options, asked, fixed)
    names = _control_names(model, options, result.graph)
    # A server marks the start of a sequence in one number, (N, 1).
    result = replace(result, graph=with_columns(result.graph, names))
    controls = tuple(value for value in result.graph.inputs if value.name in names)
    served = replace(result, controls=controls, initial=_initial(rewriting.state_arrays, fixed, result))
    _refuse_platform(served, asked.platform)
    return served


def _serve_batches(model: Model, options: RewriteOptions, asked: TritonOptions, fixed: Graph) -> ServedGraph:
    """The net with an open batch; or, if that is impossible and nobody insists, with the batch that its file states."""
    batch = asked.max_batch_size or USUAL_BATCH
    axes = [factors for each in fixed.layout.bindings.values() for factors in each.axes]
    first = replace(options, layout="batch-first" if any(map(_counts_streams, axes)) else "caffe")
    # The shapes of a net for a stream are those of one long call.
    if options.stream is not None:
        fixed = rewrite(model, options=replace(options, cont="keep", stream=None))
    try:
        graph = rewrite(model, options=_open_batch(first, fixed, batch))
        _refuse_other_axes(graph, fixed)
    except ConversionError as error:
        if fixed.recurrences:
            graph = rewrite(model, options=first)
            return _one_by_one(graph, batch, asked.platform, error, _open_reshapes(model, fixed))
        if (asked.max_batch_size or 1) > 1:
            raise _no_batch(error, Worded("use {}", Option("max_batch_size", 1))) from error
        return ServedGraph(rewrite(model, options=first), 0, unbatched=str(error).splitlines()[0])
    return ServedGraph(graph, batch)


def _open_batch(options: RewriteOptions, fixed: Graph, batch: int) -> RewriteOptions:
    """Options that open the batch of every input, as a size with a name. Raises ``NetError`` if an input has none."""
    states = {pair.input for pair in fixed.recurrences if not pair.exposed}
    bindings = {
        value.name: list(zip(value.shape, _factors(fixed, value), strict=True))
        for value in fixed.inputs
        if value not in states
    }
    batches = [
        size
        for axes in bindings.values()
        for dim, factors in axes
        for size in ([dim] if factors is None else [each.size for each in factors if each.name == STREAMS])
    ]
    named = [size for size in batches if isinstance(size, OpenSize) and size in size.symbols]
    sizes: dict[str, tuple[int, ...]] = {
        name: (span.min, span.opt, span.max) for name, span in fixed.symbols.items()
    }
    name = str(named[0]) if named else next(each for each in ("N", "batch", "requests") if each not in sizes)
    usual = batch
    if named and options.sizes:  # a Reshape may state its usual size
        usual = min(named[0].range.opt, batch)
    # One more than a batch of 1: servers want an axis that is open.
    sizes[name] = (1, usual, max(batch, 2))
    shapes = {
        value: tuple(_named_axis(dim, factors, name) for dim, factors in axes)
        for value, axes in bindings.items()
    }
    return replace(options, shapes=shapes, sizes=sizes, min_shapes=None, opt_shapes=None, max_shapes=None)


def _named_axis(dim: Dim, factors: Factors | None, batch: str) -> int | str:
    if factors is None:
        return batch
    if not _counts_streams(factors):
        return computable(dim)
    return "*".join(batch if factor.name == STREAMS else f"({factor.size})" for factor in factors)


def _factors(fixed: Graph, value: Value) -> Sequence[Factors | None]:
    """What each axis counts; None for an axis that is the batch of a net without recurrences."""
    axes = fixed.layout.bindings[value.name].axes
    if any(_counts_streams(factors) for factors in axes):
        return axes
    if fixed.recurrences or not axes:
        raise NetError(f'input "{value.name}" has no axis that is known to be the batch')
    return (None, *axes[1:])


def _counts_streams(factors: Factors) -> bool:
    return any(factor.name == STREAMS for factor in factors)


def _refuse_other_axes(graph: Graph, fixed: Graph) -> None:
    batch = graph.inputs[0].shape[0] if graph.inputs and graph.inputs[0].shape else None
    for value in (*graph.inputs, *graph.outputs):
        if not value.shape or value.shape[0] != batch or not isinstance(batch, str):
            raise NetError(f'the first axis of "{value.name}" {_shape_text(value.shape)} is not the batch')


def _open_reshapes(model: Model, fixed: Graph) -> Worded:
    """How each call becomes one step of any number of streams, in a net whose Reshapes state steps and streams."""
    recurrent = [layer for layer in model.layers if layer_type(layer.type).states]
    read = {bottom for layer in recurrent for bottom in layer.bottoms[:2]}
    overrides = {
        f"{layer.name}.reshape_param.shape.dim": ",".join(map(str, (1, -1, *layer.param.shape.dim[2:])))
        for layer in model.layers
        if layer.type == "Reshape" and not read.isdisjoint(layer.tops) and len(layer.param.shape.dim) > 1
    }
    if not overrides:
        return Worded("let the batch vary in the prototxt: {}", _OPEN_RESHAPE)
    shapes = {
        value.name: (1, *value.shape[1:])
        for value in fixed.inputs
        if value not in fixed.state_inputs and value.shape[:1] != (1,) and len(value.shape) > 1
    }
    of_shapes = [Option("shapes", shapes)] if shapes else []
    return Worded("let the batch vary: {}", Together([Option("overrides", overrides), *of_shapes]))


def _one_by_one(
    graph: Graph, batch: int, platform: Platform, error: ConversionError, way: Worded
) -> ServedGraph:
    """A recurrent net that takes one stream: the Python backend calls it once for each sequence."""
    first = {value.name: value.shape[:1] for value in (*graph.inputs, *graph.outputs)}
    strange = [name for name, size in first.items() if size != (1,)]
    if platform == "python" and not strange:
        return ServedGraph(graph, batch)
    fix = way
    if not strange:
        alone = Option("platform", "python")
        fix = Worded("{}; or use {}, which computes sequences one by one", fix, alone)
    raise _no_batch(error, fix) from error


def _no_batch(error: ConversionError, fix: Worded) -> NetError:
    return NetError("the net cannot take a batch of requests", because=str(error).splitlines()[0], fix=fix)


def _control_names(model: Model, options: RewriteOptions, graph: Graph) -> set[str]:
    """The inputs that do nothing but mark the start of sequences: without cont, they are gone."""
    if options.cont == "drop" or not graph.recurrences:
        return set()
    dropped = rewrite(model, options=replace(options, cont="drop"))
    # cont that waits for a stream is a state, which is gone, too.
    inputs = {value.name for value in graph.inputs if value not in graph.state_inputs}
    return inputs - {value.name for value in dropped.inputs}


def _initial(arrays: Mapping[str, Array], fixed: Graph, served: ServedGraph) -> dict[str, Array]:
    states = {pair.input.name: pair.input for pair in fixed.recurrences}
    if arrays and set(arrays) != set(states):
        raise OptionsError(
            Worded("{} has {}, expected {}", Option("state"), _quote_names(arrays), _quote_names(states)),
            fix="give the state of one sequence: an array for each of these names",
        )
    moved: dict[str, Any] = {
        pair.input.name: served.of_request(pair.input) for pair in served.graph.recurrences
    }
    result: dict[str, Array] = {}
    for name, array in arrays.items():
        value = states[name]
        factors = fixed.layout.bindings[name].axes
        shape = tuple(
            1 if _counts_streams(each) else dim for dim, each in zip(value.shape, factors, strict=True)
        )
        if array.shape != shape:
            raise OptionsError(
                Worded('{}: "{}" has the shape {}, expected {}', Option("state"), name, array.shape, shape),
                fix="give the state of one sequence",
            )
        result[name] = np.ascontiguousarray(array, value.dtype.numpy).reshape(moved[name])
    return result


def _refuse_platform(served: ServedGraph, platform: Platform) -> None:
    if platform == "python":
        _refuse_data_sizes(served)
        return
    for problem, reason in _beyond(served):
        raise NetError(
            f"{platform} cannot serve the net: {problem}",
            because=reason,
            fix=Worded(
                "use {}, or write the net with one step a call (T = 1) and one cont",
                Option("platform", "python"),
            ),
        )


def _refuse_data_sizes(served: ServedGraph) -> None:
    """Raise ``NetError`` for an output whose size depends on the data: a manifest cannot state it."""
    for value in served.outputs:
        if any(isinstance(dim, DataSize) for dim in value.shape):
            raise NetError(
                f'python cannot serve the net: the size of "{value.name}" {_shape_text(value.shape)}'
                " depends on the data",
                fix=Worded(
                    "use {}, or cut the net with {}",
                    Option("platform", "onnxruntime"),
                    Option("outputs", ["BLOB"]),
                ),
            )


def _beyond(served: ServedGraph) -> Iterator[tuple[str, str]]:
    if len(served.controls) > 1:
        names = _quote_names(value.name for value in served.controls)
        yield f"sequences start at several inputs: {names}", "Triton marks the start in one input"
    for value in served.controls:
        if served.sizes(value) != (1,):
            yield (
                f'"{value.name}" has the shape {_shape_text(value.shape)}',
                "Triton gives one number for each request, not one for each of its steps",
            )


def _quote_names(names: Iterator[str] | Mapping[str, object] | Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _shape_text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"
