"""Options that come to a command together, as one object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def gathered(kind: type[Any], keyword: str, *options: Callable[[F], F]) -> Callable[[F], F]:
    """A decorator: adds options to a command, which gets them together as one ``kind``."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_one(**given: Any) -> Any:
            own = {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}
            return command(**given, **{keyword: kind(**own)})

        result: Any = with_one
        for option in reversed(options):
            result = option(result)
        return result  # type: ignore[no-any-return]  # click's decorators keep the type

    return decorate
