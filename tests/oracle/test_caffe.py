"""Random nets, computed by us and by real Caffe: it refuses what we refuse, and the numbers agree.

``CAFFE_PYTHON`` is the command of a Python 3 that has Caffe; without it the tests are skipped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt.tests.oracle.caffe_client import COMMAND, Caffe, RefusedError
from prototrt.tests.oracle.layers import KINDS, Net, nets, recurrent_nets

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


@given(net=recurrent_nets())
def test_recurrent(caffe: Caffe, net: Net) -> None:
    check(caffe, net)
