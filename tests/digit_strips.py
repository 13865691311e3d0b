"""The strips of the sample, window by window, and what Caffe reads in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import prototrt
from prototrt import Form, Precision
from prototrt.surgery.ir import Array, Graph

DIGITS = Path(__file__).parents[1] / "samples" / "digits"
STRIPS = 2
"""Strips whose windows Caffe was given one by one."""
WINDOWS = 40
"""Windows of a strip."""


def digits(net: str = "deploy.prototxt", sequence: Form = "auto", precision: Precision = "fp32") -> Graph:
    """The net of the sample that this file has: ``deploy.prototxt``, or ``deploy_stream.prototxt``."""
    model = prototrt.load(DIGITS / net, DIGITS / "digits.caffemodel")
    return prototrt.rewrite(model, sequence=sequence, precision=precision)


def steps(count: int, strip: int = 0) -> list[dict[str, Array]]:
    known = np.load(DIGITS / "expected.npz")
    data = known["data"][known["stream_index"][strip]]
    return [{"data": data[t][None], "cont": np.full((1, 1), float(t > 0), np.float32)} for t in range(count)]


def probabilities(count: int, strip: int = 0) -> list[Array]:
    return [np.asarray(prob) for prob in np.load(DIGITS / "expected.npz")["stream_prob"][strip][:count]]
