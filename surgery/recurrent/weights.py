"""Conversion of trained parameters between Caffe, PyTorch, cuDNN, Caffe2 and ONNX.

Every reader returns the same form, a list of ``DirectionWeights``: layer by layer, and in a layer forward
before backward. Every writer takes it. So ``to_caffe(from_pytorch(state))`` are blobs::

    from prototrt import weights

    directions = weights.from_pytorch(dict(numpy.load("lstm.npz")))
    blobs = weights.to_caffe(directions)
    numpy.savez("caffe.npz", **{f"lstm1/{index}": blob for index, blob in enumerate(blobs)})

Gates are blocks of rows. A cell is ``"LSTM"`` (gates i, f, o, g), ``"GRU"`` (r, z, n) or ``"RNN"`` (one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir.uniform_constants import concatenate, total
from prototrt.surgery.recurrent.gates import ORDERS, PEEPHOLES, orders_of, permuted, reordered

Array: TypeAlias = npt.NDArray[Any]

__all__ = [
    "ORDERS",
    "DirectionWeights",
    "from_caffe",
    "from_caffe2",
    "from_cudnn",
    "from_onnx",
    "from_pytorch",
    "in_order",
    "reordered",
    "to_caffe",
    "to_caffe2",
    "to_cudnn",
    "to_onnx",
    "to_pytorch",
]


@dataclass(frozen=True, slots=True, eq=False)
class DirectionWeights:
    """One direction of one layer, with Caffe's order of gates; G gates of H units.

    ``x`` (G*H, D), ``h`` (G*H, P), ``x_bias`` and ``h_bias`` (G*H,), ``projection`` (P, H),
    ``peephole`` (3, H): i, f, o.
    """

    cell: str
    x: Array
    h: Array
    x_bias: Array
    h_bias: Array
    projection: Array | None = None
    peephole: Array | None = None

    @property
    def bias(self) -> Array:
        """The sum of both biases, which is enough for an LSTM or a plain RNN."""
        return total(self.x_bias, self.h_bias)


def with_one_bias(weights: DirectionWeights) -> DirectionWeights:
    """The weights of an LSTM or a plain RNN with both biases in the first, and zeros in the second."""
    return replace(weights, x_bias=weights.bias, h_bias=np.broadcast_to(np.float32(0), weights.h_bias.shape))


def in_order(weights: DirectionWeights, source: str, target: str) -> DirectionWeights:
    """The weights with the gates of all four arrays of rows in the order of another framework."""
    x, h, x_bias, h_bias = (
        reordered(rows, weights.cell, source, target)
        for rows in (weights.x, weights.h, weights.x_bias, weights.h_bias)
    )
    return replace(weights, x=x, h=h, x_bias=x_bias, h_bias=h_bias)


CAFFES_ORDER = {
    "x": "W_xc",
    "x_bias": "b_c",
    "h": "W_hc",
    "h_bias": "b_hc",  # of a GRU with linear_before_reset
    "peephole": "peephole",
    "projection": "W_proj",
}
"""The blobs of a direction in Caffe: the fields of ``DirectionWeights`` in their order, and the names there."""


def from_caffe(
    blobs: Sequence[Array],
    cell: str = "LSTM",
    *,
    peephole: bool = False,
    projection: bool = False,
    recurrent_bias: bool = False,
) -> list[DirectionWeights]:
    """The directions in a layer's blobs; ``recurrent_bias`` is the bias of a GRU with linear_before_reset."""
    orders_of(cell)
    absent = {"h_bias": not recurrent_bias, "peephole": not peephole, "projection": not projection}
    stored = [field for field in CAFFES_ORDER if not absent.get(field)]
    count = len(stored)
    if not blobs or len(blobs) % count:
        raise ValueError(
            f"there are {len(blobs)} blobs, expected a multiple of {count}: {count} per direction"
        )
    directions = []
    for start in range(0, len(blobs), count):
        fields = dict(zip(stored, map(np.asarray, blobs[start : start + count]), strict=True))
        directions.append(DirectionWeights(cell, **{"h_bias": np.zeros_like(fields["x_bias"]), **fields}))
    return directions


def to_caffe(stack: Sequence[DirectionWeights], *, recurrent_bias: bool = True) -> list[Array]:
    """The blobs of one Caffe layer. The two biases are added, except for a GRU with ``recurrent_bias``.

    Such a GRU needs ``linear_before_reset: true``. Without ``recurrent_bias`` the blobs are those of a GRU that
    resets before the product, the default in Caffe2 and ONNX.
    """
    return [blob for one in stack for blob in _caffe_blobs(one, recurrent_bias and one.cell == "GRU")]


def _caffe_blobs(one: DirectionWeights, two_biases: bool) -> Iterator[Array]:
    added = {} if two_biases else {"x_bias": one.bias, "h_bias": None}
    blobs = (added.get(field, getattr(one, field)) for field in CAFFES_ORDER)
    return (blob for blob in blobs if blob is not None)


# Caffe2: i2h_w, i2h_b outside the recurrence, gates_t_w, gates_t_b inside.


def from_caffe2(
    i2h_w: Array, i2h_b: Array, gates_t_w: Array, gates_t_b: Array, cell: str = "LSTM"
) -> DirectionWeights:
    """One direction from the blobs of the Caffe2 cell of that name."""
    arrays = (np.asarray(array) for array in (i2h_w, gates_t_w, i2h_b, gates_t_b))
    return in_order(DirectionWeights(cell, *arrays), "caffe2", "caffe")


def to_caffe2(one: DirectionWeights) -> dict[str, Array]:
    """``i2h_w``, ``i2h_b``, ``gates_t_w`` and ``gates_t_b`` of one direction."""
    moved = in_order(one, "caffe", "caffe2")
    return {"i2h_w": moved.x, "i2h_b": moved.x_bias, "gates_t_w": moved.h, "gates_t_b": moved.h_bias}


# PyTorch: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, ..._reverse.


def from_pytorch(state: Mapping[str, Any], cell: str = "LSTM") -> list[DirectionWeights]:
    """The directions in the parameters of ``torch.nn.LSTM``, ``GRU`` or ``RNN``, by their names there."""
    names = pytorch_suffixes(state)
    if not names:
        longer = sorted(name for name in state if name.endswith("weight_ih_l0"))
        hint = f"; remove the prefix of {longer[0]} and of the other names" if longer else ""
        raise ValueError(f"there is no weight_ih_l0 among the parameters{hint}")
    return [_pytorch_direction(state, suffix, cell) for suffix in names]


def pytorch_suffixes(state: Mapping[str, Any]) -> list[str]:
    """The layers and directions in such parameters: ``l0``, ``l0_reverse``, ``l1``, and so on."""
    names, level = list[str](), 0
    while f"weight_ih_l{level}" in state:
        ways = (f"l{level}", f"l{level}_reverse")
        names += [name for name in ways if f"weight_ih_{name}" in state]
        level += 1
    return names


def _pytorch_direction(state: Mapping[str, Any], suffix: str, cell: str) -> DirectionWeights:
    if f"weight_hh_{suffix}" not in state:
        raise ValueError(f"there is weight_ih_{suffix} but no weight_hh_{suffix} among the parameters")
    x, h = np.asarray(state[f"weight_ih_{suffix}"]), np.asarray(state[f"weight_hh_{suffix}"])
    zeros = np.zeros(x.shape[:1], x.dtype)
    x_bias, h_bias = (np.asarray(state.get(f"bias_{kind}_{suffix}", zeros)) for kind in ("ih", "hh"))
    projection = state.get(f"weight_hr_{suffix}")
    one = DirectionWeights(cell, x, h, x_bias, h_bias, None if projection is None else np.asarray(projection))
    _refuse_odd_shapes(one)
    return in_order(one, "pytorch", "caffe")


def to_pytorch(stack: Sequence[DirectionWeights], directions: int = 1) -> dict[str, Array]:
    """Parameters under PyTorch's names."""
    state: dict[str, Array] = {}
    for place, one in enumerate(stack):
        _refuse_peephole(one, "PyTorch")
        _refuse_odd_shapes(one)
        suffix = f"l{place // directions}{'_reverse' if place % directions else ''}"
        moved = in_order(one, "caffe", "pytorch")
        state[f"weight_ih_{suffix}"], state[f"weight_hh_{suffix}"] = moved.x, moved.h
        state[f"bias_ih_{suffix}"], state[f"bias_hh_{suffix}"] = moved.x_bias, moved.h_bias
        if one.projection is not None:
            state[f"weight_hr_{suffix}"] = one.projection
    return state


def _refuse_peephole(one: DirectionWeights, framework: str) -> None:
    if one.peephole is not None:
        raise ValueError(f"{framework} has no peepholes")


def _refuse_odd_shapes(one: DirectionWeights) -> None:
    """Raise ``ValueError`` unless there are two matrices, and biases with a number for each of their rows."""
    rows = {array.shape[:1] for array in (one.x, one.h, one.x_bias, one.h_bias)}
    if (one.x.ndim, one.h.ndim, one.x_bias.ndim, one.h_bias.ndim) != (2, 2, 1, 1) or len(rows) > 1:
        shapes = [str(array.shape) for array in (one.x, one.h, one.x_bias, one.h_bias)]
        raise ValueError(
            f"the matrices of x and h and their biases have the shapes {', '.join(shapes)}, expected as many rows"
            " in two matrices and two biases"
        )


# cuDNN: one vector: the matrices of all directions of all layers, then the biases of all.


def from_cudnn(
    flat: Array,
    cell: str,
    inputs: int,
    hidden: int,
    layers: int = 1,
    directions: int = 1,
    projection: int = 0,
) -> list[DirectionWeights]:
    """The directions in cuDNN's packed vector. A stack's further layers have directions * width inputs."""
    flat = np.asarray(flat).reshape(-1)
    gates, width = len(orders_of(cell)["cudnn"]), projection or hidden
    shapes: list[tuple[int, ...]] = []
    for layer in range(layers):
        size = inputs if layer == 0 else width * directions
        one: list[tuple[int, ...]] = [(gates * hidden, size), (gates * hidden, width)]
        shapes += (one + [(projection, hidden)] * bool(projection)) * directions
    shapes += [(gates * hidden,)] * (2 * layers * directions)
    parts = list(_cut(flat, shapes))
    matrices, count = 2 + bool(projection), layers * directions
    stack = []
    for place in range(count):
        x, h, *rest = parts[place * matrices : (place + 1) * matrices]
        x_bias, h_bias = parts[count * matrices + 2 * place : count * matrices + 2 * place + 2]
        stack.append(in_order(DirectionWeights(cell, x, h, x_bias, h_bias, *rest), "cudnn", "caffe"))
    return stack


def _cut(flat: Array, shapes: Sequence[tuple[int, ...]]) -> Iterator[Array]:
    sizes = [int(np.prod(shape)) for shape in shapes]
    if sum(sizes) != flat.size:
        raise ValueError(f"the vector has {flat.size} numbers, expected {sum(sizes)}")
    ends = np.cumsum(sizes)
    for end, size, shape in zip(ends, sizes, shapes, strict=True):
        yield flat[end - size : end].reshape(shape)


def to_cudnn(stack: Sequence[DirectionWeights]) -> Array:
    """cuDNN's packed vector."""
    for one in stack:
        _refuse_peephole(one, "cuDNN")
    moved = [in_order(one, "caffe", "cudnn") for one in stack]
    matrices = [part for one in moved for part in (one.x, one.h, one.projection) if part is not None]
    biases = [part for one in moved for part in (one.x_bias, one.h_bias)]
    return concatenate([part.reshape(-1) for part in (*matrices, *biases)])


# ONNX: W (directions, G*H, D), R (directions, G*H, H), B (directions, 2*G*H), P (directions, 3*H); a layer.


def from_onnx(
    w: Array, r: Array, b: Array | None = None, p: Array | None = None, cell: str = "LSTM"
) -> list[DirectionWeights]:
    """The one or two directions of one ONNX operator."""
    stack = []
    for place, (x, h) in enumerate(zip(np.asarray(w), np.asarray(r), strict=True)):
        both = np.zeros(2 * len(x), x.dtype) if b is None else np.asarray(b)[place]
        x_bias, h_bias = np.split(both, 2)
        one = in_order(DirectionWeights(cell, x, h, x_bias, h_bias), "onnx", "caffe")
        if p is not None:
            rows = permuted(np.asarray(p)[place], PEEPHOLES["onnx"], PEEPHOLES["caffe"])
            one = replace(one, peephole=rows.reshape(3, -1))
        stack.append(one)
    return stack


def to_onnx(stack: Sequence[DirectionWeights]) -> dict[str, Array]:
    """``W``, ``R``, ``B`` and, with peepholes, ``P`` of one ONNX operator for the directions of one layer."""
    if any(one.projection is not None for one in stack):
        raise ValueError("ONNX has no projections")
    moved = [in_order(one, "caffe", "onnx") for one in stack]
    tensors = {
        "W": np.stack([one.x for one in moved]),
        "R": np.stack([one.h for one in moved]),
        "B": np.stack([np.concatenate([one.x_bias, one.h_bias]) for one in moved]),
    }
    rows = [one.peephole.reshape(-1) for one in stack if one.peephole is not None]
    if rows:
        order = PEEPHOLES["caffe"], PEEPHOLES["onnx"]
        tensors["P"] = np.stack([permuted(row, *order) for row in rows])
    return tensors
