"""Facts as JSON, for programs."""

from __future__ import annotations

from collections.abc import Mapping

from prototrt.caffe_proto.common.json_files import ascii_json

FORMAT = 1
"""Of all results for programs. It changes when a key goes, or changes its meaning; docs/schemas describes them."""


def json_text(facts: object) -> str:
    """The facts as ASCII text with a final line break. Names are exact, and no terminal interprets them."""
    return ascii_json(facts, indent=2) + "\n"


def result_text(facts: Mapping[str, object]) -> str:
    """The result of a command, with the number of its format."""
    return json_text({"format": FORMAT, **facts})
