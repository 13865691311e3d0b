"""Unique names."""

from __future__ import annotations

from collections.abc import Collection


def free_name(
    wanted: str, taken: set[str], number_form: str = "_{}", *, reserved: Collection[str] = ()
) -> str:
    """The name, or if it is taken, the name with the first free number from 2 on. Adds it to the taken names.

    A ``reserved`` name is not returned either.
    """
    name, number = wanted, 1
    while name in taken or name in reserved:
        number += 1
        name = wanted + number_form.format(number)
    taken.add(name)
    return name
