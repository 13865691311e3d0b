"""Tile through TensorRT's quick plugins, compiled ahead: from 10.9 on.

TensorRT puts the PTX and the way to launch it into the engine. Where that runs, neither Python nor this
package is needed.
"""

from __future__ import annotations

from functools import reduce
from operator import mul
from types import GenericAlias
from typing import Any

import numpy as np
import numpy.typing as npt

from prototrt.plugins.tile.kernel import BLOCK, KERNELS, NAME, NAMESPACE, ptx

_ID = f"{NAMESPACE}::{NAME}"
# An array: releases before 11 cannot make a number of an attribute with NumPy 2.4.
_Tiling = np.ndarray[Any, np.dtype[np.int32]]


def add_to(definition: Any, quick: Any, x: Any, axis: int, copies: int) -> Any:
    """Add the plugin to a network definition; ``quick`` is the module ``tensorrt.plugin``. The layer, or None."""
    tiling = np.array([axis, copies], np.int32)
    return definition.add_plugin(_defined(quick)(x, tiling=tiling), True)


def _defined(quick: Any) -> Any:
    """The plugin under ``quick.op``, which takes a definition once a process."""
    if not hasattr(getattr(quick.op, NAMESPACE, None), NAME):
        _define(quick)
    return getattr(getattr(quick.op, NAMESPACE), NAME)


def _define(quick: Any) -> None:
    """Register shapes and kernel. TensorRT checks signatures and annotations, which must be the types themselves."""

    def describe(x: Any, tiling: npt.NDArray[np.int32]) -> Any:
        axis, copies = map(int, tiling)
        tiled = x.like()
        tiled.shape_expr[axis] = x.shape_expr[axis] * copies
        return tiled

    def compile_ahead(x: Any, tiling: npt.NDArray[np.int32], outputs: Any, tactic: int) -> Any:
        axis, copies = map(int, tiling)
        kernel, sizes = KERNELS[x.dtype.name], list(x.shape_expr)
        inner, count = reduce(mul, sizes[axis:]), reduce(mul, sizes) * copies
        launch = quick.KernelLaunchParams()
        # One element more than there are: CUDA refuses the grid of no blocks that an empty tensor would get.
        launch.grid_x, launch.block_x = quick.cdiv(count + 1, kernel.elements_per_block), BLOCK
        scalars = quick.SymIntExprs(3)
        for index, scalar in enumerate((inner, copies, count)):
            scalars[index] = quick.SymInt32(scalar)
        return kernel.name, ptx(), launch, scalars

    arguments = {"x": quick.TensorDesc, "tiling": _Tiling}
    outputs = GenericAlias(tuple, (quick.TensorDesc,))
    results = GenericAlias(tuple, (str, str, quick.KernelLaunchParams, quick.SymIntExprs))
    describe.__annotations__ = {**arguments, "return": quick.TensorDesc}
    compile_ahead.__annotations__ = {**arguments, "outputs": outputs, "tactic": int, "return": results}
    quick.register(_ID)(describe)
    quick.aot_impl(_ID)(compile_ahead)
