"""Which products compute in 8 bits, and which values need a range for that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.surgery.ir import Array, Graph, Value, fixed
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.passes.quantization_placement import (
    Placement,
    chosen_products,
    quantized_values,
    scopes,
)
from prototrt.surgery.passes.value_bounds import value_bounds
from prototrt.surgery.pipeline import quantizable
from prototrt.tests.digit_strips import DIGITS
from prototrt.tests.golden_cases import caffe_cases
from prototrt.tests.small_nets import inputs_of, loaded, numbers

EVERYTHING = RewriteOptions(quantize_all=True)
CASES = [case for case in caffe_cases() if str(case) not in ("train_val_digits", "batch_sizes")]


def net(tmp_path: Path, shape: tuple[int, ...], *layers: str) -> Graph:
    text = inputs_of({"x": shape}) + "\n".join(layers)
    (tmp_path / "net.prototxt").write_text(text)
    return quantizable(prototrt.load(tmp_path / "net.prototxt", random_weights=1))


def layer(kind: str, bottoms: str, top: str, fields: str = "") -> str:
    read = " ".join(f'bottom: "{name}"' for name in bottoms.split())
    return f'layer {{ name: "{top}" type: "{kind}" {read} top: "{top}" {fields} }}'


def convolution(bottom: str, top: str, outputs: int = 4) -> str:
    fields = f"convolution_param {{ num_output: {outputs} kernel_size: 1 }}"
    return layer("Convolution", bottom, top, fields)


def products(graph: Graph, options: RewriteOptions) -> list[str]:
    return [node.origin.layer for node in chosen_products(graph, options)]


def digits() -> Graph:
    return quantizable(prototrt.load(DIGITS / "deploy.prototxt", DIGITS / "digits.caffemodel"))


def test_recurrent_products_are_quantized_and_hidden_states_need_no_range() -> None:
    """Both LSTMs read a sequence with one product and a state with another; h is at most 1."""
    assert products(digits(), RewriteOptions()) == ["conv2", "ip1", "lstm1", "lstm2", "lstm1", "lstm2"]
    assert quantized_values(digits(), RewriteOptions()) == ["pool1", "pool2", "ip1"]


def step(folder: Path, hidden: int, precision: str) -> Graph:
    """An LSTM of one step between two products."""
    text = inputs_of({"x": (1, 2, 4), "cont": (1, 2)}) + "\n".join(
        [
            layer("InnerProduct", "x", "a", "inner_product_param { num_output: 8 axis: 2 }"),
            layer("LSTM", "a cont", "h", f"recurrent_param {{ num_output: {hidden} }}"),
            layer("InnerProduct", "h", "y", "inner_product_param { num_output: 3 axis: 2 }"),
        ]
    )
    (folder / "net.prototxt").write_text(text)
    ranges = {"x": 4.0, "a": 4.0} if precision else None
    model = prototrt.load(folder / "net.prototxt", random_weights=1)
    return prototrt.rewrite(model, precision="int8", ranges=ranges) if precision else quantizable(model)


def test_a_small_step_stays_float(tmp_path: Path) -> None:
    """The kernels that quantize x and h take longer than 8 bits of weights save. Large ones are worth it."""
    graph = step(tmp_path, 8, "")
    assert products(graph, RewriteOptions()) == ["a"]
    assert products(graph, EVERYTHING) == ["a", "h", "y", "h"]
    assert quantized_values(graph, RewriteOptions()) == ["x"]
    assert products(step(tmp_path, 720, ""), RewriteOptions()) == ["a", "h", "h"]
    (warning,) = step(tmp_path, 8, "int8").warnings
    assert str(warning).partition(": ")[2] == (
        'layer "h" (LSTM): is not quantized: 8 bits add kernels to a single step of few weights, which makes it slower;'
        " quantize_all quantizes it"
    )


def test_the_first_convolution_and_the_last_product_are_quantized_on_request() -> None:
    assert products(digits(), EVERYTHING)[0] == "conv1"
    assert "score" in products(digits(), EVERYTHING)
    assert quantized_values(digits(), EVERYTHING) == ["data", "pool1", "pool2", "ip1"]


def test_layers_that_stay_float_need_no_range() -> None:
    options = RewriteOptions(keep_float=("lstm2", "ip1"))
    assert products(digits(), options) == ["conv2", "lstm1", "lstm1"]
    assert quantized_values(digits(), options) == ["pool1", "ip1"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_names_are_unique_in_a_graph_and_its_bodies(case: object) -> None:
    graph = quantizable(case.load())  # type: ignore[attr-defined]
    values = [value for scope in scopes(graph) for value in scope.inputs]
    values += [value for scope in scopes(graph) for node in scope.nodes for value in node.outputs]
    names = [value.name for value in values]
    assert len(set(names)) == len(names)
    assert set(quantized_values(graph, EVERYTHING)) <= set(names)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_value_is_beyond_its_bound(case: object) -> None:
    """The bodies of Scans are covered by what they write."""
    graph = quantizable(case.load())  # type: ignore[attr-defined]
    bounds = value_bounds(graph)
    shown = [value for node in graph.nodes for value in node.outputs if value in bounds]
    watched = replace(graph, outputs=tuple(shown), recurrences=())
    for feeds in case.arrays("inputs"):  # type: ignore[attr-defined]
        given = [feeds[value.name] if value.name in feeds else zeros(value) for value in graph.inputs]
        for value, array in zip(shown, watched.evaluate(*given), strict=True):
            assert np.abs(array).max(initial=0) <= bounds[value] * (1 + 1e-6), value


def zeros(value: Value) -> Array:
    return np.zeros([fixed(size, "a size") for size in value.shape], value.dtype.numpy)


def test_a_projected_state_needs_a_range(tmp_path: Path) -> None:
    """A state that is a sum of products is as large as its weights make it."""
    lstm = layer("LSTM", "x cont", "h", "recurrent_param { num_output: 4 num_proj: 3 }")
    (tmp_path / "net.prototxt").write_text(inputs_of({"x": (5, 1, 6), "cont": (5, 1)}) + lstm)
    graph = quantizable(prototrt.load(tmp_path / "net.prototxt", random_weights=1))
    assert quantized_values(graph, RewriteOptions()) == ["x", "__h_delta_product_h"]


@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize(
    ("group", "chosen"), [(4, ["point"]), (2, ["grouped", "point"]), (1, ["grouped", "point"])]
)
def test_depthwise_convolutions_are_quantized_on_request(
    kind: str, group: int, chosen: list[str], tmp_path: Path
) -> None:
    fields = f"convolution_param {{ num_output: 8 kernel_size: 3 group: {group} }}"
    grouped = layer(kind, "stem", "grouped", fields)
    ends = convolution("x", "stem"), convolution("point", "head")
    graph = net(tmp_path, (1, 3, 8, 8), ends[0], grouped, convolution("grouped", "point"), ends[1])
    assert products(graph, RewriteOptions()) == chosen
    assert products(graph, EVERYTHING) == ["stem", "grouped", "point", "head"]


def test_a_convolution_of_one_channel_is_not_depthwise(tmp_path: Path) -> None:
    chain = convolution("x", "stem", 1), convolution("stem", "middle"), convolution("middle", "head")
    assert products(net(tmp_path, (1, 3, 8, 8), *chain), RewriteOptions()) == ["middle"]


def test_values_that_are_moved_into_one_another_are_one_group(tmp_path: Path) -> None:
    """``d`` is alone; the other three meet in two Concats, of which each has two."""
    roots = [convolution("x", name) for name in "abcd"]
    joined = [layer("Concat", "b a", "ba"), layer("Concat", "c b", "cb"), layer("ReLU", "d", "r")]
    graph = net(
        tmp_path,
        (1, 3, 4, 4),
        *roots,
        *joined,
        *(convolution(name, f"of_{name}") for name in ("ba", "cb", "r")),
    )
    placement = Placement.of(graph, chosen_products(graph, EVERYTHING), "int8")
    values = {value.name: value for node in graph.nodes for value in node.outputs}
    groups: dict[Value, set[str]] = {}
    for name in ("a", "b", "c", "d", "ba", "cb", "r"):
        groups.setdefault(placement.group_of(values[name]), set()).add(name)
    assert sorted(map(sorted, groups.values())) == [["a", "b", "ba", "c", "cb"], ["d", "r"]]


def test_a_residual_sum_reads_the_shortcut_in_8_bits(tmp_path: Path) -> None:
    """The product that comes last is computed with the sum; the other summand is read from memory."""
    ends = [
        convolution("x", "stem"),
        layer("Pooling", "stem", "p", "pooling_param { pool: AVE global_pooling: true }"),
    ]
    block = [
        ends[0],
        convolution("stem", "short"),
        convolution("stem", "a"),
        convolution("a", "b"),
        layer("Eltwise", "short b", "sum"),
        convolution("sum", "head"),
    ]
    graph = net(tmp_path, (1, 3, 4, 4), *block)
    assert products(graph, RewriteOptions()) == ["short", "a", "b"]
    assert quantized_values(graph, RewriteOptions()) == ["stem", "a", "short"]
    assert quantized_values(graph, EVERYTHING) == ["x", "stem", "a", "sum", "short"]


def test_unusable_weights_stay_float(tmp_path: Path) -> None:
    weights = numbers(4, 3, 1, 1)
    weights[0] = np.nan
    text = inputs_of({"x": (1, 3, 2, 2)}) + convolution("x", "y")
    model = loaded(tmp_path, text, {"y/0": weights, "y/1": numbers(4)})
    assert chosen_products(quantizable(model), EVERYTHING) == []


def test_a_range_is_found_behind_many_moves(tmp_path: Path) -> None:
    """Each Concat reads the one before it twice: there are 2 ** 30 ways to the input, and each is long."""
    count, text, top = 30, inputs_of({"x": (1, 1, 1, 1)}), "x"
    for at in range(count):
        text += layer("Pooling", top, f"p{at}", "pooling_param { kernel_size: 1 }")
        text += layer("Concat", top, f"c{at}", f'bottom: "p{at}" concat_param {{ axis: 2 }}')
        text += layer("Pooling", f"c{at}", f"s{at}", "pooling_param { kernel_h: 2 kernel_w: 1 }")
        top = f"s{at}"
    for at in range(1200):
        text += layer("ReLU", top, f"r{at}")
        top = f"r{at}"
    model = loaded(tmp_path, text + convolution(top, "y"), {"y/0": numbers(4, 1, 1, 1), "y/1": numbers(4)})
    assert prototrt.rewrite(model, precision="int8", ranges={"x": 2.0}, quantize_all=True).warnings == ()
