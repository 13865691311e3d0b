"""What a message offers when a name is not found: the names close to it, else the names there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_NAMES = 12
# Below these, what is offered is only noise. "_param" ends so many names that it makes them look alike.
_CUTOFF, _CUTOFF_OF_WHOLE = 0.72, 0.85


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three known names that look like ``name``, the closest first."""
    by_stem = {candidate.lower().removesuffix("_param"): candidate for candidate in known}
    by_whole = {candidate.lower(): candidate for candidate in by_stem.values()}
    stem = name.lower().removesuffix("_param")
    close = [by_stem[match] for match in difflib.get_close_matches(stem, by_stem, cutoff=_CUTOFF)]
    if not close:
        whole = difflib.get_close_matches(name.lower(), by_whole, cutoff=_CUTOFF_OF_WHOLE)
        close = [by_whole[match] for match in whole]
    return close


def choices(name: str, known: Iterable[str]) -> str:
    """``MAX or AVE``: the close names, or else all of them while they are few."""
    names = sorted(set(known))
    names = close_names(name, names) or names
    if len(names) > MOST_NAMES:
        names = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
