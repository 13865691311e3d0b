"""Single layers, family by family: their numbers, their engines, and what is told about them."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.schema import is_layer_type
from prototrt.surgery.building.layer_builder import LayerRule, layer_rule
from prototrt.surgery.caffe2.operator_rule import operator_rule
from prototrt.surgery.ir.registry import Registry
from prototrt.tests.layer_cases import Case, Message
from prototrt.tests.samples import one_of_each, runs_on_ways, words_of
from prototrt.tests.small_nets import failure, float32, has_engine, told
from prototrt.tests.surgery.forks.families import augmentation, spreading
from prototrt.tests.surgery.layers.families import (
    activation,
    detection,
    elementwise,
    inner_product,
    motion,
    normalization,
    operators,
    reduction,
    regions,
    resampling,
    scale,
    shape,
    sides,
    volumes,
)

FAMILIES = (
    activation,
    augmentation,
    detection,
    elementwise,
    inner_product,
    motion,
    normalization,
    operators,
    reduction,
    regions,
    resampling,
    scale,
    shape,
    sides,
    spreading,
    volumes,
)
CASES: list[Case] = [case for family in FAMILIES for case in family.CASES]
VARYING: list[Case] = [case for family in FAMILIES for case in family.VARYING]
REFUSALS: list[Message] = [message for family in FAMILIES for message in family.REFUSALS]
WARNINGS = [
    *augmentation.WARNINGS,
    *elementwise.WARNINGS,
    *normalization.WARNINGS,
    *regions.WARNINGS,
    *shape.WARNINGS,
]
BATCHES = (1, 4)


def check(case: Case, on: Way, batches: tuple[int, int] | None = None) -> None:
    """What the case expects comes out, in float32 and in its shape."""
    (found,) = prototrt.Session(case.graph(batches), on=on).run(case.inputs).values()
    expected = float32(case.expected)
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize(
    ("case", "on"),
    runs_on_ways([(case,) for case in CASES], lambda case: words_of(f"type: {case.type} {case.fields}")),
)
def test_numbers(case: Case, on: Way) -> None:
    check(case, on)


@pytest.mark.trt
@pytest.mark.parametrize("case", one_of_each(CASES, lambda case: [case.type]), ids=str)
def test_builds(case: Case) -> None:
    assert has_engine(case.graph())


@pytest.mark.trt
@pytest.mark.parametrize("case", VARYING, ids=str)
def test_batch_varies(case: Case) -> None:
    check(case, "network", BATCHES)


@pytest.mark.trt
@pytest.mark.parametrize("case", one_of_each(VARYING, lambda case: [case.type]), ids=str)
def test_builds_for_batches_that_vary(case: Case) -> None:
    assert has_engine(case.graph(BATCHES))


@pytest.mark.parametrize("message", REFUSALS, ids=str)
def test_refusals(message: Message) -> None:
    assert failure(message.graph) == message.text


@pytest.mark.parametrize("message", WARNINGS, ids=str)
def test_warnings(message: Message) -> None:
    (warning,) = message.graph().warnings
    assert told(warning) == message.text


def test_every_type_with_a_rule_is_known() -> None:
    """A layer of an unknown type that reads nothing is taken for one that brings data."""
    assert [kind for kind in layer_rule.rules if not is_layer_type(kind)] == []


@pytest.mark.parametrize(
    ("package", "registry"),
    [
        ("prototrt.surgery.layers", layer_rule),
        ("prototrt.surgery.forks", layer_rule),
        ("prototrt.surgery.caffe2", operator_rule),
    ],
    ids=["layers", "forks", "operators"],
)
def test_every_rule_stands_where_it_is_looked_for(package: str, registry: Registry[str, LayerRule]) -> None:
    """Otherwise all families are imported for a net that has the type."""
    stated = import_module(package).FAMILIES
    places = {kind: rule.__module__.partition(f"{package}.") for kind, rule in registry.rules.items()}
    found = {kind: family for kind, (_, package_dot, family) in places.items() if package_dot}
    assert {kind: family for family, kinds in stated.items() for kind in kinds.split()} == found
