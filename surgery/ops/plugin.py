"""A TensorRT plugin of the user as a primitive."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.surgery.ir import Array, DType, Op, Shape, Value
from prototrt.surgery.ir.axes import Tie

FieldNumber: TypeAlias = bool | int | float
FieldValue: TypeAlias = FieldNumber | str | tuple[FieldNumber, ...]


class PluginMeaning(Protocol):
    """What a plugin computes, and the shapes of its outputs, as its user says it."""

    def shapes(self, fields: Mapping[str, FieldValue], *inputs: Shape) -> list[Shape]:
        """The shapes of the outputs for these shapes of all inputs."""

    def evaluate(self, fields: Mapping[str, FieldValue], *inputs: Array) -> list[Array]:
        """The outputs in NumPy. Raises ``ConversionError`` if only the plugin can compute them."""


@dataclass(frozen=True, slots=True)
class Plugin(Op):
    """A layer that the user's plugin computes. The first ``tensors`` inputs are tensors.

    Each further input is a constant that becomes a field of the plugin, with a name of ``array_fields``.
    """

    name: str
    version: str
    namespace: str
    fields: tuple[tuple[str, FieldValue], ...]
    tensors: int
    outputs: int
    array_fields: tuple[str, ...]
    meaning: PluginMeaning = field(repr=False, compare=False)

    @property
    def constants(self) -> tuple[int, ...]:  # type: ignore[override]  # it depends on the layer
        return tuple(range(self.tensors, self.tensors + len(self.array_fields)))

    @property
    def title(self) -> str:
        """As messages call it."""
        return f"{self.namespace}::{self.name}" if self.namespace else self.name

    def shape(self, *inputs: Shape) -> list[Shape]:
        return self.meaning.shapes(dict(self.fields), *inputs)

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [DType.FLOAT32] * self.outputs

    def ties(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterable[Tie]:
        return ()  # unknown: only the plugin knows

    def mixes(self, rank: int) -> Collection[int]:
        return range(rank)

    def evaluate(self, *inputs: Array) -> list[Array]:
        return self.meaning.evaluate(dict(self.fields), *inputs)
