"""The words of options are public types, and mean something."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import prototrt
from prototrt.caffe_proto.common.options import Options
from prototrt.caffe_proto.forks import MEANINGS
from prototrt.converter.builder_options import COMPATIBILITY
from prototrt.converter.checking.machines.targets import TARGETS
from prototrt.converter.running.sessions.session import WAYS
from prototrt.converter.showing.views.stages import READERS
from prototrt.tests.command_line import DEPLOY
from prototrt.tests.public_cases import WORDS

CHOICES = {
    name: get_args(thing)
    for name in prototrt.__all__
    if get_origin(thing := getattr(prototrt, name)) is Literal
}


KINDS = [kind for kind in Options.__subclasses__() if ".tests." not in f".{kind.__module__}."]


def literals(hint: Any) -> Iterator[tuple[str, ...]]:
    """The words of each ``Literal`` in a type."""
    if get_origin(hint) is Literal:
        yield get_args(hint)
    for part in get_args(hint):
        yield from literals(part)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_words_of_options_are_public_types(kind: type[Options]) -> None:
    """A field's type, its check and the choices of the command line are one list."""
    hints = get_type_hints(kind, localns={"Array": object, "KW_ONLY": object})
    for known in fields(kind):
        stated = [*literals(hints[known.name])]
        checked = known.metadata.get("choices")
        assert stated == ([checked] if checked else [("bind", "zero")] if known.name == "state" else [])
        assert all(words in CHOICES.values() for words in stated), known.name


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (prototrt.Fork, {fork for meanings in MEANINGS.values() for fork in meanings}),
        (prototrt.HardwareCompatibility, COMPATIBILITY),
        (prototrt.Reader, READERS),
        (prototrt.TargetName, TARGETS),
        (prototrt.Way, {*WAYS, "engine"}),
    ],
    ids=["forks", "compatibility", "readers", "targets", "ways"],
)
def test_each_word_means_something(words: object, meant: Collection[str]) -> None:
    assert sorted(get_args(words)) == sorted(meant)


def test_the_page_lists_the_types() -> None:
    listed = re.findall(r"`(\w+)`\s\(", WORDS.partition("\n## ")[0])
    assert sorted(listed) == sorted(CHOICES)


@pytest.mark.parametrize(
    ("name", "word", "message"),
    [
        ("stage", "lowred", 'one of parsed, rewritten, lowered\n  fix: use stage="lowered"'),
        (
            "reader",
            "caffe",
            'one of tensorrt, onnx, onnx-lstm, onnx-opencv, onnx-openvino\n  fix: use reader="tensorrt"',
        ),
    ],
)
def test_a_word_that_draw_does_not_know(name: str, word: str, message: str) -> None:
    given: dict[str, Any] = {name: word}
    with pytest.raises(prototrt.OptionsError) as caught:
        prototrt.draw(prototrt.load(DEPLOY), **given)
    assert str(caught.value) == f"{name} is {word!r}, expected {message}"
