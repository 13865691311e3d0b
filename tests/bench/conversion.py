"""``prototrt convert`` as a user runs it, its parts timed."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

from prototrt.tests.bench.measuring import Stopwatch, peak_rss, report

PARTS = {
    "load": ("prototrt.caffe_proto", "load"),
    "rewrite": ("prototrt.surgery.pipeline", "rewrite"),
    "TensorRT's import": ("prototrt.converter.backends.tensorrt.builder", "find_backend"),
    "lower": ("prototrt.converter.backends.tensorrt.builder", "network_of"),
    "builder": ("prototrt.converter.backends.tensorrt.builder._PlanBuild", "stream"),
    "facts": ("prototrt.converter.backends.tensorrt.builder._PlanBuild", "facts"),
    "write": ("prototrt.converter.files.writing.files.HashedStream", "_wait"),
}


def main(started: str, prototxt: str, caffemodel: str, target: str, *options: str) -> None:
    stopwatch = Stopwatch(float(started))
    with stopwatch.part("import"):
        import prototrt.cli
    for name, (owner, function) in PARTS.items():
        stopwatch.timing(_found(stopwatch, owner), function, name)
    command = ["convert", prototxt, caffemodel, "-o", target, "--backend", "rtx", "--quiet", *options]
    prototrt.cli.main(command, standalone_mode=False)
    total, parts = stopwatch.total(), stopwatch.parts
    own, own_cpu = total - parts["builder"], time.process_time() - stopwatch.cpu["builder"]
    parts["other"] = total - sum(parts.values())
    size = Path(target).stat().st_size
    facts = {"rss": peak_rss(), "bytes": size}
    report({"total": total, "own": own, "own_cpu": own_cpu, "parts": parts, **facts})


def _found(stopwatch: Stopwatch, path: str) -> object:
    """A module, or a class in one."""
    module, _, last = path.rpartition(".")
    with stopwatch.part("import"):
        is_class = last.lstrip("_")[0].isupper()
        return getattr(importlib.import_module(module), last) if is_class else importlib.import_module(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
