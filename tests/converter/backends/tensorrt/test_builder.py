"""From a graph to a plan: the calls of the builder, the files, and the messages of failures."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import pytest

from prototrt import TileLowering
from prototrt.caffe_proto.common.errors import BuildError, ConversionError, Origin
from prototrt.converter.backends.readback import NetworkInterpreter
from prototrt.converter.backends.tensorrt import builder
from prototrt.converter.backends.tensorrt.api import Backend, find_backend
from prototrt.converter.backends.tensorrt.builder import build, build_file, network_of
from prototrt.converter.backends.tensorrt.lowering import lower
from prototrt.converter.backends.tensorrt.network import Network
from prototrt.converter.files.writing.publication import Publication
from prototrt.converter.options import BuildOptions
from prototrt.surgery.ir import Array, DType, Graph, Node, Value
from prototrt.surgery.ops import ADD, Binary, BinaryKind, Convolution, TanH

pytestmark = pytest.mark.trt
pytest.importorskip("tensorrt_rtx", reason="needs TensorRT for RTX")

ORIGIN = Origin("/home/user/secret/net.prototxt", 12, "conv1", "Convolution")


@pytest.fixture
def rtx() -> Backend:
    return find_backend("rtx")


def value(name: str, shape: tuple[int, ...], data: Array | None = None) -> Value:
    return Value(name, DType.FLOAT32, shape, data)


X, Y = value("x", (2, 3)), value("y", (2, 3))
TANH = Graph("tanh", (X,), (Y,), (Node("tanh1", TanH(), (X,), (Y,), ORIGIN),))


def convolution(weights: int) -> Graph:
    """A convolution over 4 channels whose kernel holds this many numbers per window and output."""
    image, result = value("image", (1, 4, 5, 5)), value("result", (1, 2, 3, 3))
    kernel = value("kernel", (2, weights, 3, 3), np.ones((2, weights, 3, 3), np.float32))
    bias = value("bias", (2,), np.zeros(2, np.float32))
    op = Convolution(stride=(1, 1), pad=(0, 0), dilation=(1, 1), group=1)
    node = Node("conv1", op, (image, kernel, bias), (result,), ORIGIN)
    return Graph("convolution", (image,), (result,), (node,))


def evaluated(graph: Graph, backend: Backend, **feeds: Array) -> dict[str, Array]:
    network = network_of(graph, backend)
    return NetworkInterpreter(network.trt, network.definition, owner=network).run(feeds)


def test_plan_and_manifest_are_written(tmp_path: Path) -> None:
    plan = build(TANH, "rtx")
    plan.save(tmp_path / "a.plan")
    assert sorted(os.listdir(tmp_path)) == ["a.plan", "a.plan.json"]
    assert (tmp_path / "a.plan").read_bytes() == bytes(plan.plan)
    listed = {"product": {"file": "a.plan", **plan.manifest["plan"]}}
    assert json.loads((tmp_path / "a.plan.json").read_text()) == {**plan.manifest, "files": listed}


def save(graph: Graph, path: Path) -> None:
    build(graph, "rtx").save(path)


def write(graph: Graph, path: Path) -> None:
    build_file(graph, path, BuildOptions("rtx"))


def stream(graph: Graph, path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "STREAMED_FROM", 0)
        build_file(graph, path, BuildOptions("rtx"))


WAYS = pytest.mark.parametrize("write", [save, write, stream])


def test_streamed_plan_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = convolution(4).nodes[0].inputs[1].data
    assert kernel is not None
    monkeypatch.setattr(builder, "STREAMED_FROM", kernel.nbytes)
    plan = build(convolution(4), "rtx")
    with monkeypatch.context() as patch:
        patch.delattr(builder._PlanBuild, "serialize")  # the way of what is built in memory
        manifest = build_file(convolution(4), tmp_path / "a.plan", BuildOptions("rtx"), notes={"more": 1})
    assert (tmp_path / "a.plan").read_bytes() == bytes(plan.plan)
    assert json.loads((tmp_path / "a.plan.json").read_text()) == manifest
    listed = {"product": {"file": "a.plan", **plan.manifest["plan"]}}
    assert manifest == {**plan.manifest, "more": 1, "files": listed}


def test_plan_is_built_in_memory_where_it_cannot_be_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older(Network):
        def __init__(self, backend: Backend, tile: TileLowering = "native") -> None:
            super().__init__(backend, tile)
            whole = self.builder
            names = ("build_serialized_network", "create_builder_config")
            self.builder = SimpleNamespace(whole=whole, **{name: getattr(whole, name) for name in names})

    monkeypatch.setattr(builder, "STREAMED_FROM", 0)
    monkeypatch.setattr(builder, "Network", Older)
    manifest = build_file(TANH, tmp_path / "a.plan", BuildOptions("rtx"))
    plan = (tmp_path / "a.plan").read_bytes()
    assert manifest["plan"]["bytes"] == len(plan)
    assert manifest["plan"]["sha256"] == hashlib.sha256(plan).hexdigest()


@WAYS
@pytest.mark.parametrize("occupied", ["a.plan", "a.plan.json"])
def test_both_are_written_or_nothing(
    tmp_path: Path, occupied: str, write: Callable[[Graph, Path], None]
) -> None:
    (tmp_path / occupied / "folder").mkdir(parents=True)
    problem = r"a\.plan.*(: cannot be written: |prototrt did not write)"
    with pytest.raises(ConversionError, match=problem):
        write(TANH, tmp_path / "a.plan")
    assert os.listdir(tmp_path) == [occupied]


@WAYS
@pytest.mark.parametrize("full", ["a.plan", "a.plan.json"])
def test_both_are_written_or_nothing_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str, write: Callable[[Graph, Path], None]
) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    original = Publication.create

    @contextmanager
    def created(files: Publication, path: Path | str) -> Iterator[BinaryIO]:
        with original(files, path) as stream:
            yield Full() if Path(path).name == full else stream

    monkeypatch.setattr(Publication, "create", created)
    with pytest.raises(ConversionError, match=f"{full}: cannot be written: No space left on device"):
        write(TANH, tmp_path / "a.plan")
    assert os.listdir(tmp_path) == []


def test_plans_are_the_same_from_run_to_run() -> None:
    first, second = build(TANH, "rtx"), build(TANH, "rtx")
    assert first.plan == second.plan
    assert first.sha256 == second.sha256


class Deaf:
    """Hears everything, and stops the builder at a given step."""

    def __init__(self, stop: bool) -> None:
        self.stop = stop
        self.phases: list[str] = []
        self.finished: list[str] = []

    def phase(self, name: str, parent: str | None, steps: int) -> None:
        self.phases.append(name)

    def step(self, name: str, step: int) -> bool:
        return not self.stop

    def finish(self, name: str) -> None:
        self.finished.append(name)


def test_progress_is_told() -> None:
    progress = Deaf(stop=False)
    build(TANH, "rtx", progress=progress)
    assert progress.phases
    assert sorted(progress.phases) == sorted(progress.finished)


def test_progress_cancels() -> None:
    with pytest.raises(BuildError) as refusal:
        build(convolution(4), "rtx", progress=Deaf(stop=True))
    assert str(refusal.value).startswith("TensorRT built no engine\n")


@pytest.mark.parametrize("tf32", [False, True])
def test_tf32_is_off_unless_asked_for(rtx: Backend, monkeypatch: pytest.MonkeyPatch, tf32: bool) -> None:
    configs: list[Any] = []

    class Spied(Network):
        def __init__(self, backend: Backend, tile: TileLowering = "native") -> None:
            super().__init__(backend, tile)
            self.builder = Spy(self.builder)

    class Spy:
        def __init__(self, builder: Any) -> None:
            self.builder = builder

        def __getattr__(self, name: str) -> Any:
            return getattr(self.builder, name)

        def create_builder_config(self) -> Any:
            configs.append(self.builder.create_builder_config())
            return configs[-1]

    monkeypatch.setattr(builder, "Network", Spied)
    plan = build(TANH, "rtx", tf32=tf32)
    assert plan.manifest["tensorrt"]["tf32"] is tf32
    (config,) = configs
    assert config.get_flag(rtx.trt.BuilderFlag.TF32) is tf32


def test_refused_layer_is_told_with_its_line(rtx: Backend) -> None:
    with pytest.raises(BuildError) as refusal:
        network_of(convolution(3), rtx)
    error = refusal.value
    assert error.exit_code == 4
    assert error.origin == ORIGIN
    text = str(error)
    assert text.startswith(
        '/home/user/secret/net.prototxt:12: layer "conv1" (Convolution): TensorRT finds no shape for conv1\n'
        "  because "
    )
    assert "count of 54 weights in kernel" in text
    assert "cudaError" not in text


def test_operands_that_do_not_fit_are_told_with_their_line(rtx: Backend) -> None:
    """TensorRT's own words do not name the layer here: ours do."""
    other, result = value("other", (4, 5)), value("result", (4, 5))
    node = Node("sum", ADD, (X, other), (result,), ORIGIN)
    with pytest.raises(BuildError, match=r"^/home/user/secret/net.prototxt:12: layer .conv1. ") as refusal:
        lower(Graph("g", (X, other), (result,), (node,)), Network(rtx))
    assert "broadcast" in str(refusal.value)


def test_errors_are_told_once(rtx: Backend) -> None:
    network = Network(rtx)
    network.recorder.report_error(None, "first")
    assert "first" in str(network.error("refuses"))
    assert "first" not in str(network.error("refuses"))


def test_metadata_names_layer_and_line_but_no_path(rtx: Backend) -> None:
    definition = network_of(TANH, rtx).definition
    layer = definition.get_layer(0)
    assert layer.name == "tanh1"
    assert layer.metadata == "conv1 (Convolution), line 12"
    assert b"secret" not in bytes(build(TANH, "rtx").plan)


def test_constant_can_be_an_output(rtx: Backend) -> None:
    constant = value("three", (2,), np.array([1, 2], np.float32))
    graph = Graph("constant", (X,), (Y, constant), TANH.nodes)
    assert build(graph, "rtx").plan.nbytes
    results = evaluated(graph, rtx, x=np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(results["three"], [1, 2])


def test_one_name_is_no_input_and_output(rtx: Backend) -> None:
    """Nor does surgery make such a graph: a net cannot be cut at its inputs."""
    with pytest.raises(AssertionError, match="x is an input and an output under the same name"):
        network_of(Graph("copy", (X,), (Y, X), TANH.nodes), rtx)


def test_plan_is_bytes() -> None:
    plan = build(TANH, "rtx").plan
    assert plan.format == "B"
    assert plan[:4] == bytes(plan)[:4]


def test_one_value_can_be_read_twice(rtx: Backend) -> None:
    node = Node("double", Binary(BinaryKind.ADD), (X, X), (Y,), ORIGIN)
    results = evaluated(Graph("double", (X,), (Y,), (node,)), rtx, x=np.full((2, 3), 3, np.float32))
    np.testing.assert_array_equal(results["y"], np.full((2, 3), 6))


def test_weights_are_not_copied(rtx: Backend) -> None:
    graph = convolution(4)
    kernel = graph.nodes[0].inputs[1].data
    assert kernel is not None
    network = network_of(graph, rtx)
    layer = network.definition.get_layer(0)
    layer.__class__ = rtx.trt.IConvolutionLayer
    assert np.shares_memory(layer.kernel, kernel)


def test_nothing_is_written_beside_a_device(tmp_path: Path) -> None:
    """``-o /dev/null`` tries a conversion."""
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit((tmp_path / "pipe").read_bytes)
        manifest = build_file(TANH, tmp_path / "pipe", BuildOptions("rtx"))
        assert len(read.result()) == manifest["plan"]["bytes"]
    assert os.listdir(tmp_path) == ["pipe"]
