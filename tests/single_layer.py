"""Nets of one layer, to try its corners: with inputs and blobs made up here, on every way of running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.caffemodel_writer import write
from prototrt.caffe_proto.errors import ConversionError
from prototrt.converter.tensorrt.api import find_backend
from prototrt.surgery.ir import Array, Graph

WAYS = ["reference", pytest.param("network", marks=pytest.mark.trt), "onnx"]


@dataclass(frozen=True)
class Case:
    """One layer called "op": its fields, what it is given, and what real Caffe's formula gives."""

    note: str
    type: str
    fields: str
    bottoms: Sequence[Any]
    expected: Any
    blobs: Sequence[Any] = field(default=())
    rtol: float = 1e-5
    atol: float = 1e-6

    def __str__(self) -> str:
        return f"{self.type}-{self.note.replace(' ', '_')}"


def float32(values: Any) -> Array:
    return np.asarray(values, np.float32)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def net_text(layer_type: str, fields: str, shapes: Sequence[Sequence[int]], tops: int = 1) -> str:
    """A net of inputs ``b0``, ``b1``, ... (a line each) and the layer "op" with tops ``y0``, ``y1``, ..."""
    inputs = "".join(
        f'layer {{ name: "b{index}" type: "Input" top: "b{index}"'
        f" input_param {{ shape {{ {' '.join(f'dim: {dim}' for dim in shape)} }} }} }}\n"
        for index, shape in enumerate(shapes)
    )
    bottoms = " ".join(f'bottom: "b{index}"' for index in range(len(shapes)))
    written = " ".join(f'top: "y{index}"' for index in range(tops))
    return f'{inputs}layer {{ name: "op" type: "{layer_type}" {bottoms} {written}\n{fields} }}\n'


def graph_of(
    folder: Path,
    layer_type: str,
    fields: str,
    shapes: Sequence[Sequence[int]],
    blobs: Sequence[Any] = (),
    tops: int = 1,
    batches: tuple[int, int] | None = None,
) -> Graph:
    """The graph of a net of one layer. Without ``blobs`` no weights are given.

    ``batches`` are the smallest and the largest size of axis 0 of the first input.
    """
    prototxt, weights = folder / "net.prototxt", folder / "net.caffemodel"
    prototxt.write_text(net_text(layer_type, fields, shapes, tops))
    if blobs:
        write(weights, {"op": [float32(blob) for blob in blobs]})
    model = prototrt.load(prototxt, weights if blobs else None)
    least, most = ({"b0": (size, *shapes[0][1:])} for size in batches) if batches else (None, None)
    outputs = [f"y{index}" for index in range(tops)]
    return prototrt.rewrite(model, outputs=outputs, min_shapes=least, max_shapes=most)


def case_graph(case: Case, folder: Path, batches: tuple[int, int] | None = None) -> Graph:
    shapes = [float32(bottom).shape for bottom in case.bottoms]
    return graph_of(folder, case.type, case.fields, shapes, case.blobs, batches=batches)


def check_case(case: Case, folder: Path, on: str, batches: tuple[int, int] | None = None) -> None:
    """What the case expects comes out. With ``batches`` axis 0 is not known before it runs."""
    session = prototrt.Session(case_graph(case, folder, batches), on=on)
    found = session.run({f"b{index}": float32(bottom) for index, bottom in enumerate(case.bottoms)})["y0"]
    expected = float32(case.expected)
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=case.rtol, atol=case.atol)


def check_builds(case: Case, folder: Path, batches: tuple[int, int] | None = None) -> None:
    """An engine comes out, too."""
    plan = prototrt.build(case_graph(case, folder, batches), backend="rtx")
    trt = find_backend("rtx").trt
    _, diagnostics = trt.Runtime(trt.Logger()).get_engine_validity(bytes(plan.plan))
    malformed = 32
    assert int(diagnostics) & malformed == 0


def refusal(
    folder: Path,
    layer_type: str,
    fields: str,
    shapes: Sequence[Sequence[int]],
    blobs: Sequence[Any] = (),
    tops: int = 1,
) -> str:
    """The message with which the net is refused, without the folder's name."""
    with pytest.raises(ConversionError) as raised:
        graph_of(folder, layer_type, fields, shapes, blobs, tops)
    return str(raised.value).replace(f"{folder}/", "")
