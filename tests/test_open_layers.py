"""Layers whose numbers depend on sizes, at five sizes: one graph against the same net with fixed shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array, Graph, Range, size_at, size_from_text
from prototrt.tests.samples import runs_on_ways
from prototrt.tests.small_nets import has_engine, numbers, op, rewritten, stored

Named = Sequence[int | str]


@dataclass(frozen=True, eq=False)
class OpenCase:
    """The fields of a layer "op" and the shapes of its bottoms, with sizes such as ``2*H``."""

    kind: str
    fields: str
    shapes: Mapping[str, Named]
    tops: Sequence[str] = ("y",)
    least: int = 3
    usual: int = 8
    most: int = 12
    blobs: Sequence[Array] = ()

    def __str__(self) -> str:
        return f"{self.kind}-{self.fields}-{'x'.join(map(str, next(iter(self.shapes.values()))))}"

    @property
    def layers(self) -> str:
        return op(self.kind, self.fields, self.shapes, self.tops)

    def shapes_at(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        spans = dict.fromkeys("HW", Range(self.least, self.usual, self.most))
        return {
            blob: tuple(size_at(size_from_text(str(dim), spans), sizes) for dim in shape)
            for blob, shape in self.shapes.items()
        }

    @cached_property
    def graph(self) -> Graph:
        span = (self.least, self.usual, self.most)
        usual = self.shapes_at({"H": self.usual, "W": self.usual})
        text = " ".join(str(dim) for shape in self.shapes.values() for dim in shape)
        return rewritten(
            self.layers,
            usual,
            stored("op", self.blobs),
            shapes=self.shapes,
            sizes={name: span for name in "HW" if name in text},
        )


def convolution(kernel: int, fields: str) -> OpenCase:
    """Of images, with weights. The kernel overhangs the smallest ones."""
    fields = f"convolution_param {{ num_output: 2 kernel_size: {kernel} {fields} }}"
    return OpenCase("Convolution", fields, IMAGE, blobs=[numbers(2, 3, kernel, kernel), numbers(2)])


IMAGE = {"x": (2, 3, "H", "W")}
CASES = [
    OpenCase("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }", IMAGE, ("y", "mask")),
    OpenCase(
        "Pooling",
        "pooling_param { kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 }",
        {"x": (1, 2, 7, "W")},
        ("y", "mask"),
    ),
    OpenCase("Im2col", "convolution_param { kernel_size: 3 stride: 2 pad: 1 dilation: 2 }", IMAGE, least=4),
    OpenCase("Im2col", "convolution_param { kernel_size: 2 stride: 3 }", {"x": (2, 3, "W")}),
    OpenCase("Im2col", "convolution_param { kernel_size: 5 stride: 3 }", {"x": (2, 3, "H", "W")}),
    convolution(5, "stride: 3"),
    convolution(3, "stride: 4 dilation: 3 pad: 1"),
    convolution(13, "stride: 11"),
    OpenCase(
        "Convolution",
        "convolution_param { num_output: 2 kernel_size: 2 stride: 2 }",
        {"x": ("H", 3, "W")},
        blobs=[numbers(2, 3, 2), numbers(2)],
    ),
    OpenCase(
        "Deconvolution",
        "convolution_param { num_output: 2 kernel_size: 3 pad: 1 }",
        {"x": ("H", 3, "W")},
        blobs=[numbers(3, 2, 3), numbers(2)],
    ),
    OpenCase("Pooling", "pooling_param { kernel_size: 5 stride: 3 }", IMAGE),
    OpenCase("Pooling", "pooling_param { kernel_size: 1 stride: 2 }", IMAGE, ("y", "mask")),
    OpenCase("Pooling", "pooling_param { kernel_size: 2 stride: 5 }", IMAGE),
    OpenCase("Pooling", "pooling_param { kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 4 pool: AVE }", IMAGE),
    OpenCase("Pooling", "pooling_param { kernel_size: 1 stride: 3 pool: AVE }", {"x": (1, 2, 9, "W")}),
    OpenCase("Pooling", "pooling_param { kernel_size: 2 stride: 3 pool: STOCHASTIC }", IMAGE),
    OpenCase("Pooling", "pooling_param { global_pooling: true pool: STOCHASTIC }", IMAGE),
    OpenCase("BilinearInterpolation", "bilinear_interpolation_param { interpolation_factor: 2 }", IMAGE),
    OpenCase("BilinearInterpolation", "", {"x": (1, 2, 3, 4), "like": (2, 5, "H", "W")}),
    OpenCase("Flip", "flip_param { flip_height: true }", IMAGE),
    OpenCase("Interp", "interp_param { shrink_factor: 2 }", IMAGE),
    OpenCase("Interp", "interp_param { zoom_factor: 8 }", IMAGE),
    OpenCase("Interp", "interp_param { shrink_factor: 3 zoom_factor: 2 }", IMAGE),
    OpenCase("Interp", "interp_param { height: 5 width: 1 }", IMAGE),
    OpenCase(
        "Interp", "interp_param { height: 6 width: 9 shrink_factor: 2 zoom_factor: 3 }", {"x": (1, 2, 6, "W")}
    ),
    OpenCase("Interp", "interp_param { zoom_factor: 2 pad_beg: -1 pad_end: -1 }", IMAGE),
    OpenCase("Interp", "", {"x": (1, 2, 3, 4), "like": (2, 5, "H", "2*W+1")}),
    OpenCase("Interp", "", {"x": (1, 2, 1, 1), "like": (2, 5, "H", "W")}),
    OpenCase(
        "Interp", "interp_param { pad_beg: -1 }", {"x": (1, 2, "H", "W"), "like": (1, 1, "H-1", "2*W-1")}
    ),
    OpenCase("Slice", "slice_param { slice_point: 2 }", {"x": (2, 3, "H", "W")}, ("y", "z")),
    OpenCase("Slice", "slice_param { axis: 2 slice_point: 1 slice_point: 2 }", IMAGE, ("y", "z", "w")),
    OpenCase("Slice", "slice_param { axis: -1 }", {"x": (1, "H", "3*W")}, ("y", "z", "w")),
    OpenCase("Slice", "slice_param { axis: 1 }", {"x": (2, "H*H+H", "H")}, ("y", "z")),
    OpenCase("Slice", "slice_param { axis: 1 }", {"x": ("W", "W*((H//2)*2)", "H")}, ("y", "z")),
    OpenCase("MergeCrop", "", {"x": (1, 2, "H", "2*W-1"), "larger": (1, 2, "H+3", "2*W+4")}),
    OpenCase(
        "Resample", "resample_param { type: NEAREST }", {"x": (1, 2, "H", "W"), "like": (1, 1, "2*H", "2*W")}
    ),
    OpenCase("Resample", "resample_param { height: 6 width: 5 type: LINEAR antialias: false }", IMAGE),
    OpenCase(
        "Resample", "resample_param { type: LINEAR }", {"x": (1, 2, "H", "2*W"), "like": (1, 1, 4, "W+1")}
    ),
    OpenCase(
        "Resample", "resample_param { type: CUBIC }", {"x": (1, 2, "H", 5), "like": (1, 1, "2*H-1", "W")}
    ),
    OpenCase("FlowWarp", "", {"x": ("H", 3, "H+1", "W"), "flow": ("H", 2, "H+1", "W")}, most=9),
    OpenCase("Warp", "", {"x": (1, 2, "H", "W"), "flow": (1, 2, "H", "W")}),
    OpenCase(
        "SpatialTransformer", "st_param { output_H: 4 output_W: 3 }", {"x": (2, 3, "H", "W"), "theta": (2, 6)}
    ),
    OpenCase(
        "SpatialTransformer",
        "st_param { output_H: 4 output_W: 3 }",
        {"x": ("H", 1, 5, "W"), "theta": ("H", 6)},
    ),
    OpenCase(
        "SpatialTransformer",
        'st_param { transform_type: "projective" output_H: 4 output_W: 3 }',
        {"x": ("H", 1, 5, "W"), "theta": ("H", 8)},
    ),
    OpenCase("MIL", "mil_param { type: NOR }", {"x": (2, 3, "H", "W")}),
    OpenCase("MIL", "mil_param { context_per_roi: 2 }", {"x": ("2*H", 3)}),
    OpenCase("Sum", "", {"x": ("H", 3, 1, 1), "z": ("H", 3)}),
    OpenCase("ArgMax", "", IMAGE),
    OpenCase("ArgMax", "argmax_param { top_k: 3 out_max_val: true }", IMAGE),
    OpenCase("ArgMax", "argmax_param { axis: 2 top_k: 2 }", IMAGE),
    OpenCase("ArgMax", "argmax_param { axis: 1 }", IMAGE),
    OpenCase("SPP", "spp_param { pyramid_height: 3 }", IMAGE, least=9, usual=15, most=30),
    OpenCase("SPP", "spp_param { pyramid_height: 2 pool: AVE }", IMAGE),
    OpenCase("SPP", "spp_param { pyramid_height: 1 }", IMAGE),
    OpenCase("SPP", "spp_param { pyramid_height: 1 pool: STOCHASTIC }", IMAGE),
    OpenCase("SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }", {"x": (2, 3, "2*H", "4*W")}),
    OpenCase("SPP", "spp_param { pyramid_height: 2 }", {"x": (2, "H", 4, 6)}),
    OpenCase("SPP", "spp_param { pyramid_height: 3 pool: MAX }", {"x": (2, 3, "4*H", "4*W")}),
    OpenCase(
        "Correlation",
        "correlation_param { pad: 2 kernel_size: 3 max_displacement: 2 stride_1: 2 stride_2: 1 }",
        {"x": (2, 3, "H", "W"), "z": (2, 3, "H", "W")},
        least=4,
    ),
]


@cache
def fixed_at(case: OpenCase, place: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """The bottoms and the tops of the net with fixed shapes, at one of five sizes."""
    step = case.most - case.least
    sizes = {"H": case.least + step * place // 4, "W": case.most - step * place * place // 16}
    shapes = case.shapes_at(sizes)
    feeds = {blob: numbers(*shape, seed=place + 3 * len(blob)) for blob, shape in shapes.items()}
    graph = rewritten(case.layers, shapes, stored("op", case.blobs))
    return feeds, prototrt.Session(graph).run(feeds)


def words(case: OpenCase) -> set[str]:
    return {case.kind, *re.findall(r"\w+(?=:)", case.fields)}


@pytest.mark.parametrize(("case", "on"), runs_on_ways([(case,) for case in CASES], words))
def test_five_sizes(case: OpenCase, on: Way) -> None:
    session = prototrt.Session(case.graph, on=on)
    for place in range(5):
        feeds, wanted = fixed_at(case, place)
        found = session.run(feeds)
        for top in case.tops:
            np.testing.assert_allclose(found[top], wanted[top], 1e-4, 1e-5, err_msg=f"{top} at size {place}")


@pytest.mark.trt
@pytest.mark.parametrize("case", {case.kind: case for case in CASES}.values(), ids=str)
def test_plans_build(case: OpenCase) -> None:
    assert has_engine(case.graph)
