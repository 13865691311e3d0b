"""The recurrent layers of Caffe's forks against loops written after their sources; real nets and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import WAYS, inputs_of, loaded, stored

SHARED = Path(__file__).parents[4] / "shared" / "models"
RANDOM = np.random.default_rng(7)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def lstm(gates: Array, recurrent: Array, clip: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
    """Step by step, in float64: all h, the last h and c. ``gates`` (T, N, 4H) are those of x, clip is (T, N)."""
    shown = []
    for t in range(len(gates)):
        cont = clip[t][:, None]
        i, f, o, g = np.split(gates[t] + (cont * h) @ recurrent.T, 4, axis=1)
        c = sigmoid(f) * cont * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        shown.append(h)
    return np.stack(shown), h, c


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def load(folder: Path, text: str, blobs: Mapping[str, list[Array]]) -> prototrt.Model:
    return loaded(
        folder, text, {key: blob for name in blobs for key, blob in stored(name, blobs[name]).items()}
    )


def inputs(**shapes: tuple[int, ...]) -> str:
    return inputs_of(shapes)


# ---------------------------------------------------------------- Lstm


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("with_clip", [False, True])
@pytest.mark.parametrize("layout", ["rows", "steps"])
def test_lstm_of_forks(layout: str, with_clip: bool, on: Way, tmp_path: Path) -> None:
    """junhyukoh's rows with batch_size, and CTPN's three axes; state is carried with clip alone."""
    steps, streams, size, hidden = 4, 3, 5, 6
    blobs = [normal(4 * hidden, size), normal(4 * hidden, hidden), normal(4 * hidden)]
    x = normal(steps, streams, size)
    clip = np.ones((steps, streams), np.float32)
    clip[0, 0] = clip[2, 1] = 0
    shape = (steps * streams, size) if layout == "rows" else x.shape
    feeds = {"x": x.reshape(shape)} | ({"clip": clip.reshape(-1)} if with_clip else {})
    text = inputs(**{name: array.shape for name, array in feeds.items()})
    bottoms = " ".join(f'bottom: "{name}"' for name in feeds)
    text += f'layer {{ name: "l" type: "Lstm" {bottoms} top: "l"'
    text += f" lstm_param {{ num_output: {hidden} batch_size: {streams} clipping_threshold: 0.1 }} }}"
    graph = prototrt.rewrite(load(tmp_path, text, {"l": blobs}))
    assert len(graph.recurrences) == (2 if with_clip else 0)
    session = prototrt.Session(graph, on=on)
    wide = [blob.astype(np.float64) for blob in blobs]
    gates = x @ wide[0].T + wide[2]
    state = np.zeros((streams, hidden)), np.zeros((streams, hidden))
    for _ in range(2):
        result = session.run(feeds)["l"]
        expected, *last = lstm(gates, wide[1], clip if with_clip else np.ones_like(clip), *state)
        assert result.shape == (*shape[:-1], hidden)
        np.testing.assert_allclose(result.reshape(expected.shape), expected, 1e-4, 2e-5)
        state = (last[0], last[1]) if with_clip else state


def test_lstm_rows_that_do_not_fit(tmp_path: Path) -> None:
    text = inputs(x=(10, 5)) + (
        'layer { name: "l" type: "Lstm" bottom: "x" top: "l" lstm_param { num_output: 2 batch_size: 4 } }'
    )
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(load(tmp_path, text, {"l": [normal(1)]}))
    assert str(caught.value) == (
        f'{tmp_path}/net.prototxt:2: layer "l" (Lstm), bottom "x": shape is (10, 5), expected (T * 4, ...)\n'
        "  because batch_size is 4\n"
        "  fix: give x a row for each step of each stream, or set batch_size in lstm_param"
    )


# ---------------------------------------------------------------- JEDDi-Net


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("kind", ["LSTMController", "LSTMTopic"])
def test_lstm_of_jeddi_net(kind: str, on: Way, tmp_path: Path) -> None:
    steps, streams, size, hidden, further = 3, 2, 4, 5, 3
    count = 2 if kind == "LSTMTopic" else 1
    statics = [normal(streams, further) for _ in range(count)]
    w_x, bias, w_h = normal(4 * hidden, size), normal(4 * hidden), normal(4 * hidden, hidden)
    w_s = [normal(4 * hidden, further) for _ in statics]
    feeds = {"x": normal(steps, streams, size), "cont": np.array([[0, 1], [1, 0.5], [1, 1]], np.float32)}
    feeds |= {f"s{i}": static for i, static in enumerate(statics)}
    text = inputs(**{name: array.shape for name, array in feeds.items()})
    bottoms = " ".join(f'bottom: "{name}"' for name in feeds)
    text += (
        f'layer {{ name: "l" type: "{kind}" {bottoms} top: "l" recurrent_param {{ num_output: {hidden} }} }}'
    )
    session = prototrt.Session(prototrt.rewrite(load(tmp_path, text, {"l": [w_x, bias, *w_s, w_h]})), on=on)
    gates = feeds["x"] @ w_x.T.astype(np.float64) + bias
    if kind == "LSTMController":
        gates = gates * feeds["cont"][:, :, None]
    gates = gates + sum(static @ w.T for static, w in zip(statics, w_s, strict=True))
    zero = np.zeros((streams, hidden))
    expected, *_ = lstm(gates, w_h.astype(np.float64), feeds["cont"], zero, zero)
    np.testing.assert_allclose(session.run(feeds)["l"], expected, 1e-4, 2e-5)


# ---------------------------------------------------------------- units


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(("ties", "tanh"), [(False, True), (True, False)])
def test_lstm_unit_of_apollocaffe(ties: bool, tanh: bool, on: Way, tmp_path: Path) -> None:
    streams, size, cells = 3, 7, 4
    blobs = [normal(1, cells, 1, size) for _ in range(4)]
    feeds = {"x": normal(streams, size), "memory": normal(streams, cells)}
    text = inputs(**{name: array.shape for name, array in feeds.items()}) + (
        'layer { name: "u" type: "LstmUnit" bottom: "x" bottom: "memory" top: "h" top: "c" lstm_unit_param {'
        f" num_cells: {cells} tie_output_forget: {str(ties).lower()} tanh_hidden: {str(tanh).lower()} }} }}"
    )
    results = prototrt.Session(prototrt.rewrite(load(tmp_path, text, {"u": blobs})), on=on).run(feeds)
    value, i, f, o = (feeds["x"] @ blob.reshape(cells, size).T.astype(np.float64) for blob in blobs)
    forget = sigmoid(-o) if ties else sigmoid(f)
    c = forget * feeds["memory"] + sigmoid(i) * np.tanh(value)
    np.testing.assert_allclose(results["c"], c, 1e-4, 2e-5)
    np.testing.assert_allclose(results["h"], sigmoid(o) * (np.tanh(c) if tanh else c), 1e-4, 2e-5)


@pytest.mark.parametrize("on", WAYS)
def test_gru_unit(on: Way, tmp_path: Path) -> None:
    feeds = {"h": normal(1, 2, 3), "gates": normal(1, 2, 9), "cont": np.array([[1, 0]], np.float32)}
    text = inputs(**{name: array.shape for name, array in feeds.items()}) + (
        'layer { name: "u" type: "GRUUnit" bottom: "h" bottom: "gates" bottom: "cont" top: "u" }'
    )
    result = prototrt.Session(prototrt.rewrite(load(tmp_path, text, {})), on=on).run(feeds)
    _, z, n = np.split(feeds["gates"].astype(np.float64), 3, axis=2)
    h = feeds["h"] * feeds["cont"][:, :, None]
    np.testing.assert_allclose(result["u"], sigmoid(z) * h + (1 - sigmoid(z)) * np.tanh(n), 1e-4, 2e-5)


@pytest.mark.parametrize("on", WAYS)
def test_gru_with_the_reset_before_the_product(on: Way, tmp_path: Path) -> None:
    """Cho et al. 2014: ``n = tanh(W x + U (r h))``; the other order is in the cuDNN goldens."""
    steps, streams, size, hidden = 4, 2, 3, 5
    w, b, u = normal(3 * hidden, size), normal(3 * hidden), normal(3 * hidden, hidden)
    feeds = {"x": normal(steps, streams, size)}
    text = inputs(x=feeds["x"].shape) + (
        f'layer {{ name: "g" type: "GRU" bottom: "x" top: "g" recurrent_param {{ num_output: {hidden} }} }}'
    )
    result = prototrt.Session(prototrt.rewrite(load(tmp_path, text, {"g": [w, b, u]})), on=on).run(feeds)["g"]
    h = np.zeros((streams, hidden))
    for t in range(steps):
        x_r, x_z, x_n = np.split(feeds["x"][t].astype(np.float64) @ w.T + b, 3, axis=1)
        u_r, u_z, u_n = np.split(u.astype(np.float64), 3)
        r, z = sigmoid(x_r + h @ u_r.T), sigmoid(x_z + h @ u_z.T)
        h = (1 - z) * np.tanh(x_n + (r * h) @ u_n.T) + z * h
        np.testing.assert_allclose(result[t], h, 1e-4, 2e-5)


# ---------------------------------------------------------------- what people have

PROTOTXTS = sorted((SHARED / "recurrent-prototxt").glob("*.prototxt"))


@pytest.mark.skipif(not PROTOTXTS, reason="the real nets lie beside the repository, in shared/models")
@pytest.mark.parametrize("file", PROTOTXTS, ids=lambda file: file.name.partition(".")[0])
def test_real_nets_become_networks(file: Path) -> None:
    from prototrt.converter.backends.tensorrt.api import find_backend
    from prototrt.converter.backends.tensorrt.builder import network_of

    graph = prototrt.rewrite(prototrt.load(file, random_weights=1))
    assert network_of(graph, find_backend()).definition.num_outputs == len(graph.outputs)


@pytest.mark.skipif(
    not (SHARED / "opencv_extra").exists(), reason="needs shared/models beside the repository"
)
def test_an_lstm_that_caffe_ran(tmp_path: Path) -> None:
    """OpenCV's test data: T = 12, N = 2, 36 x 37 inputs, H = 17."""
    folder = SHARED / "opencv_extra"
    blobs = [np.load(folder / f"lstm.prototxt.w_{index}.npy") for index in range(3)]
    x, expected = np.load(folder / "recurrent.input.npy"), np.load(folder / "lstm.prototxt.h_1.npy")
    hidden = blobs[0].shape[0] // 4
    by_width = sorted((blob.reshape(len(blob), -1) for blob in blobs), key=lambda blob: -blob.shape[1])
    w_x, w_h, bias = by_width
    text = inputs(x=x.shape, cont=x.shape[:2]) + (
        'layer { name: "l" type: "LSTM" bottom: "x" bottom: "cont" top: "l"'
        f" recurrent_param {{ num_output: {hidden} }} }}"
    )
    model = load(tmp_path, text, {"l": [w_x, bias.reshape(-1), w_h]})
    result = prototrt.Session(prototrt.rewrite(model)).run({"x": x, "cont": np.ones(x.shape[:2], np.float32)})
    np.testing.assert_allclose(result["l"].reshape(expected.shape), expected, 1e-4, 1e-5)


# ---------------------------------------------------------------- written out by hand


def test_a_net_unrolled_by_hand(tmp_path: Path) -> None:
    """Concat, InnerProduct and TanH a step, one matrix for all through ``param { name }``: a VanillaRNN."""
    steps, streams, size, hidden = 3, 2, 4, 5
    w_x, w_h, bias = normal(hidden, size), normal(hidden, hidden), normal(hidden)
    x = normal(steps, streams, size)
    text = inputs(**{f"x{t}": (streams, size) for t in range(steps)}, h=(streams, hidden))
    for t in range(steps):
        before = f"h{t - 1}" if t else "h"
        text += (
            f'layer {{ name: "c{t}" type: "Concat" bottom: "x{t}" bottom: "{before}" top: "c{t}" }}\n'
            f'layer {{ name: "i{t}" type: "InnerProduct" bottom: "c{t}" top: "i{t}" param {{ name: "w" }}'
            f' param {{ name: "b" }} inner_product_param {{ num_output: {hidden} }} }}\n'
            f'layer {{ name: "h{t}" type: "TanH" bottom: "i{t}" top: "h{t}" }}\n'
        )
    model = load(tmp_path, text, {"i0": [np.concatenate([w_x, w_h], 1), bias]})
    feeds = {f"x{t}": x[t] for t in range(steps)} | {"h": np.zeros((streams, hidden), np.float32)}
    by_hand = prototrt.Session(prototrt.rewrite(model)).run(feeds)[f"h{steps - 1}"]
    layer = inputs(x=x.shape) + (
        f'layer {{ name: "r" type: "VanillaRNN" bottom: "x" top: "r" recurrent_param {{ num_output: {hidden} }} }}'
    )
    whole = prototrt.Session(prototrt.rewrite(load(tmp_path, layer, {"r": [w_x, bias, w_h]}))).run({"x": x})[
        "r"
    ]
    np.testing.assert_allclose(by_hand, whole[-1], 1e-5, 1e-6)
