"""Names as nobody should choose them, for tests of whatever shows names."""

from __future__ import annotations

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
