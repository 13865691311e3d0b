"""Options as dataclasses: each has its name, its default and its check in one place.

A function that takes options is called with keywords, or with one object::

    @takes_options(RewriteOptions)
    def rewrite(model: Model, options: RewriteOptions) -> Graph: ...

    rewrite(model, sequence="unroll")
    rewrite(model, options=RewriteOptions(sequence="unroll"))

The command line and lists of models make the same objects."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast, get_args, overload

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.records import Field, dataclass, field, fields
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Option, Worded

_FIELDS = "__dataclass_fields__"
PathLike: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = Sequence[str]
Shapes: TypeAlias = Mapping[str, Sequence[int]]
"""Shapes of inputs, by their names."""
OpenShapes: TypeAlias = Mapping[str, Sequence[int | str]]
"""Shapes of inputs, by their names. A size that varies is a name or a formula, as in ``("T*N", 3, 224, 224)``."""
SizeRanges: TypeAlias = Mapping[str, tuple[int, ...]]
"""By the name of a size that varies: the smallest, the usual and the largest; the largest is usual if two are given."""

P = ParamSpec("P")
S = TypeVar("S", contravariant=True)
O = TypeVar("O", contravariant=True)  # noqa: E741  options
T = TypeVar("T")
R = TypeVar("R", covariant=True)
W = TypeVar("W", bound=str)


def meaning(text: str, **further: Any) -> dict[str, Any]:
    """The metadata of a field without a default, as type checkers must see it."""
    return {"meaning": text, **further}


def option(meaning: str, default: object = None, **further: Any) -> Any:
    """A field. Python, the command line and docs/commands.md show its meaning, each in its own words.

    Other metadata: ``shown`` stands for a value in help; ``called`` are the names that the command line and lists of
    models have for it, ``once`` the name that it had before; ``reads`` marks the name of a file to read, ``writes``
    that of a file to write, by the suffixes that it may have.
    """
    return field(default=default, metadata={"meaning": meaning, **further})


def one_of(words: object, meaning: str, default: Any = ..., **further: Any) -> Any:
    """A field that holds one word of this ``Literal``, or several if its default does; by default the first."""
    choices = get_args(words)
    return option(meaning, choices[0] if default is ... else default, choices=choices, **further)


def one_name(option_field: Field[Any], word: str) -> str:
    """The choice that a word is, whatever its case, or the usual spelling of another word that the field takes."""
    choices, other = option_field.metadata.get("choices", ()), option_field.metadata.get("other_spelling")
    lower = word.lower()
    choice_in_other_case = next((choice for choice in choices if choice.lower() == lower), None)
    return choice_in_other_case or (other and other(word)) or word


def other_words_close_to(option_field: Field[Any], word: str) -> Sequence[str]:
    """Words beside its choices that a field takes, and that this may be a misspelling of."""
    find: Callable[[str], Sequence[str]] | None = option_field.metadata.get("close")
    return () if find is None else [each for each in find(word) if each in option_field.metadata["others"]]


def at_least(
    least: int, meaning: str, default: int | None = None, *, most: int | None = None, shown: str = "N"
) -> Any:
    """A field that holds a number, this one or a larger one, but at most ``most``."""
    return option(meaning, default, least=least, most=most, shown=shown)


def not_in_lists(meaning: str, default: object = None, **further: Any) -> Any:
    """A field of the command line and of Python, which a list of models does not have."""
    return option(meaning, default, not_in_lists=True, **further)


def only_in_python(meaning: str, default: object = None, *, compare: bool = False) -> Any:
    """A field that neither the command line nor a list of models has.

    Unless it changes results, it does not count when objects are compared.
    """
    return field(default=default, compare=compare, metadata={"meaning": meaning, "only_in_python": True})


def same_as(kind: type[Options], name: str) -> Any:
    """A field of another class, with its default and its meaning."""
    (original,) = (each for each in fields(kind) if each.name == name)
    return field(default=original.default, metadata=original.metadata)


def type_of(option_field: Field[Any]) -> str:
    """The name of its type without None, as in ``OpenShapes``."""
    return str(option_field.type).partition(" ")[0]


def takes_words(option_field: Field[Any]) -> bool:
    """Whether a field holds several of its choices."""
    return "choices" in option_field.metadata and isinstance(option_field.default, tuple)


def option_fields(kind: type[Options]) -> list[Field[Any]]:
    """The fields that are also options of the command line and keys of lists of models."""
    return [each for each in fields(kind) if "only_in_python" not in each.metadata]


def narrow(
    name: str, word: str, choices: Sequence[W], *, in_list: bool = False, close: Sequence[str] = ()
) -> W:
    """The word for this option, or of its list, as one of the choices: a plain ``str`` becomes one of a ``Literal``.

    Raises ``OptionsError``, which may propose one of the ``close`` words that are no choices.
    """
    for choice in choices:
        if choice == word:
            return choice
    shorter: list[str] = [choice for choice in choices if word.startswith(choice)]
    likely: str = next(iter((*close_names(word, choices), *close, *shorter)), choices[0])
    raise OptionsError(
        Worded("{} is {}, expected one of {}", Option(name), repr(word), ", ".join(choices)),
        fix=Worded("use {}", Option(name, [likely] if in_list else likely)),
    )


def refuse_bad_value(option_field: Field[Any], value: Any) -> None:
    """Raise ``OptionsError`` for a value that is not one of the field's choices, or too small or large."""
    choices, least = option_field.metadata.get("choices", ()), option_field.metadata.get("least")
    is_one, others = isinstance(value, str), option_field.metadata.get("others", ())
    for word in ([value] if is_one else value or ()) if choices else ():
        if word not in others:
            close = other_words_close_to(option_field, word)
            narrow(option_field.name, word, choices, in_list=not is_one, close=close)
    if least is not None and value is not None and value < least:
        raise OptionsError(
            Worded("{} is {}, expected at least {}", Option(option_field.name), value, least),
            fix=Worded("use {}", Option(option_field.name, least)),
        )
    most = option_field.metadata.get("most")
    if most is not None and value is not None and value > most:
        raise OptionsError(
            Worded("{} is {}, expected at most {}", Option(option_field.name), f"{value:.2e}", most),
            fix=Worded("use {}", Option(option_field.name, most)),
        )


def _refuse_no_shapes(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise OptionsError(
            Worded("{} is {}, expected shapes by the names of inputs", Option(name), repr(value)),
            fix=Worded("write them as in {}", Option(name, {"data": (1, 3, 224, 224)})),
        )
    for blob, shape in value.items():
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise OptionsError(
                Worded("{} has {} for {}, expected a tuple of sizes", Option(name), repr(shape), blob),
                fix=Worded("use {}", Option(name, {blob: _sizes_in(shape)})),
            )


def _sizes_in(text: object) -> tuple[int, ...]:
    """The sizes that a text as ``1x3x224x224`` states; those of an image if it states none."""
    return tuple(map(int, re.findall("[0-9]+", str(text)))) or (1, 3, 224, 224)


@dataclass(frozen=True)
class Options:
    """Options of one step. Raises ``OptionsError``, which is a ``ValueError``, for invalid values.

    A name alone stands for a list of one name. The docstring of each class lists the meanings of its fields.
    """

    def __init_subclass__(cls) -> None:
        inherited = {
            each.name: each for base in cls.__mro__[:0:-1] for each in vars(base).get(_FIELDS, {}).values()
        }
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        meanings = {
            name: each.metadata["meaning"] for name, each in (inherited | own).items() if each.metadata
        }
        lines = [f"- ``{name}``: {meaning}" for name, meaning in meanings.items()]
        cls.__doc__ = "\n\n".join([inspect.cleandoc(cls.__doc__ or ""), "\n".join(lines)])

    def __post_init__(self) -> None:
        for each in fields(self):
            value, alias = getattr(self, each.name), type_of(each)
            if (alias == "Names" or takes_words(each)) and isinstance(value, str):
                value = (value,)
                object.__setattr__(self, each.name, value)
            elif alias in ("OpenShapes", "Shapes") and value is not None:
                _refuse_no_shapes(each.name, value)
            elif "others" in each.metadata and isinstance(value, str):
                value = one_name(each, value)
                object.__setattr__(self, each.name, value)
            refuse_bad_value(each, value)


def _unknown_keyword(function: str, name: str, names: Iterable[str]) -> str:
    """Python's own words for it, with a suggestion also before Python 3.12."""
    close = close_names(name, names)
    meant = f". Did you mean '{close[0]}'?" if close else ""
    return f"{function}() got an unexpected keyword argument '{name}'{meant}"


class TakesOptions(Protocol[S, O, P, R]):
    """A function of a subject and options, which are given as one object or as keywords."""

    @overload
    def __call__(self, subject: S, /, *, options: O) -> R: ...

    @overload
    def __call__(self, subject: S, /, *args: P.args, **kwargs: P.kwargs) -> R: ...


def takes_options(
    kind: Callable[P, T],
) -> Callable[[Callable[[S, T], R]], TakesOptions[S, T, P, R]]:
    """A decorator: the function's second argument is a ``kind``, made from keywords if it is not given."""

    def decorate(function: Callable[[S, T], R]) -> TakesOptions[S, T, P, R]:
        subject = next(iter(inspect.signature(function).parameters.values()))
        whole = inspect.Parameter("options", inspect.Parameter.KEYWORD_ONLY, default=None)
        signature = inspect.Signature([subject, *inspect.signature(kind).parameters.values(), whole])

        @wraps(function)
        def call(*positional: Any, **keywords: Any) -> R:
            if unknown := [name for name in keywords if name not in signature.parameters]:
                raise TypeError(_unknown_keyword(function.__name__, unknown[0], signature.parameters))
            bind = signature.bind_partial if "options" in keywords else signature.bind
            try:
                bound = bind(*positional, **keywords).arguments
            except TypeError as error:  # which does not name the function, as Python's own does
                raise TypeError(f"{function.__name__}() {error}") from None
            first, options = bound.pop(subject.name), bound.pop("options", None)
            if options is not None and bound:
                raise TypeError(f"{function.__name__}() takes options or {', '.join(bound)}, not both")
            make: Callable[..., T] = kind
            return function(first, make(**bound) if options is None else options)

        call.__signature__ = signature  # type: ignore[attr-defined]  # what help() shows, and the options' words
        call.__doc__ = "\n\n".join(map(inspect.cleandoc, filter(None, (function.__doc__, kind.__doc__))))
        return cast("TakesOptions[S, T, P, R]", call)

    return decorate


_LOAD = 'prototrt.load("net.prototxt", "net.caffemodel")'
_FIRST = {
    "Model": {"file": f"call model = {_LOAD} first", "Graph": "give the model that the graph was made from"},
    "Graph": {
        "file": f"call graph = prototrt.rewrite({_LOAD}) first",
        "Model": "call graph = prototrt.rewrite(model) first",
        "Plan": "give the graph that the plan was built from",
    },
}


def refuse_no_file(function: str, subject: object) -> None:
    """Raise ``TypeError`` unless the subject is the name of a file."""
    if not isinstance(subject, str | os.PathLike):
        kind = type(subject).__name__
        raise TypeError(f"prototrt.{function} takes the file of a net, not {_with_article(kind)}")


def refuse_other(function: str, subject: object, kind: type) -> None:
    """Raise ``TypeError`` unless the subject is what the function takes; it says what to call first."""
    if isinstance(subject, kind):
        return
    is_file = isinstance(subject, str | os.PathLike)
    actual = "file" if is_file else type(subject).__name__
    advice = _FIRST[kind.__name__].get(actual)
    problem = f"prototrt.{function} takes a {kind.__name__}, not {_with_article(actual)}"
    raise TypeError(f"{problem}: {advice}" if advice else problem)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
