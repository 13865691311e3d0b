"""What the tests of running engines share: sessions on the fake GPU, nets for them, and what to compare."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

import prototrt
from prototrt.converter.backends.tensorrt.builder import Plan
from prototrt.converter.files.companions.manifest import graph_facts
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine
from prototrt.tests.digit_strips import probabilities
from prototrt.tests.dynamic_lstm import dynamic_graph


def session_of(graph: Graph, **options: Any) -> prototrt.Session:
    return prototrt.Session(fake_engine(graph), **options)


def beside(graph: Graph) -> tuple[prototrt.Session, prototrt.Session]:
    return session_of(graph), prototrt.Session(graph, on="reference")


def assert_same(found: dict[str, Array], wanted: dict[str, Array]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def assert_as_caffe(found: list[Array], strip: int = 0) -> None:
    for array, wanted in zip(found, probabilities(len(found), strip), strict=True):
        np.testing.assert_allclose(array.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)


def written_plan(folder: Path, more: bytes = b"") -> Path:
    """A plan that no TensorRT built, with the manifest of a real graph."""
    facts = {"tensorrt": {"flavour": "rtx", "version": "1.7.1"}}
    plan = Plan(memoryview(b"vtrt and more" + more), {**graph_facts(dynamic_graph()), **facts})
    plan.save(folder / "net.plan")
    return folder / "net.plan"


def digest_beside(file: Path) -> str:
    """The digest of the manifest."""
    return f"sha256:{hashlib.sha256(Path(f'{file}.json').read_bytes()).hexdigest()}"
