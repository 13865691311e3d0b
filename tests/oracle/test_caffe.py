"""Random nets, computed by us and by real Caffe: it refuses what we refuse, and the numbers agree.

``CAFFE_PYTHON`` is the command of a Python 3 that has Caffe; without it the tests are skipped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.schema import message_class
from prototrt.tests.oracle.caffe_client import COMMAND, Caffe, RefusedError
from prototrt.tests.oracle.layers import KINDS, Net, in_old_form, nets, recurrent_nets
from prototrt.tests.small_nets import inputs_of

pytestmark = pytest.mark.skipif(not COMMAND, reason="CAFFE_PYTHON names no Python that has Caffe")


@pytest.fixture(scope="module")
def caffe() -> Iterator[Caffe]:
    caffe = Caffe()
    yield caffe
    caffe.close()


def model_of(net: Net, weights: bytes | None) -> prototrt.Model:
    """The net with the weights that Caffe stored, or with random ones."""
    with tempfile.TemporaryDirectory() as folder:
        prototxt, stored = Path(folder, "net.prototxt"), Path(folder, "net.caffemodel")
        prototxt.write_text(net.text)
        if weights:
            stored.write_bytes(weights)
        return prototrt.load(prototxt, stored if weights else None, random_weights=None if weights else 0)


def check(caffe: Caffe, net: Net) -> None:
    try:
        answer = caffe.run(net.text, net.calls, net.seed)
    except RefusedError as refusal:
        try:
            prototrt.rewrite(model_of(net, None))
        except prototrt.ConversionError:
            return
        pytest.fail(f"Caffe refuses, we do not:\n{refusal}\n{net.text}")
    model = model_of(net, answer.weights)
    session = prototrt.Session(prototrt.rewrite(model))
    for inputs, expected in zip(net.calls, answer.calls, strict=True):
        found = session.run(inputs)
        assert set(model.outputs) - set(inputs) == {model.blobs[name] for name in expected} - set(inputs)
        for name in expected.keys() - inputs.keys():
            wanted = expected[name]
            assert found[model.blobs[name]].shape == wanted.shape
            largest = np.abs(wanted, where=np.isfinite(wanted), out=np.zeros(wanted.shape)).max(initial=0)
            np.testing.assert_allclose(
                found[model.blobs[name]], wanted, 1e-4, 2e-5 * max(1, largest), err_msg=net.text
            )


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_layer(name: str, caffe: Caffe, data: st.DataObject) -> None:
    check(caffe, data.draw(nets(name)))


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_layer_in_the_old_form(name: str, caffe: Caffe, data: st.DataObject) -> None:
    """Types and fields that Caffe got later are refused, except Crop without fields, which forks had before."""
    check(caffe, in_old_form(data.draw(nets(name))))


SHARED = inputs_of({"x": (1, 2)}) + "".join(
    f'layer {{ name: "{name}" type: "InnerProduct" bottom: "{bottom}" top: "{name}" param {{ name: "w" }}'
    " inner_product_param { num_output: 2 bias_term: false } }\n"
    for name, bottom in ("ax", "ba")
)


def stored(layers: Sequence[tuple[str, float]], form: str) -> bytes:
    """A caffemodel with a matrix of equal numbers for each layer."""
    net = message_class("NetParameter")(name="net")
    kind = "InnerProduct" if form == "layer" else "INNER_PRODUCT"
    for name, number in layers:
        blob = getattr(net, form).add(name=name, type=kind, top=[name]).blobs.add(data=[number] * 4)
        blob.shape.dim.extend([2, 2])
    return bytes(net.SerializeToString())


@pytest.mark.parametrize("form", ["layer", "layers"])
@pytest.mark.parametrize(
    "layers", [(("a", 1), ("b", 2)), (("b", 2), ("a", 1)), (("a", 3), ("b", 2), ("a", 1))], ids=len
)
def test_copies_of_a_shared_blob(layers: Sequence[tuple[str, float]], form: str, caffe: Caffe) -> None:
    weights, inputs = stored(layers, form), {"x": np.ones((1, 2), np.float32)}
    (expected,) = caffe.run(SHARED, [inputs], weights=weights).calls
    found = prototrt.Session(prototrt.rewrite(model_of(Net(SHARED, [], 0), weights))).run(inputs)
    np.testing.assert_array_equal(found["b"], expected["b"])


def test_layers_of_both_forms(caffe: Caffe) -> None:
    weights = stored([("a", 1)], "layer") + stored([("b", 1)], "layers")
    with pytest.raises(RefusedError, match="both 'layer' and 'layers'"):
        caffe.run(SHARED, [], weights=weights)
    with pytest.raises(prototrt.ConversionError):
        model_of(Net(SHARED, [], 0), weights)


@given(net=recurrent_nets())
def test_recurrent(caffe: Caffe, net: Net) -> None:
    check(caffe, net)
