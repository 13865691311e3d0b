"""An LSTM whose numbers of steps and streams vary from call to call."""

from __future__ import annotations

import numpy as np

import prototrt
from prototrt import LayoutName, Precision
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.golden_cases import case_called


def dynamic_graph(precision: Precision = "fp32", layout: LayoutName = "caffe") -> Graph:
    """One LSTM (D 6, H 8) with T from 1 to 8 and N from 1 to 7."""
    return prototrt.rewrite(
        case_called("lstm_t5_n3").load(),
        min_shapes={"x": (1, 1, 6), "cont": (1, 1)},
        max_shapes={"x": (8, 7, 6), "cont": (8, 7)},
        precision=precision,
        layout=layout,
    )


def feeds_of(steps: int, streams: int, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        "x": random.standard_normal((steps, streams, 6), np.float32),
        "cont": random.integers(0, 2, (steps, streams)).astype(np.float32),
    }


def continuing(steps: int, streams: int, seed: int) -> dict[str, Array]:
    """Inputs that reset nothing by themselves."""
    feeds = feeds_of(steps, streams, seed)
    return {**feeds, "cont": np.ones_like(feeds["cont"])}
