"""Nets of one or a few layers, run on every way we have, for the corners that no golden reaches."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.errors import ConversionError
from prototrt.surgery.ir import Array, Graph

WAYS = ["reference", pytest.param("network", marks=pytest.mark.trt), "onnx"]

Shapes = Mapping[str, Sequence[int]]


def net(layers: str, shapes: Shapes) -> str:
    """A prototxt with an Input layer for each shape, one line each, before the given layers."""
    inputs = [
        f'layer {{ name: "in_{name}" type: "Input" top: "{name}" input_param {{ shape {{'
        + "".join(f" dim: {dim}" for dim in shape)
        + " } } }\n"
        for name, shape in shapes.items()
    ]
    return "".join(inputs) + layers


def rewritten(layers: str, shapes: Shapes, blobs: Mapping[str, Array] | None = None, **options: Any) -> Graph:
    """The graph of such a net. ``blobs`` are its weights, by ``LAYER/INDEX``; ``options`` those of rewrite."""
    with tempfile.TemporaryDirectory() as folder:
        prototxt, weights = Path(folder, "net.prototxt"), Path(folder, "net.npz")
        prototxt.write_text(net(layers, shapes))
        if blobs:
            with weights.open("wb") as stream:
                np.savez(stream, **dict(blobs))  # type: ignore[arg-type]  # keys may be any text
        model = prototrt.load(prototxt, weights if blobs else None)
        # The files are gone when a plan would be told their digests.
        return replace(prototrt.rewrite(model, **options), sources=())


def builds(layers: str, shapes: Shapes, blobs: Mapping[str, Array] | None = None) -> bool:
    """Whether RTX makes a plan of such a net."""
    return prototrt.build(rewritten(layers, shapes, blobs), backend="rtx").plan.nbytes > 0


def run(
    layers: str, inputs: Mapping[str, Array], blobs: Mapping[str, Array] | None = None, on: str = "reference"
) -> dict[str, Array]:
    """The outputs of such a net for float32 inputs of these values."""
    graph = rewritten(layers, {name: array.shape for name, array in inputs.items()}, blobs)
    return prototrt.Session(graph, on=on).run(inputs)


def refusal(layers: str, shapes: Shapes, blobs: Mapping[str, Array] | None = None) -> str:
    """What the user reads when such a net is refused."""
    with pytest.raises(ConversionError) as caught:
        rewritten(layers, shapes, blobs)
    return told(caught.value)


def told(error: ConversionError) -> str:
    """A message without the folder of the net."""
    text = str(error)
    folder = text[: text.index("net.prototxt")] if "net.prototxt" in text else ""
    return text.replace(folder, "") if folder else text


def numbers(*shape: int, seed: int = 0) -> Array:
    """Small numbers of both signs, the same every time."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
