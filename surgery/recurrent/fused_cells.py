"""ONNX's LSTM, GRU and RNN: all steps of a cell as one operator."""

from __future__ import annotations

from typing import ClassVar

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import DType, Op, Shape


class FusedCell(Op):
    """An operator of ONNX for all steps: states (N, H), x (T, N, D), W (G H, D), R (G H, H), biases (G H,), and if the
    streams have ends their lengths (N,) -> the last states, h of all steps.

    Rows are in Caffe's order of gates. It is not a primitive: only ONNX and PyTorch have it, the latter with states
    (1, N, H).
    """

    __slots__ = ()
    hidden: int
    reverse: bool
    kind: ClassVar[str]
    states: ClassVar[int] = 1

    def shape(self, *inputs: Shape) -> list[Shape]:
        return [*inputs[: self.states], (*inputs[self.states][:2], self.hidden)]

    def dtypes(self, *inputs: DType) -> list[DType]:
        return [*inputs[: self.states + 1]]


@dataclass(frozen=True, slots=True)
class FusedLSTM(FusedCell):
    """ONNX's LSTM: h, c, x, W, R, b."""

    hidden: int
    reverse: bool

    kind: ClassVar[str] = "LSTM"
    states: ClassVar[int] = 2
    constants: ClassVar[tuple[int, ...]] = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class FusedGRU(FusedCell):
    """ONNX's GRU: h, x, W, R, b, and a bias of the product with h. ``resets_after``: r multiplies that product."""

    hidden: int
    reverse: bool
    resets_after: bool

    kind: ClassVar[str] = "GRU"
    constants: ClassVar[tuple[int, ...]] = (2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class FusedRNN(FusedCell):
    """ONNX's RNN: h, x, W, R, b."""

    hidden: int
    reverse: bool
    activation: str

    kind: ClassVar[str] = "RNN"
    constants: ClassVar[tuple[int, ...]] = (2, 3, 4)
