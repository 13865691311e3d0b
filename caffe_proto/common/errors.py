"""Errors in a user's model, with messages that help to fix them; and warnings, which do not stop a conversion.

A message has up to three parts: the place and the problem, the reason, and the fix::

    deploy.prototxt:41: layer "lstm1" (LSTM), bottom "cont": shape is (20, 4), expected (10, 4)
      because T is 10, the first dimension of bottom "data"
      fix: give "cont" the shape { dim: 10 dim: 4 }

A part that names an option is a ``Worded``: ``str(error)`` uses Python's syntax; the command line
and the list of models use their own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import MOST_LISTED, Option, ShortText, Worded, listed

_MOST_PROBLEMS = 20
"""How many problems a message tells at once. ``Problems.errors`` are all of them."""
_MOST_WRITTEN = 2000
"""How many problems the whole text of a message holds."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The Caffe layer and the line of the user's file that something came from.

    A Caffe2 net has operators, which need no name: ``operator`` identifies one, as in
    ``operator 3``. The line is 0 in a binary file.
    """

    file: str
    line: int
    layer: str
    type: str
    operator: str | None = None

    @property
    def subject(self) -> str:
        """The layer or the operator, without its place: ``layer "lstm1" (LSTM)``."""
        return f"{self.operator} ({self.type})" if self.operator else f'layer "{self.layer}" ({self.type})'

    @property
    def note(self) -> str:
        """Without the file: ``lstm1 (LSTM), line 41``."""
        return f"{self.layer} ({self.type}), {self.operator or f'line {self.line}'}"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.subject}"


class ConversionError(Exception):
    """A model cannot be converted, for a reason that the user can cause or fix.

    ``origin`` names the layer and its line. If there is no layer, ``where`` names the
    file (``"net.prototxt"`` or ``"net.prototxt:12"``). ``blob`` names one of the layer's
    blobs in words (``'bottom "cont"'``).
    """

    exit_code = 3
    is_unknown_field = False
    """Whether it is only that Caffe has no such field: a user's rule may read it."""
    lacking: str | None = None
    """A type or a field without a rule, without the name of the layer: equal ones can be counted."""

    def __init__(
        self,
        problem: str,
        *,
        origin: Origin | None = None,
        where: str | None = None,
        blob: str | None = None,
        because: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.origin = origin
        self.where = where
        self.blob = blob
        self.because = because
        self.fix = fix

    @property
    def headline(self) -> str:
        """The place and the problem, for a warning: neither the reason nor a fix."""
        place = str(self.origin) if self.origin else self.where
        if place and self.blob:
            place = f"{place}, {self.blob}"
        return Worded("{}: {}", place, self.problem) if place else self.problem

    @property
    def text(self) -> Worded:
        """The whole message."""
        lines = [self.headline]
        if self.because:
            lines.append(Worded("  because {}", self.because))
        if self.fix:
            lines.append(Worded("  fix: {}", self.fix))
        return Worded.joined("\n", lines)

    def __str__(self) -> str:
        return str(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self.args, self.__dict__)


def _unpickle(
    kind: type[ConversionError], args: tuple[object, ...], facts: dict[str, Any]
) -> ConversionError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class UnreadableFileError(ConversionError):
    """A file is missing, truncated, or not of the type that its name suggests."""

    is_of_other_kind = False
    """Whether it is whole, but another kind of file is expected."""


class NetError(ConversionError):
    """The net contradicts itself: a missing bottom, a top written twice, a field out of range."""


class MissingBlobError(NetError):
    """A bottom that no layer writes; ``bottom`` is its name.

    ``is_computed`` says that the layers of another state compute it from other blobs: as an input, it would be cut
    off from them.
    """

    def __init__(
        self,
        problem: str,
        *,
        bottom: str,
        origin: Origin | None,
        because: str | None,
        fix: str | None,
        is_computed: bool = False,
    ) -> None:
        super().__init__(problem, origin=origin, blob=f'bottom "{bottom}"', because=because, fix=fix)
        self.bottom = bottom
        self.is_computed = is_computed


def lacks_computed_blobs(errors: Iterable[ConversionError]) -> bool:
    """Whether layers of another state compute a missing blob: then a state must be chosen, and no shape given."""
    return any(isinstance(error, MissingBlobError) and error.is_computed for error in errors)


class UnsupportedLayerError(ConversionError):
    """A layer type, or a field of a layer, without a rule."""


class ShapeError(ConversionError):
    """A blob does not have the shape that its reader needs."""


class MissingShapesError(ShapeError):
    """Inputs without a stated shape; ``shapes`` are examples to state, with letters for sizes."""

    def __init__(
        self, problem: str, *, where: str, because: str | None, shapes: Mapping[str, Sequence[int | str]]
    ) -> None:
        what = "the shapes" if len(shapes) > 1 else "its shape"
        fix = Worded("give {}: {}", what, _first_shapes(shapes))
        super().__init__(problem, where=where, because=because, fix=fix)
        self.shapes = shapes


def _first_shapes(shapes: Mapping[str, Sequence[int | str]]) -> object:
    every = Option("shapes", shapes)
    if len(shapes) <= MOST_LISTED:
        return every
    first = Option("shapes", dict(islice(shapes.items(), MOST_LISTED)))
    return ShortText(Worded("{}, and so on", first), Worded("{}", every))


class WeightsError(ConversionError):
    """Weights are missing or do not fit the layer of the same name."""


class BuildError(ConversionError):
    """TensorRT refused the network or failed to build it."""

    exit_code = 4


class VerificationError(ConversionError):
    """Two ways of computing the same network disagree."""

    exit_code = 5


class EngineError(ConversionError):
    """An engine cannot be run here: no GPU, no driver, another TensorRT, or a plan that is not trusted."""

    exit_code = 6


class OptionsError(ConversionError, ValueError):
    """An option has an invalid value, or options contradict each other."""

    exit_code = 2


class Problems(ConversionError):  # noqa: N818  it is many errors, not one
    """Several errors, reported together so that the user can fix them together."""

    def __init__(self, errors: Sequence[ConversionError], *, fix: str | None = None) -> None:
        super().__init__(_first_texts(errors), fix=fix)
        self.errors = tuple(errors)

    @property
    def text(self) -> Worded:
        fix = Worded("\n  fix: {}", self.fix) if self.fix else ""
        texts = _first_texts(self.errors)  # of today: a fix may have been added to an error
        return Worded("{}\n{} problems{}", texts, f"{len(self.errors):,}", fix)


def _first_texts(errors: Sequence[ConversionError]) -> str:
    """The texts of the errors that a message lists. Those of the others are counted: to write them takes time."""
    texts = [error.text for error in errors[:_MOST_WRITTEN]]
    rest = len(errors) - len(texts)
    if not rest:
        return listed(texts, "\n", _MOST_PROBLEMS)
    short = Worded(
        "{}\nand {} more", Worded.joined("\n", texts[:_MOST_PROBLEMS]), f"{len(errors) - _MOST_PROBLEMS:,}"
    )
    return ShortText(short, Worded("{}\nand {} more", Worded.joined("\n", texts), f"{rest:,}"))


def raise_all(errors: Sequence[ConversionError]) -> None:
    """Raise nothing, the single error, or all errors as ``Problems``, without duplicates."""
    different = distinct(errors) if errors else []
    if len(different) == 1:
        raise different[0]
    if different:
        raise Problems(different)


def distinct(errors: Sequence[ConversionError]) -> list[ConversionError]:
    """The single errors, without duplicates."""
    single = [
        inner for error in errors for inner in (error.errors if isinstance(error, Problems) else (error,))
    ]
    return list({_key(error): error for error in single}.values())


def _key(error: ConversionError) -> tuple[object, ...]:
    """What the text of an error is made of. To write out the text takes longer."""
    return error.origin or error.where, error.blob, error.problem, error.because, error.fix


_PACKAGE = __name__.partition(".")[0]
_OF_USERS = (f"{_PACKAGE}.tests.", f"{_PACKAGE}.samples.")
_is_silent: ContextVar[bool] = ContextVar("is_silent", default=False)


class ConversionWarning(UserWarning):
    """The net converts, but its user should know this: a layer left out, weights that nobody reads, a doubt.

    ``warnings.simplefilter("error", prototrt.ConversionWarning)`` makes errors of them.
    """


@contextmanager
def silent() -> Iterator[None]:
    """Within the block, nothing is told: whoever opened it tells it in a way of their own."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def tell(messages: Iterable[str], but: Iterable[str] = ()) -> None:
    """Warn of each text once, at the line that called the package. ``but`` were told before."""
    if _is_silent.get():
        return
    earlier = set(but)
    for text in dict.fromkeys(messages):
        if text not in earlier:
            warnings.warn(str(text), ConversionWarning, stacklevel=_levels_to_the_caller())


def _levels_to_the_caller() -> int:
    """How many frames are between ``warnings.warn`` in ``tell`` and the first one outside of the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(module: str) -> bool:
    """Whether code of this module does not call the package from outside; decorators are contextlib's."""
    is_package = f"{module}.".startswith(f"{_PACKAGE}.") and not module.startswith(_OF_USERS)
    return is_package or module == "contextlib"
