"""Messages as protobuf writes them in text."""

from __future__ import annotations

from google.protobuf import text_format

from prototrt.caffe_proto.common.visible import visible
from prototrt.caffe_proto.schema import Message


def message_lines(message: Message) -> list[str]:
    """The lines of a message, in octal where a name has characters that act on a terminal."""
    text: str = text_format.MessageToString(message, as_utf8=True)
    text = text if visible(text) == text else text_format.MessageToString(message, as_utf8=False)
    return text.splitlines()
