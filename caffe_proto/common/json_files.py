"""JSON that users give, and JSON for programs."""

from __future__ import annotations

import json
from typing import Any


def ascii_json(value: object, indent: int | None = None) -> str:
    """The value in ASCII. Texts are exact; neither a terminal nor a CI system finds a command in them."""
    text = json.dumps(value, indent=indent)
    return text.replace("\x7f", "\\u007f").replace("##", "\\u0023\\u0023")


def value_from_json(text: str | bytes) -> Any:
    """Raises ``ValueError``, in words for a reader, for what is not JSON or more than Python reads."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("a number in it has too many digits") from None
