"""Engines with several optimization profiles: each call takes the first one that its shapes fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.running.runtime.bindings import signature_of_engine
from prototrt.surgery.ir import DType, Range
from prototrt.tests.converter.running.runtime.fake_tensorrt import FakeEngine, contexts_of, fake_engine
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph

FEW, MANY = Range(1, 1, 2), Range(4, 7, 7)
STEPS = Range(1, 5, 8)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> prototrt.Session:
    """A session whose engine takes 1 and 2, or 4 to 7 streams."""
    monkeypatch.setattr(FakeEngine, "profiles", [{"T": STEPS, "N": FEW}, {"T": STEPS, "N": MANY}])
    return prototrt.Session(fake_engine(dynamic_graph()))


def test_calls_change_the_profile(session: prototrt.Session) -> None:
    reference = prototrt.Session(dynamic_graph())
    profiles = []
    for steps, streams in ((5, 1), (2, 2), (3, 7), (3, 7), (3, 4), (8, 1), (1, 7)):
        feeds = continuing(steps, streams, seed=steps)
        session.reset()
        reference.reset()
        np.testing.assert_allclose(session.run(feeds)["h"], reference.run(feeds)["h"], 1e-6, 1e-6)
        profiles.append(contexts_of(session.engine)[0].profile)
    assert profiles == [0, 0, 1, 1, 1, 0, 1]


def test_the_state_survives_another_number_of_steps(session: prototrt.Session) -> None:
    reference = prototrt.Session(dynamic_graph())
    for steps in (2, 8, 1):
        feeds = continuing(steps, 4, seed=steps)
        np.testing.assert_allclose(session.run(feeds)["h"], reference.run(feeds)["h"], 1e-6, 1e-6)


def test_sizes_are_those_of_all_profiles_and_usually_of_the_first() -> None:
    profiles = {"x": [[(5, 1, 6), (5, 1, 6), (5, 2, 6)], [(5, 4, 6), (5, 7, 6), (5, 7, 6)]]}
    engine = SimpleNamespace(
        num_io_tensors=1,
        num_optimization_profiles=2,
        get_tensor_name=lambda index: "x",
        get_tensor_location=lambda name: SimpleNamespace(name="DEVICE"),
        get_tensor_mode=lambda name: SimpleNamespace(name="INPUT"),
        get_tensor_dtype=lambda name: DType.FLOAT32,
        get_tensor_shape=lambda name: (5, -1, 6),
        get_tensor_profile_shape=lambda name, profile: profiles[name][profile],
    )
    backend: Any = SimpleNamespace(dtype=lambda dtype: dtype)
    assert signature_of_engine(engine, backend).symbols == {"x.1": Range(1, 1, 7)}


def test_shapes_between_the_profiles_are_refused(session: prototrt.Session) -> None:
    with pytest.raises(EngineError) as caught:
        session.run(continuing(5, 3, seed=0))
    assert str(caught.value) == (
        "no profile of the engine takes these shapes: x (5, 3, 6), cont (5, 3), lstm_h_0 (1, 3, 8),"
        " lstm_c_0 (1, 3, 8)\n"
        "  fix: give shapes that fit a profile, or build the engine with profiles for these"
    )
    session.run(continuing(5, 4, seed=0))


def test_a_profile_that_tensorrt_refuses(session: prototrt.Session) -> None:
    contexts_of(session.engine)[0].engine.refuses_profiles = True
    with pytest.raises(EngineError, match=r"^TensorRT refuses profile 1\n"):
        session.run(continuing(5, 7, seed=0))


def test_a_manifest_with_other_sizes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeEngine, "profiles", [{"T": STEPS, "N": FEW}, {"T": STEPS, "N": Range(4, 5, 6)}])
    with pytest.raises(EngineError, match=r'^the manifest says that "x" is float32 of 1\.\.8'):
        fake_engine(dynamic_graph())
