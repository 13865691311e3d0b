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
    line: int  # where it begins

    @property
    def name(self) -> str:
        return str(self._innermost.name)

    @property
    def _innermost(self) -> Message:
        is_v0 = self.field == "layers" and self.message.HasField("layer")
        return self.message.layer if is_v0 else self.message

    def origin(self, file: str, line: int) -> Origin | None:
        """None while the text has not named the layer."""
        message = self._innermost
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
    unknown: str | None = None  # the name of the field, where the mistake is that Caffe has no such field

    def error(self) -> ConversionError:
        return self._error(self.problem, self.because, self.fix)

    def dropped(self) -> str:
        """What to say where an unknown field is passed over."""
        return self._error(f'dropped the unknown field "{self.unknown}"').text

    @property
    def is_of_training(self) -> bool:
        """Whether what stands here can only say how weights are learned."""
        return any(name == "param" or name.endswith("_filler") for name in self.path)

    def _error(self, problem: str, because: str | None = None, fix: str | None = None) -> ConversionError:
        return self.family(
            problem,
            origin=self.layer.origin(self.file, self.line) if self.layer else None,
            where=f"{self.file}:{self.line}",
            blob=".".join(self.path[1:] if self.layer else self.path) or None,
            because=because,
            fix=fix,
        )


class BrokenTextError(Exception):
    """The structure of the text is broken: nothing after this place can be trusted."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.problem)
        self.finding = finding
