"""Python's collector rests while many objects are made, and goes on afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from prototrt.caffe_proto.common.memory import without_collector


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


class Knot:
    """What only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_made_meanwhile_is_not_searched_as_young() -> None:
    with without_collector():
        assert not gc.isenabled()
        made = [[place] for place in range(200_000)]
    young = {id(found) for found in gc.get_objects(generation=0)}
    assert gc.isenabled()
    assert not young.intersection(map(id, made))


def test_garbage_that_is_made_meanwhile_is_collected_later() -> None:
    with without_collector():
        knot = weakref.ref(Knot())
        made = [[place] for place in range(200_000)]
    gc.collect()
    assert knot() is None
    assert made


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    with without_collector():
        made = [[place] for place in range(200_000)]
    assert gc.get_freeze_count()
    assert made


def test_a_collector_that_is_turned_off_stays_off() -> None:
    gc.disable()
    with without_collector():
        pass
    assert not gc.isenabled()
