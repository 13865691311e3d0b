"""Options as dataclasses, and functions that take them as one object or as keywords."""

from __future__ import annotations

import inspect
from typing import Any, Literal, TypeAlias, get_args

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import Options, meaning, one_of, option, takes_options
from prototrt.caffe_proto.common.records import KW_ONLY, dataclass, field, fields
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.options import Form, Precision, RewriteOptions
from prototrt.surgery.pipeline import FORMS
from prototrt.surgery.pipeline import PRECISIONS as PASSES_OF_PRECISIONS

Way: TypeAlias = Literal["loop", "step"]


@dataclass(frozen=True)
class Ways(Options):
    """Words before the list."""

    first: int = option("The first.", 1)
    _: KW_ONLY
    way: Way = one_of(Way, Worded("The way, as in {}.", Option("way", "step")))


@takes_options(Ways)
def told(subject: str, options: Ways) -> tuple[str, Ways]:
    return subject, options


def test_keywords_or_one_object() -> None:
    assert told("x") == ("x", Ways(1, way="loop"))
    assert told("x", 2, way="step") == told("x", options=Ways(2, way="step")) == ("x", Ways(2, way="step"))


@dataclass(frozen=True)
class Required(Options):
    folder: str = field(metadata=meaning("Where to write."))


@takes_options(Required)
def written(subject: str, options: Required) -> str:
    return f"{subject} in {options.folder}"


def test_an_object_has_what_is_required() -> None:
    assert written("x", options=Required("out")) == written("x", "out") == "x in out"
    with pytest.raises(TypeError, match="missing a required argument: 'folder'"):
        written("x")  # type: ignore[call-overload]  # the mistake


@dataclass(frozen=True)
class More(Ways):
    last: bool = option("Whether it is the last.", False)


def test_docstrings_list_the_fields_and_those_of_base_classes() -> None:
    """As ``inspect.getdoc`` gives them, in Python's words."""
    first, way = "- ``first``: The first.", '- ``way``: The way, as in way="step".'
    assert inspect.getdoc(Ways) == f"Words before the list.\n\n{first}\n{way}"
    assert str(More.__doc__).splitlines()[2:] == [first, way, "- ``last``: Whether it is the last."]


def test_every_field_of_the_package_has_a_meaning() -> None:
    kinds: list[type[Options]] = [RewriteOptions, *Options.__subclasses__()]
    fields_without = [
        f"{kind.__name__}.{each.name}"
        for kind in kinds
        if kind.__module__.startswith("prototrt.") and ".tests." not in kind.__module__
        for each in fields(kind)
        if not each.metadata.get("meaning")
    ]
    assert fields_without == []


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
    assert "- ``cont``: drop: leave out the cont input" in str(prototrt.rewrite.__doc__)
    assert shown["sequence"].default == RewriteOptions().sequence
