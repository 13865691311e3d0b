"""Options as dataclasses: each has its name, its default and its check in one place.

A function that takes options is called with keywords, or with one object that travels on::

    @takes_options(RewriteOptions)
    def rewrite(model: Model, options: RewriteOptions) -> Graph: ...

    rewrite(model, sequence="unroll")
    rewrite(model, options=RewriteOptions(sequence="unroll"))

The command line and lists of models make the same objects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

Names: TypeAlias = Sequence[str]
Shapes: TypeAlias = Mapping[str, Sequence[int]]
"""Shapes of inputs, by their names."""

P = ParamSpec("P")
S = TypeVar("S", contravariant=True)
O = TypeVar("O", contravariant=True)  # noqa: E741  options
T = TypeVar("T")
R = TypeVar("R", covariant=True)


def one_of(choices: Sequence[str]) -> Any:
    """A field that holds one of these words, by default the first."""
    return field(default=choices[0], metadata={"choices": tuple(choices)})


@dataclass(frozen=True)
class Options:
    """Options of one step. Raises ``ValueError`` for a value that is none of the field's choices."""

    def __post_init__(self) -> None:
        for each in fields(self):
            choices, value = each.metadata.get("choices"), getattr(self, each.name)
            if choices and value not in choices:
                raise ValueError(f"{each.name} is {value!r}, expected one of {', '.join(choices)}")


class TakesOptions(Protocol[S, O, P, R]):
    """A function of a subject and options, which are given as one object or as keywords."""

    @overload
    def __call__(self, subject: S, /, *, options: O) -> R: ...

    @overload
    def __call__(self, subject: S, /, *args: P.args, **kwargs: P.kwargs) -> R: ...


def takes_options(
    kind: Callable[P, T],
) -> Callable[[Callable[[S, T], R]], TakesOptions[S, T, P, R]]:
    """A decorator: the function's second argument is a ``kind``, made of keywords unless it is given."""

    def decorate(function: Callable[[S, T], R]) -> TakesOptions[S, T, P, R]:
        subject = next(iter(inspect.signature(function).parameters.values()))
        whole = inspect.Parameter("options", inspect.Parameter.KEYWORD_ONLY, default=None)
        signature = inspect.Signature([subject, *inspect.signature(kind).parameters.values(), whole])

        @wraps(function)
        def called(*positional: Any, **keywords: Any) -> R:
            given = signature.bind(*positional, **keywords).arguments
            first, options = given.pop(subject.name), given.pop("options", None)
            if options is not None and given:
                raise TypeError(f"{function.__name__}() takes options or {', '.join(given)}, not both")
            make: Callable[..., T] = kind
            return function(first, make(**given) if options is None else options)

        called.__signature__ = signature  # type: ignore[attr-defined]  # what help() shows, and the options' words
        called.__doc__ = "\n\n".join(map(inspect.cleandoc, filter(None, (function.__doc__, kind.__doc__))))
        return cast("TakesOptions[S, T, P, R]", called)

    return decorate
