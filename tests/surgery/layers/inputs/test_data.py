"""DummyData, and what fillers leave where a weights file has nothing; Embed's ids."""

from __future__ import annotations

import numpy as np
import pytest

from prototrt import Session, Way
from prototrt.caffe_proto.forks import Fork
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import (
    WAYS,
    builds,
    failure,
    numbers,
    op,
    refusal,
    rewritten,
    run,
    stored,
    told,
)

BESIDE = {"z": np.zeros(1, np.float32)}
SHAPES = {"z": (1,)}


def dummy(param: str, tops: str = 'top: "a" top: "b"') -> str:
    """DummyData beside an input, and a layer that reads each top."""
    layer = f'layer {{ name: "op" type: "DummyData" {tops} dummy_data_param {{ {param} }} }}\n'
    sums = [
        f'layer {{ name: "sum_{name}" type: "Power" bottom: "{name}" top: "y{name}" }}\n'
        for name in ("a", "b", "z")
    ]
    return layer + "".join(sums)


DUMMIES = {
    "shape { dim: 2 dim: 3 }": (np.zeros((2, 3)), np.zeros((2, 3))),
    "shape { dim: 2 } shape { dim: 1 dim: 3 } data_filler { value: 2 }": (np.full(2, 2), np.full((1, 3), 2)),
    "num: 1 num: 2 channels: 3 height: 1 width: 2 data_filler { value: 1 } data_filler { value: -1 }": (
        np.ones((1, 3, 1, 2)),
        -np.ones((2, 3, 1, 2)),
    ),
}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("param", DUMMIES)
def test_dummy_data(on: Way, param: str) -> None:
    results = run(dummy(param), BESIDE, on=on)
    for name, expected in zip(("ya", "yb"), DUMMIES[param], strict=True):
        np.testing.assert_array_equal(results[name], expected)
        assert results[name].shape == expected.shape


OP = 'net.prototxt:2: layer "op" (DummyData)'
REFUSED = {
    "": f"{OP}: has 0 shapes for 2 tops, expected 1 or one per top\n  fix: state shape once, or once per top",
    "shape { dim: 2 } num: 1": (
        f"{OP}: needs either shape or num, channels, height and width, each once or once per top\n"
        "  fix: write shape { dim: ... } instead of num, channels, height and width"
    ),
    "num: 1 channels: 1 height: 1": (
        f"{OP}: needs either shape or num, channels, height and width, each once or once per top\n"
        "  fix: write shape { dim: ... } instead of num, channels, height and width"
    ),
    "shape { dim: 2 } data_filler { } data_filler { } data_filler { }": (
        f"{OP}: has 3 fillers for 2 tops, expected 0, 1 or one per top\n"
        "  fix: state data_filler once, or once per top"
    ),
    "shape { dim: 2 } shape { dim: 0 }": f'{OP}, top "b": shape is (0,), expected sizes of at least 1\n'
    "  fix: write positive sizes into dummy_data_param",
    "shape { dim: 100000 dim: 100000 }": (
        f'{OP}, top "a": shape is (100000, 100000), which is 10000000000 elements, expected at most 2147483647\n'
        "  because Caffe counts elements with 32-bit integers\n"
        "  fix: use smaller sizes"
    ),
    'shape { dim: 2 } data_filler { type: "gaussian" } data_filler { }': (
        f'{OP}: data_filler is "gaussian", expected "constant" or "bilinear"\n'
        "  because every call of Caffe draws other numbers\n"
        '  fix: make its tops inputs: shapes={"a": (2,), "b": (2,)}; or convert the part before it: outputs=["yz"];'
        ' or both parts: outputs=["auto"], remainder="rest_of_net.prototxt"'
    ),
    'shape { dim: 2 } data_filler { type: "bilinear" }': (
        f"{OP}: shape is (2,), expected four axes, the last two of equal size\n"
        "  because its filler is bilinear\n  fix: use the filler constant, or a square kernel"
    ),
    'shape { dim: [1, 1, 1025, 1025] } data_filler { type: "bilinear" }': (
        f"{OP}: shape is (1, 1, 1025, 1025), expected at most 1024 x 1024\n"
        "  because its bilinear filler is stored element by element\n"
        "  fix: use smaller sizes"
    ),
}


@pytest.mark.parametrize("param", REFUSED)
def test_refused(param: str) -> None:
    assert refusal(dummy(param), SHAPES) == REFUSED[param]


def test_bilinear_filler() -> None:
    """A kernel of 4 interpolates with 1/4, 3/4, 3/4, 1/4; one of 3 with 1/2, 1, 1/2."""
    param = 'shape {{ dim: 1 dim: 2 dim: {0} dim: {0} }} data_filler {{ type: "bilinear" }}'
    even = run(dummy(param.format(4)), BESIDE)["ya"]
    row = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(even, np.broadcast_to(np.outer(row, row), (1, 2, 4, 4)))
    odd = run(dummy(param.format(3)), BESIDE)["ya"]
    np.testing.assert_allclose(odd[0, 1], np.outer([0.5, 1, 0.5], [0.5, 1, 0.5]))


UPSAMPLE = (
    'layer { name: "up" type: "Deconvolution" bottom: "x" top: "y" convolution_param { num_output: 2 group: 2'
    ' kernel_size: 4 stride: 2 pad: 1 bias_term: false weight_filler { type: "bilinear" } } }'
)


def test_missing_layer_keeps_its_bilinear_filler() -> None:
    """Constant planes stay constant away from the border, and the user is told."""
    net = UPSAMPLE + 'layer { name: "known" type: "Bias" bottom: "x" top: "z" }'
    stored = {"known/0": np.ones(2, np.float32)}
    graph = rewritten(net, {"x": (1, 2, 3, 3)}, stored)
    (warning,) = (told(text) for text in graph.warnings if "up" in text)
    assert warning == (
        'net.prototxt:2: layer "up" (Deconvolution): the weights file has no such layer:'
        " its weights keep what is bilinear"
    )
    y = run(net, {"x": np.ones((1, 2, 3, 3), np.float32)}, stored)["y"]
    np.testing.assert_allclose(y[..., 1:-1, 1:-1], 1)


EMBED = 'layer { name: "e" type: "Embed" bottom: "ids" top: "y" embed_param { num_output: 3 input_dim: 5 } }'
ROWS = {"e/0": numbers(5, 3), "e/1": numbers(3, seed=1)}


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("shape", [(4,), (2, 2), (1, 2, 2, 1)])
def test_embed(on: Way, dtype: str, shape: tuple[int, ...]) -> None:
    ids: Array = np.array([4, 0, 2, 2]).reshape(shape).astype(dtype)
    expected = ROWS["e/0"][[4, 0, 2, 2]].reshape(*shape, 3) + ROWS["e/1"]
    np.testing.assert_allclose(run(EMBED, {"ids": ids}, ROWS, on)["y"], expected)


def test_embed_cuts_ids_towards_zero() -> None:
    result = run(EMBED, {"ids": np.array([1.9, -0.5], np.float32)}, ROWS)["y"]
    np.testing.assert_allclose(result, ROWS["e/0"][[1, 0]] + ROWS["e/1"])


def test_id_outside_is_refused_by_the_reference() -> None:
    assert failure(lambda: run(EMBED, {"ids": np.array([5], np.float32)}, ROWS)) == (
        'net.prototxt:2: layer "e" (Embed): index 5 is outside the 5 rows that it picks from\n'
        "  fix: give indices from 0 to 4"
    )


@pytest.mark.trt
def test_embed_builds() -> None:
    assert builds(EMBED, {"ids": (2, 3)}, ROWS)


def test_weights_that_no_blob_holds_are_refused() -> None:
    text = EMBED.replace("input_dim: 5", "input_dim: 2000000000")
    assert refusal(text, {"ids": (1,)}) == (
        'net.prototxt:2: layer "e" (Embed), blob 0 (weights): shape is (2000000000, 3), which is 6000000000 elements,'
        " expected at most 2147483647\n  because Caffe counts elements with 32-bit integers\n"
        "  fix: use smaller sizes"
    )


def test_dropping_in_tests_is_told_and_not_done() -> None:
    x = numbers(2, 3)
    graph = rewritten(op("Dropout", "dropout_param { sample_weights_test: true }"), {"x": x.shape})
    (warning,) = graph.warnings
    assert told(warning) == (
        'net.prototxt:2: layer "op" (Dropout): sample_weights_test is ignored: nothing is dropped. Bayesian SegNet'
        " drops other elements on every call; the mean of many calls comes close to this result"
    )
    np.testing.assert_array_equal(Session(graph).run({"x": x})["y"], x)


CLASSES = """
layer { name: "best" type: "ArgMax" bottom: "x" top: "best" argmax_param { axis: 1 } }
layer { name: "e" type: "Embed" bottom: "best" top: "y" embed_param { num_output: 3 input_dim: 4 bias_term: false } }
"""


def test_embedded_classes_of_regions_keep_their_axes() -> None:
    """In bottom-up-attention; Caffe itself adds an axis."""
    x, table = numbers(2, 4), numbers(4, 3, seed=1)
    graph = rewritten(CLASSES, {"x": x.shape}, {"e/0": table})
    np.testing.assert_array_equal(Session(graph).run({"x": x})["y"], table[x.argmax(1)])
    (warning,) = graph.warnings
    assert told(warning) == (
        'net.prototxt:4: layer "e" (Embed): read as the layer of bottom-up-attention: a last axis of size 1 becomes'
        ' num_output; use fork="bvlc" if num_output is one more axis'
    )
    of_caffe = rewritten(CLASSES, {"x": x.shape}, {"e/0": table}, fork="bvlc")
    assert (of_caffe.outputs[0].shape, of_caffe.warnings) == ((2, 1, 3), ())


@pytest.mark.parametrize(("fork", "shape"), [(None, (5, 1, 3)), ("bottom-up-attention", (5, 3))])
def test_embedded_ids_of_one_stream(fork: Fork | None, shape: tuple[int, ...]) -> None:
    graph = rewritten(EMBED, {"ids": (5, 1)}, {"e/0": numbers(5, 3), "e/1": numbers(3)}, fork=fork)
    assert graph.outputs[0].shape == shape


@pytest.mark.parametrize("filler", ["filler", "blob_filler"])
def test_a_parameter_that_the_weights_lack_keeps_its_filler(filler: str) -> None:
    fields = f'parameter_param {{ shape {{ dim: 2 }} {filler} {{ type: "constant" value: 3 }} }}'
    sums = (
        'layer { name: "stored" type: "Bias" bottom: "p" top: "q" bias_param { axis: 0 } }\n'
        'layer { name: "sum" type: "Bias" bottom: "x" bottom: "q" top: "y" bias_param { axis: 0 } }'
    )
    net = op("Parameter", fields, (), ["p"]) + "\n" + sums
    found = run(net, {"x": np.ones(2, np.float32)}, stored("stored", [np.ones(2)]))["y"]
    np.testing.assert_array_equal(found, [5, 5])
