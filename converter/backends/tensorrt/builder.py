"""A Graph becomes a serialized engine and its manifest."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.options import refuse_other, takes_options
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.backends.tensorrt.api import Backend, find_backend
from prototrt.converter.backends.tensorrt.configuration import (
    configure,
    layer_info,
    profiles_of,
    timing_cache_of,
)
from prototrt.converter.backends.tensorrt.lowering import lower, refuse_not_run
from prototrt.converter.backends.tensorrt.network import Network
from prototrt.converter.builder_options import chosen_options, refuse_dla, refuse_for, refuse_without_gpu
from prototrt.converter.files import black_box
from prototrt.converter.files.companions.manifest import (
    describe,
    graph_facts,
    refuse_changed_files,
    sha256_of_graph,
)
from prototrt.converter.files.machine_types import refuse_types
from prototrt.converter.files.machines import version
from prototrt.converter.files.writing.files import HashedStream, atomic_write
from prototrt.converter.files.writing.publication import Publication, publication
from prototrt.converter.files.writing.side_files import refuse_foreign
from prototrt.converter.options import BuildOptions, Progress, TileLowering
from prototrt.converter.showing.views.notebook import notebook_build
from prototrt.surgery.ir import Graph, walk
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.pipeline import lowered

log = logging.getLogger(__name__)
N = TypeVar("N", bound=Network)


@dataclass(frozen=True)
class Plan:
    """A serialized engine with its manifest: inputs, outputs, recurrent pairs."""

    plan: memoryview
    facts: Mapping[str, Any]
    """The manifest without size and SHA-256 of the plan."""

    def __repr__(self) -> str:
        made = self.facts["tensorrt"]
        tensorrt = f"TensorRT {made['version']} ({made['flavour']})"
        return f"<Plan {self.facts['network']}: {self.plan.nbytes:,} bytes, {tensorrt}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.plan.tobytes(), dict(self.facts))

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the plan, in hexadecimal."""
        return hashlib.sha256(self.plan).hexdigest()

    @property
    def manifest(self) -> dict[str, Any]:
        """What is written beside the plan, but for the list of files: see docs/manifest.md."""
        return _manifest(self.facts, self.plan.nbytes, self.sha256)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        header: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the plan, and the manifest as ``PATH.json``: both files, or none.

        ``header`` is a file for constants of C++ with the content of the manifest. Raises ``ConversionError`` for
        what cannot be written.
        """
        refuse_foreign("path", os.fspath(path))
        with publication(path) as files:
            with files.create(path) as stream:
                stream.write(self.plan)
            describe(files, path, self.manifest, header)


def _unpickle(plan: bytes, facts: Mapping[str, Any]) -> Plan:
    return Plan(memoryview(plan), facts)


_ONLY_ON_TURING = "FP32 GEMM is not supported"
"""What TensorRT for RTX says of float32 products for compute capability 7.5."""
_TOO_SMALL_A_POOL = "workspace limit"
STREAMED_FROM = 1 << 28
"""Bytes of weights: a few pieces of a stream, one of which is held twice."""


@takes_options(BuildOptions)
def build(graph: Graph, options: BuildOptions) -> Plan:
    """Build a serialized engine from a graph, which computes in the types of the graph. Raises ``BuildError``."""
    refuse_other("build", graph, Graph)
    with _prepare(graph, options) as job:
        plan = job.serialize()
        for file, content in job.companions(plan).items():
            with atomic_write(file) as stream:
                stream.write(content)
        return Plan(plan, job.facts())


def build_file(
    graph: Graph,
    path: str | os.PathLike[str],
    options: BuildOptions,
    notes: Mapping[str, Any] | None = None,
    header: str | None = None,
) -> dict[str, Any]:
    """``build(...).save(path, header=header)``, in less memory: the plan goes to the file as TensorRT makes it.

    Returns the manifest; ``notes`` are written into it.
    Raises ``BuildError``, and ``ConversionError`` where the file cannot be written.
    See docs/decisions.md, 0005.
    """
    with _prepare(graph, options) as job, publication(path) as files:
        with files.create(path) as file, ThreadPoolExecutor(2) as threads:
            stream = HashedStream(file, threads)
            plan = job.stream(stream.write)
            manifest = _manifest({**job.facts(), **(notes or {})}, stream.bytes, stream.sha256)
        companions = job.companions(plan)
        # The next builds add to a timing cache: the manifest does not list it.
        cache = {file: companions.pop(file) for file in [*companions] if file == options.timing_cache_file}
        _write(files, companions)
        manifest = describe(files, path, manifest, header)
        _write(files, cache)
        return manifest


def _write(files: Publication, contents: Mapping[str, bytes]) -> None:
    for file, content in contents.items():
        with files.create(file) as written:
            written.write(content)


def _manifest(facts: Mapping[str, Any], size: int, sha256: str) -> dict[str, Any]:
    return {**facts, "plan": {"bytes": size, "sha256": sha256}}


@dataclass
class _PlanBuild:
    graph: Graph
    network: Network
    config: Any
    options: BuildOptions
    graph_facts: Future[dict[str, Any]]
    graph_sha256: Future[str]

    def serialize(self) -> memoryview:
        """Build the plan in memory."""
        with self._watch_time():
            plan = self.network.builder.build_serialized_network(self.network.definition, self.config)
        if plan is None:
            raise self._failure()
        return memoryview(plan).cast("B")  # the bindings call its bytes floats

    def stream(self, write: Callable[[Any], None]) -> memoryview | None:
        """Build the plan and write it: a large one piece by piece, where this TensorRT can. Else return it as well."""
        build = getattr(self.network.builder, "build_serialized_network_to_stream", None)
        is_small = self.network.weights_bytes < STREAMED_FROM
        if build is None or is_small or self.options.export_layer_info is not None:
            plan = self.serialize()
            write(plan)
            return plan
        writer = _stream_writer(self.network.trt, write)
        with self._watch_time():
            done = build(self.network.definition, self.config, writer)
        if writer.failure is not None:
            raise writer.failure
        if not done:
            raise self._failure()
        return None

    def companions(self, plan: memoryview | None) -> dict[str, bytes]:
        """The content of further files that were asked for, by name."""
        files = {}
        if self.options.timing_cache_file is not None:
            files[self.options.timing_cache_file] = timing_cache_of(self.config)
        if self.options.export_layer_info is not None:
            assert plan is not None, "it is not streamed"
            files[self.options.export_layer_info] = layer_info(self.network, plan).encode()
        return files

    def facts(self) -> dict[str, Any]:
        """The manifest without the facts that need the finished plan."""
        refuse_changed_files(self.graph)
        return {
            **self.graph_facts.result(),
            "graph": {"sha256": self.graph_sha256.result()},
            "tensorrt": {
                "flavour": self.network.backend.name,
                "version": self.network.backend.version,
                "tf32": self.options.tf32,
                **{
                    option.name: value
                    for option, value in chosen_options(self.options)
                    if option.is_of_the_engine
                },
                **(_place() if self.network.backend.name == "enterprise" else {}),
            },
            "nodes": self.network.primitives,
            "layers": self.network.definition.num_layers,
            **({"plugins": sorted(self.network.needs)} if self.network.needs else {}),
        }

    def _failure(self) -> BuildError:
        error = self.network.error("built no engine")
        if _ONLY_ON_TURING in str(error.because):
            without = Option("compute_capabilities")
            error.fix = Worded("use {}, or leave 7.5 out of {}", Option("precision", "fp16"), without)
        elif self.options.mem_pool_size and _TOO_SMALL_A_POOL in str(error.because):
            larger = Option("mem_pool_size", {"workspace": "1GiB"})
            error.fix = Worded("allow more, as in {}, or leave it out", larger)
        return error

    @contextmanager
    def _watch_time(self) -> Iterator[None]:
        started = time.perf_counter()
        black_box.note(black_box.TASK, "TensorRT built the engine")
        yield
        black_box.note(black_box.TASK, "the engine was written")
        log.info("TensorRT built the engine in %.1f s", time.perf_counter() - started)


def _place() -> dict[str, Any]:
    """What a plan of TensorRT depends on beside its release; plans of TensorRT for RTX are portable."""
    from prototrt.converter.backends.driver import find_driver

    driver = find_driver()
    if driver is None or not driver.gpus:
        return {}
    gpu = driver.gpus[0]  # on which TensorRT builds
    return {"gpu": {"name": gpu.name, "compute_capability": gpu.capability}, "cuda": driver.cuda}


def _refuse_types_of_gpu(graph: Graph, backend: str) -> None:
    """Raise ``OptionsError`` where TensorRT would build on a GPU here that does not compute in the graph's types."""
    from prototrt.converter.backends.driver import find_driver

    precision = precision_of(graph)
    driver = find_driver() if backend == "enterprise" and precision != "fp32" else None
    for gpu in driver.gpus[:1] if driver is not None else ():  # on which TensorRT builds
        refuse_types(Option("backend", backend), gpu.name, version(gpu.capability), precision)


@contextmanager
def _prepare(graph: Graph, options: BuildOptions) -> Iterator[_PlanBuild]:
    backend = find_backend(options.backend)
    refuse_for(Option("backend", backend.name), backend.name, options)
    refuse_without_gpu(backend.name, options, _has_gpu)
    refuse_dla(precision_of(graph), options)
    _refuse_types_of_gpu(graph, backend.name)
    if options.tile == "plugin":
        from prototrt.converter.backends.tensorrt.tile_plugin import refuse_tile_plugin  # few engines have it

        refuse_tile_plugin(backend)
    # Files and weights are hashed while TensorRT works.
    with ThreadPoolExecutor(1) as background:
        facts = background.submit(graph_facts, graph)
        refuse_not_run(graph, backend)
        network = network_of(graph, backend, options.tile, keep_batch_norm=options.keeps_batch_norm)
        digest = background.submit(sha256_of_graph, graph)
        yield _PlanBuild(graph, network, _config(graph, network, options), options, facts, digest)


def _has_gpu() -> bool:
    from prototrt.converter.backends.driver import find_driver

    driver = find_driver()
    return driver is not None and bool(driver.gpus)


def network_of(
    graph: Graph, backend: Backend, tile: TileLowering = "native", *, keep_batch_norm: bool = False
) -> Network:
    """The graph as TensorRT's network, before it is built."""
    return fill_network(Network(backend, tile), graph, keep_batch_norm=keep_batch_norm)


def fill_network(network: N, graph: Graph, *, keep_batch_norm: bool = False) -> N:
    """The network, once it has the layers of the graph."""
    prepared = lowered(graph, "tensorrt-batch-norm" if keep_batch_norm else "tensorrt")
    lower(prepared, network)
    network.primitives = len([*walk(prepared)])
    return network


def _config(graph: Graph, network: Network, options: BuildOptions) -> Any:
    config = network.builder.create_builder_config()
    configure(config, network, options)
    progress = options.progress or notebook_build()
    if progress is not None:
        config.progress_monitor = _monitor(network.trt, progress)
    for profile in profiles_of(graph, network, options.profiles):
        config.add_optimization_profile(profile)
    return config


def _monitor(trt: Any, progress: Progress) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # the bindings carry no types
        phase_start = staticmethod(progress.phase)
        step_complete = staticmethod(progress.step)
        phase_finish = staticmethod(progress.finish)

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
