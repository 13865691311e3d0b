"""What runs inside the server: one session for many sequences, each of which has its own state.

``python_model.py`` calls it, which Triton's Python backend loads. Nothing here needs Triton.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, EngineError, NetError, ShapeError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile
from prototrt.converter.files.signatures.signature import fillable, zeros
from prototrt.converter.running.sessions.session import Session
from prototrt.surgery.ir import Array, computable, range_of

Arrays: TypeAlias = dict[str, Array]

MODEL, PLAN, INITIAL_STATE = "model.onnx", "model.plan", "initial_state.npz"
"""Files in the folder of a version: the model for a CPU, the one for a GPU, the state that sequences start with."""


@dataclass(frozen=True, slots=True)
class Request:
    """The inputs of one request, and its place in a sequence. The sequence 0 is none."""

    feeds: Mapping[str, Array]
    sequence: int | str = 0
    starts: bool = False
    ends: bool = False


@dataclass(slots=True)
class _SequenceState:
    """The state of one sequence, by input, and when it was last used, in seconds."""

    arrays: Arrays
    used: float


@dataclass(frozen=True, slots=True)
class _Job:
    """A request with all inputs of the net, states included. ``rows`` is the size of the first axis of the first."""

    place: int
    request: Request
    feeds: Arrays
    rows: int


@dataclass
class Serving:
    """Answers requests; keeps the state of each sequence from its first request to its last.

    ``control`` is the input that is 0 where a sequence starts, else 1, with one number for each sequence. ``idle`` is
    the time in seconds after which a sequence without requests ends. All inputs have streams on their first axis if
    the net takes several; ``clock`` gives the time in seconds.
    """

    session: Session
    control: str | None = None
    initial: Mapping[str, Array] = field(default_factory=dict)
    idle: float = float("inf")
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._states: dict[int | str, _SequenceState] = {}

    @classmethod
    def of_version(cls, folder: Path, config: Mapping[str, Any], on_gpu: bool) -> Serving:
        """The model in the folder of a version, with the config that Triton gives to it. Raises ``ConversionError``."""
        batching = config.get("sequence_batching", {})
        controls = batching.get("control_input", ())
        initial = folder / INITIAL_STATE
        session = Session(folder / (PLAN if on_gpu else MODEL), trust=trust_of(config))
        return cls(
            session,
            controls[0]["name"] if controls else None,
            ArraysOfFile(str(initial)).load(list(session.signature.states)) if initial.exists() else {},
            int(batching["max_sequence_idle_microseconds"]) / 1e6 if batching else float("inf"),
        )

    @property
    def sequences(self) -> int:
        """How many sequences have a state."""
        return len(self._states)

    def answer(self, requests: Sequence[Request]) -> list[Arrays | ConversionError]:
        """The outputs for each request, or what is wrong with it.

        As many requests as the net takes are computed in one call. A sequence occurs at most once among them.
        """
        now = self.clock()
        self._states = {name: state for name, state in self._states.items() if now - state.used <= self.idle}
        answers: dict[int, Arrays | ConversionError] = {}
        jobs: list[_Job] = []
        for place, request in enumerate(requests):
            try:
                jobs.append(self._job(place, request))
            except ConversionError as error:
                answers[place] = error
        for together in self._calls(jobs):
            answers |= self._answers(together)
        return [answers[place] for place in range(len(requests))]

    def close(self) -> None:
        """Free what the session holds."""
        self._states = {}
        self.session.close()

    def _job(self, place: int, request: Request) -> _Job:
        signature = self.session.signature
        feeds = {**request.feeds, **self._state_before(request)}
        sizes = signature.sizes({name: array.shape for name, array in feeds.items() if name != self.control})
        for value in signature.inputs:
            if self.control is not None and (value.name == self.control or value.name not in feeds):
                feeds[value.name] = _over_steps(feeds[self.control], fillable(value, sizes, "input"))
        signature.refuse_names(feeds)
        first = feeds[signature.inputs[0].name]
        return _Job(place, request, feeds, first.shape[0] if first.shape else 1)

    def _state_before(self, request: Request) -> Arrays:
        """What the sequence starts with, or where it was left."""
        kept = self._states.get(request.sequence)
        if kept is not None and not request.starts:
            return kept.arrays
        states = self.session.signature.states
        if states and request.sequence and not request.starts:
            raise NetError(
                f"sequence {request.sequence} is unknown",
                because=f"it has not started here, or it had no request for {self.idle:g} s",
                fix="start it again: set sequence_start in its first request",
            )
        return {
            name: self.initial[name] if name in self.initial else zeros(value, self._one)
            for name, value in states.items()
        }

    @property
    def _one(self) -> Mapping[Any, int]:
        """The sizes of a state of one sequence."""
        return {value.shape[0]: 1 for value in self.session.signature.states.values()}

    def _calls(self, jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
        """The jobs, in groups of the same shapes that fit into one call."""
        groups: dict[object, list[_Job]] = {}
        for job in jobs:
            groups.setdefault(tuple(array.shape[1:] for array in job.feeds.values()), []).append(job)
        for group in groups.values():
            call: list[_Job] = []
            for job in group:
                if call and sum(each.rows for each in (*call, job)) > self._most:
                    yield call
                    call = []
                call.append(job)
            yield call

    @property
    def _most(self) -> int:
        rows = (*self.session.signature.inputs[0].shape, 1)[0]
        return range_of(computable(rows)).max

    def _answers(self, jobs: Sequence[_Job]) -> dict[int, Arrays | ConversionError]:
        names = jobs[0].feeds
        feeds = {name: np.concatenate([job.feeds[name] for job in jobs]) for name in names}
        try:
            results = self.session.run(feeds)
        except ConversionError as error:
            return {job.place: error for job in jobs}
        after = self.session.get_state()
        if len(jobs) == 1:  # of a net that takes no batch, outputs may have any first axis
            self._keep(jobs[0].request, after)
            return {jobs[0].place: results}
        answers: dict[int, Arrays | ConversionError] = {}
        first = 0
        for job in jobs:
            rows = slice(first, first + job.rows)
            first += job.rows
            answers[job.place] = {name: array[rows] for name, array in results.items()}
            self._keep(job.request, {name: array[rows].copy() for name, array in after.items()})
        return answers

    def _keep(self, request: Request, state: Arrays) -> None:
        """Keep the state for the next request of the sequence, if there will be one."""
        if request.ends or not request.sequence:
            self._states.pop(request.sequence, None)
        elif state:
            self._states[request.sequence] = _SequenceState(state, self.clock())


_TRUST = "trust"
"""The parameter of a config that pins the digest of the manifest."""


def trust_of(config: Mapping[str, Any]) -> bool | str:
    """What a config demands of the model. Raises ``EngineError`` for a demand that is no longer checked."""
    parameters = config.get("parameters", {})
    for name in sorted(parameters.keys() & {"trust_key", "trust_label", "trust_not_before"}):
        raise EngineError(
            f"the parameter {name} demands a signature, which prototrt no longer checks",
            where="config.pbtxt",
            fix=f'replace it by the parameter {_TRUST} with the digest of the manifest, "sha256:..."',
        )
    return str(parameters[_TRUST]["string_value"]) if _TRUST in parameters else False


def _over_steps(start: Array, shape: tuple[int, ...]) -> Array:
    """cont for all steps of a request: what the server gives at the first step, then 1. (N, 1) becomes (N, T)."""
    if start.shape[:1] != shape[:1]:
        raise ShapeError(f"the start of sequences has the shape {start.shape}, expected ({shape[0]}, 1)")
    cont = np.ones(shape, start.dtype)
    cont.reshape(len(start), -1)[:, :1] = start
    return cont
