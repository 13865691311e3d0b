"""One file stem for a family: what a primitive means, how each backend lowers it, how its layers are read back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock

import pytest

from prototrt.converter.backends.onnx.lowering import lowers as onnx_lowers
from prototrt.converter.backends.readback.registry import RULES
from prototrt.converter.backends.readback.scan import LOOP_LAYERS, LoopAction
from prototrt.converter.backends.tensorrt import builder
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.lowering import lowers as tensorrt_lowers
from prototrt.converter.backends.tensorrt.network import Layer, Network
from prototrt.surgery import ops
from prototrt.surgery.ir import Graph
from prototrt.tests.converter.backends.onnx.test_primitives import CASES as SMALL_GRAPHS
from prototrt.tests.converter.backends.onnx.test_primitives import graph_of
from prototrt.tests.golden_cases import caffe_cases, rewritten
from prototrt.tests.surgery.test_counting import RULES as OPEN_SIZES
from prototrt.tests.surgery.test_counting import graph_of as graph_of_open_size

PRIMITIVES = sorted(
    {
        kind
        for kind in {*onnx_lowers.rules, *tensorrt_lowers.rules}
        if kind.__module__.startswith(ops.__name__)
    },
    key=lambda kind: kind.__name__,
)
NO_FAMILY = {
    "CONSTANT": "constants are values, which no primitive makes",
    "SHAPE": "sizes that vary are read from the inputs, for whichever primitive asks first",
}
"""Kinds of TensorRT layers that are read back, and that no primitive's lowering makes."""

NOT_LOWERED = {"SQUEEZE", "UNSQUEEZE"}
"""Kinds that TensorRT's own ONNX parser makes, by whose networks the loops of the read-back are tested."""


def family(thing: Any) -> str:
    """The stem of the file that something is defined in."""
    return str(thing.__module__).rpartition(".")[2]


@pytest.mark.parametrize("lowerings", [onnx_lowers, tensorrt_lowers], ids=["onnx", "tensorrt"])
def test_lowerings_stand_in_the_family_of_their_primitive(lowerings: Any) -> None:
    rules = {kind: lowerings.rules[kind] for kind in PRIMITIVES if kind in lowerings.rules}
    places = {kind.__name__: (family(rule), family(kind)) for kind, rule in rules.items()}
    assert {name: place for name, place in places.items() if place[0] != place[1]} == {}


@pytest.mark.trt
def test_every_layer_is_read_back_in_a_family_that_makes_it() -> None:
    made = families_that_make()
    misplaced = {
        kind: sorted(made[_plain(kind)])
        for kind, home in HOMES.items()
        if kind not in {*NO_FAMILY, *NOT_LOWERED} and home not in made[_plain(kind)]
    }
    assert not misplaced, "no primitive of the family that reads these makes them; these families do"


@pytest.mark.trt
def test_every_layer_that_is_made_is_read_back() -> None:
    assert set(families_that_make()) <= {_plain(kind) for kind in HOMES}


@pytest.mark.trt
def test_exemptions_are_needed() -> None:
    assert {*NO_FAMILY, *NOT_LOWERED} <= set(HOMES)


HOMES = {kind: family(rule) for kind, rule in RULES.items()} | dict.fromkeys(LOOP_LAYERS, family(LoopAction))
"""The family whose module reads back each kind of TensorRT layer."""


@cache
def families_that_make() -> dict[str, set[str]]:
    """For each kind of TensorRT layer, the families of the primitives whose lowering makes it."""
    pytest.importorskip("tensorrt_rtx", reason="needs TensorRT for RTX")
    made: defaultdict[str, set[str]] = defaultdict(set)

    class Recording(Network):
        def register(self, layer: Layer) -> Layer:
            if self.node is not None:
                made[_plain(type(layer).__name__[1 : -len("Layer")])].add(family(self.node.op))
            return super().register(layer)

    with mock.patch.object(builder, "Network", Recording):
        for graph in _graphs():
            builder.network_of(graph, find_backend("rtx"))
    return made


def _graphs() -> Iterator[Graph]:
    """Every net that Caffe has run and an engine can run, and small graphs for what they leave out, open sizes too."""
    for case in caffe_cases():
        graph = rewritten(case, case.arrays("inputs")[0])
        if not any(node.op.data_dependent for node in graph.nodes):
            yield graph
    for op, arrays in SMALL_GRAPHS.values():
        yield graph_of(op, arrays)
    yield from map(graph_of_open_size, OPEN_SIZES)


def _plain(kind: str) -> str:
    """MATRIX_MULTIPLY and MatrixMultiply are one kind."""
    return kind.replace("_", "").lower()
