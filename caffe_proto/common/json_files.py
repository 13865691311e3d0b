"""JSON that users give."""

from __future__ import annotations

import json
from typing import Any


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
