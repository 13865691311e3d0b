"""Lowering of Tile to our plugin, where TensorRT takes plugins."""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.plugins.tile import quick
from prototrt.plugins.tile.kernel import KERNELS
from prototrt.surgery.ops import Tile

_WITHOUT = Worded(
    "use {}, the default, or {}: both give the same numbers",
    Option("tile", "broadcast"),
    Option("tile", "native"),
)


def refuse_tile_plugin(backend: Backend) -> None:
    """Raise where no plugin can be part of an engine."""
    if not backend.takes_plugins:
        raise BuildError(
            "backend rtx cannot use the Tile plugin",
            because="TensorRT for RTX does not support plugins",
            fix=Worded("{}; or {}", _WITHOUT, Option("backend", "enterprise")),
        )
    if not backend.compiles_plugins:
        raise BuildError(
            f"tensorrt {backend.version} cannot use the Tile plugin",
            because="it does not compile plugins into engines, as releases from 10.9 on do",
            fix=_WITHOUT,
        )


def tile_by_plugin(network: Network, op: Tile, x: Tensor) -> Tensor:
    """The plugin as a layer, for a known number of copies. Its kernel is part of the engine."""
    assert isinstance(op.copies, int)
    if x.dtype.name not in KERNELS:
        raise BuildError(
            f"the Tile plugin moves elements of type {', '.join(KERNELS)}, not {x.dtype.name}",
            origin=network.origin,
            fix=_WITHOUT,
        )
    layer = quick.add_to(network.definition, network.backend.quick_plugins(), x, op.axis, op.copies)
    if layer is None:
        raise network.error("refuses the Tile plugin")
    return network.register(layer).get_output(0)
