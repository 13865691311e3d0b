"""Names as nobody should choose them, for tests of whatever shows names."""

from __future__ import annotations

import keyword
import unicodedata

from hypothesis import strategies as st

LINKS = [
    "www.example.com",
    "https://example.com/?a=b&c",
    "me@example.com",
    "[a](https://example.com)",
    "![a](https://example.com/a.png)",
    "[a]: https://example.com",
    "<https://example.com>",
    "<img src=x onerror=alert(1)>",
    "<details open>",
    "<!--",
    "~~a~~",
    "- [ ] a",
    "@everybody",
    "#12",
    "$x^2$",
]
"""What Markdown, or a site that shows it, makes more of than text."""
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_WIDTHLESS = "\xad\u200b\u2060\ufeff\U000e0041"
_TRAPS = ["\x1b[2J", "\x1b]0;title\x07", "[red]", "[/b]", ":smile:", "&lt;x&gt;", "&#0;", "<b>", "</script>"]
_TRAPS += [
    "]]>",
    "-->",
    '"',
    "'",
    "\\",
    "\\n",
    "|",
    "`",
    "*",
    "_",
    "{{ 1 }}",
    "::error::",
    "##vso[",
    "[[ATTACHMENT|/etc/passwd]]",
    *LINKS,
    "\n",
    "\t",
    *_DIRECTIONS,
    *_WIDTHLESS,
]

TEXTS = st.lists(
    st.sampled_from(_TRAPS) | st.characters() | st.characters(max_codepoint=0xA0), max_size=8
).map("".join)
"""With all that is hidden, and what has a meaning to some reader."""


def hidden_in(text: str) -> list[str]:
    """The control characters, except line breaks and tabs."""
    return [
        letter
        for letter in text
        if (unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") and letter not in "\n\t")
        or letter in _DIRECTIONS + _WIDTHLESS
        or letter in "\ufffe\uffff"
    ]


_WORDS = [
    *keyword.kwlist,
    *keyword.softkwlist,
    "true",
    "none",
    "False",
    "NULL",
    "print",
    "list",
    "int",
    "Exception",
]
"""Of the languages that names become words of: what has a meaning there."""
NAMES = st.one_of(
    TEXTS,
    st.sampled_from(_WORDS),
    st.text(min_size=1, max_size=300),
    st.text("_!", min_size=1, max_size=300),
    st.builds(lambda text, times: (text * times)[:300], TEXTS.filter(bool), st.integers(1, 300)),
).filter(bool)
"""Of 1 to 300 characters."""


def quoted(name: str) -> str:
    """The name in a prototxt."""
    return '"' + "".join(f"\\{byte:03o}" for byte in name.encode(errors="replace")) + '"'
