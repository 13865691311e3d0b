"""How long a call takes: of an engine on a GPU; where none runs, of the other ways to compute a net."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError, ConversionError, EngineError
from prototrt.caffe_proto.common.records import asdict, dataclass
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.options import Way
from prototrt.converter.running.sessions.session import ENGINE, Session
from prototrt.surgery.ir import Array, Graph, size_at

if TYPE_CHECKING:
    from prototrt.converter.running.runtime.engine import Engine
    from prototrt.converter.running.runtime.memory import Memory

WARM_UP, CALLS = 10, 100
SECONDS_AT_MOST = 10.0
"""For the calls of one way. Without a limit, a large net on the CPU would take hours."""
ON_CPU: tuple[tuple[Way, str | None], ...] = (("reference", None), ("network", None), ("onnx", None))
ON_GPU: tuple[tuple[Way, str | None], ...] = (("onnx", "cuda"), ("torch", "cuda"))
"""Where a GPU is there, but no TensorRT that runs on it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call, from its beginning until its results are there.

    ``queued`` is the median of the part after which Python goes on, where the rest is the GPU's.
    """

    way: str
    calls: int
    median: float
    p99: float
    queued: float | None = None


@dataclass(frozen=True, slots=True)
class LayerTime:
    """A layer of TensorRT, and the seconds that it takes in a call."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """``notes`` list what was not timed, and why."""

    timings: tuple[Timing, ...]
    layers: tuple[LayerTime, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def bench(source: Graph | Session, calls: int = CALLS, *, profile: bool = False) -> Benchmark:
    """Time the engine of a session, on numbers between 0 and 1; of a graph, build an engine and time it.

    Where no engine runs, time the other ways to compute the graph: on the CPU, and on the GPU if there is one.
    """
    from prototrt.converter.checking.verification.seeded import seeded_feeds
    from prototrt.converter.running.runtime.devices import find_device

    if not isinstance(source, Graph):
        return _of_engine(source, _feeds_of(source.signature), calls, profile)
    feeds = seeded_feeds(source)[0]
    ways = ON_CPU
    try:
        device = find_device()
        ways = (*ON_CPU, *ON_GPU)
        session = Session(source, on=ENGINE, device=device)
    except (BuildError, EngineError) as error:
        return _of_ways(source, feeds, calls, ways, f"no engine was timed: {error.problem}")
    with session:
        return _of_engine(session, feeds, calls, profile)


def _feeds_of(signature: Signature) -> dict[str, Array]:
    """Every input but state, of the usual size. Whole numbers are 0, which a table of any size has."""
    random = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    usual = {symbol: span.opt for symbol, span in signature.symbols.items()}
    for value in signature.inputs:
        if value.name not in signature.states:
            shape = [size_at(dim, usual) for dim in value.shape]
            drawn = random.uniform(0, 1, shape)
            feeds[value.name] = (drawn if value.dtype.numpy.kind == "f" else 0 * drawn).astype(
                value.dtype.numpy
            )
    return feeds


def _of_ways(
    graph: Graph, feeds: Mapping[str, Array], calls: int, ways: Sequence[tuple[Way, str | None]], note: str
) -> Benchmark:
    timings, notes = [], [note]
    for way, device in ways:
        name = way if device is None else f"{way}, {device}"
        try:
            with Session(graph, on=way, device=device) as session:
                timings.append(timing_of(name, calls, partial(session.run, feeds)))
        except ConversionError as error:
            notes.append(f"{name} was not timed: {error.problem}")
    return Benchmark(tuple(timings), notes=tuple(notes))


def _of_engine(session: Session, feeds: Mapping[str, Array], calls: int, profile: bool) -> Benchmark:
    from prototrt.converter.running.runtime.memory import Memory

    engine = session.engine
    device = engine.device
    with device.current():
        memory = Memory(device)
        stream = memory.stream()
    try:
        results = session.run(feeds)  # for the shapes
        inputs = {name: Resident(memory, array, stream) for name, array in feeds.items()}
        outputs = {name: Resident(memory, array, stream) for name, array in results.items()}
        wait = partial(device.synchronize, stream)
        timings, notes = _resident(engine, stream, calls, (inputs, outputs), wait)
        with Session(engine) as timed:
            timings.append(timing_of("engine, NumPy arrays", calls, timed.prepare(feeds).run))
        layers = tuple(LayerTime(*row) for row in session.profile(feeds)) if profile else ()
        if profile and not layers:
            notes.append("layers were not timed: this TensorRT does not report their times")
    finally:
        memory.close(stream)
    return Benchmark(tuple(timings), layers, tuple(notes))


class Resident:
    """A copy of an array on the GPU, in memory that ``memory`` frees. A session takes it like that of any library."""

    def __init__(self, memory: Memory, array: Array, stream: int) -> None:
        self.address = memory.allocate(array.nbytes)
        memory.device.upload(self.address, array, stream)
        memory.device.synchronize(stream)
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.address, False),
            "stream": None,  # it is there already
            "version": 3,
        }


def _resident(
    engine: Engine,
    stream: int,
    calls: int,
    arrays: tuple[Mapping[str, Resident], Mapping[str, Resident]],
    wait: Callable[[], object],
) -> tuple[list[Timing], list[str]]:
    """The times of calls whose inputs and outputs stay on the GPU: queued, and as a CUDA graph; and notes."""
    with Session(engine, stream=stream, graphs=False) as timed:
        timings = [timing_of("engine, queued", calls, timed.prepare(*arrays).run, wait)]
    with Session(engine, stream=stream, graphs=True) as timed:
        replayed = timing_of("engine, CUDA graph", calls, timed.prepare(*arrays).run, wait)
        if not timed.replays:
            return timings, ["no CUDA graph was timed: TensorRT cannot capture this engine"]
    return [*timings, replayed], []


def timing_of(
    way: str, calls: int, call: Callable[[], object], wait: Callable[[], object] | None = None
) -> Timing:
    """Time a number of calls after a warm-up, or fewer if the time limit is reached."""
    deadline = time.perf_counter() + SECONDS_AT_MOST
    for _ in range(WARM_UP):
        call()
        if time.perf_counter() > deadline:
            break
    whole: list[float] = []
    queued: list[float] = []
    deadline = time.perf_counter() + SECONDS_AT_MOST
    while len(whole) < calls and (not whole or time.perf_counter() < deadline):
        if wait is not None:
            wait()
        began = time.perf_counter()
        call()
        queued.append(time.perf_counter() - began)
        if wait is not None:
            wait()
        whole.append(time.perf_counter() - began)
    p99 = float(np.quantile(whole, 0.99, method="higher"))
    return Timing(way, len(whole), median(whole), p99, None if wait is None else median(queued))
