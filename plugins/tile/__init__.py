"""The Tile plugin of enterprise TensorRT: copies of a tensor one after the other along one axis.

From TensorRT 10.9 on its kernel is built into the engine (``quick``), which then needs nothing
but TensorRT. Before, the engine needs this package where it runs: call ``register`` first.
"""

from __future__ import annotations

from prototrt.plugins.tile.plugin_v3 import register

__all__ = ["register"]
