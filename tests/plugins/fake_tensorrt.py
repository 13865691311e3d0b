"""Enterprise TensorRT as far as a net of Tiles needs it: its plugins are run on the CPU.

``FakeTensorRT("10.16.1")`` stands for the module ``tensorrt``, its ``plugin`` for ``tensorrt.plugin``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.tests.plugins.cpu import address, buffer, loaded

STREAM = 0x57
"""The one stream that the driver of cpu.py knows."""


@dataclass(frozen=True)
class Kind:
    """An element type, or a member of another enumeration."""

    name: str
    numpy: str = ""


FLOAT, HALF, BF16, FP8, INT8, INT32, BOOL = (
    Kind("FLOAT", "float32"),
    Kind("HALF", "float16"),
    Kind("BF16"),
    Kind("FP8"),
    Kind("INT8", "int8"),
    Kind("INT32", "int32"),
    Kind("BOOL"),
)


@dataclass
class Tensor:
    name: str
    dtype: Kind
    shape: tuple[int, ...]


@dataclass
class Layer:
    """A plugin; ``run`` computes its output."""

    output: Tensor
    run: Callable[[Array], Array]
    name: str = ""
    metadata: str = ""
    num_outputs: int = 1

    def get_output(self, index: int) -> Tensor:
        return self.output


class Interface:
    """Any of the classes that a user of TensorRT derives from."""


class Registry:
    """The plugin creators by name, version and namespace."""

    def __init__(self) -> None:
        self.creators: dict[tuple[str, str, str], Any] = {}

    def get_creator(self, name: str, version: str, namespace: str) -> Any:
        return self.creators.get((name, version, namespace))

    @property
    def all_creators(self) -> list[Any]:
        return [*self.creators.values()]

    def register_creator(self, creator: Any, namespace: str) -> bool:
        key = creator.name, creator.plugin_version, namespace
        assert key not in self.creators, f"{key} is registered twice"
        self.creators[key] = creator
        return True


class Network:
    """An INetworkDefinition: inputs and plugins."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.outputs: list[Tensor] = []

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    def add_input(self, name: str, dtype: Kind, shape: Sequence[int]) -> Tensor:
        return Tensor(name, dtype, tuple(shape))

    def mark_output(self, tensor: Tensor) -> None:
        self.outputs.append(tensor)

    def add_plugin(self, create: Callable[[], Layer], aot: bool) -> Layer:
        assert aot, "the engine must not call back into Python"
        self.layers.append(create())
        return self.layers[-1]

    def add_plugin_v3(self, inputs: Sequence[Tensor], shape_inputs: Sequence[Tensor], plugin: Any) -> Layer:
        assert not shape_inputs
        (x,) = inputs
        (dtype,) = plugin.get_output_data_types([x.dtype])
        (shape,) = plugin.get_output_shapes([x.shape], [], Expressions())
        self.layers.append(
            Layer(Tensor("", dtype, tuple(shape)), lambda array: _enqueued(plugin, x, shape, array))
        )
        return self.layers[-1]


def _enqueued(plugin: Any, x: Tensor, shape: Sequence[int], array: Array) -> Array:
    """One call, as the engine makes it: on what another process would get back of the plugin."""
    running = plugin.attach_to_context(None)
    y = buffer(int(np.prod(shape)), x.dtype.numpy)
    described = SimpleNamespace(dims=x.shape, type=x.dtype)
    running.enqueue([described], [], [array.ctypes.data], [y.ctypes.data], 0, STREAM)
    return y.reshape(tuple(shape))


class Expressions:
    """An IExprBuilder over plain numbers."""

    def constant(self, value: int) -> int:
        return value

    def operation(self, kind: Kind, a: int, b: int) -> int:
        assert kind.name == "PROD"
        return a * b


class Builder:
    def __init__(self, logger: Any) -> None:
        self.network = Network()

    def create_network(self, flags: int) -> Network:
        return self.network

    def create_builder_config(self) -> Any:
        return SimpleNamespace(clear_flag=lambda flag: None)

    def build_serialized_network(self, network: Network, config: Any) -> bytes:
        return b"a plan"


# ---------------------------------------------------------------- tensorrt.plugin


@dataclass
class TensorDesc:
    dtype: Kind
    shape_expr: list[int]

    def like(self) -> TensorDesc:
        return TensorDesc(self.dtype, list(self.shape_expr))


@dataclass
class KernelLaunchParams:
    grid_x: int = 1
    block_x: int = 1


class SymIntExprs(list[int]):
    def __init__(self, length: int) -> None:
        super().__init__([0] * length)


@dataclass
class QuickPlugins:
    """The module ``tensorrt.plugin``."""

    op: Any = field(default_factory=SimpleNamespace)
    functions: dict[str, list[Callable[..., Any]]] = field(default_factory=dict)
    TensorDesc = TensorDesc
    KernelLaunchParams = KernelLaunchParams
    SymIntExprs = SymIntExprs
    SymInt32 = int

    @staticmethod
    def cdiv(a: int, b: int) -> int:
        return -(-a // b)

    def register(self, plugin_id: str) -> Callable[..., Any]:
        def decorate(describe: Callable[..., Any]) -> Callable[..., Any]:
            assert plugin_id not in self.functions, f"{plugin_id} is defined twice"
            self.functions[plugin_id] = [describe]
            namespace, name = plugin_id.split("::")
            setattr(self.op, namespace, SimpleNamespace(**{name: self._maker(plugin_id)}))
            return describe

        return decorate

    def aot_impl(self, plugin_id: str) -> Callable[..., Any]:
        return self.functions[plugin_id].append

    def _maker(self, plugin_id: str) -> Callable[..., Callable[[], Layer]]:
        def make(x: Tensor, **attributes: Any) -> Callable[[], Layer]:
            describe, compile_ahead = self.functions[plugin_id]
            given = TensorDesc(x.dtype, list(x.shape))
            tiled = describe(given, **attributes)
            name, _, launch, scalars = compile_ahead(given, **attributes, outputs=(tiled,), tactic=0)
            shape = tuple(tiled.shape_expr)
            return lambda: Layer(
                Tensor("", tiled.dtype, shape),
                lambda array: launched(name, launch, scalars, array, x.dtype.numpy, shape),
            )

        return make


def launched(
    name: str, launch: Any, scalars: Sequence[int], x: Array, dtype: str, shape: tuple[int, ...]
) -> Array:
    """What TensorRT does with a kernel that was compiled ahead: inputs, scalars, outputs."""
    y = buffer(int(np.prod(shape)), dtype)
    values = [address(x), *(ctypes.c_int(scalar) for scalar in scalars), address(y)]
    arguments = (ctypes.c_void_p * len(values))(
        *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
    )
    function = ctypes.c_void_p()
    assert loaded().cuModuleGetFunction(ctypes.byref(function), name.encode(), name.encode()) == 0
    sizes = (launch.grid_x, 1, 1, launch.block_x, 1, 1, 0)
    assert loaded().cuLaunchKernel(function, *sizes, ctypes.c_void_p(STREAM), arguments, None) == 0
    return y.reshape(shape)


class FakeTensorRT(SimpleNamespace):
    """The module ``tensorrt`` of a version."""

    def __init__(self, version: str) -> None:
        interfaces = ("ILogger", "IErrorRecorder", "IPluginCreatorV3One", "IPluginV3")
        capabilities = [f"IPluginV3One{part}" for part in ("Core", "Build", "Runtime")]
        registry = Registry()
        super().__init__(
            __name__="tensorrt",
            __version__=version,
            float32=FLOAT,
            float16=HALF,
            bfloat16=BF16,
            fp8=FP8,
            int8=INT8,
            int32=INT32,
            Builder=Builder,
            BuilderFlag=SimpleNamespace(TF32=Kind("TF32")),
            DimensionOperation=SimpleNamespace(PROD=Kind("PROD")),
            DimsExprs=list,
            PluginField=lambda name, data, kind: SimpleNamespace(name=name, data=data, type=kind),
            PluginFieldCollection=list,
            PluginFieldType=SimpleNamespace(INT32=Kind("INT32")),
            TensorFormat=SimpleNamespace(LINEAR=Kind("LINEAR"), CHW32=Kind("CHW32")),
            TensorRTPhase=SimpleNamespace(BUILD=Kind("BUILD")),
            get_plugin_registry=lambda: registry,
            plugin=QuickPlugins(),
            **{name: type(name, (Interface,), {}) for name in (*interfaces, *capabilities)},
        )
