"""Convolution, Deconvolution and Im2col against sums over single elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prototrt import Session, Way
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import WAYS, builds, failure, numbers, op, refusal, rewritten, run


@dataclass(frozen=True)
class Kernel:
    """The attributes of a convolution, one entry a spatial axis."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int = 1

    def param(self, outputs: int = 0, more: str = "") -> str:
        fields = {"kernel_size": self.size, "stride": self.stride, "pad": self.pad, "dilation": self.dilation}
        stated = " ".join(f"{name}: {value}" for name, values in fields.items() for value in values)
        count = f"num_output: {outputs}" if outputs else ""
        return f"convolution_param {{ {count} group: {self.group} {stated} {more} }}"

    def windows(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """C++ divides towards zero: a kernel too large by less than a stride fits once."""
        rooms = [
            n + 2 * p - (d * (k - 1) + 1)
            for n, p, d, k in zip(sizes, self.pad, self.dilation, self.size, strict=True)
        ]
        return tuple(int(room / stride) + 1 for room, stride in zip(rooms, self.stride, strict=True))

    def meetings(
        self, sizes: tuple[int, ...], windows: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Every window, place in the kernel, and element of the image that meet."""
        for window, place in product(np.ndindex(*windows), np.ndindex(*self.size)):
            at = tuple(
                w * s - p + k * d
                for w, s, p, k, d in zip(window, self.stride, self.pad, place, self.dilation, strict=True)
            )
            if all(0 <= i < size for i, size in zip(at, sizes, strict=True)):
                yield window, place, at


ALL = slice(None)


def index(*parts: int | slice) -> Any:
    """NumPy's types do not know an index of any length."""
    return parts


def convolved(x: Array, weights: Array, bias: Array, kernel: Kernel) -> Array:
    windows = kernel.windows(x.shape[2:])
    y = np.zeros((x.shape[0], len(weights), *windows)) + bias.reshape(-1, *(1,) * len(windows))
    inside, outside = x.shape[1] // kernel.group, len(weights) // kernel.group
    for window, place, at in kernel.meetings(x.shape[2:], windows):
        for o in range(len(weights)):
            first = o // outside * inside
            channels = x[index(ALL, slice(first, first + inside), *at)]
            y[index(ALL, o, *window)] += channels @ weights[index(o, ALL, *place)]
    return y.astype(np.float32)


def deconvolved_sizes(sizes: tuple[int, ...], kernel: Kernel) -> tuple[int, ...]:
    geometry = zip(sizes, kernel.stride, kernel.dilation, kernel.size, kernel.pad, strict=True)
    return tuple(s * (n - 1) + d * (k - 1) + 1 - 2 * p for n, s, d, k, p in geometry)


def deconvolved(x: Array, weights: Array, bias: Array, kernel: Kernel) -> Array:
    """The same meetings, seen from the other side: x counts the windows, the result the elements."""
    sizes = deconvolved_sizes(x.shape[2:], kernel)
    y = np.zeros((x.shape[0], len(bias), *sizes)) + bias.reshape(-1, *(1,) * len(sizes))
    inside, outside = x.shape[1] // kernel.group, len(bias) // kernel.group
    for window, place, at in kernel.meetings(sizes, x.shape[2:]):
        for o in range(len(bias)):
            first = o // outside * inside
            channels = x[index(ALL, slice(first, first + inside), *window)]
            y[index(ALL, o, *at)] += (
                channels @ weights[index(slice(first, first + inside), o % outside, *place)]
            )
    return y.astype(np.float32)


@st.composite
def kernels(draw: st.DrawFn) -> tuple[tuple[int, ...], Kernel]:
    """Sizes of an image of 0 to 3 axes and a kernel that fits."""
    axes = draw(st.integers(0, 3))
    spans = [(1, 3), (1, 3), (0, 2), (1, 2)]
    size, stride, pad, dilation = (draw(st.tuples(*[st.integers(*span)] * axes)) for span in spans)
    kernel = Kernel(size, stride, pad, dilation, draw(st.sampled_from([1, 2])))
    least = [max(1, d * (k - 1) + 1 - 2 * p) for d, k, p in zip(dilation, size, pad, strict=True)]
    return tuple(low + draw(st.integers(0, 3)) for low in least), kernel


def weighted(kind: str, kernel: Kernel, outputs: int, channels: int) -> tuple[str, dict[str, Array]]:
    rows, columns = (channels, outputs) if kind == "Deconvolution" else (outputs, channels)
    weights = numbers(rows, columns // kernel.group, *kernel.size, seed=1)
    return op(kind, kernel.param(outputs)), {"op/0": weights, "op/1": numbers(outputs, seed=2)}


@pytest.mark.parametrize("on", WAYS)
@given(drawn=kernels())
def test_any_convolution_is_caffes(on: Way, drawn: tuple[tuple[int, ...], Kernel]) -> None:
    sizes, kernel = drawn
    x = numbers(2, 4, *sizes)
    text, blobs = weighted("Convolution", kernel, 6, 4)
    expected = convolved(x, blobs["op/0"], blobs["op/1"], kernel)
    np.testing.assert_allclose(run(text, {"x": x}, blobs, on)["y"], expected, 1e-4, 1e-4)


@pytest.mark.parametrize("on", WAYS)
@given(drawn=kernels())
def test_any_deconvolution_is_caffes(on: Way, drawn: tuple[tuple[int, ...], Kernel]) -> None:
    sizes, kernel = drawn
    assume(min(deconvolved_sizes(sizes, kernel), default=1) >= 1)
    x = numbers(2, 4, *sizes)
    text, blobs = weighted("Deconvolution", kernel, 6, 4)
    expected = deconvolved(x, blobs["op/0"], blobs["op/1"], kernel)
    np.testing.assert_allclose(run(text, {"x": x}, blobs, on)["y"], expected, 1e-4, 1e-4)


@pytest.mark.parametrize("on", WAYS)
@given(drawn=kernels())
def test_any_im2col_is_caffes(on: Way, drawn: tuple[tuple[int, ...], Kernel]) -> None:
    sizes, kernel = drawn
    assume(sizes)
    x = numbers(2, 3, *sizes)
    windows = kernel.windows(sizes)
    expected = np.zeros((2, 3, *kernel.size, *windows), np.float32)
    for window, place, at in kernel.meetings(sizes, windows):
        expected[index(ALL, ALL, *place, *window)] = x[index(ALL, ALL, *at)]
    np.testing.assert_array_equal(
        run(op("Im2col", kernel.param()), {"x": x}, on=on)["y"], expected.reshape(2, -1, *windows)
    )


@pytest.mark.trt
@pytest.mark.parametrize(
    ("kind", "axes"),
    [*product(["Convolution", "Deconvolution"], [0, 1, 2, 3]), *product(["Im2col"], [1, 2, 3])],
)
def test_builds(kind: str, axes: int) -> None:
    kernel = Kernel((2,) * axes, (2,) * axes, (1,) * axes, (2,) * axes, 2)
    text, blobs = weighted(kind, kernel, 6, 4)
    assert builds(text, {"x": (2, 4, *(5,) * axes)}, None if kind == "Im2col" else blobs)


@pytest.mark.trt
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("pad", [0, 1, 3])
def test_deconvolution_builds(stride: int, dilation: int, pad: int) -> None:
    """Also with a pad larger than the kernel."""
    kernel = Kernel((2, 2), (stride,) * 2, (pad,) * 2, (dilation,) * 2)
    text, blobs = weighted("Deconvolution", kernel, 6, 4)
    assert builds(text, {"x": (2, 4, 9, 9)}, blobs)


@pytest.mark.parametrize("on", WAYS)
def test_kernel_that_hangs_over_sees_zeros(on: Way) -> None:
    """(2 - 3) / 2 + 1 = 1: one window of 3 over 2 elements, and a zero behind them."""
    text = (
        'layer { name: "op" type: "Convolution" bottom: "x" top: "y"'
        " convolution_param { num_output: 1 kernel_size: 3 stride: 2 bias_term: false } }"
    )
    blobs = {"op/0": np.array([[[1, 10, 100]]], np.float32)}
    assert run(text, {"x": np.array([[[2, 3]]], np.float32)}, blobs, on)["y"].tolist() == [[[32]]]


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
def test_axes_before_the_channels_are_items(on: Way, kind: str) -> None:
    kernel = Kernel((2,), (1,), (0,), (1,))
    x = numbers(2, 3, 4, 5)
    text, blobs = weighted(kind, kernel, 6, 4)
    text = text.replace("group: 1", "axis: -2")
    function = convolved if kind == "Convolution" else deconvolved
    expected = function(x.reshape(6, 4, 5), blobs["op/0"], blobs["op/1"], kernel)
    result = run(text, {"x": x}, blobs, on)["y"]
    np.testing.assert_allclose(result, expected.reshape(2, 3, *expected.shape[1:]), 1e-4, 1e-4)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
def test_several_bottoms_share_the_weights(on: Way, kind: str) -> None:
    kernel = Kernel((2, 2), (1, 1), (0, 0), (1, 1))
    text, blobs = weighted(kind, kernel, 6, 4)
    text = text.replace('bottom: "x" top: "y"', 'bottom: "a" bottom: "b" top: "y" top: "z"')
    a, b = numbers(1, 4, 3, 3, seed=3), numbers(1, 4, 3, 3, seed=4)
    results = run(text, {"a": a, "b": b}, blobs, on)
    function = convolved if kind == "Convolution" else deconvolved
    for x, name in ((a, "y"), (b, "z")):
        expected = function(x, blobs["op/0"], blobs["op/1"], kernel)
        np.testing.assert_allclose(results[name], expected, 1e-4, 1e-4)


@pytest.mark.parametrize("kind", ["ConvolutionDepthwise", "DepthwiseConvolution"])
def test_depthwise_has_a_group_a_channel(kind: str) -> None:
    kernel = Kernel((2, 2), (1, 1), (0, 0), (1, 1), 4)
    text, blobs = weighted(kind, kernel, 4, 4)
    x = numbers(1, 4, 3, 3)
    expected = convolved(x, blobs["op/0"], blobs["op/1"], kernel)
    result = run(text.replace("group: 4", ""), {"x": x}, blobs)["y"]
    np.testing.assert_allclose(result, expected, 1e-4, 1e-4)


def test_four_axes_run_on_the_reference_alone() -> None:
    kernel = Kernel((2,) * 4, (1,) * 4, (0,) * 4, (1,) * 4)
    x = numbers(1, 2, 3, 3, 3, 3)
    text, blobs = weighted("Convolution", kernel, 2, 2)
    expected = convolved(x, blobs["op/0"], blobs["op/1"], kernel)
    np.testing.assert_allclose(run(text, {"x": x}, blobs)["y"], expected, 1e-4, 1e-4)


@pytest.mark.trt
@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution", "Im2col"])
def test_four_axes_are_refused_for_an_engine(kind: str) -> None:
    kernel = Kernel((2,) * 4, (1,) * 4, (0,) * 4, (1,) * 4)
    text, blobs = weighted(kind, kernel, 2, 2)
    graph = rewritten(text, {"x": (1, 2, 3, 3, 3, 3)}, None if kind == "Im2col" else blobs)
    assert failure(lambda: Session(graph, on="network")) == (
        f'net.prototxt:2: layer "op" ({kind}): slides over 4 axes, expected at most 3\n'
        "  because TensorRT has no windows over more axes\n"
        '  fix: run it as `prototrt.Session(...)` does with on="reference",'
        ' or cut the net before it with outputs=["BLOB"]'
    )


X = {"x": (1, 4, 5, 5)}
REFUSED: dict[str, str] = {
    "num_output: 2": ("states no kernel_size\n  fix: set kernel_size, or kernel_h and kernel_w"),
    "num_output: 2 kernel_size: 2 kernel_size: 2 kernel_size: 2": (
        "kernel_size is stated 3 times, expected once or 2 times\n  because the bottom has 2 spatial axes\n"
        "  fix: state kernel_size once for all axes, or once per axis"
    ),
    "num_output: 2 kernel_size: 2 kernel_h: 2": (
        "states both kernel_size and kernel_h\n"
        "  fix: remove kernel_size if height and width differ, else the others"
    ),
    "num_output: 2 kernel_h: 2": (
        "states kernel_h alone\n  fix: state both kernel_h and kernel_w, or kernel_size for both"
    ),
    "num_output: 2 kernel_size: 2 stride_w: 2": (
        "states stride_w alone\n  fix: state both stride_h and stride_w, or stride for both"
    ),
    "num_output: 2 kernel_size: 0": (
        "kernel_size is 0, expected at least 1\n  fix: write a positive number for kernel_size"
    ),
    "num_output: 2 kernel_size: 2 stride: 0": (
        "stride is 0, expected at least 1\n  fix: write a positive number for stride"
    ),
    "kernel_size: 2": "num_output is 0, expected at least 1\n  fix: write a positive number for num_output",
    "num_output: 3 kernel_size: 2 group: 2": (
        "group is 2, which does not divide 4 channels into 3 outputs\n  fix: set group to a divisor of 1"
    ),
    "num_output: 2 kernel_size: 2 axis: 4": (
        "axis is 4, but the bottom has 4 axes: (1, 4, 5, 5)\n  fix: use an axis from -4 to 3"
    ),
}


@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("param", REFUSED)
def test_refused(kind: str, param: str) -> None:
    text = f'layer {{ name: "c" type: "{kind}" bottom: "x" top: "y" convolution_param {{ {param} }} }}'
    assert refusal(text, X) == f'net.prototxt:2: layer "c" ({kind}): {REFUSED[param]}'


def refused(kind: str, param: str, shapes: dict[str, Any], bottoms: str, tops: str = 'top: "y"') -> str:
    return refusal(
        f'layer {{ name: "c" type: "{kind}" {bottoms} {tops} convolution_param {{ {param} }} }}',
        shapes,
        {"c/0": np.ones((1, 4, 2, 2), np.float32), "c/1": np.ones(1, np.float32)},
    )


def test_bottoms_of_different_shapes_are_refused() -> None:
    shapes = {"a": (1, 4, 5, 5), "b": (1, 4, 5, 6)}
    bottoms, tops = 'bottom: "a" bottom: "b"', 'top: "y" top: "z"'
    assert refused("Convolution", "num_output: 1 kernel_size: 2", shapes, bottoms, tops) == (
        'net.prototxt:3: layer "c" (Convolution), bottom "b": shape is (1, 4, 5, 6), expected (1, 4, 5, 5)\n'
        '  because all bottoms share the weights, and that is the shape of "a"\n'
        "  fix: give all bottoms the same shape, or use a layer for each"
    )


def test_kernel_far_larger_than_the_image_is_refused() -> None:
    assert refused("Im2col", "kernel_size: 7", X, 'bottom: "x"') == (
        'net.prototxt:2: layer "c" (Im2col): the kernel covers 7 elements of axis 2, which has 5 with its padding\n'
        "  fix: use a smaller kernel or a larger input"
    )


def test_pad_that_cuts_everything_is_refused() -> None:
    shapes = {"x": (1, 1, 1, 1)}
    assert refused("Deconvolution", "num_output: 4 kernel_size: 2 pad: 1", shapes, 'bottom: "x"').startswith(
        'net.prototxt:2: layer "c" (Deconvolution)'
    )


def test_im2col_of_channels_alone_is_refused() -> None:
    assert refused("Im2col", "kernel_size: 2", {"x": (1, 4)}, 'bottom: "x"') == (
        'net.prototxt:2: layer "c" (Im2col), bottom "x": shape is (1, 4), expected at least one axis after the'
        " channel axis, 1\n"
        "  fix: set axis to an earlier one, or add a Reshape before this layer"
    )


def test_layers_that_state_the_same_differ_by_their_type_and_bottom() -> None:
    def layer(kind: str, bottom: str, top: str) -> str:
        param = "convolution_param { num_output: 4 kernel_size: 3 }"
        return f'layer {{ name: "{top}" type: "{kind}" bottom: "{bottom}" top: "{top}" {param} }}'

    layers = (
        layer("Convolution", "x", "a")
        + layer("Convolution", "a", "b")
        + layer("DepthwiseConvolution", "b", "c")
    )
    graph = rewritten(layers, {"x": (1, 2, 9, 9)}, require_weights=False)
    kernels = [node.inputs[1].shape for node in graph.nodes]
    assert kernels == [(4, 2, 3, 3), (4, 4, 3, 3), (4, 1, 3, 3)]
