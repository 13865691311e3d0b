"""Pooling and SPP against Caffe's definition, written out as loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import WAYS, builds, numbers, refusal, rewritten, run

LOWEST = np.finfo(np.float32).min


def windows(size: int, kernel: int, stride: int, pad: int, others_pad: int, floor: bool) -> int:
    """How many windows Caffe counts along one axis."""
    ratio = (size + 2 * pad - kernel) / stride
    count = (math.floor(ratio) if floor else math.ceil(ratio)) + 1
    if (pad or others_pad) and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def caffe_pool(
    x: Array,
    method: str,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    floor: bool = False,
) -> dict[str, Array]:
    """Window by window, in Caffe's float32 arithmetic."""
    height, width = x.shape[2:]
    out_h = windows(height, kernel[0], stride[0], pad[0], pad[1], floor)
    out_w = windows(width, kernel[1], stride[1], pad[1], pad[0], floor)
    y = np.zeros((*x.shape[:2], out_h, out_w), np.float32)
    mask = np.full(y.shape, -1, np.float32)
    for n, c, ph, pw in np.ndindex(*y.shape):
        hstart, wstart = ph * stride[0] - pad[0], pw * stride[1] - pad[1]
        hend, wend = min(hstart + kernel[0], height + pad[0]), min(wstart + kernel[1], width + pad[1])
        size = np.float32((hend - hstart) * (wend - wstart))
        rows = range(max(hstart, 0), min(hend, height))
        columns = range(max(wstart, 0), min(wend, width))
        seen = [(x[n, c, h, w], h * width + w) for h in rows for w in columns]
        if method == "MAX":
            best = (LOWEST, -1)
            for value, place in seen:
                if value > best[0]:
                    best = (value, place)
            y[n, c, ph, pw], mask[n, c, ph, pw] = best
        elif method == "AVE":
            with np.errstate(all="ignore"):
                y[n, c, ph, pw] = np.float32(sum(value for value, _ in seen)) / size
        else:
            total = sum(float(value) for value, _ in seen)
            squares = sum(float(value) ** 2 for value, _ in seen)
            y[n, c, ph, pw] = squares / total if total > 0 else 0
    return {"y": y, "mask": mask} if method == "MAX" else {"y": y}


def pooling(
    method: str,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    floor: bool = False,
) -> str:
    mask = 'top: "mask"' if method == "MAX" else ""
    return (
        f'layer {{ name: "pool" type: "Pooling" bottom: "x" top: "y" {mask} pooling_param {{'
        f" pool: {method} kernel_h: {kernel[0]} kernel_w: {kernel[1]} stride_h: {stride[0]}"
        f" stride_w: {stride[1]} pad_h: {pad[0]} pad_w: {pad[1]} round_mode: {'FLOOR' if floor else 'CEIL'} }} }}"
    )


def pairs(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(least, most), st.integers(least, most))


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    size, kernel, stride = (draw(pairs(1, most)) for most in (9, 5, 6))
    method = draw(st.sampled_from(["MAX", "AVE", "STOCHASTIC"]))
    pad = (0, 0) if method == "STOCHASTIC" else draw(pairs(0, 3))
    floor = draw(st.booleans())
    assume(all(p < k for p, k in zip(pad, kernel, strict=True)))
    counts = [windows(size[i], kernel[i], stride[i], pad[i], pad[1 - i], floor) for i in range(2)]
    assume(min(counts) >= 1)
    return {"size": size, "method": method, "kernel": kernel, "stride": stride, "pad": pad, "floor": floor}


@pytest.mark.parametrize("on", WAYS)
@given(drawn=geometries())
def test_any_geometry_is_caffes(on: str, drawn: dict[str, Any]) -> None:
    x = np.round(numbers(2, 2, *drawn.pop("size")))  # rounded: several maxima in a window
    if drawn["method"] == "STOCHASTIC":
        x = np.abs(x)
    results = run(pooling(**drawn), {"x": x}, on=on)
    for name, expected in caffe_pool(x, **drawn).items():
        np.testing.assert_allclose(results[name], expected, 1e-5, 1e-6, err_msg=name)


@pytest.mark.parametrize("on", WAYS)
def test_windows_behind_the_input_see_nothing(on: str) -> None:
    """5 rows in steps of 4: the third window begins at 8. 3 columns in steps of 3: the second begins at 3."""
    x = np.ones((1, 1, 5, 3), np.float32)
    largest = run(pooling("MAX", (1, 1), (3, 3), (0, 0)), {"x": x}, on=on)
    assert largest["y"][0, 0].tolist() == [[1, LOWEST], [1, LOWEST], [LOWEST, LOWEST]]
    assert largest["mask"][0, 0].tolist() == [[0, -1], [9, -1], [-1, -1]]
    mean = run(pooling("AVE", (1, 1), (3, 3), (0, 0)), {"x": x}, on=on)["y"][0, 0]
    # Row 2 is of the size 5 - 6 = -1, column 1 of the size 3 - 3 = 0: 0 / -1, 0 / 0.
    np.testing.assert_array_equal(mean, [[1, np.nan], [1, np.nan], [0, np.nan]])


@pytest.mark.parametrize("on", WAYS)
def test_a_window_larger_than_the_input_is_clipped(on: str) -> None:
    """ceil((2 - 3) / 2) + 1 = 1: with round_mode FLOOR there would be no window."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    assert run(pooling("AVE", (3, 3), (2, 2), (0, 0)), {"x": x}, on=on)["y"].tolist() == [[[[1.5]]]]


@pytest.mark.parametrize("on", WAYS)
def test_the_first_of_equal_maxima_is_marked(on: str) -> None:
    x = np.array([[1, 7, 7], [7, 0, 7]], np.float32).reshape(1, 1, 2, 3)
    layer = 'layer { name: "p" type: "Pooling" bottom: "x" top: "y" top: "m" pooling_param { global_pooling: true } }'
    assert run(layer, {"x": x}, on=on)["m"].tolist() == [[[[1]]]]


@pytest.mark.parametrize("on", WAYS)
def test_stochastic_mean_of_nothing_positive_is_zero(on: str) -> None:
    x = np.array([[0, 0, -1, 1], [0, 0, 2, -3]], np.float32).reshape(1, 1, 2, 4)
    assert run(pooling("STOCHASTIC", (2, 2), (2, 2), (0, 0)), {"x": x}, on=on)["y"].tolist() == [[[[0, 0]]]]


@pytest.mark.trt
@pytest.mark.parametrize(
    ("method", "pad"),
    [("MAX", (0, 0)), ("MAX", (1, 2)), ("AVE", (0, 0)), ("AVE", (1, 2)), ("STOCHASTIC", (0, 0))],
)
def test_builds(method: str, pad: tuple[int, int]) -> None:
    assert builds(pooling(method, (2, 3), (3, 4), pad), {"x": (2, 3, 7, 9)})


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_spatial_pyramid(on: str, method: str) -> None:
    """9 x 7 into 1, 2 x 2 and 4 x 4 windows: kernels 9 x 7, 5 x 4, 3 x 2; pads 0, 1, and 2 x 1."""
    x = numbers(2, 3, 9, 7)
    layer = f'layer {{ name: "s" type: "SPP" bottom: "x" top: "y" spp_param {{ pyramid_height: 3 pool: {method} }} }}'
    levels = [((9, 7), (0, 0)), ((5, 4), (1, 1)), ((3, 2), (2, 1))]
    expected = [caffe_pool(x, method, kernel, kernel, pad)["y"].reshape(2, -1) for kernel, pad in levels]
    results = run(layer, {"x": x}, on=on)["y"]
    np.testing.assert_allclose(results, np.concatenate(expected, 1), 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_pyramid_of_one_level_keeps_its_axes(on: str) -> None:
    layer = 'layer { name: "s" type: "SPP" bottom: "x" top: "y" spp_param { pyramid_height: 1 } }'
    x = numbers(2, 3, 4, 5)
    np.testing.assert_array_equal(run(layer, {"x": x}, on=on)["y"], x.max((2, 3), keepdims=True))


def layer(param: str, tops: str = 'top: "y"', kind: str = "Pooling") -> str:
    name = "spp_param" if kind == "SPP" else "pooling_param"
    return f'layer {{ name: "p" type: "{kind}" bottom: "x" {tops} {name} {{ {param} }} }}'


X = {"x": (1, 2, 4, 5)}
WHERE = 'net.prototxt:2: layer "p" (Pooling)'
REFUSED = {
    "kernel_h: 2": f"{WHERE}: states kernel_h alone\n  fix: state both kernel_h and kernel_w, or kernel_size for both",
    "kernel_size: 2 kernel_w: 2 kernel_h: 2": (
        f"{WHERE}: states both kernel_size and kernel_h and kernel_w\n"
        "  fix: remove kernel_size if height and width differ, else the others"
    ),
    "kernel_size: 2 stride_h: 2": (
        f"{WHERE}: states stride_h alone\n  fix: state both stride_h and stride_w, or stride for both"
    ),
    "kernel_size: 2 pad: 1 pad_h: 1 pad_w: 1": (
        f"{WHERE}: states both pad and pad_h and pad_w\n  fix: remove pad if height and width differ, else the others"
    ),
    "kernel_size: 2 stride: 0": f"{WHERE}: kernel is (2, 2) and stride (0, 0), expected at least 1\n"
    "  fix: set both in pooling_param to 1 or more",
    "kernel_size: 0": f"{WHERE}: kernel is (0, 0) and stride (1, 1), expected at least 1\n"
    "  fix: set both in pooling_param to 1 or more",
    "kernel_size: 2 pad: 2": f"{WHERE}: pad is (2, 2), expected less than the kernel (2, 2)\n"
    "  fix: use a smaller pad or a larger kernel",
    "pool: AVE": f"{WHERE}: states no kernel size\n  fix: set kernel_size, or kernel_h and kernel_w",
    "global_pooling: true kernel_size: 2": (
        f"{WHERE}: states both global_pooling and kernel_size\n  fix: remove kernel_size"
    ),
    "global_pooling: true stride: 2": f"{WHERE}: with global_pooling, pad must be 0 and stride 1\n"
    "  fix: remove pad and stride",
    "pool: STOCHASTIC kernel_size: 3 pad: 1": (
        f"{WHERE}: pad is (1, 1), but pool is STOCHASTIC\n  because Caffe pads for MAX and AVE only\n"
        "  fix: use MAX or AVE, or remove pad"
    ),
    "kernel_size: 9 stride: 1": (
        f"{WHERE}: the window (9, 9) is larger than the bottom (1, 2, 4, 5) with its padding\n"
        "  fix: use a smaller window or a larger input"
    ),
}


@pytest.mark.parametrize("param", REFUSED)
def test_refused(param: str) -> None:
    assert refusal(layer(param), X) == REFUSED[param]


def test_mask_of_means_is_refused() -> None:
    tops = 'top: "y" top: "m"'
    assert (
        refusal(layer("pool: AVE kernel_size: 2", tops), X)
        == f"{WHERE}: has 2 tops, expected 1\n  fix: list as many tops as the layer makes"
    )


def test_three_axes_are_refused() -> None:
    assert refusal(layer("kernel_size: 2"), {"x": (2, 4, 5)}) == (
        'net.prototxt:2: layer "p" (Pooling), bottom "x": shape is (2, 4, 5), expected (N, C, H, W)\n'
        "  fix: add a Reshape before this layer to 4 axes"
    )


def test_too_high_pyramid_is_refused() -> None:
    assert refusal(layer("pyramid_height: 40", kind="SPP"), X) == (
        'net.prototxt:2: layer "p" (SPP): pyramid_height is 40, but level 2 cuts 4 x 5 elements into 4 x 4 windows\n'
        "  because this needs a pad of (0, 2) around windows of (1, 2), and a pad must be smaller than its window\n"
        "  fix: use a pyramid_height of at most 2"
    )


def test_pyramid_without_height_is_refused() -> None:
    assert refusal(layer("", kind="SPP"), X) == (
        'net.prototxt:2: layer "p" (SPP): pyramid_height is 0, expected at least 1\n'
        "  fix: set pyramid_height in spp_param"
    )


@pytest.mark.trt
@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_large_images_pool_as_a_whole(method: str) -> None:
    """TensorRT's windows hold no 512 x 512 elements."""
    assert builds(layer(f"pool: {method} global_pooling: true"), {"x": (1, 1, 512, 512)})


@pytest.mark.parametrize("on", WAYS)
def test_half_a_kernel_beside_a_whole_one_is_ignored(on: str) -> None:
    """As in Caffe, which looks at kernel_size first."""
    x = numbers(1, 1, 4, 4)
    for half in ("kernel_h", "kernel_w"):
        text = layer(f"kernel_size: 2 {half}: 3")
        (warning,) = rewritten(text, {"x": x.shape}).warnings
        assert warning.endswith(f'layer "p" (Pooling): {half} is ignored, as in Caffe: kernel_size is stated')
        np.testing.assert_array_equal(
            run(text, {"x": x}, on=on)["y"], run(layer("kernel_size: 2"), {"x": x}, on=on)["y"]
        )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_window_of_any_size_over_a_small_image(method: str, on: str) -> None:
    """One window, which begins in the padding: AVE divides by the 4 x 4 elements of the padded image."""
    x = np.array([[1, 2], [3, 6]], np.float32).reshape(1, 1, 2, 2)
    text = layer(f"pool: {method} kernel_size: 2000000000 stride: 2000000000 pad: 1")
    assert run(text, {"x": x}, on=on)["y"].item() == (6 if method == "MAX" else 12 / 16)
