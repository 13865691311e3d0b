"""The table of layer types holds nothing needless and nothing wrong."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from prototrt.caffe_proto.layer_types import _ROWS, LAYER_TYPES, LayerType, Role, layer_type
from prototrt.caffe_proto.schema import message_class, parameter_fields
from prototrt.tests.golden_cases import caffe_cases, fork_cases

FIELDS = message_class("LayerParameter").DESCRIPTOR.fields_by_name


def test_every_type_has_one_row() -> None:
    assert len(LAYER_TYPES) == len(_ROWS)


def test_a_row_says_what_does_not_go_without_saying() -> None:
    assert [row.name for row in _ROWS if row == LayerType(row.name)] == []
    assert [row.name for row in _ROWS if not set(row.parameters) <= set(FIELDS)] == []
    assert [row.name for row in _ROWS if row.parameters and row.parameters == fields_by_name(row)] == []


def fields_by_name(row: LayerType) -> tuple[str, ...]:
    return tuple(name for name in FIELDS if name.replace("_", "") == f"{row.name.lower()}param")


def test_facts_of_a_role_stand_in_its_rows_alone() -> None:
    data = ("labels_from", "labels_until")
    measures = ("predictions", "answer", "shows_answer")
    for role, facts in ((Role.DATA, data), (Role.MEASURE, measures)):
        assert [row.name for row in _ROWS if row.role is not role and states_one(row, facts)] == []


def states_one(row: LayerType, facts: Collection[str]) -> bool:
    plain = LayerType(row.name)
    return any(getattr(row, fact) != getattr(plain, fact) for fact in facts)


@pytest.mark.parametrize("name", [row.name for row in _ROWS if row.role is Role.MEASURE and not row.is_code])
def test_a_measure_of_a_fork_is_known_by_its_name(name: str) -> None:
    assert layer_type(f"My{name}").role is Role.MEASURE


@pytest.mark.parametrize("name", ["AnchorTarget", "Python AnchorTargetLayer", "FrcnnAnchorTarget"])
def test_a_layer_of_targets_is_known_by_its_name(name: str) -> None:
    assert (layer_type(name).makes_labels, layer_type(name).passes_on) == (True, 0)


def test_what_has_a_matrix_of_weights_learns() -> None:
    """The goldens have layers of all types with weights. Of three, they are no more than settings."""
    cases = [case.load() for case in [*caffe_cases(), *fork_cases()]]
    blobs = [
        (layer.type, blob.shape) for model in cases for layer in model.layers for blob in layer.blobs or ()
    ]
    matrices = {kind for kind, shape in blobs if sum(size > 1 for size in shape) > 1}
    assert {kind for kind in matrices if not layer_type(kind).learns} == {
        "DataAugmentation",
        "Parameter",
        "Scale",
    }


def test_fields_of_a_type_without_a_row_follow_from_its_name() -> None:
    assert parameter_fields("ROIPooling") == ("roi_pooling_param",)
    assert parameter_fields("Permute") == ("permute_param",)
    assert parameter_fields("NobodyKnowsMe") == ()
