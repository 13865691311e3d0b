"""A network in the making: every layer named, its origin noted, its errors caught at once."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError, Origin
from prototrt.caffe_proto.common.wording import Worded
from prototrt.converter.backends.sizes import ComputedSize
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.files import black_box
from prototrt.converter.options import TileLowering
from prototrt.surgery.ir import Array, Dim, DType, Node, OpenSize, Shape, Value, symbols_of
from prototrt.surgery.ir.shapes import symbol_sources

log = logging.getLogger(__name__)

Tensor: TypeAlias = Any
"""An ``ITensor``: the bindings carry no types."""
Layer: TypeAlias = Any
"""An ``ILayer``, or one of its kinds."""

_NO_GPU = "cudaError 35"
"""This message follows every error on a machine without a GPU, and is not about the network."""
_LOG_LINES = 20
_LEVELS = {"INTERNAL_ERROR": 40, "ERROR": 40, "WARNING": 30, "INFO": 20, "VERBOSE": 10}


class Network:
    """An ``INetworkDefinition`` whose errors name the layers it is made from.

    ``add`` makes layers; each gets the name of the node at hand (``at``), and a note of the
    Caffe layer and line as metadata. Errors come as ``BuildError`` with the origin.
    Arrays handed over are referenced, not copied, and kept alive.
    """

    def __init__(self, backend: Backend, tile: TileLowering = "native") -> None:
        self.backend, self.trt = backend, backend.trt
        self.tile = tile
        """What becomes of a Tile: ``"native"`` layers, or the ``"plugin"``."""
        self.primitives = 0
        """The number of layers, including those in loops."""
        self.needs: set[str] = set()
        """Packages that must ``register`` their plugins before the engine is loaded."""
        self.logger = recording_logger(self.trt)
        self.recorder = _recorder(self.trt)
        self.builder = backend.builder(self.logger)
        self.builder.error_recorder = self.recorder
        self.definition = self.builder.create_network(backend.network_flags())
        self.definition.error_recorder = self.recorder
        self.node: Node | None = None
        """The node at hand; its values know their shapes, symbols and all."""
        self._sizes: dict[Shape, Tensor] = {}
        self._inputs: dict[Value, Tensor] = {}
        self._read: dict[str, Tensor] = {}
        self._made: list[Layer] = []
        self.weights_bytes = 0
        """The bytes of all arrays that were handed over: a plan is at least this large."""
        self._kept: list[Array] = []
        self._constants: dict[Value, Tensor] = {}
        self._scalars: dict[Dim, Tensor] = {}

    def enum(self, kind: str, member: str) -> Any:
        """A member of one of TensorRT's enumerations, as in ``enum("ActivationType", "RELU")``."""
        return getattr(getattr(self.trt, kind), member)

    def add(self, method: str, *arguments: Any, owner: Any = None) -> Layer:
        """Call ``add_METHOD`` of the network (or of ``owner``, a loop) and name the layer."""
        layer = getattr(owner if owner is not None else self.definition, f"add_{method}")(*arguments)
        if layer is None:
            raise self.error(f"refuses {method}")
        return self.register(layer)

    def register(self, layer: Layer) -> Layer:
        """Give a new layer the name and the metadata of the node at hand."""
        if self.node is not None:
            count, origin = len(self._made), self.node.origin
            layer.name = self.node.name if count == 0 else f"{self.node.name}#{count + 1}"
            layer.metadata = origin.note
        self._made.append(layer)
        return layer

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Layers made inside belong to this node; they are checked at the end."""
        black_box.note(black_box.TASK, f"TensorRT was given {node.origin}")
        outer = self.node, self._made
        self.node, self._made = node, []
        try:
            yield
            self.check()
        finally:
            self.node, self._made = outer

    @property
    def origin(self) -> Origin | None:
        """The Caffe layer at hand."""
        return self.node.origin if self.node else None

    @property
    def shape(self) -> Shape:
        """The shape of the one output of the node at hand."""
        assert self.node is not None
        (output,) = self.node.outputs
        return output.shape

    @property
    def input_shape(self) -> Shape:
        """The shape of the first input of the node at hand."""
        assert self.node is not None
        return self.node.inputs[0].shape

    def check(self) -> None:
        """TensorRT computes shapes on request: the request makes errors appear now."""
        for layer in self._made:
            for index in range(layer.num_outputs):
                try:
                    tuple(layer.get_output(index).shape)
                except RuntimeError as error:
                    raise self.error(f"finds no shape for {layer.name}") from error
        if self.recorder.messages:
            raise self.error("refuses the layer")

    def error(self, what: str) -> BuildError:
        """What TensorRT has said since the last error, at the layer at hand."""
        messages = self.recorder.drain() or list(self.logger.last)
        return BuildError(
            f"TensorRT {what}",
            origin=self.origin,
            because=Worded.joined("\n          ", messages or ["it gave no reason"]),
        )

    @property
    def no_weights(self) -> Any:
        """For a layer that reads a tensor instead."""
        return self.trt.Weights()

    def weights(self, array: Array) -> Any:
        """An array as ``Weights`` which point to it; copied only if it is not contiguous."""
        if not array.flags.c_contiguous:
            array = np.array(array, order="C")
        self.keep(array)
        dtype = self.backend.dtype(DType.of(array.dtype))
        return self.trt.Weights(dtype, array.ctypes.data, array.size)

    def keep(self, array: Array) -> None:
        """Keep an array alive that TensorRT only points to."""
        self._kept.append(array)
        self.weights_bytes += array.nbytes

    def constant(self, value: Value) -> Tensor:
        """The tensor of a constant, made once."""
        if value not in self._constants:
            self._constants[value] = self.constant_array(value.array)
        return self._constants[value]

    def constant_array(self, array: Array) -> Tensor:
        """A new constant tensor.

        TensorRT's bindings cannot read back bfloat16, which NumPy does not have: it is cast from float32, once, when
        the engine is built.
        """
        is_bfloat16 = array.dtype.name == DType.BFLOAT16.value
        weights = self.weights(array.astype(np.float32) if is_bfloat16 else array)
        tensor = self.add("constant", array.shape, weights).get_output(0)
        return self.add("cast", tensor, self.trt.bfloat16).get_output(0) if is_bfloat16 else tensor

    def dtype_of(self, tensor: Tensor) -> np.dtype[Any]:
        """NumPy's name of a tensor's element type."""
        dtypes = {self.backend.dtype(dtype): dtype for dtype in DType}
        return dtypes[tensor.dtype].numpy

    def input(self, value: Value) -> Tensor:
        """A network input; symbols become -1."""
        sizes = tuple(dim if isinstance(dim, int) else -1 for dim in value.shape)
        tensor = self.definition.add_input(value.name, self.backend.dtype(value.dtype), sizes)
        if tensor is None:
            raise self.error(f'refuses the input "{value.name}"')
        self._inputs[value] = tensor
        return tensor

    def output(self, tensor: Tensor, name: str) -> None:
        """Mark a tensor as output of this name."""
        tensor.name = name
        self.definition.mark_output(tensor)
        if tensor.name != name or self.recorder.messages:
            raise self.error(f'refuses the output "{name}"')

    def scalar_size(self, dim: Dim) -> Tensor:
        """A size as a 0-dimensional int32 tensor, as loops need it. Made once, outside all loops."""
        if dim in self._scalars:
            return self._scalars[dim]
        if isinstance(dim, int):
            self._scalars[dim] = self.constant_array(np.array(dim, np.int32))
        else:
            layer = self.add("shuffle", self.sizes((dim,)))
            layer.reshape_dims = ()
            self._scalars[dim] = layer.get_output(0)
        return self._scalars[dim]

    def sizes(self, shape: Shape) -> Tensor:
        """A shape with symbols as a 1-dimensional int32 tensor. Made once, outside all loops."""
        if shape not in self._sizes:
            parts = [self._size(dim) for dim in shape]
            self._sizes[shape] = (
                parts[0] if len(parts) == 1 else self.add("concatenation", parts).get_output(0)
            )
        return self._sizes[shape]

    def _size(self, dim: Dim) -> Tensor:
        if isinstance(dim, int):
            return self.constant_array(np.array([dim], np.int32))
        assert isinstance(dim, OpenSize), "no engine has sizes that depend on the data"
        if (dim,) not in self._sizes:
            symbols = {name: ComputedSize(self._symbol(name), self._combine) for name in symbols_of(dim)}
            self._sizes[(dim,)] = dim.at(symbols).size
        return self._sizes[(dim,)]

    def _combine(self, operation: str, left: Tensor, right: Tensor | int) -> Tensor:
        """Two sizes, int32 tensors (1,), combined to a third."""
        kinds = {
            "+": self.enum("ElementWiseOperation", "SUM"),
            "*": self.enum("ElementWiseOperation", "PROD"),
            "//": self.enum("ElementWiseOperation", "FLOOR_DIV"),
        }
        other = self._size(right) if isinstance(right, int) else right
        return self.add("elementwise", left, other, kinds[operation]).get_output(0)

    def _symbol(self, name: str) -> Tensor:
        """The size of an axis that the symbol stands for, read once."""
        if name not in self._read:
            source = symbol_sources(self._inputs)[name]
            tensor = self._inputs[source.input]
            # From version 10 on, shapes are int64.
            shape = self.add("cast", self.add("shape", tensor).get_output(0), self.trt.int32).get_output(0)
            size = self.add("slice", shape, [source.axis], [1], [1]).get_output(0)
            self._read[name] = source.solve(ComputedSize(size, self._combine)).size
        return self._read[name]


def recording_logger(trt: Any) -> Any:
    """A logger that passes on to Python's, and remembers the last lines for failures without words."""

    class Logger(trt.ILogger):  # type: ignore[misc]  # the bindings carry no types
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.last: deque[str] = deque(maxlen=_LOG_LINES)
            self.levels: dict[Any, int] = {}

        def log(self, severity: Any, text: str) -> None:
            # Called hundreds of times a build: asking for a severity's name takes longer than all the rest.
            level = self.levels.get(severity) or self.levels.setdefault(severity, _LEVELS[severity.name])
            log.log(min(level, logging.INFO), "TensorRT: %s", text)
            if level >= logging.WARNING and _NO_GPU not in text:
                self.last.append(text)

    return Logger()


def _recorder(trt: Any) -> Any:
    """TensorRT's errors as a list of texts. Once it is set, they do not reach the logger."""

    class Recorder(trt.IErrorRecorder):  # type: ignore[misc]  # the bindings carry no types
        def __init__(self) -> None:
            trt.IErrorRecorder.__init__(self)
            self.messages: list[str] = []
            self.codes: list[Any] = []

        def drain(self) -> list[str]:
            messages, self.messages = self.messages, []
            return messages

        def num_errors(self) -> int:
            return len(self.messages)

        def get_error_code(self, index: int) -> Any:
            return self.codes[index]

        def get_error_desc(self, index: int) -> str:
            return self.messages[index]

        def has_overflowed(self) -> bool:
            return False

        def clear(self) -> None:
            self.messages, self.codes = [], []

        def report_error(self, code: Any, text: str) -> bool:
            log.debug("TensorRT error: %s", text)
            if _NO_GPU not in text:
                self.messages.append(text)
                self.codes.append(code)
            return False

    return Recorder()
