"""Pooling and SPP against Caffe's definition, written out as loops."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import WAYS, builds, numbers, refusal, rewritten, run

LOWEST = np.finfo(np.float32).min


Sizes: TypeAlias = tuple[int, ...]


def windows(size: int, kernel: int, stride: int, pad: int, is_padded: bool, floor: bool) -> int:
    """How many windows Caffe counts along one axis."""
    ratio = (size + 2 * pad - kernel) / stride
    count = (math.floor(ratio) if floor else math.ceil(ratio)) + 1
    if is_padded and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def counts(sizes: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, floor: bool) -> list[int]:
    """The same along all axes. Padding on one axis of an image makes Caffe look at both."""
    each = zip(sizes, kernel, stride, pad, strict=True)
    return [windows(*one, any(pad) if len(pad) == 2 else one[-1] > 0, floor) for one in each]


def caffe_pool(
    x: Array, method: str, kernel: Sizes, stride: Sizes, pad: Sizes, floor: bool = False
) -> dict[str, Array]:
    """Window by window, in Caffe's float32 arithmetic."""
    sizes = x.shape[2:]
    y = np.zeros((*x.shape[:2], *counts(sizes, kernel, stride, pad, floor)), np.float32)
    mask = np.full(y.shape, -1, np.float32)
    places = np.arange(math.prod(sizes)).reshape(sizes)
    for item in np.ndindex(*y.shape):
        starts = [place * step - before for place, step, before in zip(item[2:], stride, pad, strict=True)]
        ends = [
            min(start + size, most + after)
            for start, size, most, after in zip(starts, kernel, sizes, pad, strict=True)
        ]
        size = np.float32(math.prod(end - start for start, end in zip(starts, ends, strict=True)))
        inside = tuple(
            slice(max(start, 0), max(min(end, most), 0))
            for start, end, most in zip(starts, ends, sizes, strict=True)
        )
        seen = x[item[:2]][inside].ravel()
        if method == "MAX":
            y[item] = LOWEST
            if seen.size and seen.max() > LOWEST:
                y[item], mask[item] = seen.max(), places[inside].ravel()[seen.argmax()]
        elif method == "AVE":
            with np.errstate(all="ignore"):
                y[item] = np.float32(sum(seen.tolist())) / size
        else:
            total, squares = sum(seen.tolist()), sum((seen.astype(np.float64) ** 2).tolist())
            y[item] = squares / total if total > 0 else 0
    return {"y": y, "mask": mask} if method == "MAX" and len(sizes) == 2 else {"y": y}


def pooling(method: str, kernel: Sizes, stride: Sizes, pad: Sizes, floor: bool = False) -> str:
    """Images by height and width, volumes by one number for each axis."""
    mask = 'top: "mask"' if method == "MAX" and len(kernel) == 2 else ""
    stated = {"kernel": kernel, "stride": stride, "pad": pad}
    fields = " ".join(
        f"{name}_h: {sizes[0]} {name}_w: {sizes[1]}"
        if len(sizes) == 2
        else f"{'kernel_size' if name == 'kernel' else name}: [{', '.join(map(str, sizes))}]"
        for name, sizes in stated.items()
    )
    return (
        f'layer {{ name: "pool" type: "Pooling" bottom: "x" top: "y" {mask} pooling_param {{'
        f" pool: {method} {fields} round_mode: {'FLOOR' if floor else 'CEIL'} }} }}"
    )


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    method, spatial = draw(
        st.sampled_from([("MAX", 2), ("AVE", 2), ("STOCHASTIC", 2), ("MAX", 3), ("AVE", 3)])
    )

    def sizes(least: int, most: int) -> Sizes:
        return tuple(draw(st.lists(st.integers(least, most), min_size=spatial, max_size=spatial)))

    size, kernel, stride = sizes(1, 9 if spatial == 2 else 5), sizes(1, 5 if spatial == 2 else 3), sizes(1, 6)
    pad = (0,) * spatial if method == "STOCHASTIC" else sizes(0, 3)
    floor = draw(st.booleans())
    assume(all(p < k for p, k in zip(pad, kernel, strict=True)))
    assume(min(counts(size, kernel, stride, pad, floor)) >= 1)
    return {"size": size, "method": method, "kernel": kernel, "stride": stride, "pad": pad, "floor": floor}


@pytest.mark.parametrize("on", WAYS)
@given(drawn=geometries())
def test_any_geometry_is_caffes(on: Way, drawn: dict[str, Any]) -> None:
    x = np.round(numbers(2, 2, *drawn.pop("size")))  # rounded: several maxima in a window
    if drawn["method"] == "STOCHASTIC":
        x = np.abs(x)
    results = run(pooling(**drawn), {"x": x}, on=on)
    for name, expected in caffe_pool(x, **drawn).items():
        np.testing.assert_allclose(results[name], expected, 1e-5, 1e-6, err_msg=name)


@pytest.mark.parametrize("on", WAYS)
def test_windows_behind_the_input_see_nothing(on: Way) -> None:
    """5 rows in steps of 4: the third window begins at 8. 3 columns in steps of 3: the second begins at 3."""
    x = np.ones((1, 1, 5, 3), np.float32)
    largest = run(pooling("MAX", (1, 1), (3, 3), (0, 0)), {"x": x}, on=on)
    assert largest["y"][0, 0].tolist() == [[1, LOWEST], [1, LOWEST], [LOWEST, LOWEST]]
    assert largest["mask"][0, 0].tolist() == [[0, -1], [9, -1], [-1, -1]]
    mean = run(pooling("AVE", (1, 1), (3, 3), (0, 0)), {"x": x}, on=on)["y"][0, 0]
    # Row 2 is of the size 5 - 6 = -1, column 1 of the size 3 - 3 = 0: 0 / -1, 0 / 0.
    np.testing.assert_array_equal(mean, [[1, np.nan], [1, np.nan], [0, np.nan]])


@pytest.mark.parametrize("on", WAYS)
def test_a_window_larger_than_the_input_is_clipped(on: Way) -> None:
    """ceil((2 - 3) / 2) + 1 = 1: with round_mode FLOOR there would be no window."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    assert run(pooling("AVE", (3, 3), (2, 2), (0, 0)), {"x": x}, on=on)["y"].tolist() == [[[[1.5]]]]


@pytest.mark.parametrize("on", WAYS)
def test_the_first_of_equal_maxima_is_marked(on: Way) -> None:
    x = np.array([[1, 7, 7], [7, 0, 7]], np.float32).reshape(1, 1, 2, 3)
    layer = 'layer { name: "p" type: "Pooling" bottom: "x" top: "y" top: "m" pooling_param { global_pooling: true } }'
    assert run(layer, {"x": x}, on=on)["m"].tolist() == [[[[1]]]]


@pytest.mark.parametrize("on", WAYS)
def test_stochastic_mean_of_nothing_positive_is_zero(on: Way) -> None:
    x = np.array([[0, 0, -1, 1], [0, 0, 2, -3]], np.float32).reshape(1, 1, 2, 4)
    assert run(pooling("STOCHASTIC", (2, 2), (2, 2), (0, 0)), {"x": x}, on=on)["y"].tolist() == [[[[0, 0]]]]


@pytest.mark.trt
@pytest.mark.parametrize(
    ("method", "pad"),
    [("MAX", (0, 0)), ("MAX", (1, 2)), ("AVE", (0, 0)), ("AVE", (1, 2)), ("STOCHASTIC", (0, 0))],
)
def test_builds(method: str, pad: Sizes) -> None:
    assert builds(pooling(method, (2, 3), (3, 4), pad), {"x": (2, 3, 7, 9)})


@pytest.mark.trt
@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_builds_over_volumes(method: str) -> None:
    assert builds(pooling(method, (1, 2, 3), (1, 3, 2), (0, 1, 2)), {"x": (1, 3, 3, 7, 9)})


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_spatial_pyramid(on: Way, method: str) -> None:
    """9 x 7 into 1, 2 x 2 and 4 x 4 windows: kernels 9 x 7, 5 x 4, 3 x 2; pads 0, 1, and 2 x 1."""
    x = numbers(2, 3, 9, 7)
    layer = f'layer {{ name: "s" type: "SPP" bottom: "x" top: "y" spp_param {{ pyramid_height: 3 pool: {method} }} }}'
    levels = [((9, 7), (0, 0)), ((5, 4), (1, 1)), ((3, 2), (2, 1))]
    expected = [caffe_pool(x, method, kernel, kernel, pad)["y"].reshape(2, -1) for kernel, pad in levels]
    results = run(layer, {"x": x}, on=on)["y"]
    np.testing.assert_allclose(results, np.concatenate(expected, 1), 1e-5, 1e-6)


@pytest.mark.parametrize("on", WAYS)
def test_pyramid_of_one_level_keeps_its_axes(on: Way) -> None:
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
    "kernel_size: 2 stride: 0": f"{WHERE}: stride is 0, expected at least 1\n  fix: write a positive number for stride",
    "kernel_size: 0": f"{WHERE}: kernel_size is 0, expected at least 1\n"
    "  fix: write a positive number for kernel_size",
    "kernel_size: 2 pad: 2": f"{WHERE}: pad is (2, 2), expected less than the kernel (2, 2)\n"
    "  fix: use a smaller pad or a larger kernel",
    "pool: AVE": f"{WHERE}: states no kernel_size\n  fix: set kernel_size, or kernel_h and kernel_w",
    "global_pooling: true kernel_size: 2": (
        f"{WHERE}: states both global_pooling and kernel_size\n  fix: remove kernel_size"
    ),
    "global_pooling: true stride: 2": f"{WHERE}: with global_pooling, pad must be 0 and stride 1\n"
    "  fix: remove pad and stride",
    "pool: STOCHASTIC kernel_size: 3 pad: 1": (
        f"{WHERE}: pad is (1, 1), but pool is STOCHASTIC\n  because Caffe pads for MAX and AVE only\n"
        "  fix: use MAX or AVE, or remove pad"
    ),
    "kernel_size: 2 kernel_size: 2 kernel_size: 2": (
        f"{WHERE}: kernel_size is stated 3 times, expected once or 2 times\n"
        "  because the bottom has 2 spatial axes\n  fix: state kernel_size once for all axes, or once per axis"
    ),
    "kernel_size: 9 stride: 1": (
        f"{WHERE}: the window (9, 9) is larger than the shape (1, 2, 4, 5) with its padding\n"
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
        'net.prototxt:2: layer "p" (Pooling), bottom "x": shape is (2, 4, 5),'
        " expected (N, C, H, W) or (N, C, L, H, W)\n"
        "  fix: add a Reshape before this layer to 4 axes"
    )


VOLUME = {"x": (1, 2, 4, 5, 6)}
REFUSED_OF_VOLUMES = {
    "kernel_h: 2 kernel_w: 2": (
        f"{WHERE}: kernel_h is for 2 spatial axes, the bottom has 3\n"
        "  fix: state kernel_size, once or once per axis"
    ),
    "kernel_size: 2 stride: 1 stride: 2": (
        f"{WHERE}: stride is stated 2 times, expected once or 3 times\n"
        "  because the bottom has 3 spatial axes\n  fix: state stride once for all axes, or once per axis"
    ),
    "pool: STOCHASTIC kernel_size: 2": (
        f"{WHERE}: STOCHASTIC pooling is supported only for bottoms (N, C, H, W)\n"
        "  because the forks with bottoms of 5 axes compute only MAX and AVE over them, with one top\n"
        '  fix: cut the net before this layer with outputs=["BLOB"]'
    ),
}


@pytest.mark.parametrize("param", REFUSED_OF_VOLUMES)
def test_refused_over_volumes(param: str) -> None:
    assert refusal(layer(param), VOLUME) == REFUSED_OF_VOLUMES[param]


def test_a_mask_over_volumes_is_refused() -> None:
    assert refusal(layer("kernel_size: 2", 'top: "y" top: "m"'), VOLUME).startswith(
        f"{WHERE}: a mask of the largest elements is supported only for bottoms (N, C, H, W)\n"
    )


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("pool", ["MAX", "AVE"])
def test_whole_volumes(pool: str, on: Way) -> None:
    x = numbers(2, 3, 2, 4, 3)
    expected = (np.max if pool == "MAX" else np.mean)(x, (2, 3, 4), keepdims=True)
    found = run(layer(f"pool: {pool} global_pooling: true"), {"x": x}, on=on)["y"]
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


OF_VIDEOS = {
    "Pooling3D": "kernel_depth: 2 kernel_size: 3 stride: 2 temporal_stride: 2",
    "NdPooling": "pool: AVE kernel_shape { dim: 2 dim: 3 dim: 2 } stride_shape { dim: 2 dim: 2 dim: 1 }"
    " pad_shape { dim: 0 dim: 1 dim: 1 }",
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", OF_VIDEOS)
def test_videos_of_any_size(kind: str, on: Way) -> None:
    text, sizes = layer(OF_VIDEOS[kind], kind=kind), {"L": (4, 4, 7), "H": (6, 8, 12), "W": (6, 8, 12)}
    open_sizes = rewritten(text, {"x": (1, 2, 4, 8, 8)}, shapes={"x": (1, 2, "L", "H", "W")}, sizes=sizes)
    session = prototrt.Session(open_sizes, on=on)
    for shape in ((1, 2, 4, 6, 7), (1, 2, 7, 12, 9)):
        x = numbers(*shape)
        np.testing.assert_allclose(session.run({"x": x})["y"], run(text, {"x": x})["y"], 1e-5, 1e-6)


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
def test_half_a_kernel_beside_a_whole_one_is_ignored(on: Way) -> None:
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
def test_window_of_any_size_over_a_small_image(method: str, on: Way) -> None:
    """One window, which begins in the padding: AVE divides by the 4 x 4 elements of the padded image."""
    x = np.array([[1, 2], [3, 6]], np.float32).reshape(1, 1, 2, 2)
    text = layer(f"pool: {method} kernel_size: 2000000000 stride: 2000000000 pad: 1")
    assert run(text, {"x": x}, on=on)["y"].item() == (6 if method == "MAX" else 12 / 16)
