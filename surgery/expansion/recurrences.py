"""Recurrences that no layer makes: an output of the net whose values an input of the next call holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import ConversionError, Origin, ShapeError, raise_all
from prototrt.caffe_proto.common.naming import Names
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.text.marks import MarkedRecurrence
from prototrt.surgery.building.builder import Builder, names_in
from prototrt.surgery.expansion.needed_layers import needed_layers
from prototrt.surgery.ir import Array, Graph, Node, Recurrence, Value, computable, element_count
from prototrt.surgery.ir.shapes import sizes
from prototrt.surgery.ops import Identity
from prototrt.surgery.options import RewriteOptions


def with_recurrences(graph: Graph, model: Model, options: RewriteOptions, used: set[str]) -> Graph:
    """The graph with the recurrences of the option, and with those that the file marks.

    Before: ``graph(h_prev, x)``, ``return h``
    After:  ``graph(h_prev, x)``, ``h_prev_next = Identity(h)``, ``return h, h_prev_next``,
            ``recurrence h_prev_next -> h_prev``
    An output that the option names stays an output, unless the user names others. One that the file marks is state
    alone, unless it is exposed, and a caller may feed it back. With a state that is zero or given, the input is a
    constant instead. ``used`` learns the names of states that were asked for.
    Raises ``ConversionError`` with all problems.
    """
    own, file, asked = options.recurrences or {}, model.file, options.outputs
    raise_all([*_problems(graph, own, file)])
    outputs, inputs = (
        {value.name: value for value in values} for values in (_visible_outputs(graph), graph.inputs)
    )
    candidates = [
        (pair, outputs[pair.output], inputs[pair.input])
        for pair in model.recurrences
        if pair.output in outputs and inputs.get(pair.input) not in (None, *graph.state_inputs)
    ]
    pairs = [
        _Pair(output, fed, stays=output.name in asked if asked is not None else output.name in own)
        for pair, output, fed in candidates
        if not pair.exposed
    ]
    exposed = [Recurrence(fed, output, exposed=True) for pair, output, fed in candidates if pair.exposed]
    graph = replace(graph, recurrences=(*graph.recurrences, *exposed))
    used.update(pair.input.name for pair in pairs)
    if not pairs:
        return graph
    # The user's choice replaces what the net only offers.
    fed = [pair.input for pair in pairs]
    graph = replace(graph, recurrences=tuple(pair for pair in graph.recurrences if pair.input not in fed))
    return (
        _carry(graph, pairs) if options.state == "bind" else _with_initial_states(graph, pairs, options, file)
    )


def with_recurrences_of_user(model: Model, options: RewriteOptions) -> Model:
    """The net with the user's recurrences beside those of its file. For one input, the user's counts."""
    own = [MarkedRecurrence(output, fed) for output, fed in (options.recurrences or {}).items()]
    fed = {pair.input for pair in own}
    marked = (pair for pair in model.recurrences if pair.input not in fed)
    return replace(model, recurrences=(*own, *marked)) if own else model


def outputs_and_states(model: Model, outputs: Sequence[str] | None) -> Sequence[str] | None:
    """The outputs that the user names, and the ends of states that they need: those are outputs in any case."""
    while outputs is not None and {*outputs} <= {*model.blobs}:
        read = {
            top
            for layer in needed_layers(model, [model.blobs[name] for name in outputs])
            for top in layer.tops
        }
        further = [
            pair.output
            for pair in model.recurrences
            if pair.input in read and pair.output in model.blobs and pair.output not in outputs
        ]
        if not further:
            break
        outputs = [*outputs, *further]
    return outputs


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """What feeds what; ``stays``: the output is also one for the caller."""

    output: Value
    input: Value
    stays: bool


def _visible_outputs(graph: Graph) -> list[Value]:
    """The outputs that are not state."""
    states = {pair.output for pair in graph.recurrences if not pair.exposed}
    return [value for value in graph.outputs if value not in states]


def _carry(graph: Graph, pairs: Sequence[_Pair]) -> Graph:
    """The graph with states to feed back."""
    names = Names(names_in(graph))
    copies: list[Node] = []
    states: list[Recurrence] = []
    for pair in pairs:
        last = pair.output
        if pair.stays:
            last = replace(pair.output, name=names.free(f"{pair.input.name}_next"), is_surgical=True)
            origin = _origin_of(graph, pair.output)
            copies.append(
                Node(
                    names.free(f"__{last.name}"),
                    Identity(),
                    (pair.output,),
                    (last,),
                    origin,
                    is_surgical=True,
                )
            )
        states.append(Recurrence(pair.input, last))
    moved = [pair.output for pair in states if pair.output in graph.outputs]
    carried = [pair for pair in graph.recurrences if not pair.exposed]
    return replace(
        graph,
        nodes=(*graph.nodes, *copies),
        outputs=(
            *(value for value in graph.outputs if value not in moved),
            *(pair.output for pair in states),
        ),
        recurrences=(*carried, *states, *(pair for pair in graph.recurrences if pair.exposed)),
    )


def _origin_of(graph: Graph, value: Value) -> Origin:
    return next(
        (node.origin for node in graph.nodes if value in node.outputs), Origin("", 0, value.name, "Input")
    )


def _with_initial_states(graph: Graph, pairs: Sequence[_Pair], options: RewriteOptions, file: str) -> Graph:
    """The graph whose states begin with the same numbers in each call."""
    build = Builder(names_in(graph))
    initial: dict[Value, Value] = {}
    for pair in pairs:
        build.origin = _origin_of(graph, pair.output)
        array = build.constant(_array(pair.input, options.state_arrays, file), "initial")
        sizes = tuple(computable(dim, "a size of the state") for dim in pair.input.shape)
        initial[pair.input] = build.broadcast(array, sizes, "every_stream")
    gone = {pair.output for pair in pairs if not pair.stays}
    return replace(
        graph.with_nodes([*build.nodes, *(node.with_replacements(initial) for node in graph.nodes)], initial),
        inputs=tuple(value for value in graph.inputs if value not in initial),
        outputs=tuple(initial.get(value, value) for value in graph.outputs if value not in gone),
    )


def _array(state: Value, arrays: Mapping[str, Array], file: str) -> Array:
    """The initial state, with 1 element along the axes that vary; zero where none is given."""
    shape = [dim if isinstance(dim, int) else 1 for dim in state.shape]
    if not arrays:
        return np.zeros(shape, state.dtype.numpy)
    if state.name not in arrays:
        raise ShapeError(
            f'no initial state "{state.name}" is given',
            where=file,
            because=Worded("{} with arrays takes every state from them", Option("state")),
            fix=f"add an array of shape {tuple(shape)} under this name",
        )
    array = np.asarray(arrays[state.name])
    if list(array.shape) != shape:
        raise ShapeError(
            f'the initial state "{state.name}" has the shape {array.shape}, expected {tuple(shape)}',
            where=file,
            fix="save the array with these sizes, of which those that vary are 1",
        )
    return array.astype(state.dtype.numpy)


def _problems(graph: Graph, own: Mapping[str, str], file: str) -> Iterable[ConversionError]:
    outputs = {value.name: value for value in _visible_outputs(graph)}
    inputs = {value.name: value for value in graph.inputs}
    writers: dict[str, str] = {}
    for output, fed in own.items():
        option = Option("recurrences", {output: fed})
        if output not in outputs:
            fix = f"name one of the outputs: {choices(output, outputs)}"
            yield ShapeError(Worded('{}: "{}" is not an output', option, output), where=file, fix=fix)
        if fed not in inputs:
            fix = f"name one of the inputs: {choices(fed, inputs)}"
            yield ShapeError(Worded('{}: "{}" is not an input', option, fed), where=file, fix=fix)
        if writers.setdefault(fed, output) != output:
            yield ShapeError(
                Worded('{}: "{}" is fed by "{}" already', option, fed, writers[fed]),
                where=file,
                fix=f'leave out one of "{writers[fed]}" and "{output}"',
            )
        if output in outputs and fed in inputs and (fault := _fault(outputs[output], inputs[fed])):
            yield ShapeError(Worded("{}: {}", option, fault[0]), where=file, fix=fault[1])


def _fault(output: Value, fed: Value) -> tuple[str, Worded | str] | None:
    """Why the values of an output cannot be those of an input, and what to do."""
    if output.dtype is not fed.dtype:
        types = f'"{output.name}" is {output.dtype.value}, expected {fed.dtype.value}, as "{fed.name}" is'
        return types, f"feed an output of type {fed.dtype.value} back"
    if output.shape == fed.shape:
        return None
    problem = f'"{output.name}" is {sizes(output.shape)}, expected {sizes(fed.shape)}, as "{fed.name}" is'
    numbers = all(isinstance(dim, int) for dim in (*output.shape, *fed.shape))
    if numbers and element_count(output.shape) == element_count(fed.shape):
        return problem, f"add a Reshape to {sizes(fed.shape)} after it, and feed its top back"
    return problem, Worded(
        "give the input the sizes of the output, as in {}", Option("shapes", {fed.name: output.shape})
    )


_BEFORE = re.compile(
    r"(?i)^(?:(?P<front>prev|last|old|init)_?)?(?P<stem>.+?)(?:_?(?:prev|tm1|t_1|t-1|0|in|init|old|last))?$"
)
_AFTER = re.compile(r"(?i)^(?:(?:next|new|cur)_?)?(?P<stem>.+?)(?:_?(?:next|t|T|new|out|cur|final))?$")
"""What people call a state at the end of a step, and at its beginning."""


def likely_recurrences(graph: Graph) -> dict[str, str]:
    """Outputs and inputs that names and shapes suggest as pairs: ``h`` and ``h_prev``, ``c_t`` and ``c_tm1``.

    Only what fits one partner alone; nothing that the graph feeds back already.
    """
    paired = {value for pair in graph.recurrences for value in (pair.input, pair.output)}
    outputs = [value for value in graph.outputs if value not in paired]
    likely = {
        fed.name: [
            output.name
            for output in outputs
            if _fault(output, fed) is None
            and fed.name != output.name
            and _stem(_BEFORE, fed) == _stem(_AFTER, output)
        ]
        for fed in graph.inputs
        if fed not in paired
    }
    unique = [names for names in likely.values() if len(names) == 1]
    return {names[0]: fed for fed, names in likely.items() if len(names) == 1 and unique.count(names) == 1}


def _stem(pattern: re.Pattern[str], value: Value) -> str:
    match = pattern.match(value.name)
    return match["stem"].lower() if match else value.name.lower()
