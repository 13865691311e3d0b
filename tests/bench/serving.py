"""The time that a client of Triton waits for an answer: the digits sample, several sequences at a time.

Run it by hand where the server of `make test-triton` is: ``python -m prototrt.tests.bench.serving``.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from tritonclient import grpc

from prototrt.tests.command_line import STREAM, WEIGHTS, done
from prototrt.tests.converter.serving.triton.server import Server, running_server
from prototrt.tests.digit_strips import WINDOWS, steps

MODEL = "digits_stream"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, nargs="+", default=[1, 8], help="how many at a time")
    parser.add_argument("--strips", type=int, default=10, help="how many each of them reads")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done("triton", STREAM, WEIGHTS, "-o", str(folder / "models"), "--platform", "python")
        with running_server(folder / "models", folder) as server:
            for sequences in asked.sequences:
                print(measured(server, sequences, asked.strips))


def measured(server: Server, sequences: int, strips: int) -> str:
    """A row of the printed table."""
    waited: list[float] = []
    frames = [feeds["data"] for feeds in steps(WINDOWS)]

    def read(sequence: int) -> None:
        with server.client() as client:
            for _ in range(strips):
                for t, frame in enumerate(frames):
                    began = time.perf_counter()
                    data = grpc.InferInput("data", frame.shape, "FP32")
                    data.set_data_from_numpy(frame)
                    ends = {"sequence_start": t == 0, "sequence_end": t == WINDOWS - 1}
                    client.infer(MODEL, [data], sequence_id=sequence, **ends)
                    waited.append(time.perf_counter() - began)

    clients = [threading.Thread(target=read, args=(one + 1,)) for one in range(sequences)]
    began = time.perf_counter()
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    rate = len(waited) / (time.perf_counter() - began)
    half, most = np.percentile(waited, [50, 99]) * 1e3
    return f"| {sequences} | {rate:,.0f} | {half:.1f} ms | {most:.1f} ms |"


if __name__ == "__main__":
    main()
