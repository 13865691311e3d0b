"""What a prototxt that prototrt wrote says beyond its layers, in comments: which output feeds which input."""

from __future__ import annotations

import json
import re

from prototrt.caffe_proto.common.records import dataclass

_RECURRENCE = re.compile(
    r"""
    ^ \# [ ] recurrence: [ ] (?P<output> "(?:[^"\\\n]|\\.)*" ) [ ] -> [ ] (?P<input> "(?:[^"\\\n]|\\.)*" )
    (?P<exposed> ,[ ]exposed )? [ \t\r]* $
    """,
    re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class MarkedRecurrence:
    """State that a caller feeds back: an output, and the input of the next call; ``exposed`` only if it wants to."""

    output: str
    input: str
    exposed: bool = False

    @property
    def comment(self) -> str:
        """The line of a prototxt that says so."""
        exposed = ", exposed" if self.exposed else ""
        return f"# recurrence: {json.dumps(self.output)} -> {json.dumps(self.input)}{exposed}"


def marked_recurrences(text: str) -> list[MarkedRecurrence]:
    """What the comments of a prototxt say."""
    return [
        MarkedRecurrence(
            json.loads(match["output"]), json.loads(match["input"]), match["exposed"] is not None
        )
        for match in _RECURRENCE.finditer(text)
    ]
