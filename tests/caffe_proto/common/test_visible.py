"""Characters that act on a reader's terminal or document, written out."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given

from prototrt.caffe_proto.common.errors import NetError, Origin
from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.tests.odd_names import TEXTS, hidden_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("conv1/7x7 [red] &lt; é 名前 \N{SNOWMAN}", "conv1/7x7 [red] &lt; é 名前 \N{SNOWMAN}"),
        ("\x1b[31m\x00\x7f\x85\r", r"\x1b[31m\x00\x7f\x85\r"),
        ("\u202etxt.\u2066", r"\u202etxt.\u2066"),
        ("\ud800\uffff\u2028", r"\ud800\uffff\u2028"),
        ("##[conv1] ###vso[x", r"#\x23[conv1] ##\x23vso[x"),
    ],
)
def test_what_is_written_out(text: str, expected: str) -> None:
    assert visible(text) == visible_line(text) == expected


def test_line_breaks_stay_unless_a_line_is_asked_for() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert visible_line("a\n\tb") == r"a\n\tb"


OBEYED = re.compile(r"^\s*::|##(vso|teamcity)?\[|\[\[ATTACHMENT\|", re.IGNORECASE | re.MULTILINE)
"""What a CI system obeys in its log."""


@given(TEXTS)
def test_nothing_hidden_is_left(text: str) -> None:
    shown = visible(text)
    assert hidden_in(shown) == []
    assert visible(shown) == shown
    assert shown.encode().decode() == shown
    assert hidden_in(text) or OBEYED.search(text) or shown == text
    assert not any(unicodedata.category(letter) == "Cc" for letter in visible_line(text))


def test_a_name_does_not_add_a_line_to_a_message() -> None:
    origin = Origin("a\nb.prototxt", 3, "fc\n  fix: send money", "ReLU")
    error = NetError("is odd", origin=origin, blob='bottom "x\ny"', fix="mend it")
    assert str(error) == (
        'a\\nb.prototxt:3: layer "fc\\n  fix: send money" (ReLU), bottom "x\\ny": is odd\n  fix: mend it'
    )
