"""What a message offers when a name is not found: the names close to it, else the names there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_NAMES = 12
_CUTOFF = 0.72  # below this, what is offered is only noise


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three known names that look like ``name``, the closest first."""
    # "_param" ends so many names that it would make all of them look alike.
    by_stem = {candidate.lower().removesuffix("_param"): candidate for candidate in known}
    stem = name.lower().removesuffix("_param")
    matches = difflib.get_close_matches(stem, by_stem, n=3, cutoff=_CUTOFF)
    return [by_stem[match] for match in matches]


def choices(name: str, known: Iterable[str]) -> str:
    """``MAX or AVE``: the close names, or else all of them while they are few."""
    names = sorted(set(known))
    names = close_names(name, names) or names
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
