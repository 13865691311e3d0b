"""Kernels that TensorRT for RTX compiled are kept beside the plan; everything also works without them."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.running.runtime.kernel_cache import cache_beside
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import FakeRuntimeCache, contexts_of, fake_engine
from prototrt.tests.converter.running.runtime.support import digest_beside, written_plan
from prototrt.tests.converter.running.runtime.test_plan_file import fake_backend
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "net.plan"
    path.write_bytes(b"vtrt")
    return path


def feeds(steps: int = 2) -> dict[str, Any]:
    """A plan without manifest has state as inputs."""
    state = prototrt.Session(dynamic_graph()).signature.states
    zeros = {name: [[[0.0] * 8] * 3] for name in state}
    return {**continuing(steps, 3, 0), **zeros}


def session(plan: Path, **options: Any) -> prototrt.Session:
    return prototrt.Session(plan, trust=True, **options)


def kernels_of(session: prototrt.Session) -> set[str]:
    config: Any = contexts_of(session.engine)[0].config
    return set(config.cache.kernels)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return fake_backend(monkeypatch, dynamic_graph())


def test_kernels_are_kept_beside_the_plan(plan: Path, device: FakeDevice) -> None:
    with session(plan, device=device) as first:
        first.run(feeds())
        (kept,) = plan.parent.glob("net.plan.*.cache")  # as soon as there are any: the process may be killed
        compiled = kernels_of(first)
        first.run(feeds(steps=3))
    assert len(compiled) == 1
    with session(plan, device=device) as second:
        assert kernels_of(second) > compiled
    assert kept.read_bytes().startswith(b"kernels:")


def test_kernels_beside_a_plan_are_left_alone_if_it_is_pinned(tmp_path: Path, device: FakeDevice) -> None:
    """No manifest lists them: whoever can write beside the plan could replace them."""
    pinned = written_plan(tmp_path)
    planted = Path(cache_beside(pinned, hashlib.sha256(pinned.read_bytes()).hexdigest()))
    planted.write_bytes(b"kernels:planted")
    with prototrt.Session(pinned, trust=True, device=device) as trusting:
        assert "planted" in str(kernels_of(trusting))
    with prototrt.Session(pinned, trust=digest_beside(pinned), device=device) as demanding:
        assert kernels_of(demanding) == set()
    mine = tmp_path / "mine"
    with prototrt.Session(pinned, trust=digest_beside(pinned), device=device, runtime_cache=mine) as own:
        own.run(continuing(2, 3, 0))
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600
    with prototrt.Session(pinned, trust=digest_beside(pinned), device=device, runtime_cache=mine) as next_one:
        assert kernels_of(next_one)
    assert planted.read_bytes() == b"kernels:planted"


@pytest.mark.skipif(os.name != "posix", reason="the system has no modes of files")
@pytest.mark.parametrize("mode", [0o666, 0o660])
def test_kernels_that_others_may_change(tmp_path: Path, device: FakeDevice, mode: int) -> None:
    """They are given to TensorRT as they are, so that a digest of the plan alone would prove nothing."""
    pinned, mine = written_plan(tmp_path), tmp_path / "mine"
    mine.write_bytes(b"kernels:planted")
    mine.chmod(mode)
    with prototrt.Session(pinned, device=device, runtime_cache=mine) as trusting:
        assert "planted" in str(kernels_of(trusting))
    mine.chmod(mode)
    with pytest.raises(EngineError) as refused:
        prototrt.Session(pinned, trust=digest_beside(pinned), device=device, runtime_cache=mine)
    assert str(refused.value) == (
        f"{mine}: {'every user' if mode == 0o666 else 'its group'} may change this file, expected kernels of TensorRT\n"
        "  because the engine is pinned, and TensorRT would also run these kernels, which no manifest lists\n"
        f'  fix: remove it, and give runtime_cache="{mine}" in a folder of your own'
    )


@pytest.mark.skipif(os.name != "posix", reason="files have no owners")
def test_kernels_of_another_user(tmp_path: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned, mine = written_plan(tmp_path), tmp_path / "mine"
    mine.touch(0o600)
    owner = mine.stat().st_uid or 1
    os.chown(mine, owner, -1)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(EngineError, match=f"this file belongs to user {owner}, expected kernels of TensorRT"):
        prototrt.Session(pinned, trust=digest_beside(pinned), device=device, runtime_cache=mine)


def test_another_plan_has_another_file() -> None:
    assert cache_beside("net.plan", "0123456789abcdef" * 4) == "net.plan.0123456789abcdef.cache"


def test_kernels_are_specialized_at_once() -> None:
    """Kernels that are specialized later would change under a captured graph."""
    with prototrt.Session(fake_engine(dynamic_graph())) as first:
        config: Any = contexts_of(first.engine)[0].config
        assert config.dynamic_shapes_kernel_specialization_strategy.name == "EAGER"
    with prototrt.Session(fake_engine(dynamic_graph(), flavour="enterprise")) as other:
        assert contexts_of(other.engine)[0].config is None


def test_a_file_of_the_callers(plan: Path, device: FakeDevice, tmp_path: Path) -> None:
    with session(plan, device=device, runtime_cache=tmp_path / "mine") as first:
        first.run(feeds())
    assert (tmp_path / "mine").exists()
    assert list(plan.parent.glob("*.cache")) == []
    with pytest.raises(ValueError, match="an engine is loaded already: give no device and no runtime_cache"):
        prototrt.Session(fake_engine(dynamic_graph()), runtime_cache=tmp_path / "mine")


def test_a_file_of_another_gpu(plan: Path, device: FakeDevice, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "prototrt.converter.running.runtime.kernel_cache")
    mine = plan.parent / "mine"
    mine.write_bytes(b"other")
    with session(plan, device=device, runtime_cache=mine) as first:
        first.run(feeds())
    assert [record.message for record in caplog.records] == [
        f"{mine} was made for another GPU, driver or TensorRT: kernels are compiled again"
    ]
    assert mine.read_bytes().startswith(b"kernels:")


def test_kernels_of_a_net_without_a_file_are_compiled_once() -> None:
    """An engine made of a graph has no file to keep them in."""
    with prototrt.Session(fake_engine(dynamic_graph())) as first:
        first.run(continuing(2, 3, 0))
        compiled = kernels_of(first)
        with prototrt.Session(first.engine) as second:
            caches: list[Any] = [context.config for context in contexts_of(first.engine)]
            assert caches[0].cache is caches[1].cache
            assert (len(compiled), kernels_of(second)) == (1, compiled)


def test_kernels_are_written_after_the_first_call_on_a_callers_stream(plan: Path, device: FakeDevice) -> None:
    """Nobody waits for it, and the process may be killed."""
    mine = {name: DeviceResident(device, np.asarray(array, np.float32)) for name, array in feeds().items()}
    outputs = {"h": np.zeros((2, 3, 8)), "lstm_h_T": np.zeros((1, 3, 8)), "lstm_c_T": np.zeros((1, 3, 8))}
    targets = {name: DeviceResident(device, array.astype(np.float32)) for name, array in outputs.items()}
    with session(plan, device=device, stream=5) as first:
        first.run(mine, targets)
        assert "synchronize" not in device.calls
        (kept,) = plan.parent.glob("*.cache")
        assert "(2, 3, 6)" in kept.read_text()


def raising(cache: FakeRuntimeCache) -> bytes:
    raise RuntimeError("CUDA went away")


@pytest.mark.parametrize(
    ("serialize", "why"),
    [(raising, "CUDA went away"), (lambda cache: None, "TensorRT did not serialize them")],
)
def test_kernels_that_cannot_be_serialized(
    serialize: Callable[[FakeRuntimeCache], bytes | None],
    why: str,
    plan: Path,
    device: FakeDevice,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The call counts, and everything is freed."""
    caplog.set_level(logging.INFO, "prototrt.converter.running.runtime.kernel_cache")
    monkeypatch.setattr(FakeRuntimeCache, "serialize", serialize)
    with session(plan, device=device) as first:
        first.run(feeds())
        first.run(feeds())
    assert (device.memory, device.pinned, list(device.streams)) == ({}, [], [0])
    assert {record.message for record in caplog.records} == {f"kernels are not kept: {why}"}


def test_an_interrupt_while_kernels_are_written_frees_everything(
    plan: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = session(plan, device=device)
    first.run(feeds())

    def interrupted(cache: FakeRuntimeCache) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeRuntimeCache, "serialize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        first.close()
    assert device.memory == {}


def test_kernels_are_not_written_while_another_session_compiles(plan: Path, device: FakeDevice) -> None:
    with session(plan, device=device) as first, prototrt.Session(first.engine) as second:
        first.run(feeds())
        config: Any = contexts_of(first.engine)[0].config
        writing = threading.Thread(target=first.engine.kernels.save)

        def meanwhile() -> None:
            writing.start()
            writing.join(timeout=0.1)  # it waits for the compilation

        config.cache.meanwhile = meanwhile
        second.run(feeds(steps=3))
        writing.join()
        assert config.cache.faults == []


def test_files_that_cannot_be(plan: Path, device: FakeDevice, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "prototrt.converter.running.runtime.kernel_cache")
    folder = plan.parent
    with session(plan, device=device, runtime_cache=folder) as first:
        first.run(feeds())
    messages = [record.message for record in caplog.records]
    assert messages[0] == f"{folder} cannot be read: kernels are compiled again: Is a directory"
    assert messages[1].startswith(f"kernels are not kept: {folder}: cannot be written: ")
    assert len(messages) == 2
