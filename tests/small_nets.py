"""Nets of one or a few layers, run on every way we have, for the corners that no golden reaches."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.surgery.ir import Array, Graph

WAYS = ["reference", pytest.param("network", marks=pytest.mark.trt), "onnx"]

Shapes = Mapping[str, Sequence[int]]
Blobs = Mapping[str, Array]


Write: TypeAlias = Callable[..., str]
"""The fixture that writes a text into a file, and returns the file's name."""


def numbers(*shape: int, seed: int = 0) -> Array:
    """Small numbers of both signs, the same every time."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def float32(values: Any) -> Array:
    return np.asarray(values, np.float32)


def op(kind: str, fields: str = "", bottoms: Iterable[str] = ("x",), tops: Iterable[str] = ("y",)) -> str:
    """The text of a layer "op"."""
    blobs = [f'bottom: "{name}"' for name in bottoms] + [f'top: "{name}"' for name in tops]
    return f'layer {{ name: "op" type: "{kind}" {" ".join(blobs)} {fields} }}'


def inputs_of(shapes: Shapes) -> str:
    """An Input layer for each shape, one line each."""
    return "".join(
        f'layer {{ name: "in_{name}" type: "Input" top: "{name}" input_param {{ shape {{'
        + "".join(f" dim: {dim}" for dim in shape)
        + " } } }\n"
        for name, shape in shapes.items()
    )


def stored(layer: str, blobs: Iterable[Any]) -> dict[str, Array]:
    """The blobs of a layer, called ``LAYER/INDEX`` as in a file of weights."""
    return {f"{layer}/{index}": float32(blob) for index, blob in enumerate(blobs)}


def loaded(folder: Path, text: str, blobs: Blobs | None = None, **options: Any) -> prototrt.Model:
    """The model of ``net.prototxt`` and, with ``blobs``, ``net.npz``, which are written first."""
    prototxt, weights = folder / "net.prototxt", folder / "net.npz"
    prototxt.write_text(text)
    if blobs:
        np.savez(weights, **dict(blobs))  # type: ignore[arg-type]  # numpy's stub wants flags there
    return prototrt.load(prototxt, weights if blobs else None, **options)


def tanh() -> Graph:
    """A net that any backend builds at once."""
    return rewritten(op("TanH"), {"x": (2, 3)})


def rewritten(layers: str, inputs: Shapes, /, blobs: Blobs | None = None, **options: Any) -> Graph:
    """The graph of these layers behind inputs of these shapes. ``options`` are those of rewrite."""
    with tempfile.TemporaryDirectory() as folder:
        model = loaded(Path(folder), inputs_of(inputs) + layers, blobs)
        # The files are gone when a plan would be told their digests.
        return replace(prototrt.rewrite(model, **options), sources=())


def run(
    layers: str, inputs: Mapping[str, Array], blobs: Blobs | None = None, on: Way = "reference"
) -> dict[str, Array]:
    """The outputs of such a net for float32 inputs of these values."""
    graph = rewritten(layers, {name: array.shape for name, array in inputs.items()}, blobs)
    return prototrt.Session(graph, on=on).run(inputs)


def builds(layers: str, shapes: Shapes, blobs: Blobs | None = None) -> bool:
    """Whether such a net has an engine."""
    return has_engine(rewritten(layers, shapes, blobs))


def has_engine(graph: Graph) -> bool:
    """Whether RTX makes a sound plan of it."""
    return is_sound(prototrt.build(graph, backend="rtx").plan)


def is_sound(plan: memoryview) -> bool:
    """RTX reads the header of a plan without a GPU: a sound one is told from a malformed one."""
    trt = find_backend("rtx").trt
    malformed = 32
    _, diagnostics = trt.Runtime(trt.Logger()).get_engine_validity(bytes(plan))
    return int(diagnostics) & malformed == 0


def refusal(layers: str, shapes: Shapes, blobs: Blobs | None = None) -> str:
    """What the user reads when such a net is refused."""
    return failure(lambda: rewritten(layers, shapes, blobs))


def failure(attempt: Callable[[], object], kind: type[ConversionError] = ConversionError) -> str:
    """What the user reads when this fails."""
    with pytest.raises(kind) as caught:
        attempt()
    return told(str(caught.value))


def told(message: str) -> str:
    """A message, or a warning, without the folder of the net."""
    return re.sub(r'[^\s"]*/(?=net\.)', "", message)
