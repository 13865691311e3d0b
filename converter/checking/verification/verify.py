"""Computing the same net in several ways, and finding how far and where the results diverge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TypeAlias

from prototrt.caffe_proto.common.errors import NetError, Origin, ShapeError, UnreadableFileError
from prototrt.caffe_proto.common.wording import Option, Worded, listed, no_effect
from prototrt.caffe_proto.weights.npz import ArrayHeader
from prototrt.converter.checking.calibration.saturation import saturation_warnings
from prototrt.converter.checking.verification.comparison import (
    EXPECTED,
    REFERENCE,
    Comparison,
    Tolerance,
    difference_of,
    doubt_about,
    in_order_of,
    row_axis,
    tolerance_for,
    with_all_tops,
)
from prototrt.converter.checking.verification.seeded import seeded_feeds
from prototrt.converter.checking.verification.verification import Verification
from prototrt.converter.files.signatures.feeds import read_feeds, unread_keys
from prototrt.converter.files.signatures.signature import Signature, concrete
from prototrt.converter.options import ON_DEVICES, CompareOptions, VerifyOptions, Way
from prototrt.converter.running.data.calls import some_calls
from prototrt.converter.running.data.data import Call, Data, starts
from prototrt.converter.running.sessions.session import Session
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.options import LayoutName

Graphs: TypeAlias = tuple[Graph, Graph]
"""What the ways run, and what the reference evaluates."""
Arrays: TypeAlias = Mapping[str, Array]


def verify(
    graph: Graph,
    feeds: Sequence[Arrays],
    options: CompareOptions | None = None,
    *,
    expected: Sequence[Arrays] | None = None,
    truth: Graph | None = None,
    anew: Collection[int] = (),
) -> Verification:
    """Run the graph in each of the ways, call by call, and compare with the reference evaluator.

    ``feeds`` are the inputs of each call; each way carries its own state, and forgets it before the calls in ``anew``.
    ``expected`` are outputs from elsewhere, which the reference and each way are compared with as well. ``truth`` is
    the same graph in float32 and in Caffe's layout, for the reference to evaluate; without it, the reference evaluates
    the graph. All arrays are in the layout of ``truth``: those of another layout are moved to it.
    Raises ``NetError`` if nothing is compared.
    """
    options = options or CompareOptions()
    precision = precision_of(graph)
    tolerance = tolerance_for(precision, options.atol, options.rtol)
    graphs = (graph, truth or graph)
    calls = [*zip(feeds, (number in anew for number in range(len(feeds))), strict=True)]
    watched = _watch(graphs) if options.layers else graphs
    comparisons = _compare(watched, calls, options, expected, tolerance)
    if not comparisons:
        raise NetError(
            "there is nothing to compare", fix="give another way than reference, or expected outputs"
        )
    parts = _first_failures(comparisons)
    if not options.layers:  # outputs do not show where the error begins
        parts = _locate(parts, _watch(graphs), calls, options, tolerance)
    outputs = tuple(value.name for value in graph.outputs if value not in graph.state_outputs)
    warnings = _doubts(comparisons, outputs)
    return Verification(precision, tolerance, len(feeds), outputs, tuple(comparisons), tuple(parts), warnings)


def _doubts(comparisons: Sequence[Comparison], outputs: Collection[str]) -> tuple[str, ...]:
    doubts = {each.blob: each.doubt for each in comparisons if each.doubt and each.blob in outputs}
    return tuple(f'output "{blob}" {doubt}: agreement on it proves little' for blob, doubt in doubts.items())


def _locate(
    parts: Sequence[Comparison],
    watched: Graphs,
    calls: Sequence[tuple[Arrays, bool]],
    options: CompareOptions,
    tolerance: Tolerance,
) -> list[Comparison]:
    """Where a way differs from the reference: the first blob that does, among all blobs."""
    lost = [part.way for part in parts if part.against == REFERENCE]
    every = (
        _compare(watched, calls, CompareOptions(ways=lost, exporting=options.exporting), None, tolerance)
        if lost
        else []
    )
    broken = {part.way: part for part in _first_failures(every)}
    return [broken.get(part.way, part) if part.against == REFERENCE else part for part in parts]


def verify_files(
    graph: Graph, options: VerifyOptions, truth: Graph | None = None, data: Data | None = None
) -> Verification:
    """Verify with inputs and expected outputs from files; without inputs, with random ones.

    ``truth`` as for ``verify``. ``data`` are the inputs, where they are read already.
    """
    is_random = options.inputs is None and options.data_loader is None
    if options.expect and is_random and graph.inputs:
        raise NetError(
            "there are expected outputs, but no inputs",
            where=options.expect,
            fix=Worded("also give {}", Option("inputs", "FILE.npz")),
        )
    compared = truth or graph
    data = data or data_of_calls(compared, options)
    calls = [*data.calls()]
    watched = with_all_tops(graph) if options.layers else graph
    expected = None if options.expect is None else _read_expected(options.expect, watched, calls, compared)
    # Random inputs say nothing about the scales.
    warnings = [] if is_random else [*data.warnings, *saturation_warnings(compared, calls)]
    if expected is not None:
        warnings += _missing_calls(str(options.expect), expected)
    feeds = [call.feeds for call in calls]
    verification = verify(graph, feeds, options, expected=expected, truth=truth, anew=starts(calls))
    return replace(verification, warnings=(*verification.warnings, *warnings))


def data_of_calls(graph: Graph, options: VerifyOptions) -> Data:
    """The inputs of each call: those that are given, read once, or random ones."""
    if options.inputs is None and options.data_loader is None:
        feeds = seeded_feeds(graph, options.calls or 1, options.seed)
        calls = [Call(f"random inputs, call {number}", feed) for number, feed in enumerate(feeds)]
        return Data(lambda: iter([calls]))
    data = some_calls(options, Signature.of_graph(graph), options.calls)
    read = [*data.calls()]
    idle = [] if options.seed == VerifyOptions.seed else [no_effect([Option("seed")], "the inputs are given")]
    return Data(lambda: iter([read]), warnings=(*data.warnings, *idle))


def _watch(graphs: Graphs) -> Graphs:
    graph, truth = graphs
    return with_all_tops(graph), with_all_tops(truth)


def _compare(
    graphs: Graphs,
    calls: Sequence[tuple[Arrays, bool]],
    options: CompareOptions,
    expected: Sequence[Arrays] | None,
    tolerance: Tolerance,
) -> list[Comparison]:
    """The comparison of the worst call, for each way, each base and each blob."""
    worst: dict[tuple[str, str, str], Comparison] = {}
    for comparison in _each(graphs, calls, options, expected, tolerance):
        key = comparison.way, comparison.against, comparison.blob
        if key not in worst or comparison.difference.excess > worst[key].difference.excess:
            worst[key] = comparison
    order = {value.name: index for index, value in enumerate(graphs[0].outputs)}
    return sorted(worst.values(), key=lambda each: (*_place(each, options.ways), order[each.blob]))


def _place(comparison: Comparison, ways: Sequence[Way]) -> tuple[int, bool]:
    return [REFERENCE, *ways].index(comparison.way), comparison.against == EXPECTED


def _each(
    graphs: Graphs,
    calls: Sequence[tuple[Arrays, bool]],
    options: CompareOptions,
    expected: Sequence[Arrays] | None,
    tolerance: Tolerance,
) -> Iterator[Comparison]:
    graph, truth = graphs
    origins = {value.name: node.origin for node in graph.nodes for value in node.outputs}
    shapes = {value.name: value.shape for value in truth.outputs}
    begun: dict[str, Origin] = {}
    for name, origin in origins.items():
        if name.endswith(f"@{origin.layer}"):  # an earlier value of a blob
            begun.setdefault(name.removesuffix(f"@{origin.layer}"), origin)
    sessions: dict[Way, Session] = {
        REFERENCE: Session(truth),
        **{
            way: Session(
                graph,
                on=way,
                exporting=options.exporting,
                device=options.device if way in ON_DEVICES else None,
            )
            for way in options.ways
            if way != REFERENCE
        },
    }
    for call, (arrays, starts_anew) in enumerate(calls):
        feeds = {**arrays}  # arrays of a file are read now, once for all ways
        for session in sessions.values() if starts_anew else ():
            session.reset()
        results = {way: _results(session, feeds, truth.layout.name) for way, session in sessions.items()}
        bases: dict[str, Arrays] = {REFERENCE: results[REFERENCE]}
        if expected is not None:
            bases[EXPECTED] = {**expected[call]}
            _refuse_unlike(bases[EXPECTED], results[REFERENCE])
        for (way, actual), (against, base) in product(results.items(), bases.items()):
            for blob, reference_array in base.items() if way != against else ():
                wider = _tolerance_of(way, tolerance)
                array, axis = actual[blob], row_axis(shapes.get(blob, ()))
                if axis is not None:
                    array = in_order_of(reference_array, array, axis, wider)
                difference = difference_of(array, reference_array, wider)
                doubt = doubt_about(reference_array, tolerance) if against == REFERENCE else None
                before = begun.get(blob) if against == EXPECTED else None
                yield Comparison(way, against, blob, origins.get(blob), call, difference, doubt, before)


def _tolerance_of(way: Way, tolerance: Tolerance) -> Tolerance:
    """OpenVINO chooses bfloat16 by itself where the processor has it. Numbers that the user states stay."""
    if way != "openvino" or tolerance.reason is None:
        return tolerance
    from prototrt.converter.backends.onnx.programs import computes_in_bfloat16

    return tolerance_for("bf16") if computes_in_bfloat16() else tolerance


def _results(session: Session, feeds: Arrays, layout: LayoutName) -> dict[str, Array]:
    """The results of a call, and the state after it, in the layout of the inputs."""
    own = session.graph.layout
    arrays = feeds if own.name == layout else own.from_caffe(feeds)
    read = {value.name for value in session.graph.inputs}
    outputs = session.run({name: array for name, array in arrays.items() if name in read})
    states = {pair.output.name: session.state[pair.input.name] for pair in session.graph.recurrences}
    results = {**outputs, **states}
    return results if own.name == layout else own.to_caffe(results)


def _first_failures(comparisons: Sequence[Comparison]) -> list[Comparison]:
    first: dict[tuple[str, str], Comparison] = {}
    for comparison in comparisons:
        if not comparison.holds:
            first.setdefault((comparison.way, comparison.against), comparison)
    return list(first.values())


def _more_calls(count: int) -> str:
    return Worded(
        "give inputs for as many calls; one call's inputs are repeated with {}", Option("calls", count)
    )


def _read_expected(file: str, watched: Graph, calls: Sequence[Call], truth: Graph) -> Sequence[Arrays]:
    """The outputs of each call that a file holds, some of those that are watched, with the shapes of ``truth``.

    Raises ``NetError`` for a blob that is not computed, ``ShapeError`` for another shape, ``UnreadableFileError``.
    """
    computed = [value.name for value in watched.outputs]
    if unknown := unread_keys(file, computed):
        raise _unknown_output_error(unknown[0], computed)
    check = partial(_refuse_other_shapes, file, calls, with_all_tops(truth))
    expected = read_feeds(file, computed, len(calls), check, _more_calls)
    if not any(expected):
        raise UnreadableFileError(
            "holds no arrays, so there is nothing to compare with",
            where=file,
            fix="save the expected outputs in it by their names, as in numpy.savez(file, NAME=array)",
        )
    return expected


def _missing_calls(file: str, expected: Sequence[Arrays]) -> list[str]:
    """A warning of the calls that the file has no arrays for; empty otherwise."""
    missing = [str(call) for call, arrays in enumerate(expected) if not arrays]
    return [f"{file}: not compared: call {listed(missing)}, for which it has no arrays"] if missing else []


def _refuse_unlike(expected: Arrays, computed: Arrays) -> None:
    """Raise ``NetError`` for expected arrays that are not computed, ``ShapeError`` for those of another shape."""
    for name, array in expected.items():
        if name not in computed:
            raise _unknown_output_error(name, computed)
        if array.shape != computed[name].shape:
            raise ShapeError(
                f'the expected "{name}" has the shape {array.shape}, the computed one {computed[name].shape}'
            )


def _unknown_output_error(name: str, computed: Iterable[str]) -> NetError:
    return NetError(
        f'the expected outputs hold "{name}", which is not computed',
        fix=Worded(
            "give arrays for some of {}, or make every blob an output with {}",
            listed([*computed]),
            Option("outputs", ["all"]),
        ),
    )


def _refuse_other_shapes(
    path: str, calls: Sequence[Call], graph: Graph, expected: Sequence[Mapping[str, ArrayHeader]]
) -> None:
    signature = Signature.of_graph(graph)
    outputs = {value.name: value for value in graph.outputs}
    for number, (call, arrays) in enumerate(zip(calls, expected, strict=True)):
        sizes = signature.sizes({name: array.shape for name, array in call.feeds.items()})
        for name, array in arrays.items():
            shape = concrete(outputs[name].shape, sizes)
            pairs = zip(array.shape, shape, strict=False)
            if len(array.shape) != len(shape) or any(size not in (dim, -1) for dim, size in pairs):
                raise ShapeError(
                    f'the expected "{name}" has the shape {array.shape}, the computed one {shape}',
                    where=path if len(calls) == 1 else f"{path}, call {number}",
                    fix="save the outputs that were computed from these inputs",
                )
