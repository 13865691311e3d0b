"""Facts as JSON, for programs."""

from __future__ import annotations

import json


def json_text(facts: object) -> str:
    """The text, which ends with a line break and is ASCII: it says each name exactly, and no terminal acts on it."""
    return json.dumps(facts, indent=2).replace("\x7f", "\\u007f") + "\n"
