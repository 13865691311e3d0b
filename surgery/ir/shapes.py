"""Types and sizes of values: known sizes, symbols and where they can be read, and sizes that depend on the data."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import ConversionError, ShapeError
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir.dimensions import OpenSize, Range, Size
from prototrt.surgery.ir.range_words import one_size

if TYPE_CHECKING:
    from prototrt.surgery.ir.graph import Value


Array: TypeAlias = npt.NDArray[Any]


class DType(enum.Enum):
    """Element types, by NumPy's names."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8 = "float8_e4m3fn"
    INT8 = "int8"
    INT32 = "int32"
    BOOL = "bool"

    @functools.cached_property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's type. Raises ``ConversionError`` if it is one of ml_dtypes, and that is not installed."""
        name: Any = self.value
        if self in (DType.BFLOAT16, DType.FLOAT8):
            try:
                import ml_dtypes
            except ImportError as error:
                fix = pip_install("bf16")
                raise ConversionError(f"computing in {name} needs ml_dtypes", fix=fix) from error
            name = getattr(ml_dtypes, name)
        dtype: np.dtype[Any] = np.dtype(name)
        return dtype

    @staticmethod
    @functools.cache
    def of(dtype: np.dtype[Any]) -> DType:
        """The type that NumPy calls so. Raises ``ValueError`` for another one."""
        return DType(dtype.name)


FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Types to compute in."""
HALVES = (DType.FLOAT16, DType.BFLOAT16)
"""Types of 16 bits: primitives compute in float32 and round at the end, as matrix units do."""
EIGHT_BITS = (DType.INT8, DType.FLOAT8)
"""Types of quantized numbers, which only Quantize writes and which are worth a scale each."""


def sizes(shape: Sequence[int | str]) -> str:
    """As in 1x3x224x224; a size that is known only when an engine runs is a name in brackets."""
    return "x".join(str(dim) if isinstance(dim, int) else f"[{dim}]" for dim in shape) if shape else "scalar"


def ranges(symbols: Mapping[str, Range]) -> str:
    """As in "T is 1 to 64, usually 16; N is 1 to 8, usually 1"."""
    return "; ".join(
        f"{name} is {span.min} to {span.max}, usually {span.opt}" for name, span in symbols.items()
    )


def usual_shape(shape: Shape) -> Shape:
    """The shape at the usual sizes of what varies from call to call."""
    return tuple(dim.range.opt if isinstance(dim, OpenSize) else dim for dim in shape)


class DataSize(str):
    """A symbol for a size that depends on the data. It is known only after the net has run."""

    __slots__ = ()


Dim: TypeAlias = int | OpenSize | DataSize
"""A size: known, varying from call to call, or known only after the net has run."""
Shape: TypeAlias = tuple[Dim, ...]


class AtMost(int):
    """The largest size that an axis may need. Only the first elements count; their number depends on the data.

    ``count`` is the name of the output of the graph that holds the number. Every rule that copies the size
    keeps the count. Arithmetic returns a plain size: all elements count.
    """

    count: str

    def __new__(cls, size: int, count: str) -> AtMost:
        new = super().__new__(cls, size)
        new.count = count
        return new

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # int has one
        return int(self), self.count


def fixed(dim: Dim, what: str) -> int:
    """The size itself. Raises ``ShapeError`` for a symbol, with the dimension that must be fixed."""
    size = computable(dim, what)
    if isinstance(size, int):
        return size
    is_symbol = size in size.symbols
    raise ShapeError(
        f"{what} is {'the symbol ' if is_symbol else ''}{size}, but its size must be known here",
        fix=one_size(size.symbols),
    )


def computable(dim: Dim, what: str = "a dimension") -> Size:
    """A size to compute with. Raises ``ShapeError`` for one that depends on the input's values."""
    if isinstance(dim, DataSize):
        raise ShapeError(
            f"the size of {what} depends on the input's values ({dim}), but it must be known here",
            fix=CUT_BEFORE_LAYER,
        )
    return dim


def symbols_of(dim: Dim) -> Mapping[str, Range]:
    """The symbols in a size, and their ranges."""
    return dim.symbols if isinstance(dim, OpenSize) else {}


def size_at(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The size for these values of symbols. Raises ``KeyError`` for a symbol that has none."""
    if isinstance(dim, int):
        return dim
    return int(dim.at(sizes)) if isinstance(dim, OpenSize) else sizes[dim]


def element_count(shape: Shape, what: str = "the size") -> int:
    """Product of the dimensions, 1 for a scalar; symbols raise ``ShapeError``."""
    return math.prod([dim if isinstance(dim, int) else fixed(dim, what) for dim in shape])


def open_count(shape: Shape, what: str = "the size") -> Size:
    """Product of the dimensions, 1 for a scalar; sizes that depend on the input's values raise ``ShapeError``."""
    total: Size = 1
    for dim in shape:
        total = total * computable(dim, what)
    return total


def measure(shape: Shape) -> tuple[Size, list[DataSize]]:
    """Number of elements: the product of the sizes, and the sizes that depend on the data."""
    counted = sorted(dim for dim in shape if isinstance(dim, DataSize))
    return open_count(tuple(dim for dim in shape if not isinstance(dim, DataSize))), counted


@dataclass(frozen=True, slots=True)
class SymbolSource:
    """An axis of an input, ``factor * symbol + summand`` elements long."""

    input: Value
    axis: int
    factor: int
    summand: int

    @property
    def is_plain(self) -> bool:
        """Whether the axis is as long as the symbol says."""
        return (self.factor, self.summand) == (1, 0)

    def solve(self, size: Any) -> Any:
        """The size of the symbol where the axis has this length, a number or anything that adds and divides."""
        return (size + -self.summand) // self.factor


def symbol_sources(inputs: Iterable[Value]) -> dict[str, SymbolSource]:
    """A source for each symbol that can be read: the first axis that is as long as it says, or else any."""
    sources: dict[str, SymbolSource] = {}
    for value in inputs:
        for axis, dim in enumerate(value.shape):
            line = dim.line if isinstance(dim, OpenSize) else None
            if line is not None:
                source = SymbolSource(value, axis, *line[1:])
                if line[0] not in sources or (source.is_plain and not sources[line[0]].is_plain):
                    sources[line[0]] = source
    return sources
