"""Computing the same net in several ways, and finding how far and where the results diverge."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias

from prototrt.caffe_proto.errors import NetError, ShapeError, UnreadableFileError, VerificationError
from prototrt.caffe_proto.notebook_html import table
from prototrt.caffe_proto.weights.npz import Announced
from prototrt.caffe_proto.wording import Option, Worded, listed
from prototrt.converter.calibration.saturation import saturated
from prototrt.converter.data.data import Call, Data, starts
from prototrt.converter.data.given import some_calls
from prototrt.converter.options import VerifyOptions, Way
from prototrt.converter.sessions.feeds import read_feeds, unread_keys
from prototrt.converter.sessions.session import Session
from prototrt.converter.sessions.signature import Signature, concrete
from prototrt.converter.verification.comparison import EXPECTED, REFERENCE, Comparison, difference_of
from prototrt.converter.verification.quantization import QuantizationCost
from prototrt.converter.verification.seeded import seeded_feeds
from prototrt.converter.verification.tolerances import Tolerance, tolerance_for
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.options import LayoutName, Precision
from prototrt.surgery.passes.precision import precision_of

Arrays = Mapping[str, Array]
Graphs: TypeAlias = tuple[Graph, Graph]
"""What the ways run, and what the reference evaluates."""


@dataclass(frozen=True, slots=True)
class Verification:
    """All comparisons, in the order in which the net computes, way by way.

    ``parts`` holds the first blob that is out of tolerance, for each way that has one. ``cost`` is that of 8 bits.
    """

    precision: Precision
    tolerance: Tolerance
    calls: int
    comparisons: tuple[Comparison, ...]
    parts: tuple[Comparison, ...]
    warnings: tuple[str, ...] = ()
    cost: QuantizationCost | None = None

    @property
    def holds(self) -> bool:
        return all(comparison.holds for comparison in self.comparisons)

    @property
    def verdict(self) -> str:
        """One line that begins with PASS or FAIL."""
        if not self.holds:
            first, difference = self.parts[0], self.parts[0].difference
            return (
                f'FAIL: {first.way} and {first.against} differ by {difference.max_abs:.2g} at blob "{first.blob}",'
                f" {difference.allowed:.2g} is allowed"
            )
        names = {name for found in self.comparisons for name in (found.way, found.against)}
        count = len(names - {EXPECTED})
        ways = f"{count} ways agree" if count > 1 else "1 way agrees"
        expected = " with the expected outputs" if EXPECTED in names else ""
        worst = max(found.difference.max_abs for found in self.comparisons)
        return f"PASS: {ways}{expected} {f'within {_rounded_up(worst)}' if worst else 'exactly'}"

    def _repr_html_(self) -> str:
        rows = []
        for found in self.comparisons:
            numbers = (f"{found.difference.max_abs:.2e}", f"{found.difference.max_rel:.2e}")
            rows.append((found.way, found.against, found.blob, *numbers, "" if found.holds else "differs"))
        columns = ("way", "against", "blob", "max abs", "max rel", "")
        return table(self.verdict, columns, rows, self.warnings)

    def as_dict(self) -> dict[str, Any]:
        """For a manifest, and for programs."""
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "precision": self.precision,
            "tolerance": {"relative": self.tolerance.relative, "absolute": self.tolerance.absolute},
            "calls": self.calls,
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "parts": [comparison.as_dict() for comparison in self.parts],
            **({} if self.cost is None else {"quantization": self.cost.as_dict()}),
            "warnings": list(self.warnings),
        }

    def refuse(self) -> None:
        """Raise ``VerificationError`` where a tolerance is broken."""
        if self.holds:
            return
        first, difference = self.parts[0], self.parts[0].difference
        raise VerificationError(
            f"{first.way} and {first.against} diverge here by {difference.max_abs:.3g},"
            f" expected at most {difference.allowed:.3g}",
            origin=first.origin,
            blob=f'blob "{first.blob}"' if first.origin else None,
            because=f"in call {first.call}, {self._why(first)}",
            fix=self._fix(first),
        )

    def _why(self, first: Comparison) -> str:
        """What is wrong with the results, also where the error is no part of the largest magnitude."""
        difference = first.difference
        if not math.isfinite(difference.max_abs):
            return "only one of them has NaN or infinity at some elements"
        if not math.isfinite(difference.max_rel):
            return f"{first.against} is zero everywhere, but {first.way} is not"
        share = f"the error is {100 * difference.max_rel:.3g} % of the largest magnitude"
        if self.tolerance.reason is None:
            return share
        return f"{share}, more than rounding in {self.precision} explains: {self.tolerance.reason}"

    def _fix(self, first: Comparison) -> str:
        if first.against == EXPECTED:
            return (
                "check that the expected outputs were computed with these weights and inputs: the order of channels,"
                " the mean or the scale may differ"
            )
        if self.tolerance.reason is None:
            return Worded("allow more with {} and {}", Option("atol"), Option("rtol"))
        if self.precision != "fp32":
            return Worded("use {}", Option("precision", "fp32"))
        return "report this net: prototrt, or a library that it uses, computes it wrongly"


def verify(
    graph: Graph,
    feeds: Sequence[Arrays],
    *,
    ways: Sequence[Way] = ("network",),
    expected: Sequence[Arrays] | None = None,
    layers: bool = False,
    truth: Graph | None = None,
    anew: Collection[int] = (),
    atol: float | None = None,
    rtol: float | None = None,
) -> Verification:
    """Run the graph in each of the ways, call by call, and compare with the reference evaluator.

    ``feeds`` are the inputs of each call; each way carries its own state, and forgets it before the calls in ``anew``.
    ``expected`` are outputs
    from elsewhere, which the reference and each way are compared with as well. ``layers`` compares
    every blob of the net that is still in the graph, not only the outputs. ``truth`` is the same
    graph in float32 and in Caffe's layout, for the reference to evaluate; without it, the reference evaluates
    the graph. All arrays are in the layout of ``truth``: those of another layout are moved to it.
    ``atol`` and ``rtol`` replace the numbers of the precision's tolerance. Raises ``NetError`` if nothing is compared.
    """
    precision = precision_of(graph)
    tolerance = tolerance_for(precision, atol, rtol)
    graphs = (graph, truth or graph)
    watched = _watched(graphs) if layers else graphs
    calls = [*zip(feeds, (number in anew for number in range(len(feeds))), strict=True)]
    comparisons = _compared(watched, calls, ways, expected, tolerance)
    if not comparisons:
        raise NetError(
            "there is nothing to compare", fix="give another way than reference, or expected outputs"
        )
    parts = _first_broken(comparisons)
    lost = [part.way for part in parts if part.against == REFERENCE]
    if lost and not layers:  # outputs do not show where the error begins
        every = _compared(_watched(graphs), calls, lost, None, tolerance)
        found = {part.way: part for part in _first_broken(every)}
        parts = [found.get(part.way, part) if part.against == REFERENCE else part for part in parts]
    return Verification(precision, tolerance, len(feeds), tuple(comparisons), tuple(parts))


def verify_files(
    graph: Graph, options: VerifyOptions, truth: Graph | None = None, data: Data | None = None
) -> Verification:
    """Verify with inputs and expected outputs from files; without inputs, with random ones.

    ``truth`` as for ``verify``. ``data`` are the inputs, where they are read already.
    """
    expect = options.expect
    is_random = options.inputs is None and options.data_loader is None
    if expect and is_random and graph.inputs:
        raise NetError(
            "there are expected outputs, but no inputs",
            where=expect,
            fix=Worded("also give {}", Option("inputs", "FILE.npz")),
        )
    compared = truth or graph
    data = data or data_of_calls(compared, options)
    calls = [*data.calls()]
    expected = None
    if expect is not None:
        watched = watching_tops(graph) if options.layers else graph
        expected = _expected(expect, watched, calls, compared)
    # Random inputs say nothing about the scales.
    warnings = [] if is_random else [*data.warnings, *saturated(compared, calls)]
    verification = verify(
        graph,
        [call.feeds for call in calls],
        ways=options.ways,
        expected=expected,
        layers=options.layers,
        truth=truth,
        anew=starts(calls),
        atol=options.atol,
        rtol=options.rtol,
    )
    return replace(verification, warnings=tuple(warnings))


def _expected(file: str, watched: Graph, calls: Sequence[Call], truth: Graph) -> Sequence[Arrays]:
    """The outputs of each call that a file holds, some of those that are watched, with the shapes of ``truth``."""
    computed = [value.name for value in watched.outputs]
    if unknown := unread_keys(file, computed):
        raise _not_computed(unknown[0], computed)
    check = partial(_refuse_other_shapes, file, calls, watching_tops(truth))
    expected = read_feeds(file, computed, len(calls), check)
    if not any(expected):
        raise UnreadableFileError(
            "holds no arrays, so there is nothing to compare with",
            where=file,
            fix="save the expected outputs in it by their names, as in numpy.savez(file, NAME=array)",
        )
    return expected


def data_of_calls(graph: Graph, options: VerifyOptions) -> Data:
    """The inputs of each call: those that are given, read once, or random ones."""
    if options.inputs is None and options.data_loader is None:
        feeds = seeded_feeds(graph, options.calls or 1, options.seed)
        calls = [Call(f"random inputs, call {number}", feed) for number, feed in enumerate(feeds)]
        return Data(lambda: iter([calls]))
    data = some_calls(options, Signature.of_graph(graph), options.calls)
    read = [*data.calls()]
    return Data(lambda: iter([read]), warnings=data.warnings)


def watching_tops(graph: Graph) -> Graph:
    """The graph with every blob of the net as an output."""
    tops = [value for node in graph.nodes for value in node.outputs if not value.is_surgical]
    given = [value for value in graph.outputs if value not in tops]
    states = graph.state_outputs
    return replace(graph, outputs=(*(value for value in (*tops, *given) if value not in states), *states))


def _watched(graphs: Graphs) -> Graphs:
    graph, truth = graphs
    return watching_tops(graph), watching_tops(truth)


def _compared(
    graphs: Graphs,
    calls: Sequence[tuple[Arrays, bool]],
    ways: Sequence[Way],
    expected: Sequence[Arrays] | None,
    tolerance: Tolerance,
) -> list[Comparison]:
    """The comparison of the worst call, for each way, each base and each blob."""
    worst: dict[tuple[str, str, str], Comparison] = {}
    for comparison in _each(graphs, calls, ways, expected, tolerance):
        key = comparison.way, comparison.against, comparison.blob
        if key not in worst or comparison.difference.excess > worst[key].difference.excess:
            worst[key] = comparison
    order = {value.name: index for index, value in enumerate(graphs[0].outputs)}
    return sorted(worst.values(), key=lambda found: (*_place(found, ways), order[found.blob]))


def _place(comparison: Comparison, ways: Sequence[Way]) -> tuple[int, bool]:
    """Ways in the order of the options, each against the reference first."""
    return [REFERENCE, *ways].index(comparison.way), comparison.against == EXPECTED


def _each(
    graphs: Graphs,
    calls: Sequence[tuple[Arrays, bool]],
    ways: Sequence[Way],
    expected: Sequence[Arrays] | None,
    tolerance: Tolerance,
) -> Iterator[Comparison]:
    graph, truth = graphs
    origins = {value.name: node.origin for node in graph.nodes for value in node.outputs}
    sessions: dict[Way, Session] = {
        REFERENCE: Session(truth),
        **{way: Session(graph, on=way) for way in ways if way != REFERENCE},
    }
    for call, (given, starts_anew) in enumerate(calls):
        for session in sessions.values() if starts_anew else ():
            session.reset()
        results = {way: _results(session, given, truth.layout.name) for way, session in sessions.items()}
        bases: dict[str, Arrays] = {REFERENCE: results[REFERENCE]}
        if expected is not None:
            bases[EXPECTED] = _known(expected[call], results[REFERENCE])
        for (way, found), (against, base) in product(results.items(), bases.items()):
            for blob, wanted in base.items() if way != against else ():
                difference = difference_of(found[blob], wanted, tolerance)
                yield Comparison(way, against, blob, origins.get(blob), call, difference)


def _rounded_up(number: float) -> str:
    """With one digit, and never less: 2.1e-06 is within 3e-06."""
    unit = 10.0 ** math.floor(math.log10(number))
    return f"{math.ceil(number / unit) * unit:.1g}"


def _results(session: Session, feeds: Arrays, layout: LayoutName) -> dict[str, Array]:
    """The results of a call, and the state after it, in the layout of the inputs."""
    own = session.graph.layout
    outputs = session.run(feeds if own.name == layout else own.from_caffe(feeds))
    states = {pair.output.name: session.state[pair.input.name] for pair in session.graph.recurrences}
    results = {**outputs, **states}
    return results if own.name == layout else own.to_caffe(results)


def _known(expected: Arrays, computed: Arrays) -> Arrays:
    """The expected arrays. Raises if one names no computed blob or has another shape."""
    for name, array in expected.items():
        if name not in computed:
            raise _not_computed(name, computed)
        if array.shape != computed[name].shape:
            raise ShapeError(
                f'the expected "{name}" has the shape {array.shape}, the computed one {computed[name].shape}'
            )
    return expected


def _not_computed(name: str, computed: Iterable[str]) -> NetError:
    return NetError(
        f'the expected outputs hold "{name}", which is not computed',
        fix=Worded(
            "give arrays for some of {}, or cut the net at this blob with {}",
            listed([*computed]),
            Option("outputs", [name]),
        ),
    )


def _refuse_other_shapes(
    path: str, calls: Sequence[Call], graph: Graph, expected: Sequence[Mapping[str, Announced]]
) -> None:
    """Raise ``ShapeError`` for expected outputs in another shape than the computed ones, before they are read."""
    signature = Signature.of_graph(graph)
    outputs = {value.name: value for value in graph.outputs}
    for number, (call, arrays) in enumerate(zip(calls, expected, strict=True)):
        sizes = signature.sizes({name: array.shape for name, array in call.feeds.items()})
        for name, array in arrays.items():
            wanted = concrete(outputs[name].shape, sizes)
            pairs = zip(array.shape, wanted, strict=False)
            if len(array.shape) != len(wanted) or any(size not in (known, -1) for known, size in pairs):
                raise ShapeError(
                    f'the expected "{name}" has the shape {array.shape}, the computed one {wanted}',
                    where=path if len(calls) == 1 else f"{path}, call {number}",
                    fix="save the outputs that were computed from these inputs",
                )


def _first_broken(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The first blob out of tolerance, for each way and each base."""
    first: dict[tuple[str, str], Comparison] = {}
    for comparison in comparisons:
        if not comparison.holds:
            first.setdefault((comparison.way, comparison.against), comparison)
    return list(first.values())
