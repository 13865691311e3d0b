"""The shape that a Reshape of Caffe or Caffe2 states: 0 copies a size, -1 stands for the rest."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.errors import NetError, ShapeError
from prototrt.surgery.ir import AtMost, DataSize, Dim, Shape, divide, measure, open_count


def reshaped(shape: Shape, first: int, last: int, dims: Sequence[Dim]) -> Shape:
    """``shape`` with ``dims`` in the place of the axes from ``first`` to before ``last``."""
    middle: list[Dim] = []
    for index, dim in enumerate(dims):
        if dim == 0 and first + index >= len(shape):
            raise NetError(
                f"dim {index} is 0, which copies axis {first + index}, but the bottom has {len(shape)} axes: {shape}",
                fix="state the size itself",
            )
        middle.append(shape[first + index] if dim == 0 else dim)
    unknown = [index for index, dim in enumerate(middle) if dim == -1]
    if len(unknown) > 1 or any(isinstance(dim, int) and dim < -1 for dim in middle):
        raise NetError(
            f"shape is {list(dims)}, expected at most one -1",
            fix="state sizes, 0 for one that is copied, and -1 once for the rest",
        )
    if unknown:
        middle[unknown[0]] = _rest(shape, (*shape[:first], *middle, *shape[last:]))
    return (*shape[:first], *middle, *shape[last:])


def _rest(shape: Shape, target: Shape) -> Dim:
    """The size for -1 in ``target``; sizes that depend on the data cancel."""
    there, positive = list(shape), [dim for dim in target if dim != -1]
    for dim in [dim for dim in positive if isinstance(dim, DataSize)]:
        there.remove(dim)
        positive.remove(dim)
    counted = [dim for dim in there if isinstance(dim, DataSize)]
    explicit = open_count(tuple(positive))
    if len(counted) == 1 and measure(tuple(there))[0] == explicit:
        return counted[0]
    have = open_count(tuple(there), "an axis")
    rest = divide(have, explicit) if explicit else None
    if rest is None:
        raise ShapeError(
            f"shape is {shape}: its {have} elements cannot be cut into parts of {explicit}",
            fix="state sizes whose product divides these elements",
        )
    # Rows whose number the data decide keep their count where the rest is their axis.
    return next((dim for dim in shape if isinstance(dim, AtMost) and dim == rest), rest)
