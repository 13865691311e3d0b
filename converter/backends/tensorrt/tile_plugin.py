"""Lowering of Tile to our plugin, where TensorRT takes plugins."""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.plugins.tile import plugin_v3, quick
from prototrt.plugins.tile.kernel import KERNELS
from prototrt.surgery.ops import Tile

_WITHOUT = Worded(
    "use {}, the default, or {}: both give the same numbers",
    Option("tile", "broadcast"),
    Option("tile", "native"),
)


def refuse_tile_plugin(backend: Backend) -> None:
    """Raise where the backend takes no plugins."""
    if backend.plugins == "none":
        raise BuildError(
            "backend rtx cannot use the Tile plugin",
            because="TensorRT for RTX does not support plugins",
            fix=Worded("{}; or {}", _WITHOUT, Option("backend", "enterprise")),
        )


def register_tile_plugin(backend: Backend) -> None:
    """Let engines be loaded that call the plugin back, where there are such engines."""
    if backend.plugins == "class":
        plugin_v3.register(backend.trt)


def tile_by_plugin(network: Network, op: Tile, x: Tensor) -> Tensor:
    """The plugin as a layer, for a known number of copies.

    Its kernel is part of the engine if TensorRT can compile plugins ahead.
    """
    assert isinstance(op.copies, int)
    if x.dtype.name not in KERNELS:
        raise BuildError(
            f"the Tile plugin moves elements of type {', '.join(KERNELS)}, not {x.dtype.name}",
            origin=network.origin,
            fix=_WITHOUT,
        )
    if network.backend.plugins == "ahead":
        layer = quick.add_to(network.definition, network.backend.quick_plugins(), x, op.axis, op.copies)
    else:
        layer = plugin_v3.add_to(network.definition, network.trt, x, op.axis, op.copies)
        network.needs.add("prototrt.plugins.tile")
    if layer is None:
        raise network.error("refuses the Tile plugin")
    return network.register(layer).get_output(0)
