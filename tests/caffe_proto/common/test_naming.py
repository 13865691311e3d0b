"""Unique names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.common.naming import Names

NAMES = st.lists(st.sampled_from(["a", "a_2", "a_3", "b"]), max_size=12)


def test_the_first_free_number_from_2_on() -> None:
    names = Names(["a", "a_3"])
    assert [names.free(wanted) for wanted in ("a", "a", "a_2", "b", "b")] == [
        "a_2",
        "a_4",
        "a_2_2",
        "b",
        "b_2",
    ]


def test_reserved_names_are_not_given_out() -> None:
    assert Names(["a"]).free("a", reserved=["a_2", "a_3"]) == "a_4"


def test_the_form_of_numbers() -> None:
    assert Names(["a"], " ({})").free("a") == "a (2)"


@given(taken=NAMES, wanted=NAMES)
def test_any_names_are_unique_and_as_near_as_possible_to_the_wanted_ones(
    taken: list[str], wanted: list[str]
) -> None:
    names, in_use = Names(taken), set(taken)
    for one in wanted:
        numbered = (one if number == 1 else f"{one}_{number}" for number in range(1, 99))
        first_free = next(name for name in numbered if name not in in_use)
        assert names.free(one) == first_free
        in_use.add(first_free)
