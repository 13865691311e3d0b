"""Nets of tens of thousands of layers: reading the text, and rewriting the layers."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from prototrt.tests.bench.measuring import peak_rss, report

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } } }'


def in_place(number: int) -> list[str]:
    return [f'layer {{ name: "r{number}" type: "ReLU" bottom: "x" top: "x" }}']


def in_a_row(number: int) -> list[str]:
    bottom = f"b{number - 1}" if number else "x"
    return [f'layer {{ name: "r{number}" type: "ReLU" bottom: "{bottom}" top: "b{number}" }}']


def convolutions(number: int) -> list[str]:
    bottom, top = f"b{number - 1}" if number else "x", f"b{number}"
    param = "convolution_param { num_output: 1 kernel_size: 1 }"
    return [
        f'layer {{ name: "c{number}" type: "Convolution" bottom: "{bottom}" top: "{top}" {param} }}',
        f'layer {{ name: "r{number}" type: "ReLU" bottom: "{top}" top: "{top}" }}',
    ]


NETS: dict[str, Callable[[int], list[str]]] = {
    "ReLUs in place": in_place,
    "ReLUs in a row": in_a_row,
    "Convolutions with ReLUs": convolutions,
}


def main(kind: str, count: str) -> None:
    import prototrt

    with tempfile.TemporaryDirectory() as folder:
        warm, net = Path(folder, "warm.prototxt"), Path(folder, "net.prototxt")
        for path, layers in ((warm, 2), (net, int(count))):
            path.write_text("\n".join(_lines(NETS[kind], layers)) + "\n")
        prototrt.rewrite(prototrt.load(warm), require_weights=False)  # imports what these layers need
        began = time.process_time()
        model = prototrt.load(net)
        loaded = time.process_time()
        graph = prototrt.rewrite(model, require_weights=False)
        rewritten = time.process_time()
    assert len(graph.nodes) == int(count)
    report({"load": loaded - began, "rewrite": rewritten - loaded, "rss": peak_rss()})


def _lines(layers: Callable[[int], list[str]], count: int) -> list[str]:
    each = len(layers(0))
    return [INPUT, *chain.from_iterable(layers(number) for number in range(count // each))]


if __name__ == "__main__":
    main(*sys.argv[2:])
