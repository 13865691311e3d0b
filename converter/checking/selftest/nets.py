"""One LSTM of any size, as Caffe would have it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Protocol

from prototrt.caffe_proto import load
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.converter.running.sessions.session import Session
from prototrt.surgery.ir import Graph
from prototrt.surgery.options import Form, Precision
from prototrt.surgery.pipeline import rewrite


class SessionOf(Protocol):
    """Makes a session on an engine; ``options`` are those of ``Session``."""

    def __call__(self, graph: Graph, **options: Any) -> Session: ...


@dataclass(frozen=True)
class Size:
    """H hidden units (and as many inputs), T steps and N streams."""

    hidden: int
    steps: int
    streams: int


def lstm_prototxt(size: Size) -> str:
    shapes = (
        f"shape {{ dim: {size.steps} dim: {size.streams} dim: {size.hidden} }}"
        f" shape {{ dim: {size.steps} dim: {size.streams} }}"
    )
    fillers = 'weight_filler { type: "uniform" min: -0.05 max: 0.05 } bias_filler { type: "constant" }'
    return f"""name: "lstm"
layer {{ name: "in" type: "Input" top: "x" top: "cont" input_param {{ {shapes} }} }}
layer {{
  name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h"
  recurrent_param {{ num_output: {size.hidden} {fillers} }}
}}
"""


def lstm_graph(size: Size, sequence: Form, precision: Precision = "fp32", **options: Any) -> Graph:
    """The LSTM with random weights. ``sequence``, ``precision`` and ``options`` as for ``prototrt.rewrite``."""
    return random_graph(lstm_prototxt(size), sequence=sequence, precision=precision, **options)


def random_graph(text: str, **options: Any) -> Graph:
    """The net of a prototxt with random weights; ``options`` as for ``prototrt.rewrite``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_text(text)
        graph = rewrite(load(path, random_weights=1), **options)
        # The file is gone when a plan's manifest would state its digest.
        return replace(graph, sources=())
