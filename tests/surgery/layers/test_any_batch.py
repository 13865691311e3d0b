"""Windows and movers where the first axis is known only when the engine runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.small_nets import WAYS, has_engine, numbers, op, rewritten

SIZES = (4, 6, 5)
CONVOLUTION = "convolution_param { num_output: 2 kernel_size: 2 stride: 2 pad: 1 bias_term: false }"
LAYERS: dict[str, tuple[str, dict[str, Array]]] = {
    "Convolution": (CONVOLUTION, {"op/0": numbers(2, 4, 2, 2)}),
    "Deconvolution": (CONVOLUTION, {"op/0": numbers(4, 2, 2, 2)}),
    "Im2col": ("convolution_param { kernel_size: 2 dilation: 2 pad: 1 }", {}),
    "Pooling": ('top: "mask" pooling_param { kernel_size: 2 stride: 3 pad: 1 }', {}),
    "Pooling of nothing": ('top: "mask" pooling_param { kernel_size: 1 stride: 3 }', {}),
    "Pooling to means": ("pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", {}),
    "Pooling at random": ("pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 }", {}),
    "Pooling of all": ("pooling_param { pool: AVE global_pooling: true }", {}),
    "SPP": ("spp_param { pyramid_height: 2 }", {}),
    "Flatten": ("flatten_param { axis: -2 }", {}),
    "Reshape": ("reshape_param { shape { dim: 0 dim: 8 dim: -1 } }", {}),
    "Permute": ("permute_param { order: 2 order: 0 }", {}),
    "Transpose": ("transpose_param { dim: 3 dim: 2 dim: 1 dim: 0 }", {}),
    "Reverse": ("reverse_param { axis: 0 }", {}),
    "Reverse of rows": ("reverse_param { axis: 2 }", {}),
    "Slice": ('top: "z" slice_param { axis: 2 slice_point: 2 }', {}),
    "Tile": ("tile_param { axis: -1 tiles: 2 }", {}),
    "Concat": ('bottom: "x" concat_param { axis: 3 }', {}),
}


def made(name: str, batch: int, **options: Any) -> Graph:
    parameters, blobs = LAYERS[name]
    return rewritten(op(name.split()[0], parameters), {"x": (batch, *SIZES)}, blobs, **options)


def of_any_batch(name: str) -> Graph:
    return made(name, 2, min_shapes={"x": (1, *SIZES)}, max_shapes={"x": (7, *SIZES)})


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", LAYERS)
def test_gives_what_a_fixed_batch_gives(name: str, on: Way) -> None:
    session = prototrt.Session(of_any_batch(name), on=on)
    for batch in (1, 3):
        x = np.abs(numbers(batch, *SIZES, seed=batch))  # no cancellation where sums divide
        fixed = prototrt.Session(made(name, batch))
        results = session.run({"x": x})
        for blob, expected in fixed.run({"x": x}).items():
            np.testing.assert_allclose(results[blob], expected, 1e-5, 1e-6, err_msg=blob)


@pytest.mark.trt
@pytest.mark.parametrize("name", LAYERS)
def test_builds(name: str) -> None:
    assert has_engine(of_any_batch(name))
