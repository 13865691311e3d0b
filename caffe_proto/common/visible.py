"""Text of any origin, made safe to show.

A layer may be called anything. Some characters do not show themselves but act on what a reader sees: they
move the cursor of a terminal, reverse the order of letters, or make XML invalid. Wherever text leaves for a
reader (a terminal, a report, a picture, a page), these characters are written as in Python: ``\\x1b``.
So are those without width, which make two names look like one.
So is a character of what a CI system would obey in its log: ``::error::`` at the beginning of a line for
GitHub, ``##[`` and ``##vso[`` anywhere for Azure, ``##teamcity[`` for TeamCity, ``[[ATTACHMENT|`` for Jenkins,
which then publishes the file of that name.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, among them the escape that begins a terminal's commands
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    "\u2028\u2029"  # further line breaks
    "\xad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # no width
    "\ud800-\udfff\ufffe\uffff]"  # no characters: UTF-8 lacks the first, XML the others
    r"|(?<=\#)\#(?=(?i:vso|teamcity)?\[)|\[(?=\[ATTACHMENT\|)"  # a comment keeps its first "#"
)
_COMMAND = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)
_HIDDEN_IN_A_LINE = re.compile(f"[\t\n]|{_HIDDEN.pattern}")


def visible_line(text: str) -> str:
    """Text that must stay on one line, such as a name in a message: line breaks and tabs become visible as well."""
    return visible(text, _HIDDEN_IN_A_LINE)


def visible(text: str, hidden: re.Pattern[str] = _HIDDEN) -> str:
    """Text of several lines, with everything visible but line breaks and tabs."""
    if text.isprintable() and not ("::" in text or "##" in text or "[[" in text):
        return text  # as nearly all are: the searches below cost ten times as much
    return _COMMAND.sub(r"\1\\x3a", hidden.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    text = match.group()
    return (
        f"\\x{ord(text):02x}"
        if text.isascii() and text.isprintable()
        else text.encode("unicode_escape").decode()
    )
