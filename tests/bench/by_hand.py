"""A network built with direct calls of TensorRT: a conversion without prototrt.

Reads every array with ``np.fromfile`` and makes the calls that ``tape.py`` recorded. It imports nothing
from prototrt, so its costs are TensorRT's own share.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any


def main(started: str, path: str, target: str) -> None:
    import numpy as np

    clock = [(time.monotonic(), time.process_time())]

    def tick() -> None:
        clock.append((time.monotonic(), time.process_time()))

    trt: Any = importlib.import_module("tensorrt_rtx")
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    tick()
    kept = play(trt, np, network, json.loads(Path(path).with_suffix(".json").read_text()), path)
    tick()
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    plan = builder.build_serialized_network(network, config)
    tick()
    with open(target, "wb") as stream:
        stream.write(plan)
    tick()
    facts = {"rss": peak_rss(), "bytes": plan.nbytes, "layers": network.num_layers, "arrays": len(kept)}
    print(json.dumps({**times(float(started), clock), **facts}))


def times(started: float, clock: list[tuple[float, float]]) -> dict[str, Any]:
    """Seconds of the whole and of the parts between the ticks, as ``conversion.py`` tells them."""
    names = ("TensorRT's import", "lower", "builder", "write")
    walls, cpus = ([b[way] - a[way] for a, b in pairwise(clock)] for way in (0, 1))
    total, computed = clock[-1][0] - started, clock[-1][1]
    parts = dict(zip(names, walls, strict=True))
    own, own_cpu = total - parts["builder"], computed - dict(zip(names, cpus, strict=True))["builder"]
    return {"total": total, "own": own, "own_cpu": own_cpu, "parts": parts}


def play(trt: Any, np: Any, network: Any, entries: list[dict[str, Any]], path: str) -> list[Any]:
    """Make the calls; the arrays, which TensorRT only points to."""
    objects, kept = {0: network}, []

    def decoded(item: Any) -> Any:
        if isinstance(item, list):
            return [decoded(element) for element in item]
        if not isinstance(item, dict):
            return item
        if "object" in item:
            return objects[item["object"]]
        if "enum" in item:
            kind, member = item["enum"]
            return getattr(getattr(trt, kind), member)
        if "nothing of" in item:
            return trt.Weights(getattr(trt.DataType, item["nothing of"]))
        offset, count, kind = item["weights"]
        dtype = trt.nptype(getattr(trt.DataType, kind))
        kept.append(np.fromfile(Path(path).with_suffix(".weights"), dtype, count, offset=offset))
        return trt.Weights(kept[-1])

    for entry in entries:
        owner = objects[entry["of"]]
        if "set" in entry:
            setattr(owner, entry["set"], decoded(entry["to"]))
        else:
            objects[entry["gives"]] = getattr(owner, entry["call"])(*map(decoded, entry["with"]))
    return kept


def peak_rss() -> float:
    """In MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main(*sys.argv[1:])
