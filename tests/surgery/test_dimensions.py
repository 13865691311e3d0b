"""Arithmetic on sizes that vary, against the same arithmetic on numbers."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Mapping
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prototrt.surgery.ir import OpenSize, Range, Size, divide, range_of, rest_at, size_at, size_from_text

SPANS = {"H": Range(1, 5, 9), "N": Range(2, 2, 4), "T": Range(0, 1, 3)}
H, N, T = (OpenSize.symbol(name, span) for name, span in SPANS.items())
EVERY = [
    dict(zip(SPANS, sizes, strict=True))
    for sizes in product(*(range(span.min, span.max + 1) for span in SPANS.values()))
]

A = OpenSize.symbol("A", Range(3, 15, 97))

Pair = tuple[Size, Callable[[Mapping[str, int]], int]]
"""A size, and the same in plain arithmetic."""


def _symbol(name: str) -> Pair:
    return OpenSize.symbol(name, SPANS[name]), lambda sizes: sizes[name]


def _sum(left: Pair, right: Pair) -> Pair:
    return left[0] + right[0], lambda sizes: left[1](sizes) + right[1](sizes)


def _difference(left: Pair, right: Pair) -> Pair:
    return left[0] - right[0], lambda sizes: left[1](sizes) - right[1](sizes)


def _product(left: Pair, right: Pair) -> Pair:
    return left[0] * right[0], lambda sizes: left[1](sizes) * right[1](sizes)


def _quotient(pair: Pair, divisor: int) -> Pair:
    return pair[0] // divisor, lambda sizes: pair[1](sizes) // divisor


def _number(number: int) -> Pair:
    return number, lambda _: number


LEAVES = st.sampled_from([*SPANS]).map(_symbol) | st.integers(-4, 9).map(_number)
PAIRS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(_sum, inner, inner),
        st.builds(_difference, inner, inner),
        st.builds(_product, inner, inner),
        st.builds(_quotient, inner, st.integers(1, 6)),
    ),
    max_leaves=6,
)


@settings(max_examples=4 * settings().max_examples)
@given(PAIRS)
def test_arithmetic_is_that_of_numbers(pair: Pair) -> None:
    size, plain = pair
    values = [plain(sizes) for sizes in EVERY]
    assert [size_at(size, sizes) for sizes in EVERY] == values
    span = range_of(size)
    assert span.min <= min(values)
    assert max(values) <= span.max
    assert size_from_text(str(size), SPANS) == size


@settings(max_examples=2 * settings().max_examples)
@given(PAIRS, PAIRS)
def test_equal_sizes_are_equal_at_all_values(left: Pair, right: Pair) -> None:
    values = [[plain(sizes) for sizes in EVERY] for _, plain in (left, right)]
    if left[0] == right[0]:
        assert values[0] == values[1]
    assert left[0] * right[0] == right[0] * left[0]
    assert left[0] + right[0] - right[0] == left[0]


POLYNOMIALS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(_sum, inner, inner), st.builds(_difference, inner, inner), st.builds(_product, inner, inner)
    ),
    max_leaves=5,
)


@settings(max_examples=2 * settings().max_examples)
@given(POLYNOMIALS, st.integers(1, 5))
def test_the_parts_of_a_polynomial_add_up(pair: Pair, parts: int) -> None:
    size = pair[0]
    assert sum((size + place) // parts for place in range(parts)) == size
    assert size - size // 2 == (size + 1) // 2


@settings(max_examples=2 * settings().max_examples)
@given(PAIRS, PAIRS)
def test_a_product_is_divided_by_its_factor(left: Pair, right: Pair) -> None:
    if right[0] != 0:
        assert divide(left[0] * right[0], right[0]) == left[0]


@pytest.mark.parametrize(
    ("size", "text", "span"),
    [
        ((H - 1) // 2 + 1, "(H+1)//2", Range(1, 3, 5)),
        (((H - 1) // 2 + 1 - 2) // 3, "(H+3)//6-1", Range(-1, 0, 1)),
        ((H - 2) * (H - 4) // 2, "(H*H)//2+4-3*H", Range(-1, 1, 17)),
        (T * N * 6 // 3, "2*N*T", Range(0, 4, 24)),
        ((4 * H + 2) // 8, "H//2", Range(0, 2, 4)),
        ((32 * H + 1) // 2, "16*H", Range(16, 80, 144)),
        (N - (H + 1) // 2, "N-((H+1)//2)", Range(-3, -1, 3)),
        (H - (H - 1) // 2, "H//2+1", Range(1, 3, 5)),
        (H // 2 + (H + 1) // 2, "H", Range(1, 5, 9)),
        (H // 3 + (H + 1) // 3 + (H + 2) // 3 + 1, "H+1", Range(2, 6, 10)),
        (N * (H // 2) - N + N * ((H + 1) // 2), "H*N-N", Range(0, 8, 32)),
        (3 * H - 2 * (H // 2), "2*((H+1)//2)+H", Range(3, 11, 19)),
        (2 * (H // 2) * N, "2*(H//2)*N", Range(0, 8, 32)),
        (-H, "-H", Range(-9, -5, -1)),
        (3 - H, "3-H", Range(-6, -2, 2)),
        (H - H, "0", Range(0, 0, 0)),
        (H - H + 7, "7", Range(7, 7, 7)),
    ],
)
def test_canonical_form(size: Size, text: str, span: Range) -> None:
    assert str(size) == text
    assert range_of(size) == span


@pytest.mark.parametrize(("dividend", "divisor"), [(T, N), (2 * H, 4), (H + 1, 0), (H * N + 1, N)])
def test_what_leaves_a_rest(dividend: Size, divisor: Size) -> None:
    assert divide(dividend, divisor) is None


@settings(max_examples=4 * settings().max_examples)
@given(PAIRS, st.integers(1, 6))
def test_a_size_is_divided_unless_a_value_leaves_a_rest(pair: Pair, divisor: int) -> None:
    size, plain = pair
    part, values = divide(size, divisor), [plain(sizes) for sizes in EVERY]
    assert (part is None) == any(value % divisor for value in values)
    if part is not None:
        assert [size_at(part, sizes) * divisor for sizes in EVERY] == values
    elif isinstance(size, OpenSize):
        assert size.at(rest_at(size, divisor) or {}) % divisor


def test_rests_that_take_too_long_to_find() -> None:
    high, wide = (OpenSize.symbol(name, Range(1, 5, 10**6)) for name in "HW")
    size = high * wide
    assert isinstance(size, OpenSize)
    assert divide(size, 1009) is None
    assert rest_at(size, 1009) == {}


@pytest.mark.parametrize(
    ("size", "span"),
    [
        (3 * ((A + A // 2) // 2) - 2 * A, Range(-1, 3, 24)),
        (A * A + A - 2 * ((A * A + A) // 2), Range(0, 0, 0)),
        (A * A - 50 * A, Range(-625, -525, 4559)),
    ],
)
def test_the_range_of_one_symbol_is_exact(size: OpenSize, span: Range) -> None:
    """Also between its ends, and where the rounding of quotients in quotients takes many values to repeat itself."""
    values = [size.at({"A": value}) for value in range(3, 98)]
    assert size.range == span == Range(min(values), size.at({"A": 15}), max(values))


def test_the_range_of_a_product_of_differences_is_exact() -> None:
    size = ((2 * H - 1) // 3) * ((A - 1) // 3 - 1) - 2 * ((2 * H - 1) // 3)
    values = [size_at(size, {"H": high, "A": wide}) for high, wide in product(range(1, 10), range(3, 98))]
    assert range_of(size) == Range(min(values), 3, max(values))


@given(st.data())
def test_parts_of_maps_add_up_in_any_order(data: st.DataObject) -> None:
    """As where maps are cut along both axes, flattened, and joined."""
    sides = [(side + data.draw(st.integers(0, 3))) // data.draw(st.integers(1, 3)) for side in (H, A)]
    parts = data.draw(st.integers(1, 4))
    rows = [sides[0] // 2, sides[0] - sides[0] // 2]
    columns = [(A + place) // parts for place in range(parts)]
    assert (
        sum(data.draw(st.permutations([row * column for row, column in product(rows, columns)])))
        == sides[0] * A
    )
    thirds = [(H + place) // 3 for place in range(3)]
    assert (
        sum(data.draw(st.permutations([row * column for row, column in product(thirds, columns)]))) == H * A
    )
    points = [1, sides[1] - 1]
    assert sum(data.draw(st.permutations([row * column for row, column in product(rows, points)]))) == prod(
        sides
    )


def test_the_range_of_a_few_sizes_of_several_symbols_is_exact() -> None:
    size = (H * N + N) // 2 - N
    values = [size_at(size, sizes) for sizes in EVERY]
    assert range_of(size) == Range(min(values), 4, max(values)) == Range(0, 4, 16)


def test_the_range_of_a_square_of_differences_is_exact() -> None:
    side, items = OpenSize.symbol("S", Range(32, 64, 300)), OpenSize.symbol("N", Range(1, 2, 8))
    assert range_of(6 * items * ((side + 1) // 2 - 1) * ((side + 1) // 2 - 1)) == Range(
        6 * 15**2, 12 * 31**2, 48 * 149**2
    )


def test_a_range_of_many_values_has_bounds() -> None:
    size = OpenSize.symbol("H", Range(1, 5, 10**6))
    assert range_of(size * size - 3 * size) == Range(-2 * 10**6, 10, 10**12 - 3 * 10**6)


def test_copies_know_their_ranges() -> None:
    size = (H + 1) // 2
    assert isinstance(size, OpenSize)
    for copied in (copy.deepcopy(size), pickle.loads(pickle.dumps(size))):
        assert (copied, copied.symbols, copied + 1) == (size, {"H": SPANS["H"]}, size + 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' ends too early"),
        ("H+", "'H+' ends too early"),
        ("H N", "'H N' is not a size"),
        ("(H", "'(H' ends too early"),
        ("(H*", "'(H*' ends too early"),
        ("(H H", "a bracket is not closed"),
        ("W", "'W' is neither a number nor a symbol with a range"),
        ("H//N", "the divisor N is not a positive number"),
        ("H//0", "the divisor 0 is not a positive number"),
        ("H%2", "'H%2' is not a size"),
        ("(" * 5000 + "H" + ")" * 5000, f"'{'(' * 60}...' has 10001 parts, expected at most 1000"),
        ("(" * 400 + "H" + ")" * 400, "there are more than 100 brackets or signs within each other"),
        ("-" * 400 + "H", "there are more than 100 brackets or signs within each other"),
        ("9" * 4000, "a number is larger than 9.2e+18"),
        ("*".join(["9" * 18] * 400), "a number is larger than 9.2e+18"),
        ("+".join([str((1 << 63) - 1), "1"]), "a number is larger than 9.2e+18"),
        ("H*" * 400 + "H", f"'{'H*' * 30}...' comes to more than 9.2e+18"),
        ("*".join(["(H+N+H*N+1)"] * 60), "a product comes to 1024 terms, expected at most 1000"),
        (
            "(" * 90 + "H+1" + ")//2*3+1" * 90,
            "a part comes to 12792 characters, expected at most 10000",
        ),
    ],
)
def test_what_is_not_a_size(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        size_from_text(text, SPANS)


def test_a_product_with_quotients_that_add_up_is_divided() -> None:
    assert divide((H + N) * (H - N // 3), H - N // 3) == H + N


def test_a_quotient_keeps_its_shortest_form() -> None:
    anchors = 6 * ((H + 15) // 16) * ((N + 15) // 16) + 4 * ((H + 7) // 8) * ((N + 7) // 8)
    assert divide(5 * anchors, 5) == anchors
