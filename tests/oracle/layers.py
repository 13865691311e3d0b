"""Random nets of one layer: the fields of its message, and what may stand in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.v1_types import type_of_v1
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import inputs_of

Sizes: TypeAlias = tuple[int, ...]
Drawn: TypeAlias = st.SearchStrategy[Any]
Field: TypeAlias = Drawn | Callable[[list[Sizes]], Drawn]
"""What a field holds, perhaps for bottoms of these shapes. A mapping holds several fields at once."""
Fields: TypeAlias = Mapping[str, Field]


@dataclass(frozen=True)
class Kind:
    """A layer of one type.

    ``fields`` are stated sometimes, those that end in ``!`` always. ``others`` are the shapes of
    further bottoms, ``whole`` a bottom that holds whole numbers below 9 or below the first size of "b0".
    """

    param: str = ""
    fields: Fields = field(default_factory=dict)
    shapes: Drawn = field(default_factory=lambda: shapes(2, 5))
    others: Callable[[Sizes], Drawn] = lambda shape: st.just([])
    tops: Callable[[Mapping[str, Any]], Drawn] = lambda stated: st.just(1)
    whole: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Net:
    """A net and its inputs, call by call."""

    text: str
    calls: Sequence[Mapping[str, Array]]
    seed: int


def shapes(least: int, most: int) -> Drawn:
    return st.lists(st.integers(1, 6), min_size=least, max_size=most).map(tuple)


def axis(bottoms: list[Sizes]) -> Drawn:
    rank = len(bottoms[0])
    return st.integers(-rank, rank)  # the last one is one too many


def old_axis(name: str) -> Callable[[list[Sizes]], Drawn]:
    """The axis under its name of today, or its old one."""
    return lambda bottoms: st.tuples(st.sampled_from(["axis", name]), axis(bottoms)).map(
        lambda stated: {stated[0]: abs(stated[1]) if stated[0] == name else stated[1]}
    )


def window(name: str, short: str, values: Drawn) -> Callable[[list[Sizes]], Drawn]:
    """A size for all axes of a window, for each, or as height and width."""

    def drawn(bottoms: list[Sizes]) -> Drawn:
        count = max(1, len(bottoms[0]) - 2)
        each = st.lists(values, min_size=count, max_size=count)
        pair = st.tuples(values, values).map(lambda pair: {f"{short}_h": pair[0], f"{short}_w": pair[1]})
        plain = values.map(lambda value: {name: value})
        return st.one_of(plain, each.map(lambda sizes: {name: sizes}), *([pair] if count == 2 else []))

    return drawn


def pool_window(name: str, short: str, values: Drawn) -> Callable[[list[Sizes]], Drawn]:
    """As ``window``, but never a list."""
    return lambda bottoms: window(name, short, values)(bottoms).filter(
        lambda stated: not isinstance(stated.get(name), list)
    )


@st.composite
def cuts(draw: st.DrawFn, bottoms: list[Sizes]) -> Any:
    """Where a Slice cuts which axis."""
    place = draw(st.integers(0, len(bottoms[0]) - 1))
    points = draw(st.lists(st.integers(1, 6), max_size=min(2, bottoms[0][place] - 1), unique=True))
    return {draw(st.sampled_from(["axis", "slice_dim"])): place, "slice_point": sorted(points)}


@st.composite
def offsets(draw: st.DrawFn, bottoms: list[Sizes]) -> Any:
    """From where on Crop looks at which axes."""
    rank = len(bottoms[0])
    place = draw(st.integers(-rank, rank - 1))
    room = [size - kept for size, kept in zip(*bottoms, strict=True)][place % rank :]
    return {"axis": place, "offset": [draw(st.integers(0, left)) for left in room]}


def alike(shape: Sizes) -> Drawn:
    """One to three further bottoms of this shape."""
    return st.integers(1, 3).map(lambda count: [shape] * count)


def part(shape: Sizes) -> Drawn:
    """A bottom with some of the axes, which begin at any."""
    ends = st.tuples(st.integers(0, len(shape)), st.integers(0, len(shape))).map(sorted)
    return ends.map(lambda ends: [shape[ends[0] : ends[1]]])


def smaller(shape: Sizes) -> Drawn:
    return st.tuples(*(st.integers(1, size) for size in shape)).map(lambda sizes: [sizes])


def dims(bottoms: list[Sizes]) -> Drawn:
    """A new shape: one that fits, or any."""
    fitting = [[-1], [0, -1], [1, -1, 1], list(bottoms[0][::-1]), [0] * len(bottoms[0])]
    return st.one_of(st.sampled_from(fitting), st.lists(st.integers(-1, 3), max_size=4))


def coefficients(bottoms: list[Sizes]) -> Drawn:
    return st.lists(NUMBER, min_size=len(bottoms), max_size=len(bottoms))


NUMBER = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0])
BASE = st.sampled_from([-1.0, 0.5, 1.0, 2.0, 10.0])
EXPONENT = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
SWITCH = st.sampled_from(["true", "false"])
SMALL, PAD, AXES = st.integers(1, 3), st.integers(0, 2), st.integers(-1, 3)
IMAGES = shapes(4, 4)
AFFINE: Fields = {"axis": axis, "num_axes": AXES}
WINDOW: Fields = {
    "kernel_size!": window("kernel_size", "kernel", SMALL),
    "stride": window("stride", "stride", SMALL),
    "pad": window("pad", "pad", PAD),
    "dilation": SMALL,
}
CONVOLUTION: Fields = {
    **WINDOW,
    "num_output!": SMALL,
    "group": SMALL,
    "bias_term": SWITCH,
    "force_nd_im2col": SWITCH,
}
POOLING: Fields = {
    "kernel_size!": pool_window("kernel_size", "kernel", SMALL),
    "stride": pool_window("stride", "stride", SMALL),
    "pad": pool_window("pad", "pad", PAD),
    "pool": st.sampled_from(["MAX", "AVE"]),
    "round_mode": st.sampled_from(["CEIL", "FLOOR"]),
}
LRN: Fields = {
    "local_size": st.integers(1, 7),
    "alpha": NUMBER.map(abs),
    "beta": NUMBER,
    "k": st.just(2.0),
    "norm_region": st.sampled_from(["ACROSS_CHANNELS", "WITHIN_CHANNEL"]),
}
ELTWISE: Fields = {"operation": st.sampled_from(["SUM", "SUM", "MAX", "PROD"]), "coeff": coefficients}
REDUCTION: Fields = {
    "operation": st.sampled_from(["SUM", "ASUM", "SUMSQ", "MEAN"]),
    "axis": axis,
    "coeff": NUMBER,
}
INNER_PRODUCT: Fields = {"num_output!": SMALL, "axis": axis, "transpose": SWITCH, "bias_term": SWITCH}
EMBED: Fields = {"num_output!": SMALL, "input_dim!": st.just(9), "bias_term": SWITCH}

KINDS = {
    "AbsVal": Kind(),
    "ArgMax": Kind("argmax_param", {"axis": axis, "top_k": SMALL, "out_max_val": SWITCH}),
    "BNLL": Kind(),
    "BatchNorm": Kind("batch_norm_param", {"use_global_stats": SWITCH, "eps": st.just(0.1)}),
    "BatchReindex": Kind(others=lambda shape: shapes(1, 1).map(lambda items: [items]), whole={1: 0}),
    "Bias": Kind("bias_param", AFFINE),
    "Bias of two": Kind("bias_param", {"axis!": axis}, others=part),
    "Clip": Kind("clip_param", {"min!": NUMBER, "max!": NUMBER}),
    "Concat": Kind("concat_param", {"axis": old_axis("concat_dim")}, others=alike),
    "Convolution": Kind("convolution_param", CONVOLUTION, shapes(3, 5)),
    "Crop": Kind("crop_param", {"axis!": offsets}, others=smaller),
    "Deconvolution": Kind("convolution_param", CONVOLUTION, shapes(3, 5)),
    "Dropout": Kind("dropout_param", {"dropout_ratio": st.just(0.25)}),
    "ELU": Kind("elu_param", {"alpha": NUMBER}),
    "Eltwise": Kind("eltwise_param", ELTWISE, others=alike),
    "Embed": Kind("embed_param", EMBED, whole={0: 9}),
    "Exp": Kind("exp_param", {"base": BASE, "scale": NUMBER, "shift": NUMBER}),
    "Filter": Kind(others=lambda shape: st.just([shape[:1]]), whole={1: 0}),
    "Flatten": Kind("flatten_param", {"axis": axis, "end_axis": axis}),
    "Im2col": Kind("convolution_param", WINDOW, shapes(3, 5)),
    "InnerProduct": Kind("inner_product_param", INNER_PRODUCT),
    "LRN": Kind("lrn_param", LRN, IMAGES),
    "Log": Kind("log_param", {"base": BASE, "scale": NUMBER, "shift": NUMBER}),
    "MVN": Kind("mvn_param", {"normalize_variance": SWITCH, "across_channels": SWITCH, "eps": st.just(0.1)}),
    "PReLU": Kind("prelu_param", {"channel_shared": SWITCH}, shapes(1, 4)),
    "Pooling": Kind("pooling_param", POOLING, IMAGES, tops=lambda _: st.sampled_from([1, 1, 2])),
    "Pooling of all": Kind("pooling_param", {"global_pooling!": SWITCH, "pool": POOLING["pool"]}, IMAGES),
    "Power": Kind("power_param", {"power": EXPONENT, "scale": NUMBER, "shift": NUMBER}),
    "ReLU": Kind("relu_param", {"negative_slope": NUMBER}),
    "Reduction": Kind("reduction_param", REDUCTION),
    "Reshape": Kind("reshape_param", {"shape!": dims, "axis": axis, "num_axes": AXES}),
    "SPP": Kind("spp_param", {"pyramid_height!": SMALL, "pool": POOLING["pool"]}, IMAGES),
    "Scale": Kind("scale_param", {**AFFINE, "bias_term": SWITCH}),
    "Scale of two": Kind("scale_param", {"axis!": axis, "bias_term": SWITCH}, others=part),
    "Sigmoid": Kind(),
    "Slice": Kind("slice_param", {"slice!": cuts}, tops=lambda stated: st.just(len(stated["slice_point"]) + 1)),
    "Softmax": Kind("softmax_param", {"axis": axis}),
    "Split": Kind(tops=lambda _: SMALL),
    "Swish": Kind("swish_param", {"beta": NUMBER}),
    "TanH": Kind(),
    "Threshold": Kind("threshold_param", {"threshold": NUMBER}),
    "Tile": Kind("tile_param", {"tiles!": SMALL, "axis": axis}),
}  # fmt: skip


@st.composite
def nets(draw: st.DrawFn, name: str) -> Net:
    """A net of inputs and the layer "op"."""
    kind, seed = KINDS[name], draw(st.integers(0, 2**31))
    first = draw(kind.shapes)
    bottoms = [first, *draw(kind.others(first))]
    stated = _stated(draw, kind, bottoms)
    blobs = [f'bottom: "b{index}"' for index in range(len(bottoms))]
    blobs += [f'top: "y{index}"' for index in range(draw(kind.tops(stated)))]
    param = f"{kind.param} {{ {_text(stated)} }}" if kind.param else ""
    text = f'layer {{ name: "op" type: "{name.split()[0]}" {" ".join(blobs)} {param} }}'
    random = np.random.default_rng(seed)
    given = [random.standard_normal(shape, np.float32) for shape in bottoms]
    if draw(st.booleans()):  # many are equal, which matters to some layers
        given = [np.rint(array) for array in given]
    for index, most in kind.whole.items():
        given[index] = random.integers(0, most or first[0], bottoms[index]).astype(np.float32)
    shapes = {f"b{index}": shape for index, shape in enumerate(bottoms)}
    return Net(inputs_of(shapes) + text, [dict(zip(shapes, given, strict=True))], seed % 1000)


def _stated(draw: st.DrawFn, kind: Kind, bottoms: list[Sizes]) -> dict[str, Any]:
    """The fields that are stated, with what they hold."""
    stated: dict[str, Any] = {}
    for name, values in kind.fields.items():
        if name.endswith("!") or draw(st.booleans()):
            value = draw(values(bottoms) if callable(values) else values)
            stated |= value if isinstance(value, dict) else {name.rstrip("!"): value}
    return stated


def _text(stated: Mapping[str, Any]) -> str:
    lines = []
    for name, value in stated.items():
        if name == "shape":
            lines.append("shape { " + " ".join(f"dim: {size}" for size in value) + " }")
        else:
            lines += [f"{name}: {each}" for each in (value if isinstance(value, list) else [value])]
    return " ".join(lines)


def in_old_form(net: Net) -> Net:
    """The net as ``input`` and ``layers``, with the words of that form for types."""
    lines = []
    for line in net.text.splitlines():
        if is_input := re.search(r'type: "Input" top: "(\w+)" input_param \{ shape (\{.*?\}) \}', line):
            lines.append(f'input: "{is_input[1]}" input_shape {is_input[2]}')
        else:
            kind = re.search(r'type: "(\w+)"', line)
            assert kind
            word = _OLD_WORDS.get(kind[1]) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind[1]).upper()
            lines.append(line.replace("layer {", "layers {", 1).replace(kind[0], f"type: {word}"))
    return replace(net, text="\n".join(lines))


_OLD_WORDS = {
    type_of_v1(value.number): value.name
    for value in message_class("V1LayerParameter").DESCRIPTOR.enum_types_by_name["LayerType"].values
}


@st.composite
def recurrent_nets(draw: st.DrawFn) -> Net:
    """An LSTM or an RNN, called several times."""
    kind, hidden = draw(st.sampled_from(["LSTM", "RNN"])), draw(SMALL)
    steps, streams, seed = draw(SMALL), draw(SMALL), draw(st.integers(0, 2**31))
    bottoms = {"x": (steps, streams, *draw(shapes(1, 3))), "cont": (steps, streams)}
    if draw(st.booleans()):
        bottoms["static"] = (streams, *draw(shapes(1, 3)))
    states = {"LSTM": ["h", "c"], "RNN": ["h"]}[kind] if draw(st.booleans()) else []
    bottoms |= {f"{state}_0": (1, streams, hidden) for state in states}
    blobs = [f'bottom: "{bottom}"' for bottom in bottoms]
    blobs += [f'top: "{top}"' for top in ["y", *(f"{state}_T" for state in states)]]
    param = f"recurrent_param {{ num_output: {hidden} expose_hidden: {str(bool(states)).lower()} }}"
    text = f'layer {{ name: "op" type: "{kind}" {" ".join(blobs)} {param} }}\n'
    if draw(st.booleans()):  # in place on the top: with one step that changes the state
        text += (
            f'layer {{ name: "on" type: "{draw(st.sampled_from(["TanH", "ReLU"]))}" bottom: "y" top: "y" }}'
        )
    random = np.random.default_rng(seed)
    calls = []
    for _ in range(draw(SMALL)):
        call = {name: random.standard_normal(shape, np.float32) for name, shape in bottoms.items()}
        calls.append({**call, "cont": random.choice(np.array([0, 0.5, 1, 1], np.float32), (steps, streams))})
    return Net(inputs_of(bottoms) + text, calls, seed % 1000)
