"""Options as dataclasses, and functions that take them as one object or as keywords."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import Options, one_of, takes_options
from prototrt.surgery.options import Form, Precision, RewriteOptions
from prototrt.surgery.pipeline import FORMS
from prototrt.surgery.pipeline import PRECISIONS as PASSES_OF_PRECISIONS

Way: TypeAlias = Literal["loop", "step"]


@dataclass(frozen=True)
class Ways(Options):
    first: int = 1
    _: KW_ONLY
    way: Way = one_of(Way)


@takes_options(Ways)
def told(subject: str, options: Ways) -> tuple[str, Ways]:
    return subject, options


def test_keywords_or_one_object() -> None:
    assert told("x") == ("x", Ways(1, way="loop"))
    assert told("x", 2, way="step") == told("x", options=Ways(2, way="step")) == ("x", Ways(2, way="step"))


@dataclass(frozen=True)
class Required(Options):
    folder: str


@takes_options(Required)
def written(subject: str, options: Required) -> str:
    return f"{subject} in {options.folder}"


def test_an_object_has_what_is_required() -> None:
    assert written("x", options=Required("out")) == written("x", "out") == "x in out"
    with pytest.raises(TypeError, match="missing a required argument: 'folder'"):
        written("x")  # type: ignore[call-overload]  # the mistake


def test_not_both() -> None:
    with pytest.raises(TypeError, match=r"told\(\) takes options or way, not both"):
        told("x", options=Ways(), way="step")  # type: ignore[call-overload]


def test_a_misspelt_keyword() -> None:
    with pytest.raises(TypeError) as caught:
        told("x", wey="step")  # type: ignore[call-overload]
    assert str(caught.value) == "told() got an unexpected keyword argument 'wey'. Did you mean 'way'?"
    with pytest.raises(TypeError) as caught:
        told("x", loop=1)  # type: ignore[call-overload]
    assert str(caught.value) == "told() got an unexpected keyword argument 'loop'"


def test_a_word_that_is_no_choice() -> None:
    with pytest.raises(
        ValueError, match=r"^way is 'run', expected one of loop, step\n  fix: use way=\"loop\"$"
    ):
        told("x", way="run")  # type: ignore[call-overload]  # the mistake


def test_one_name_stands_for_a_list() -> None:
    assert RewriteOptions(outputs="prob") == RewriteOptions(outputs=("prob",))
    assert RewriteOptions(dynamic="batch").dynamic == ("batch",)  # type: ignore[arg-type]  # the types want a list


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"shapes": (1, 3, 8, 8)},
            "shapes is (1, 3, 8, 8), expected shapes by the names of inputs\n"
            '  fix: write them as in shapes={"data": (1, 3, 224, 224)}',
        ),
        (
            {"shapes": {"x": "1x3x8x8"}},
            "shapes has '1x3x8x8' for x, expected a tuple of sizes\n  fix: use shapes={\"x\": (1, 3, 8, 8)}",
        ),
        (
            {"max_shapes": {"x": 4}},
            'max_shapes has 4 for x, expected a tuple of sizes\n  fix: use max_shapes={"x": (4,)}',
        ),
        (
            {"shapes": {"x": "large"}},
            "shapes has 'large' for x, expected a tuple of sizes\n"
            '  fix: use shapes={"x": (1, 3, 224, 224)}',
        ),
        (
            {"dynamic": ["batsh"]},
            "dynamic is 'batsh', expected one of batch, time, size\n  fix: use dynamic=[\"batch\"]",
        ),
    ],
)
def test_values_of_another_form(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError) as caught:
        RewriteOptions(**given)
    assert str(caught.value) == message


def test_every_choice_has_its_passes() -> None:
    assert tuple(FORMS) == get_args(Form)
    assert (*PASSES_OF_PRECISIONS, "int8", "fp8", "int8,bf16", "fp8,bf16") == get_args(Precision)


def test_the_signature_shows_every_option() -> None:
    shown = inspect.signature(prototrt.rewrite).parameters
    assert list(shown) == ["model", *(field.name for field in fields(RewriteOptions)), "options"]
    assert "``shapes``: shapes by input; they override the shapes in the file" in str(
        prototrt.rewrite.__doc__
    )
    assert shown["sequence"].default == RewriteOptions().sequence
