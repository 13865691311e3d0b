"""TensorRT's own ONNX parser reads what we export: that is how engines for other GPUs are built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import prototrt
from prototrt import Form
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.configuration import profiles_of
from prototrt.surgery.ir import Graph
from prototrt.tests.caffe2_cases import caffe2_cases
from prototrt.tests.dynamic_lstm import dynamic_graph
from prototrt.tests.golden_cases import Case, caffe_cases, case_called, fork_cases, recurrent_runs, rewritten
from prototrt.tests.samples import first_of_each

pytestmark = pytest.mark.trt

REFUSED = {"filter": "Compress"}
"""Nets with an operator that the parser lacks."""
FEW = ("filter", "lstm_static", "net_lenet", "pool_max_mask", "rnn_expose")

Refusals = Callable[..., list[str]]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """The operators of an exported graph that the parser refuses, or its words. What it reads may be built, too."""
    trt: Any = find_backend("rtx").trt

    class Silent(trt.ILogger):  # type: ignore[misc]  # the bindings carry no types
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None: ...

    logger, model = Silent(), tmp_path_factory.mktemp("parser") / "model.onnx"
    builder = trt.Builder(logger)

    def refused(graph: Graph, is_built: bool = False, **options: Any) -> list[str]:
        prototrt.export_onnx(graph, model, **options)
        network = builder.create_network(0)
        parser = trt.OnnxParser(network, logger)
        is_read = parser.parse_from_file(str(model))
        problems = [parser.get_error(index) for index in range(parser.num_errors)]
        assert is_read == (not problems)
        if is_read:
            names = {network.get_output(index).name for index in range(network.num_outputs)}
            assert names == {value.name for value in graph.outputs}
        if is_built:
            config = builder.create_builder_config()
            for profile in profiles_of(graph, SimpleNamespace(builder=builder), ()):  # type: ignore[arg-type]
                config.add_optimization_profile(profile)
            assert builder.build_serialized_network(network, config) is not None
        return [problem.node_operator() or problem.desc() for problem in problems]

    return refused


@pytest.mark.parametrize("name", FEW)
def test_the_parser_reads_what_we_export(name: str, refusals: Refusals) -> None:
    case = case_called(name)
    graph = rewritten(case, case.arrays("inputs")[0])
    assert refusals(graph) == ([REFUSED[name]] if name in REFUSED else [])


def test_the_parser_reads_sizes_that_vary(refusals: Refusals) -> None:
    assert refusals(dynamic_graph(), is_built=True) == []


def every_graph(is_sample: bool) -> Iterator[tuple[str, Graph, dict[str, Any]]]:
    """Every golden, in every sequence and in float16, or one of each type or family.

    Yields its name, its graph, and the options of the export.
    """
    cases, halves, runs = [*caffe_cases(), *fork_cases()], caffe_cases(), recurrent_runs()
    nets = caffe2_cases()
    if is_sample:
        cases = first_of_each(cases, lambda case: case.layer_types)
        halves = first_of_each(halves, lambda case: case.families)
        runs = first_of_each(runs, words_of)
        nets = first_of_each(nets, lambda net: net.operators)
    for case in cases:
        yield str(case), rewritten(case, case.arrays("inputs")[0]), {}
    for case in halves:
        yield str(case), rewritten(case, case.arrays("inputs")[0], precision="fp16"), {}
    for case, sequence in runs:
        graph = rewritten(case, case.arrays("inputs")[0], sequence)
        yield str(case), graph, {"onnx_lstm": sequence == "loop"}
    for net in nets:
        yield str(net), net.rewritten(), {}


def words_of(run: tuple[Case, Form]) -> list[str]:
    return [f"{str(run[0]).partition('_')[0]} {run[1]}"]


SAMPLE_OR_ALL = pytest.mark.parametrize(
    "is_sample", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["sample", "all"]
)


@pytest.mark.slow
@SAMPLE_OR_ALL
def test_the_parser_reads_every_golden(refusals: Refusals, is_sample: bool) -> None:
    """In one test: a parser is a matter of milliseconds, a process for it is not."""
    found = {
        name: refused
        for name, graph, options in every_graph(is_sample)
        if (refused := refusals(graph, **options))
    }
    assert found == {name: [operator] for name, operator in REFUSED.items()}


@pytest.mark.slow
@SAMPLE_OR_ALL
def test_recurrent_nets_are_built_from_what_the_parser_reads(refusals: Refusals, is_sample: bool) -> None:
    """As a Scan, unrolled and step by step: so does onnxruntime's plugin, which brings the same release.

    A sample has each first word of a golden's name in each sequence.
    """
    runs = recurrent_runs()
    for case, sequence in first_of_each(runs, words_of) if is_sample else runs:
        assert refusals(rewritten(case, case.arrays("inputs")[0], sequence), is_built=True) == [], case
