"""Images of another size."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.records import dataclass
from prototrt.surgery.ir import Array, Shape, Size, fixed
from prototrt.surgery.ops.windows import Images


@dataclass(frozen=True, slots=True)
class Resize(Images):
    """x (N, C, H, W) with another height and width: means of the nearest elements. The corners stay the corners.

    Element i of an axis stands at ``i * (size - 1) / (new size - 1)`` of the old one; at 0 if it is the only one.
    """

    height: Size
    width: Size

    def shape(self, x: Shape) -> list[Shape]:
        return [(*x[:2], self.height, self.width)]

    def evaluate(self, x: Array) -> list[Array]:
        for axis, out in ((2, fixed(self.height, "the height")), (3, fixed(self.width, "the width"))):
            last = x.shape[axis] - 1
            place = np.arange(out) * last / max(out - 1, 1)
            low = place.astype(np.int32)
            share = (place - low).astype(np.float32).reshape(-1, *(1,) * (3 - axis))
            x = x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, last), axis) * share
        return [x]
