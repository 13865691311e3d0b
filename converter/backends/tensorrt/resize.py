"""Lowering of images of another size."""

from __future__ import annotations

from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import Resize


@lowers(Resize)
def resize(network: Network, op: Resize, x: Tensor) -> list[Tensor]:
    layer = network.add("resize", x)
    layer.resize_mode = network.enum("InterpolationMode", "LINEAR")
    layer.coordinate_transformation = network.enum("ResizeCoordinateTransformation", "ALIGN_CORNERS")
    # The formula for corners divides by 0 where a single pixel is left.
    layer.selector_for_single_pixel = network.enum("ResizeSelector", "UPPER")
    if any(isinstance(dim, str) for dim in network.shape):
        layer.set_input(1, network.sizes(network.shape))
    else:
        layer.shape = [fixed(dim, "a size") for dim in network.shape]
    return [layer.get_output(0)]
