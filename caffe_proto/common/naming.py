"""Unique names, and names and texts of any origin in Python source."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Collection, Iterable

WORDS = frozenset({*dir(builtins), *keyword.kwlist})
"""What no name in a file may be: it could not be written, or other lines of the file would mean it."""


class Names:
    """The names in use in a net, a graph or a drawing. ``free`` gives out new ones, each only once."""

    def __init__(self, taken: Iterable[str] = (), number_form: str = "_{}") -> None:
        self._taken = set(taken)
        self._number_form = number_form
        self._last_numbers: dict[str, int] = {}
        self._latest = "", "", 1

    def free(self, candidate: str, reserved: Collection[str] = (), number_form: str | None = None) -> str:
        """The wanted name. If it is in use or reserved, the wanted name with the first free number from 2 on."""
        form = self._number_form if number_form is None else number_form
        # Names stay in use, so the search goes on where the last one ended: a thousand equal names take no time.
        name, number = candidate, self._last_numbers.get(candidate, 1)
        before = number
        while name in self._taken or name in reserved:
            number += 1
            name = candidate + form.format(number)
            self._last_numbers[candidate] = number
        self._taken.add(name)
        self._latest = name, candidate, before
        return name

    def take_back(self, name: str) -> None:
        """Make the name that was given out last free again, as if nobody had asked for it."""
        latest, candidate, number = self._latest
        assert name == latest, f"{name} was not given out last, but {latest}"
        self._taken.remove(name)
        self._last_numbers[candidate] = number


def literal(text: str) -> str:
    """The text as Python has it, in double quotes and ASCII."""
    return '"' + text.encode("unicode_escape", "surrogatepass").decode("ascii").replace('"', '\\"') + '"'
