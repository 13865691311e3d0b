"""What the interpreter does, one thing after another: run a layer, or a loop (see ``scan``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prototrt.caffe_proto.common.errors import ConversionError, ShapeError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.backends.readback.dtypes import NetworkTensor
from prototrt.converter.backends.readback.registry import Array, Evaluate

Values = dict[str, Array]


class Action(Protocol):
    @property
    def reads(self) -> frozenset[str]: ...

    @property
    def writes(self) -> frozenset[str]: ...

    def run(self, values: Values) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class LayerAction:
    where: str
    evaluate: Evaluate
    inputs: tuple[str | None, ...]
    outputs: tuple[NetworkTensor, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(name for name in self.inputs if name is not None)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(output.name for output in self.outputs)

    def run(self, values: Values) -> None:
        results = self._results([None if name is None else values[name] for name in self.inputs])
        for output, result in zip(self.outputs, results, strict=True):
            values[output.name] = output.hold(result, self.where)

    def _results(self, arguments: Sequence[Array | None]) -> tuple[Array, ...]:
        try:
            results = self.evaluate(*arguments)
        except ConversionError as error:
            error.where = self.where
            raise
        except (ValueError, IndexError) as error:
            raise ShapeError(f"cannot be computed: {error}", where=self.where) from error
        return results if isinstance(results, tuple) else (results,)
