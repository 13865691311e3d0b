"""The Content-Security-Policy of a page: a browser runs and loads only what we wrote into it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence


def policy(styles: Sequence[str], scripts: Sequence[str] = (), modules: Sequence[str] = ()) -> str:
    """The policy of a page with these style and script elements, by their texts.

    ``modules`` are further sources of scripts. A page that breaks out of its escapes, by a mistake of ours,
    still loads nothing, sends nothing, and runs no script but these.
    """
    directives = {
        "default-src": ["'none'"],
        "style-src": list(map(_source, styles)),
        "script-src": [*map(_source, scripts), *modules],
        "img-src": ["data:"],  # the empty icon
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(sources)}" for name, sources in directives.items() if sources)


def _source(text: str) -> str:
    """The element with exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
