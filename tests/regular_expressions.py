"""Whether matching a regular expression takes work in proportion to the text, read from the parsed expression.

Python's matcher goes back and tries again. That takes more than proportional work where a stretch of text can be
read in several ways: where an automaton of the expression, in a state p, can read the same word and be in p or in a
second state q, and read it once more in q (Weber and Seidl, "On the degree of ambiguity of finite automata", 1991).
Each position of the word is then a choice. Without a match in the end, all of them are tried.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias

_IS_PUBLIC = sys.version_info < (3, 11)
constants: Any = importlib.import_module("sre_constants" if _IS_PUBLIC else "re._constants")
parser: Any = importlib.import_module("sre_parse" if _IS_PUBLIC else "re._parser")

_MOST_COPIES = 3
"""Of a part that is repeated a stated number of times: that many show what more would show."""
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
_SAMPLES = "\x00\t\n !#09AZ_az\x7f\xb2\xe9\u0663\u2028\U0001f600"


def ambiguity(pattern: re.Pattern[str], is_search: bool, is_whole: bool) -> str | None:
    """What can be read in several ways, or None. ``is_search``: the match may begin anywhere; ``is_whole``: it must
    end where the text ends."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    machine = _Machine(_alphabet(tree), pattern.flags, is_whole)
    begins = tree.data[:1] == [(constants.AT, constants.AT_BEGINNING_STRING)] or (
        tree.data[:1] == [(constants.AT, constants.AT_BEGINNING)] and not pattern.flags & re.MULTILINE
    )
    start = machine.state()
    if is_search and not begins:
        machine.read(start, machine.every, start)
    machine.end = machine.built(tree, start)
    return machine.nested or machine.ambiguous()


def _alphabet(tree: Any) -> list[str]:
    """A character of each kind that the expression tells apart."""
    ends = {ord(char) for char in _SAMPLES}
    for first, last in _ranges(tree):
        ends |= {first - 1, first, last, last + 1}
    letters = {chr(end) for end in ends if 0 <= end < 0x110000}
    return sorted(letters | {letter.swapcase() for letter in letters if len(letter.swapcase()) == 1})


def _ranges(part: Any) -> Iterator[tuple[int, int]]:
    if isinstance(part, tuple) and part and part[0] in (constants.LITERAL, constants.NOT_LITERAL):
        yield part[1], part[1]
    elif isinstance(part, tuple) and part and part[0] is constants.RANGE:
        yield part[1]
    elif isinstance(part, (tuple, list, parser.SubPattern)):
        for inner in part:
            yield from _ranges(inner)


@dataclass(slots=True, eq=False)
class _State:
    """``edges`` lead on with a character, ``free`` and ``conditional`` without; the last behind certain ones only."""

    edges: list[tuple[frozenset[str], int]] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    conditional: list[tuple[int, frozenset[str]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """A state, and what holds of the character before it."""

    state: int
    holds: frozenset[frozenset[str]]


_Steps: TypeAlias = "dict[_Place, dict[str, set[_Place]]]"


@dataclass(eq=False)
class _Machine:
    """The automaton of an expression."""

    alphabet: list[str]
    flags: int
    is_whole: bool
    states: list[_State] = field(default_factory=list)
    end: int = -1
    nested: str | None = None

    @cached_property
    def every(self) -> frozenset[str]:
        return frozenset(self.alphabet)

    def state(self) -> int:
        self.states.append(_State())
        return len(self.states) - 1

    def read(self, start: int, letters: frozenset[str], end: int) -> None:
        self.states[start].edges.append((letters, end))

    def built(self, tree: Any, start: int) -> int:
        """Add the parts of the expression behind a state; the state behind them."""
        parts = [*tree]
        for index, (kind, argument) in enumerate(parts):
            if str(kind) in ("AT", "ASSERT", "ASSERT_NOT", "GROUPREF"):
                start = self._conditioned(str(kind), argument, start, parts[index + 1 : index + 2])
            else:
                start = self._built_part(str(kind), argument, start)
        return start

    def _conditioned(self, kind: str, argument: Any, start: int, then: list[Any]) -> int:
        """A part without characters. What follows may restrict it, which is left out but for words."""
        end = self.state()
        after = self.every
        if kind == "GROUPREF":
            self.read(end, self.every, end)
        elif kind != "AT" and argument[0] < 0:
            (inner,) = argument[1]
            held = self._letters(str(inner[0]), inner[1])
            after = held if kind == "ASSERT" else self.every - held
        elif kind != "AT":
            self.built(argument[1], start)  # it leads nowhere, and takes its work
        elif str(argument) in ("AT_END_STRING", "AT_END") and not (
            self.flags & re.MULTILINE and str(argument) == "AT_END"
        ):
            return end  # behind it, nothing is read
        elif str(argument) == "AT_BEGINNING":
            after = frozenset("\n") if self.flags & re.MULTILINE else frozenset()
        elif str(argument) == "AT_BOUNDARY" and self._begins_with_words(then):
            after = self.every - self._letters("IN", [("CATEGORY", "CATEGORY_WORD")])
        self.states[start].conditional.append((end, after))
        return end

    def _begins_with_words(self, parts: list[Any]) -> bool:
        while parts and str(parts[0][0]) == "MAX_REPEAT" and parts[0][1][0] > 0:
            parts = parts[0][1][2].data[:1]
        if not parts or str(parts[0][0]) not in ("LITERAL", "IN"):
            return False
        return self._letters(str(parts[0][0]), parts[0][1]) <= self._letters(
            "IN", [("CATEGORY", "CATEGORY_WORD")]
        )

    def _built_part(self, kind: str, argument: Any, start: int) -> int:
        if kind in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            end = self.state()
            self.read(start, self._letters(kind, argument), end)
            return end
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeated(start, *argument)
        if kind == "BRANCH":
            end = self.state()
            for way in argument[1]:
                self.states[self.built(way, start)].free.append(end)
            return end
        if kind == "SUBPATTERN":
            return self.built(argument[-1], start)
        raise NotImplementedError(kind)

    def _repeated(self, start: int, least: int, most: Any, part: Any) -> int:
        has_end = most is not constants.MAXREPEAT
        for _ in range(min(least, _MOST_COPIES)):
            start = self.built(part, start)
        if has_end:
            for _ in range(min(most - least, _MOST_COPIES)):
                end = self.built(part, start)
                self.states[start].free.append(end)
                start = end
            return start
        if part.getwidth()[0] == 0 and _is_unbounded(part):
            self.nested = "a repetition repeats one that may be empty"
        loop, end = self.state(), self.state()
        self.states[start].free.append(loop)
        self.states[self.built(part, loop)].free.append(loop)
        self.states[loop].free.append(end)
        return end

    def _letters(self, kind: str, argument: Any) -> frozenset[str]:
        return frozenset(letter for letter in self.alphabet if self._holds(kind, argument, letter))

    def _holds(self, kind: str, argument: Any, letter: str) -> bool:
        if kind == "ANY":
            return bool(self.flags & re.DOTALL) or letter != "\n"
        if kind in ("LITERAL", "NOT_LITERAL"):
            return any(ord(one) == argument for one in self._cases(letter)) == (kind == "LITERAL")
        is_negated = str(argument[0][0]) == "NEGATE"
        return any(self._is_in(letter, *item) for item in argument[is_negated:]) != is_negated

    def _is_in(self, letter: str, kind: Any, argument: Any) -> bool:
        if str(kind) == "CATEGORY":
            name = str(argument).removeprefix("CATEGORY_").removeprefix("NOT_")
            return bool(re.match(_CATEGORIES[name], letter)) != ("NOT_" in str(argument))
        low, high = (argument, argument) if str(kind) == "LITERAL" else argument
        return any(low <= ord(one) <= high for one in self._cases(letter))

    def _cases(self, letter: str) -> set[str]:
        return {letter, letter.lower()[0], letter.upper()[0]} if self.flags & re.IGNORECASE else {letter}

    # ------------------------------------------------------------ the question

    def _reached(self, place: _Place, surely: bool) -> set[int]:
        """The states that are reached without a character; ``surely``: whatever follows."""
        reached, left = {place.state}, [place.state]
        while left:
            state = self.states[left.pop()]
            conditional = [] if surely else [end for end, after in state.conditional if after in place.holds]
            for other in (*state.free, *conditional):
                if other not in reached:
                    reached.add(other)
                    left.append(other)
        return reached

    @cached_property
    def _conditions(self) -> set[frozenset[str]]:
        return {after for state in self.states for _, after in state.conditional}

    @cached_property
    def _start(self) -> _Place:
        return _Place(0, frozenset(self._conditions))

    @cached_property
    def _steps(self) -> _Steps:
        """Where each character leads from each place."""
        steps: _Steps = {}
        left = [self._start]
        while left:
            place = left.pop()
            if place in steps:
                continue
            ends = steps[place] = {}
            for state in self._reached(place, False):
                for letters, end in self.states[state].edges:
                    for letter in letters:
                        holds = frozenset(after for after in self._conditions if letter in after)
                        ends.setdefault(letter, set()).add(_Place(end, holds))
            left += [end for each in ends.values() for end in each]
        return steps

    def _never_fails(self, place: _Place) -> bool:
        """Whether there is a match from here, whatever follows."""
        if self.end not in self._reached(place, True):
            return False
        return not self.is_whole or all(place in self._steps[place].get(one, ()) for one in self.alphabet)

    def ambiguous(self) -> str | None:
        beyond = {place: _beyond(place, self._steps) for place in self._steps}
        looping = [place for place in self._steps if place in beyond[place]]
        for first, second in product(looping, looping):
            if first != second and second in beyond[first] and not self._never_fails(second):
                steps = self._steps if first.state else self._until_sure
                if (word := self._word(first, second, steps)) is not None:
                    return f"repetitions of {word!r} are read in several ways"
        return None

    @cached_property
    def _until_sure(self) -> _Steps:
        """The steps, but none where a match is sure: then it is not looked for from the next character on."""
        return {place: {} if self._never_fails(place) else ends for place, ends in self._steps.items()}

    def _word(self, first: _Place, second: _Place, steps: _Steps) -> str | None:
        """A word that leads from the first place to itself and to the second, and from the second to itself."""
        begin, end = (first, first, second), (first, second, second)
        words = {begin: ""}
        left = [begin]
        for now in left:
            for letter in self.alphabet:
                one, other, third = (steps[place].get(letter, set()) for place in now)
                for then in product(one, other, third):
                    if then == end:
                        return words[now] + letter
                    if then not in words:
                        words[then] = words[now] + letter
                        left.append(then)
        return None


def _beyond(place: _Place, steps: _Steps) -> set[_Place]:
    """What is reached with at least one character."""
    reached: set[_Place] = set()
    left = [place]
    while left:
        for ends in steps[left.pop()].values():
            left += ends - reached
            reached |= ends
    return reached


def _is_unbounded(part: Any) -> bool:
    return bool(part.getwidth()[1] >= constants.MAXREPEAT)
