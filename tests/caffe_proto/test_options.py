"""Options as dataclasses, and functions that take them as one object or as keywords."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass, fields

import pytest

import prototrt
from prototrt.caffe_proto.options import Options, one_of, takes_options
from prototrt.surgery.options import PRECISIONS, SEQUENCES, RewriteOptions
from prototrt.surgery.pipeline import FORMS
from prototrt.surgery.pipeline import PRECISIONS as PASSES_OF_PRECISIONS


@dataclass(frozen=True)
class Ways(Options):
    first: int = 1
    _: KW_ONLY
    way: str = one_of(("loop", "step"))


@takes_options(Ways)
def told(subject: str, options: Ways) -> tuple[str, Ways]:
    return subject, options


def test_keywords_or_one_object() -> None:
    assert told("x") == ("x", Ways(1, way="loop"))
    assert told("x", 2, way="step") == told("x", options=Ways(2, way="step")) == ("x", Ways(2, way="step"))


def test_not_both() -> None:
    with pytest.raises(TypeError, match=r"told\(\) takes options or way, not both"):
        told("x", options=Ways(), way="step")  # type: ignore[call-overload]


def test_a_misspelt_keyword() -> None:
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'wey'"):
        told("x", wey="step")  # type: ignore[call-overload]


def test_a_word_that_is_no_choice() -> None:
    with pytest.raises(
        ValueError, match=r"^way is 'run', expected one of loop, step\n  fix: use way=\"loop\"$"
    ):
        told("x", way="run")


def test_every_choice_has_its_passes() -> None:
    assert tuple(FORMS) == SEQUENCES
    assert (*PASSES_OF_PRECISIONS, "int8", "fp8", "int8,bf16", "fp8,bf16") == PRECISIONS


def test_the_signature_shows_every_option() -> None:
    shown = inspect.signature(prototrt.rewrite).parameters
    assert list(shown) == ["model", *(field.name for field in fields(RewriteOptions)), "options"]
    assert "``shapes`` override those of the file" in str(prototrt.rewrite.__doc__)
    assert shown["sequence"].default == RewriteOptions().sequence
