"""Facts as JSON, for programs."""

from __future__ import annotations

import json


def json_text(facts: object) -> str:
    """The facts as ASCII text with a final line break. Names are exact, and no terminal interprets them."""
    return json.dumps(facts, indent=2).replace("\x7f", "\\u007f") + "\n"
