"""Everything that needs a GPU, in one run of a few minutes: prints a table in Markdown.

    PYTHONPATH=.dev python tests/gpu/check.py > results.md

Needs cuda-python and a TensorRT that runs on this GPU; PyTorch for the comparison. What fails is
a row of the table; the exit code is 1 then. docs/gpu-results.md is made of what this prints.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import prototrt
from prototrt.caffe_proto.errors import ConversionError
from prototrt.converter.doctor import diagnose
from prototrt.converter.runtime.cuda_python import CudaPythonDevice
from prototrt.surgery.ir import Graph
from prototrt.tests.golden_cases import SEQUENCES, Case, caffe_cases, rewritten
from prototrt.tests.gpu.nets import Size, grid, lstm_graph
from prototrt.tests.gpu.rows import Row, tried
from prototrt.tests.gpu.sessions import sessions
from prototrt.tests.gpu.timing import (
    Resident,
    Stopwatch,
    engine_seconds,
    peak_bytes_per_second,
    peak_multiply_adds_per_second,
    torch_seconds,
)

DIGITS = Path(__file__).parents[2] / "samples" / "digits"
SessionOf = Callable[[Graph], prototrt.Session]
UNROLL_AT_MOST = 16
"""Steps: building more takes minutes."""


def engine_session(graph: Graph) -> prototrt.Session:
    return prototrt.Session(graph, on="engine")


# ---------------------------------------------------------------- is it right?


def goldens(session_of: SessionOf = engine_session) -> Iterator[Row]:
    """Every recurrent net that Caffe ran, in every sequence that it can be written in."""
    for case in caffe_cases():
        if case.is_recurrent:
            one_step = all(shape[0] == 1 for shape in case.facts["inputs"].values())
            for sequence in SEQUENCES:
                if sequence != "step" or one_step:
                    yield tried(f"golden {case}, {sequence}", golden(case, sequence, session_of))


def golden(case: Case, sequence: str, session_of: SessionOf) -> Callable[[], str]:
    def attempt() -> str:
        session, shapes, worst = None, None, 0.0
        for inputs, expected in zip(case.arrays("inputs"), case.arrays("outputs"), strict=True):
            new = {name: array.shape for name, array in inputs.items()}
            if session is None or new != shapes:
                session, shapes = session_of(rewritten(case, inputs, sequence)), new
            results = session.run(inputs)
            for name, wanted in expected.items():
                worst = max(worst, float(np.abs(results[name] - wanted).max(initial=0)))
                np.testing.assert_allclose(results[name], wanted, *case.tolerance(name), err_msg=name)
        return f"largest difference {worst:.1e}"

    return attempt


def sample(session_of: SessionOf = engine_session) -> Iterator[Row]:
    """The strips of digits: at once, and window by window with the state fed back."""
    known = np.load(DIGITS / "expected.npz")
    cont = np.ones((40, 1), np.float32)
    cont[0] = 0

    def whole(sequence: str) -> str:
        session = session_of(digits("deploy.prototxt", sequence))
        found = [session.run({"data": data, "cont": cont})["prob"] for data in known["data"]]
        return compared(np.array(found), known["prob"])

    def stream() -> str:
        session = session_of(digits("deploy_stream.prototxt", "step"))
        found = [
            session.run({"data": window[None], "cont": flag[None]})["prob"][0]
            for index in known["stream_index"]
            for window, flag in zip(known["data"][index], cont, strict=True)
        ]
        return compared(np.array(found).reshape(known["stream_prob"].shape), known["stream_prob"])

    for sequence in ("loop", "unroll"):
        yield tried(f"sample, {sequence}", lambda sequence=sequence: whole(sequence))  # type: ignore[misc]  # mypy does not infer it
    yield tried("sample, step by step", stream)


def digits(net: str, sequence: str) -> Graph:
    return prototrt.rewrite(prototrt.load(DIGITS / net, DIGITS / "digits.caffemodel"), sequence=sequence)


def compared(found: Any, wanted: Any) -> str:
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    return f"largest difference {np.abs(found - wanted).max():.1e}"


def tile(device: CudaPythonDevice) -> Iterator[Row]:
    """The kernel of the Tile plugin, if this tree has one, against numpy.tile."""
    try:
        kernels = importlib.import_module("prototrt.plugins.tile.kernel").KERNELS
        start = importlib.import_module("prototrt.plugins.tile.driver").driver().tile
    except ImportError:
        yield Row("Tile kernel", "not tried", "there is no Tile plugin here")
        return
    stream = device.create_stream()
    for kind, dtype in (("FLOAT", np.float32), ("HALF", np.float16), ("INT32", np.int32)):
        for shape, axis, copies in (((5, 7, 1), 2, 256), ((3, 5), 0, 4), ((2, 33, 3), 1, 7), ((8,), 0, 1)):

            def attempt(
                kind: str = kind,
                dtype: Any = dtype,
                shape: tuple[int, ...] = shape,
                axis: int = axis,
                copies: int = copies,
            ) -> str:
                array = np.random.default_rng(1).integers(0, 1000, shape).astype(dtype)
                wanted = np.concatenate([array] * copies, axis)
                x = Resident(device, array, stream)
                y = Resident(device, np.zeros_like(wanted), stream)
                inner = int(np.prod(shape[axis:]))
                start(kernels[kind], x.address, inner, copies, wanted.size, y.address, stream=stream)
                found = np.empty_like(wanted)
                device.download(found, y.address, stream)
                device.synchronize(stream)
                np.testing.assert_array_equal(found, wanted)
                return ""

            yield tried(f"Tile kernel, {kind} {shape}, axis {axis}, {copies} copies", attempt)


# ---------------------------------------------------------------- how fast is it?


TIMING_COLUMNS = ("H", "T", "N", "way", "per call", "per step", "cuDNN fp32", "cuDNN fp16", "floor")


def timings(device: CudaPythonDevice, sizes: Iterable[Size] | None = None) -> Iterator[list[str]]:
    """Rows of the second table. Everything is fp32 but the column that says so."""
    watch = Stopwatch(device)
    bandwidth = peak_bytes_per_second(watch)
    speed = peak_multiply_adds_per_second(watch, "float32")
    with tempfile.TemporaryDirectory() as folder:
        for size in grid() if sizes is None else sizes:
            others = [microseconds(torch_seconds(size, watch, dtype)) for dtype in ("float32", "float16")]
            floor = max(size.floor(bandwidth, speed)) if speed else size.moved_bytes / bandwidth
            for way, sequence, graphs in ways(size):
                try:
                    graph = lstm_graph(size, sequence, Path(folder))
                    seconds: float | None = engine_seconds(graph, watch, graphs)
                except ConversionError as error:
                    seconds, way = None, f"{way}: {error.problem}"
                yield timing_row(size, way, seconds, others, floor)


def ways(size: Size) -> list[tuple[str, str, bool]]:
    """Name, sequence and use of CUDA graphs."""
    if size.steps == 1:
        return [("step, queued", "step", False), ("step, CUDA graph", "step", True)]
    unrolled = [("unroll, queued", "unroll", False), ("unroll, CUDA graph", "unroll", True)]
    return [("loop", "loop", False), *(unrolled if size.steps <= UNROLL_AT_MOST else [])]


def timing_row(size: Size, way: str, seconds: float | None, others: list[str], floor: float) -> list[str]:
    per_step = None if seconds is None else seconds / size.steps
    place = [str(size.hidden), str(size.steps), str(size.streams)]
    return [*place, way, microseconds(seconds), microseconds(per_step), *others, microseconds(floor)]


def microseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.1f} us"


# ---------------------------------------------------------------- the report


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, each as soon as its row is there."""
    yield markdown_line(columns)
    yield markdown_line(["---"] * len(columns))
    yield from map(markdown_line, rows)


def markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def show(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table row by row: what crashes the process leaves what was found before."""
    for line in markdown(columns, rows):
        print(line, flush=True)
    print(flush=True)


def main() -> int:
    diagnosis = diagnose()
    if not diagnosis.gpus:
        print("there is no GPU here: nothing was checked", file=sys.stderr)
        return 1
    machine = [("python", diagnosis.python), ("driver", str(diagnosis.driver))]
    machine += [(name, version) for name, version in diagnosis.packages.items() if version]
    machine += [("GPU", f"{gpu.name}, compute capability {gpu.capability}") for gpu in diagnosis.gpus]
    show(("machine", ""), machine)
    device = CudaPythonDevice()
    verdicts: set[str] = set()

    def cells() -> Iterator[Sequence[str]]:
        for row in chain(goldens(), sample(), sessions(engine_session), tile(device)):
            verdicts.add(row.verdict)
            yield row.what, row.verdict, row.detail

    show(("check", "verdict", ""), cells())
    show(TIMING_COLUMNS, timings(device))
    return int(bool(verdicts & {"FAILED", "WRONG"}))


if __name__ == "__main__":
    sys.exit(main())
