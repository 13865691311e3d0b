"""Small nets, as a server offers them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from prototrt.converter.options import TritonOptions
from prototrt.converter.serving.triton.served import ServedGraph, serve
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.small_nets import inputs_of, loaded

LSTM = """
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 4 } }
"""
POOLING = """
layer { name: "pool" type: "Pooling" bottom: "x" top: "y" pooling_param { pool: MAX kernel_size: 4 } }
"""
ROWS = """
layer { name: "rows" type: "Reshape" bottom: "x" top: "y" reshape_param { shape { dim: 8 dim: 4 } } }
"""


def lstm(steps: int = 1, streams: int = 1) -> str:
    """An LSTM with 3 inputs and 4 hidden units."""
    return inputs_of({"x": (steps, streams, 3), "cont": (steps, streams)}) + LSTM


def lstm_of_one_stream() -> str:
    """The same with one step, where the net itself says that there is one stream."""
    reshape = """
    layer {
      name: "reshape" type: "Reshape" bottom: "frame" top: "x" reshape_param { shape { dim: -1 dim: 1 dim: 3 } }
    }
    """
    return inputs_of({"frame": (1, 3), "cont": (1, 1)}) + reshape + LSTM


def served(text: str, asked: TritonOptions | None = None, **rewriting: Any) -> ServedGraph:
    """The net of a text, with random weights."""
    with tempfile.TemporaryDirectory() as folder:
        model = loaded(Path(folder), text, random_weights=1)
        return serve(model, RewriteOptions(**rewriting), asked or TritonOptions(platform="python"))


def frames(steps: int, streams: int, rows: int, markers: tuple[int, ...]) -> str:
    """An LSTM over rows (T*N, 3), which a Reshape cuts, with marks that have further axes of size 1."""
    return (
        inputs_of({"data": (rows, 3), "clip_markers": (rows, *markers)})
        + f"""
layer {{
  name: "reshape-data" type: "Reshape" bottom: "data" top: "x"
  reshape_param {{ shape {{ dim: {steps} dim: {streams} dim: 3 }} }}
}}
layer {{
  name: "reshape-cm" type: "Reshape" bottom: "clip_markers" top: "cont"
  reshape_param {{ shape {{ dim: {steps} dim: {streams} }} }}
}}
{LSTM}"""
    )
