"""A Graph becomes a serialized engine and its manifest."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prototrt.caffe_proto.options import takes_options
from prototrt.caffe_proto.subjects import refuse_other
from prototrt.converter import black_box
from prototrt.converter.files import HashedStream
from prototrt.converter.manifest import describe, graph_facts, refuse_changed
from prototrt.converter.options import BuildOptions, Progress
from prototrt.converter.publication import publication
from prototrt.converter.signing import Signer
from prototrt.converter.tensorrt.api import Backend, find_backend
from prototrt.converter.tensorrt.lowering import lower, refuse_not_run
from prototrt.converter.tensorrt.network import Network
from prototrt.surgery.ir import Graph, computable, node_count, range_of, sha256_of_graph
from prototrt.surgery.pipeline import lowered


@dataclass(frozen=True)
class Plan:
    """A serialized engine, and what a caller must know to run it."""

    plan: memoryview
    facts: Mapping[str, Any]
    """The manifest without size and SHA-256 of the plan."""

    def __repr__(self) -> str:
        made = self.facts["tensorrt"]
        tensorrt = f"TensorRT {made['version']} ({made['flavour']})"
        return f"<Plan {self.facts['network']}: {self.plan.nbytes:,} bytes, {tensorrt}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.plan.tobytes(), dict(self.facts))

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the plan, in hexadecimal."""
        return hashlib.sha256(self.plan).hexdigest()

    @property
    def manifest(self) -> dict[str, Any]:
        """What is written beside the plan: see docs/manifest.md."""
        return _manifest(self.facts, self.plan.nbytes, self.sha256)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        sign: str | os.PathLike[str] | None = None,
        header: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the plan, and the manifest as ``PATH.json``; all or nothing.

        ``sign`` is a file with an Ed25519 private key. ``header`` is a file for constants of C++ with the content of
        the manifest. Raises ``ConversionError`` for what cannot be written or read.
        """
        manifest = self.manifest if sign is None else Signer(sign).signed(self.manifest)
        with publication(path) as files:
            with files.create(path) as stream:
                stream.write(self.plan)
            describe(files, path, manifest, header)


def _unpickled(plan: bytes, facts: Mapping[str, Any]) -> Plan:
    return Plan(memoryview(plan), facts)


STREAMED_FROM = 1 << 28
"""Bytes of weights: a few pieces of a stream, one of which is held twice."""


@takes_options(BuildOptions)
def build(graph: Graph, options: BuildOptions) -> Plan:
    """Build a serialized engine from a graph, with the types of the graph. Raises ``BuildError``."""
    refuse_other("build", graph, Graph)
    with _prepared(graph, options) as job:
        plan = job.serialized()
        return Plan(plan, job.facts())


def build_file(
    graph: Graph,
    path: str | os.PathLike[str],
    options: BuildOptions,
    notes: Mapping[str, Any] | None = None,
    signer: Signer | None = None,
    header: str | None = None,
) -> dict[str, Any]:
    """``build(...).save(path, header=header)``, in less memory: the plan goes to the file as TensorRT makes it.

    Returns the manifest; ``notes`` are written into it, and ``signer`` signs it.
    Raises ``BuildError``, and ``ConversionError`` where the file cannot be written.
    See docs/decisions/0005-plans-are-streamed.md.
    """
    with _prepared(graph, options) as job, publication(path) as files:
        with files.create(path) as file, HashedStream(file) as stream:
            job.stream(stream.write)
            manifest = _manifest({**job.facts(), **(notes or {})}, stream.bytes, stream.sha256)
        if signer is not None:
            manifest = signer.signed(manifest)
        describe(files, path, manifest, header)
        return manifest


def _manifest(facts: Mapping[str, Any], size: int, sha256: str) -> dict[str, Any]:
    return {**facts, "plan": {"bytes": size, **facts["plan"], "sha256": sha256}}


@dataclass
class _Job:
    """A network that is ready to be built, once."""

    graph: Graph
    network: Network
    config: Any
    tf32: bool
    graph_facts: Future[dict[str, Any]]
    graph_sha256: Future[str]
    seconds: float = 0.0

    def serialized(self) -> memoryview:
        """Build the plan in memory."""
        with self._timed():
            plan = self.network.builder.build_serialized_network(self.network.definition, self.config)
        if plan is None:
            raise self.network.error("built no engine")
        return memoryview(plan).cast("B")  # the bindings call its bytes floats

    def stream(self, write: Callable[[Any], None]) -> None:
        """Build the plan and write it: a large one piece by piece, where this TensorRT can."""
        build = getattr(self.network.builder, "build_serialized_network_to_stream", None)
        if build is None or self.network.weights_bytes < STREAMED_FROM:
            write(self.serialized())
            return
        writer = _stream_writer(self.network.trt, write)
        with self._timed():
            done = build(self.network.definition, self.config, writer)
        if writer.failure is not None:
            raise writer.failure
        if not done:
            raise self.network.error("built no engine")

    def facts(self) -> dict[str, Any]:
        """The manifest without the facts that need the finished plan."""
        refuse_changed(self.graph)
        return {
            **self.graph_facts.result(),
            "graph": {"sha256": self.graph_sha256.result()},
            "tensorrt": {
                "flavour": self.network.backend.name,
                "version": self.network.backend.version,
                "tf32": self.tf32,
                **_place(self.network.backend),
            },
            "plan": {"build_seconds": round(self.seconds, 3)},
            "nodes": self.network.primitives,
            "layers": self.network.definition.num_layers,
            **({"plugins": sorted(self.network.needs)} if self.network.needs else {}),
        }

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        black_box.note_task("TensorRT built the engine")
        yield
        black_box.note_task("the engine was written")
        self.seconds = time.perf_counter() - started


def _place(backend: Backend) -> dict[str, Any]:
    """What a plan of TensorRT depends on beside its release; plans of TensorRT for RTX are portable."""
    if backend.name != "enterprise":
        return {}
    from prototrt.converter.runtime.driver import find_driver

    driver = find_driver()
    if driver is None or not driver.gpus:
        return {}
    gpu = driver.gpus[0]  # on which TensorRT builds
    return {"gpu": {"name": gpu.name, "compute_capability": gpu.capability}, "cuda": driver.cuda}


@contextmanager
def _prepared(graph: Graph, options: BuildOptions) -> Iterator[_Job]:
    found = find_backend(options.backend)
    if options.tile == "plugin":
        from prototrt.converter.tensorrt.tile_plugin import refuse_tile_plugin  # few engines have it

        refuse_tile_plugin(found)
    # Files and weights are hashed while TensorRT works.
    with ThreadPoolExecutor(1) as background:
        facts = background.submit(graph_facts, graph)
        refuse_not_run(graph, found)
        network = network_of(graph, found, options.tile)
        digest = background.submit(sha256_of_graph, graph)
        yield _Job(graph, network, _config(graph, network, options), options.tf32, facts, digest)


def network_of(graph: Graph, backend: Backend, tile: str = "native") -> Network:
    """The graph as TensorRT's network, before it is built."""
    network = Network(backend, tile)
    prepared = lowered(graph, "tensorrt")
    lower(prepared, network)
    network.primitives = node_count(prepared)
    return network


def _config(graph: Graph, network: Network, options: BuildOptions) -> Any:
    trt = network.trt
    config = network.builder.create_builder_config()
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if options.progress is not None:
        config.progress_monitor = _monitor(trt, options.progress)
    profile = _profile(graph, network)
    if profile is not None:
        config.add_optimization_profile(profile)
    return config


def _profile(graph: Graph, network: Network) -> Any:
    """The smallest, usual and largest shapes of the inputs that have symbols; None where none has."""
    varying = [value for value in graph.inputs if any(not isinstance(dim, int) for dim in value.shape)]
    if not varying:
        return None
    profile = network.builder.create_optimization_profile()
    for value in varying:
        spans = [range_of(computable(dim)) for dim in value.shape]
        profile.set_shape(value.name, [s.min for s in spans], [s.opt for s in spans], [s.max for s in spans])
    return profile


def _monitor(trt: Any, progress: Progress) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # the bindings carry no types
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            progress.phase(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            return progress.step(phase_name, step)

        def phase_finish(self, phase_name: str) -> None:
            progress.finish(phase_name)

    return Monitor()


def _stream_writer(trt: Any, receive: Callable[[bytes], None]) -> Any:
    base: Any = getattr(trt, "IStreamWriter", object)

    class Writer(base):  # type: ignore[misc]  # the bindings carry no types
        def __init__(self) -> None:
            base.__init__(self)
            self.failure: Exception | None = None

        def write(self, data: bytes) -> int:
            # The count reports a failure to TensorRT; it would not pass on an exception.
            try:
                receive(data)
            except Exception as error:
                self.failure = error
                return 0
            return len(data)

    return Writer()
