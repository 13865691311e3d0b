"""Sizes that vary: polynomials of named symbols, in a canonical form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from math import gcd, lcm, prod
from typing import Any, Literal, TypeAlias

from prototrt.caffe_proto.common.records import dataclass, field

RangeSource: TypeAlias = Literal["ranges", "sizes", "dynamic"]
"""The option that states a range: shapes with the smallest and largest sizes, sizes by name, or ``dynamic``."""


@dataclass(frozen=True, slots=True)
class Range:
    """The sizes of a symbol when an engine runs: smallest, usual, largest.

    ``source`` is the option that states them, for messages; None where that is not known.
    """

    min: int
    opt: int
    max: int
    source: RangeSource | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def varies(self) -> bool:
        """Whether there is more than one size."""
        return self.min != self.max


class OpenSize(str):
    """A size that varies: sums and products of symbols, of whole numbers, and of quotients rounded down.

    It is the text of its canonical form, as in ``T*N`` or ``(H+1)//2``: equal sizes are equal texts, and whatever
    reads or writes the name of a symbol reads and writes this. ``symbols`` holds the range of each symbol in it.
    Arithmetic with numbers and other sizes returns a number where all symbols cancel. ``a // n`` rounds down, for a
    number n; write ``(a + n - 1) // n`` to round up.
    """

    __slots__ = ("symbols", "terms")
    terms: Terms
    symbols: Mapping[str, Range]

    def __new__(cls, terms: Terms, symbols: Mapping[str, Range]) -> OpenSize:
        new = super().__new__(cls, _text(terms))
        new.terms, new.symbols = terms, symbols
        return new

    @classmethod
    def symbol(cls, name: str, span: Range) -> OpenSize:
        """The size that one symbol stands for."""
        return cls((((name,), 1),), {name: span})

    def __repr__(self) -> str:
        return str(self)

    def __getnewargs__(self) -> tuple[Terms, Mapping[str, Range]]:  # type: ignore[override]  # copies pass both on
        return self.terms, self.symbols

    def at(self, sizes: Mapping[str, Any]) -> Any:
        """The size for these sizes of its symbols. Raises ``KeyError`` for a symbol that has none.

        It is a number for numbers. It is whatever sums, products and quotients are for other things.
        """
        return _total(self.terms, sizes)

    @property
    def range(self) -> Range:
        """Its smallest, usual and largest value.

        The bounds may be wider than needed where the size of another symbol is subtracted, or where a symbol with many
        values is multiplied by itself.
        """
        least, usual, most = (
            dict(zip(self.symbols, sizes, strict=True))
            for sizes in zip(*((span.min, span.opt, span.max) for span in self.symbols.values()), strict=True)
        )
        # No atom is negative: a product is smallest where its symbols are, and subtracts most where they are largest.
        added, subtracted = (
            tuple(term for term in self.terms if (term[1] > 0) is is_added) for is_added in (True, False)
        )
        if added and subtracted and (values := [self.at(sizes) for sizes in self._extreme_sizes()]):
            return Range(min(values), self.at(usual), max(values))
        smallest = _total(added, least) + _total(subtracted, most)
        largest = _total(added, most) + _total(subtracted, least)
        corners = self._corners() if added and subtracted else []
        return Range(
            max(smallest, min(corners, default=smallest)),
            self.at(usual),
            min(largest, max(corners, default=largest)),
        )

    def _corners(self) -> list[int]:
        """The size with each atom at its smallest or largest; none if they are too many.

        Between these lie all sizes: it is steady in each atom. One that is multiplied by itself counts as two atoms.
        """
        terms = [(_distinct_atoms(monomial), factor) for monomial, factor in self.terms]
        atoms = {atom for monomial, _ in terms for atom in monomial}
        if len(atoms) > MOST_CORNERED:
            return []
        spans = [_span(atom, self.symbols) for atom, _ in atoms]
        corners = (dict(zip(atoms, corner, strict=True)) for corner in product(*spans))
        return [
            sum(factor * prod(corner[atom] for atom in monomial) for monomial, factor in terms)
            for corner in corners
        ]

    @property
    def line(self) -> tuple[str, int, int] | None:
        """``("X", a, b)`` for a size ``a*X + b``, from which the symbol X can be told; None for other sizes."""
        products = [(monomial, factor) for monomial, factor in self.terms if monomial]
        (atom, *others), factor = products[0]
        if len(products) > 1 or others or isinstance(atom, Quotient) or factor < 0:
            return None
        return atom, factor, sum(number for monomial, number in self.terms if not monomial)

    def _extreme_sizes(self) -> Iterator[Mapping[str, int]]:
        """Sizes of its symbols at some of which it is smallest and largest; none if those are too many.

        What rises or falls steadily but for rounding, which repeats itself, has them in the first or last period.
        """
        most = MOST_COMBINED
        values: list[Sequence[int]] = [range(span.min, span.max + 1) for span in self.symbols.values()]
        if len(values) == 1:
            most = MOST_TRIED
            if _is_linear(self.terms):
                values = [_ends(values[0], _period(self))]
        if prod(map(len, values)) <= most:
            yield from (dict(zip(self.symbols, sizes, strict=True)) for sizes in product(*values))

    def __add__(self, other: Size) -> Size:  # type: ignore[override]  # a size is added, not a text
        return _size([*self.terms, *_terms(other)], self, other)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1

    def __rsub__(self, other: int) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size) -> Size:  # type: ignore[override]  # a size is multiplied, not a text
        return _size(
            [
                (tuple(sorted((*left, *right), key=str)), factor * other_factor)
                for left, factor in self.terms
                for right, other_factor in _terms(other)
            ],
            self,
            other,
        )

    __rmul__ = __mul__  # type: ignore[assignment]  # as above

    def __floordiv__(self, divisor: int) -> Size:
        whole = [(monomial, factor // divisor) for monomial, factor in self.terms]
        rest = [(monomial, factor % divisor) for monomial, factor in self.terms]
        below = _size(rest, self)
        return _size(whole, self) + (
            below // divisor if isinstance(below, int) else _floor_quotient(below, divisor)
        )


@dataclass(frozen=True, slots=True)
class Quotient:
    """``dividend // divisor``, where the division leaves a rest. The factors are from 0 to the divisor."""

    dividend: OpenSize
    divisor: int

    def __str__(self) -> str:
        is_symbol = self.dividend in self.dividend.symbols
        return f"{self.dividend}//{self.divisor}" if is_symbol else f"({self.dividend})//{self.divisor}"


Size: TypeAlias = int | OpenSize
"""A size that takes part in arithmetic."""
Atom: TypeAlias = str | Quotient
Monomial: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]
"""Products of atoms, each with a factor other than 0; the largest products first, a number last."""
Products: TypeAlias = dict[Monomial, int]
Form: TypeAlias = Callable[[Products], Products]
MOST_TRIED = 1 << 12
"""Sizes that are tried one by one, at most."""
MOST_COMBINED = 1 << 9
"""Sizes of several symbols that are tried one by one to find a range, at most: ranges are asked for often."""
MOST_CORNERED = 8
"""Atoms that are tried at their smallest and largest in all combinations, at most."""
LONGEST_SUM = 64
"""Quotients by larger numbers are not looked at together: to see that they add up takes as many of them."""


def range_of(size: Size) -> Range:
    """The range of a size; that of a number is the number."""
    return size.range if isinstance(size, OpenSize) else Range(size, size, size)


def divide(dividend: Size, divisor: Size) -> Size | None:
    """The exact quotient, or None if the division leaves a rest for some sizes."""
    for form in (_shortest, _independent):
        quotient = _long_division(_sum(_terms(dividend)), _sum(_terms(divisor)), form)
        if quotient is not None:
            return _size(quotient, dividend, divisor)
    if isinstance(dividend, OpenSize) and isinstance(divisor, int) and divisor > 0:
        return dividend // divisor if rest_at(dividend, divisor) is None else None
    return None


def rest_at(dividend: OpenSize, divisor: int) -> Mapping[str, int] | None:
    """Sizes of the symbols at which a division leaves a rest; None if it leaves none at any.

    Rests repeat themselves, so one period is tried. The answer is empty if that takes more than ``MOST_TRIED`` sizes.
    """
    period = _period(dividend, divisor)
    spans = [range(span.min, min(span.max + 1, span.min + period)) for span in dividend.symbols.values()]
    if prod(map(len, spans)) > MOST_TRIED:
        return {}
    every = (dict(zip(dividend.symbols, sizes, strict=True)) for sizes in product(*spans))
    return next((sizes for sizes in every if dividend.at(sizes) % divisor), None)


def _long_division(dividend: Products, divisor: Products, form: Form) -> list[tuple[Monomial, int]] | None:
    rest, by = form(dividend), form(divisor)
    if not by:
        return None
    leading = min(by, key=_order)
    quotient = []
    while rest:
        monomial = min(rest, key=_order)
        left, taken = Counter(monomial), Counter(leading)
        if rest[monomial] % by[leading] or taken - left:
            return None
        part, factor = _product(*(left - taken).elements()), rest[monomial] // by[leading]
        quotient.append((part, factor))
        subtracted = [(_product(*part, *each), -factor * other) for each, other in by.items()]
        rest = form(_sum([*rest.items(), *subtracted]))
    return quotient


def _independent(terms: Products) -> Products:
    """The form in which equal sizes have equal terms: of the quotients that add up to x, it has not the last.

    ``_shortest`` reads better, but a product in it need not have the terms of its factors.
    """
    result = terms
    while last := next(((monomial, each) for monomial in result for each in _last_quotients(monomial)), None):
        monomial, (others, whole, divisor) = last
        factor = result[monomial]
        quotients = [
            ((*others, Quotient(_plus(whole, place), divisor)), -factor) for place in range(divisor - 1)
        ]
        products = [((*others, *each), factor * number) for each, number in whole.terms]
        sums = [(_product(*atoms), number) for atoms, number in quotients + products]
        result = _sum([*result.items(), (monomial, -factor), *sums])
    return result


def _last_quotients(monomial: Monomial) -> Iterator[tuple[Monomial, OpenSize, int]]:
    for others, whole, divisor in _families(monomial):
        if _product(*others, Quotient(_plus(whole, divisor - 1), divisor)) == monomial:
            yield others, whole, divisor


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Products:
    """Equal products together, and none that cancel out."""
    total: Counter[Monomial] = Counter()
    for monomial, factor in terms:
        total[monomial] += factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def _order(monomial: Monomial) -> tuple[int, list[str]]:
    """The largest products first."""
    return -len(monomial), [str(atom) for atom in monomial]


def _floor_quotient(dividend: OpenSize, divisor: int) -> Size:
    """``dividend // divisor``, whose factors are from 0 to the divisor, as one quotient in lowest terms."""
    products = [term for term in dividend.terms if term[0]]
    number = next((factor for monomial, factor in dividend.terms if not monomial), 0)
    if len(products) == 1 and products[0][1] == 1:
        atom, *others = products[0][0]
        if not others and isinstance(atom, Quotient):  # (a//m + b)//n is (a + b*m)//(m*n)
            return (atom.dividend + atom.divisor * number) // (atom.divisor * divisor)
    common = reduce(gcd, (factor for _, factor in products), divisor)
    if common > 1:
        lower = _size([(monomial, factor // common) for monomial, factor in products], dividend)
        return (lower + number // common) // (divisor // common)
    return OpenSize((((Quotient(dividend, divisor),), 1),), dividend.symbols)


def _size(terms: Iterable[tuple[Monomial, int]], *parts: Size) -> Size:
    """The sum of terms in canonical form. The parts that they come from know the ranges."""
    kept = _shortest(_sum(terms))
    if not any(kept):
        return kept.get((), 0)
    names = {name for monomial in kept for atom in monomial for name in _names(atom)}
    spans = {
        name: span for part in parts if isinstance(part, OpenSize) for name, span in part.symbols.items()
    }
    ordered = sorted(kept.items(), key=lambda term: _order(term[0]))
    return OpenSize(tuple(ordered), {name: span for name, span in spans.items() if name in names})


def _shortest(terms: Products) -> Products:
    """The shortest of the forms that are equal because ``x//n + (x+1)//n + ... + (x+n-1)//n`` is x.

    So ``H//2 + (H+1)//2`` is H, and ``H - H//2`` is ``(H+1)//2``. Where quotients are multiplied, one sum may have to
    be found before another one.
    """
    while (shorter := _shorten(terms)) != terms:
        terms = shorter
    return terms


def _shorten(terms: Products) -> Products:
    """The terms, or a shorter form of them; each of the sums in them is looked at once."""
    families = {family for monomial in terms for family in _families(monomial)}
    for others, whole, divisor in sorted(families, key=str):
        parts = [_product(*others, Quotient(_plus(whole, place), divisor)) for place in range(divisor)]
        forms = []
        for copies in {terms.get(part, 0) for part in parts}:
            form = Counter(terms)
            form.subtract(dict.fromkeys(parts, copies))
            for monomial, factor in whole.terms:
                form[_product(*others, *monomial)] += copies * factor
            forms.append({monomial: factor for monomial, factor in form.items() if factor})
        terms = min(forms, key=_length)
    return terms


def _families(monomial: Monomial) -> Iterator[tuple[Monomial, OpenSize, int]]:
    """For each quotient in a product: the other atoms, the dividend without its number, the divisor."""
    for place, atom in enumerate(monomial):
        if isinstance(atom, Quotient) and atom.divisor <= LONGEST_SUM:
            products = tuple(term for term in atom.dividend.terms if term[0])
            whole = OpenSize(products, atom.dividend.symbols)
            yield (*monomial[:place], *monomial[place + 1 :]), whole, atom.divisor


def _plus(size: OpenSize, number: int) -> OpenSize:
    return OpenSize((*size.terms, ((), number)), size.symbols) if number else size


def _product(*atoms: Atom) -> Monomial:
    return tuple(sorted(atoms, key=str))


def _length(terms: Mapping[Monomial, int]) -> tuple[int, int, list[str]]:
    """Few terms are short, and sums are shorter than differences."""
    texts = sorted(_term(monomial, factor) for monomial, factor in terms.items())
    return len(terms), sum(factor < 0 for factor in terms.values()), texts


def _terms(size: Size) -> Terms:
    if isinstance(size, OpenSize):
        return size.terms
    return (((), size),) if size else ()


def _is_linear(terms: Terms) -> bool:
    """Whether no symbols are multiplied with each other, in quotients neither."""
    return all(
        len(monomial) < 2
        and all(_is_linear(atom.dividend.terms) for atom in monomial if isinstance(atom, Quotient))
        for monomial, _ in terms
    )


def _period(size: OpenSize, modulus: int = 1) -> int:
    """How far apart two values of a symbol are at which the size leaves the same rest by a modulus.

    With the modulus 1, a size whose symbols are not multiplied has then grown by a fixed number.
    """
    atoms = (atom for monomial, _ in size.terms for atom in monomial)
    periods = (_period(atom.dividend, modulus * atom.divisor) for atom in atoms if isinstance(atom, Quotient))
    return lcm(modulus, *periods)


def _ends(values: Sequence[int], period: int) -> Sequence[int]:
    """The values of the first and of the last period."""
    return values if len(values) <= 2 * period else [*values[:period], *values[-period:]]


def _distinct_atoms(monomial: Monomial) -> list[tuple[Atom, int]]:
    """Each atom, and how often it stands in the product before."""
    return [(atom, monomial[:place].count(atom)) for place, atom in enumerate(monomial)]


def _span(atom: Atom, symbols: Mapping[str, Range]) -> tuple[int, int]:
    """The smallest and the largest value of an atom."""
    span = atom.dividend.range if isinstance(atom, Quotient) else symbols[atom]
    return (
        (span.min // atom.divisor, span.max // atom.divisor)
        if isinstance(atom, Quotient)
        else (span.min, span.max)
    )


def _names(atom: Atom) -> Iterable[str]:
    return atom.dividend.symbols if isinstance(atom, Quotient) else (atom,)


def _value(atom: Atom, sizes: Mapping[str, Any]) -> Any:
    return atom.dividend.at(sizes) // atom.divisor if isinstance(atom, Quotient) else sizes[atom]


def _total(terms: Terms, sizes: Mapping[str, Any]) -> Any:
    return sum(factor * prod(_value(atom, sizes) for atom in monomial) for monomial, factor in terms)


def _text(terms: Terms) -> str:
    # What is subtracted comes last: N-H reads better than -H+N.
    in_order = sorted(terms, key=lambda term: term[1] < 0)
    first, *others = (_term(monomial, factor) for monomial, factor in in_order)
    return first + "".join(text if text.startswith("-") else f"+{text}" for text in others)


def _term(monomial: Monomial, factor: int) -> str:
    if factor == 1 and len(monomial) == 1:
        return str(monomial[0])
    atoms = [f"({atom})" if isinstance(atom, Quotient) else atom for atom in monomial]
    size = [] if monomial and abs(factor) == 1 else [str(abs(factor))]
    return ("-" if factor < 0 else "") + "*".join([*size, *atoms])
