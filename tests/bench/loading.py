"""Loading a weights file: with prototrt, or with NumPy, which reads it whole."""

from __future__ import annotations

import sys
import time

from prototrt.tests.bench.measuring import peak_rss, report


def main(way: str, prototxt: str, caffemodel: str) -> None:
    # What is imported does not count as loading.
    if way == "prototrt":
        from prototrt.caffe_proto import load

        began = time.perf_counter()
        kept: object = load(prototxt, caffemodel)
    else:
        import numpy as np

        began = time.perf_counter()
        kept = np.fromfile(caffemodel, np.uint8)
    seconds = time.perf_counter() - began
    report({"seconds": seconds, "rss": peak_rss(), "kept": type(kept).__name__})


if __name__ == "__main__":
    main(*sys.argv[2:])
