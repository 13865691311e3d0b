"""Mistakes found in a net's text, kept until the layer they stand in is read whole and its name is known."""

from __future__ import annotations

from dataclasses import dataclass

from prototrt.caffe_proto.errors import ConversionError, NetError, Origin
from prototrt.caffe_proto.schema import Message, enum_name


@dataclass(frozen=True, slots=True, eq=False)
class OpenLayer:
    """The layer that is being read."""

    message: Message
    field: str  # of the net: "layer" or "layers"

    def origin(self, file: str, line: int) -> Origin | None:
        """None while the text has not named the layer."""
        message = self.message
        if self.field == "layers" and message.HasField("layer"):
            message = message.layer
        kind = message.type
        if isinstance(kind, int):
            kind = enum_name("V1LayerParameter.LayerType", kind)
        return Origin(file, line, message.name, kind or "no type") if message.name else None


@dataclass(slots=True)
class Finding:
    """A mistake at ``line``, in the field that ``path`` leads to, as in ("layer", "convolution_param")."""

    file: str
    line: int
    layer: OpenLayer | None
    path: tuple[str, ...]
    problem: str
    because: str | None = None
    fix: str | None = None
    family: type[ConversionError] = NetError

    def error(self) -> ConversionError:
        return self.family(
            self.problem,
            origin=self.layer.origin(self.file, self.line) if self.layer else None,
            where=f"{self.file}:{self.line}",
            blob=".".join(self.path[1:] if self.layer else self.path) or None,
            because=self.because,
            fix=self.fix,
        )


class BrokenTextError(Exception):
    """The structure of the text is broken: nothing after this place can be trusted."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.problem)
        self.finding = finding
