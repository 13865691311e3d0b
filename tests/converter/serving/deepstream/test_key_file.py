"""Configs of Gst-nvinfer, read as GLib reads them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prototrt.converter.serving.deepstream.key_file import KeyFileError, escape, groups_of, unescape
from prototrt.tests.converter.serving.deepstream.glib import GKeyFile
from prototrt.tests.odd_names import NAMES

PIECES = [
    "[",
    "]",
    "=",
    "#",
    ";",
    ":",
    " ",
    "\t",
    "\v",
    "\f",
    "\r",
    "\r\n",
    "\n",
    "\\",
    "\\n",
    "\\;",
    "\x01",
    "@",
    "-",
]
PIECES += [
    "a",
    "b",
    "é",
    "_",
    "\u2028",
    "[a]",
    "\n[DEFAULT]\n",
    "\nkey=",
    "\n key = ",
    "\n\tkey=1",
    "\nkey[de]=",
]


@settings(max_examples=8 * settings().max_examples)
@example(["[property]\nmodel-file=a\n  custom-lib-path=b\n"])
@example(["[DEFAULT]\na=1\n[property]\nb=2\n"])
@example(["key=1"])
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_files_are_read_as_by_glib(pieces: Sequence[str]) -> None:
    for text in ("".join(pieces), "[a]\n" + "".join(pieces)):
        glib = GKeyFile(text.encode())
        if glib.is_read:
            assert groups_of(text) == glib.groups()
        else:
            with pytest.raises(KeyFileError):
                groups_of(text)


@settings(max_examples=4 * settings().max_examples)
@example("  two spaces")
@given(NAMES.filter(lambda text: "\0" not in text))
def test_any_text_is_a_value(text: str) -> None:
    text = text.encode(errors="replace").decode()
    written = f"[a]\nkey={escape(text)}\n"
    assert GKeyFile(written.encode()).string("a", "key") == text
    assert unescape(groups_of(written)["a"]["key"]) == text


@given(st.lists(st.sampled_from(["\\", "s", "n", "t", "r", "x", " ", "\\s"]), max_size=8).map("".join))
def test_what_a_value_means(value: str) -> None:
    meaning = GKeyFile(f"[a]\nkey={value}\n".encode()).string("a", "key")
    assert meaning is None or unescape(value.lstrip(" ")) == meaning
