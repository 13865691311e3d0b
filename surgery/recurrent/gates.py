"""The order of gates in the rows of a matrix: Caffe's, which cells expect, and the orders of other frameworks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prototrt.surgery.ir import Array
from prototrt.surgery.ir.made_arrays import join_of
from prototrt.surgery.ir.uniform_constants import is_broadcast

ORDERS: Mapping[str, Mapping[str, str]] = {
    "LSTM": {"caffe": "ifog", "caffe2": "ifog", "pytorch": "ifgo", "cudnn": "ifgo", "onnx": "iofg"},
    "GRU": {"caffe": "rzn", "caffe2": "rzn", "pytorch": "rzn", "cudnn": "rzn", "onnx": "zrn"},
    "RNN": {"caffe": "n", "caffe2": "n", "pytorch": "n", "cudnn": "n", "onnx": "n"},
}
"""By cell and framework."""
PEEPHOLES: Mapping[str, str] = {"caffe": "ifo", "onnx": "iof"}
"""The rows of an LSTM's peepholes, by framework."""


def reordered(rows: Array, cell: str, source: str, target: str) -> Array:
    """Rows with gates in the order of one framework, reordered for another one.

    Raises ``ValueError`` for an unknown cell or framework, and if the rows cannot be divided into gates.
    """
    orders = orders_of(cell)
    if source not in orders or target not in orders:
        raise ValueError(f"the order is {source!r} or {target!r}, expected two of {', '.join(orders)}")
    return permuted(rows, orders[source], orders[target])


def permuted(rows: Array, source: str, target: str) -> Array:
    """Rows with a block for each letter of ``source``, with the blocks in the order of ``target``."""
    if source == target or is_broadcast(rows):
        return rows
    if len(rows) % len(source):
        raise ValueError(f"{len(rows)} rows cannot be divided into {len(source)} gates")
    blocks = dict(zip(source, np.split(rows, len(source)), strict=True))
    return join_of([blocks[gate] for gate in target])


def orders_of(cell: str) -> Mapping[str, str]:
    """The orders of a cell's gates, by framework; an unknown cell raises ``ValueError``."""
    if cell not in ORDERS:
        raise ValueError(f"the cell is {cell!r}, expected one of {', '.join(ORDERS)}")
    return ORDERS[cell]
