"""Small nets drawn at random: with open sizes, they compute at each size what the net for that size computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.small_nets import WAYS, numbers, op, rewritten, stored

SIZES = {"N": (1, 2, 3), "H": (4, 7, 12), "W": (4, 8, 11)}
CHANNELS = 2


@dataclass
class Net:
    """The text of a net that grows, and its weights. ``top`` is the blob (N, ``channels``, H, W) at its end."""

    draw: Callable[[st.SearchStrategy[int]], int]
    text: str = ""
    blobs: dict[str, Array] = field(default_factory=dict)
    top: str = "x"
    channels: int = CHANNELS
    names: itertools.count[int] = field(default_factory=itertools.count)

    def add(
        self,
        kind: str,
        fields: str = "",
        *others: str,
        blobs: Sequence[Array] = (),
        first: str | None = None,
        tops: int = 1,
    ) -> None:
        """A layer above the top, or above the blob ``first``, and above others. The last of its tops is the new top."""
        name = f"l{next(self.names)}"
        others_of_layer = [f"{name}_{place}" for place in range(1, tops)]
        blobs_of_layer = (first or self.top, *others)
        self.text += op(kind, fields, blobs_of_layer, (*others_of_layer, name)).replace('"op"', f'"{name}"')
        self.blobs |= stored(name, blobs)
        self.top = name

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))


def convolution(net: Net) -> None:
    kernel, stride, pad, dilation = net.number(1, 3), net.number(1, 3), net.number(0, 2), net.number(1, 2)
    _convolve(net, f"kernel_size: {kernel} stride: {stride} pad: {pad} dilation: {dilation}", kernel)


def _convolve(net: Net, window: str, kernel: int, outputs: int = 3) -> None:
    weights = numbers(outputs, net.channels, kernel, kernel, seed=len(net.text)), numbers(outputs)
    net.add("Convolution", f"convolution_param {{ num_output: {outputs} {window} }}", blobs=weights)
    net.channels = outputs


def deconvolution(net: Net) -> None:
    kernel, stride = net.number(2, 4), net.number(1, 2)
    fields = f"num_output: 2 kernel_size: {kernel} stride: {stride} pad: {net.number(0, 1)} bias_term: false"
    weights = [numbers(net.channels, 2, kernel, kernel, seed=len(net.text))]
    net.add("Deconvolution", f"convolution_param {{ {fields} }}", blobs=weights)
    net.channels = 2


def pooling(net: Net) -> None:
    """No window is empty: what Caffe has there, the lowest number or NaN, does not last in sums."""
    kernel = net.number(2, 3)
    window = f"kernel_size: {kernel} stride: {net.number(1, kernel)} pad: {net.number(0, kernel - 1)}"
    net.add("Pooling", f"pooling_param {{ pool: {('MAX', 'AVE')[net.number(0, 1)]} {window} }}")


def branches(net: Net) -> None:
    """A branch of the same size, behind the blob or added to it; or two rows of images of it."""
    below, channels, axis = net.top, net.channels, net.number(0, 3)
    _convolve(net, "kernel_size: 3 pad: 1", 3, channels)
    if net.number(0, 1):
        net.add("Eltwise", "", below)
    else:
        net.add("Concat", f"concat_param {{ axis: {axis} }}", below)
        net.channels *= 2 if axis == 1 else 1


def part(net: Net) -> None:
    """Half of the rows or columns, or what a point leaves of them; the first rows and columns of the blob below."""
    below, axis, how = net.top, net.number(2, 3), net.number(0, 2)
    if how == 2:
        _convolve(net, "kernel_size: 2", 2, net.channels)
        net.add("Crop", f"crop_param {{ axis: {axis} offset: {net.number(0, 1)} }}", net.top, first=below)
        return
    net.add("Slice", f"slice_param {{ axis: {axis} {'slice_point: 1' if how else ''} }}", tops=2)


def columns(net: Net) -> None:
    """What windows see, as channels; or places of all windows side by side, seen by one more convolution."""
    if net.number(0, 1):
        net.add("Im2col", f"convolution_param {{ kernel_size: 2 stride: {net.number(1, 4)} }}")
        net.channels *= 4
        return
    net.add("Flatten", "flatten_param { axis: 2 }")
    weights = numbers(2, net.channels, 2, seed=len(net.text)), numbers(2)
    net.add("Convolution", "convolution_param { num_output: 2 kernel_size: 2 stride: 2 }", blobs=weights)
    net.add("Reshape", "reshape_param { shape { dim: 0 dim: 0 dim: -1 dim: 1 } }")
    net.channels = 2


def same_size(net: Net) -> None:
    net.add(*SAME_SIZE[net.number(0, len(SAME_SIZE) - 1)])


SAME_SIZE = (
    ("LRN", "lrn_param { local_size: 3 }"),
    ("MVN", ""),
    ("Softmax", "softmax_param { axis: 1 }"),
    ("TanH", ""),
)
LAYERS = (convolution, deconvolution, pooling, branches, part, columns, same_size)
ENDS = (
    (),
    (("Flatten", ""),),
    (("Flatten", "flatten_param { axis: 2 }"), ("Softmax", "softmax_param { axis: 2 }")),
    (("Reshape", "reshape_param { shape { dim: 0 dim: -1 } axis: 1 }"),),
    (
        ("Permute", "permute_param { order: 3 order: 0 order: 1 order: 2 }"),
        ("Reshape", "reshape_param { shape { dim: 0 dim: 0 dim: -1 } }"),
    ),
    (
        ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
        ("Reshape", "reshape_param { shape { dim: -1 } num_axes: 3 }"),
    ),
    (("Pooling", "pooling_param { pool: AVE global_pooling: true }"),),
    (("Tile", "tile_param { axis: 3 tiles: 2 }"),),
    (("Reduction", "reduction_param { axis: 2 operation: SUM }"),),
)


@st.composite
def nets(draw: st.DrawFn) -> Net:
    net = Net(draw)
    for layer in draw(st.lists(st.sampled_from(LAYERS), min_size=1, max_size=4)):
        layer(net)
    for kind, fields in draw(st.sampled_from(ENDS)):
        net.add(kind, fields)
    return net


def graph_of(net: Net, *shape: int | str) -> Graph:
    """Of an input of this shape; with names in it, for all sizes."""
    usual = tuple(SIZES[dim][1] if isinstance(dim, str) else dim for dim in shape)
    is_open = shape != usual
    named = {"shapes": {"x": shape}, "sizes": SIZES} if is_open else {}
    return rewritten(net.text, {"x": usual}, net.blobs, outputs=[net.top], **named)


def is_refused(net: Net, *shape: int) -> bool:
    try:
        graph_of(net, *shape)
    except ConversionError:
        return True
    return False


def every_size() -> Iterator[tuple[int, ...]]:
    """All sizes in range, the smallest ones first."""
    spans = (range(least, most + 1) for least, _, most in SIZES.values())
    return iter(sorted(itertools.product(*spans), key=sum))


CALLS = st.lists(
    st.tuples(*(st.integers(least, most) for least, _, most in SIZES.values())), min_size=2, max_size=3
)


def check(on: Way, net: Net, calls: Sequence[tuple[int, int, int]]) -> None:
    """Each call computes what the net for its sizes alone computes. The net is refused only if one of those is."""
    try:
        graph = graph_of(net, "N", CHANNELS, "H", "W")
    except ConversionError as error:
        refused = (size for size in every_size() if is_refused(net, size[0], CHANNELS, *size[1:]))
        if next(refused, None) is None:
            pytest.fail(f"no size alone is refused, but all sizes together are: {error}\n{net.text}")
        reject()
    session = prototrt.Session(graph, on=on)
    for items, height, width in calls:
        x = numbers(items, CHANNELS, height, width, seed=height)
        wanted = prototrt.Session(graph_of(net, *x.shape)).run({"x": x})[net.top]
        np.testing.assert_allclose(session.run({"x": x})[net.top], wanted, 1e-4, 1e-4, err_msg=net.text)


@pytest.mark.parametrize("on", WAYS)
@settings(max_examples=settings().max_examples // 2)
@given(nets(), CALLS)
def test_as_for_that_size_alone(on: Way, net: Net, calls: list[tuple[int, int, int]]) -> None:
    check(on, net, calls)


@pytest.mark.slow
@pytest.mark.parametrize("on", WAYS)
@given(nets(), CALLS)
def test_many_as_for_that_size_alone(on: Way, net: Net, calls: list[tuple[int, int, int]]) -> None:
    check(on, net, calls)
