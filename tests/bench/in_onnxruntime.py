"""A model in onnxruntime, written in two ways: suppression and recurrence as primitives, or as ONNX's own operators."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import prototrt
from prototrt.tests.bench.measuring import report

PRIORS, CLASSES, KEPT = 8732, 81, 200
STEPS, HIDDEN = 128, 256
NETS = {
    "SSD-300 with 81 classes": f"""
layer {{ name: "in" type: "Input" top: "loc" top: "conf" top: "priors" input_param {{
  shape {{ dim: 1 dim: {4 * PRIORS} }} shape {{ dim: 1 dim: {CLASSES * PRIORS} }}
  shape {{ dim: 1 dim: 2 dim: {4 * PRIORS} }} }} }}
layer {{ name: "out" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "priors" top: "out"
  detection_output_param {{ num_classes: {CLASSES} background_label_id: 0 code_type: CENTER_SIZE
    keep_top_k: {KEPT} confidence_threshold: 0.01 nms_param {{ nms_threshold: 0.45 top_k: 400 }} }} }}
""",
    "LSTM of 128 steps, 256 hidden": f"""
layer {{ name: "in" type: "Input" top: "x" input_param {{ shape {{ dim: {STEPS} dim: 1 dim: {HIDDEN} }} }} }}
layer {{ name: "in2" type: "Input" top: "cont" input_param {{ shape {{ dim: {STEPS} dim: 1 }} }} }}
layer {{ name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param {{ num_output: {HIDDEN} }} }}
""",
}
WAYS = ("primitives", "operators")


def feeds(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Boxes around a grid of places, of which a few have a class; numbers of both signs for the rest."""
    draw = np.random.default_rng(0)
    arrays = {name: draw.standard_normal(shape).astype(np.float32) * 0.1 for name, shape in shapes.items()}
    if "conf" in arrays:
        scores = np.exp(3 * draw.standard_normal((PRIORS, CLASSES)))
        scores[:, 0] += 300 * draw.random(PRIORS)
        arrays["conf"] = (scores / scores.sum(1, keepdims=True)).astype(np.float32).reshape(shapes["conf"])
        centres, sides = draw.random((PRIORS, 2)), 0.05 + 0.3 * draw.random((PRIORS, 2))
        corners = np.hstack([centres - sides / 2, centres + sides / 2])
        variances = np.tile([0.1, 0.1, 0.2, 0.2], (PRIORS, 1))
        arrays["priors"] = np.stack([corners.ravel(), variances.ravel()])[None].astype(np.float32)
    return arrays


def main(net: str, way: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / "net.prototxt", Path(folder) / "net.onnx"
        file.write_text(NETS[net])
        is_native = way == "operators"
        loaded = prototrt.load(file, random_weights=0)
        if "DetectionOutput" in NETS[net]:
            graph = prototrt.rewrite(loaded, nms="native" if is_native else "primitives")
        else:
            graph = prototrt.rewrite(loaded, cont="drop", state="zero")
        prototrt.export_onnx(graph, model, onnx_lstm=is_native)
        session = prototrt.Session(str(model))
    inputs = feeds({value.name: value.shape for value in graph.inputs})  # type: ignore[misc]  # fixed sizes
    session.run(inputs)
    calls, wall, cpu = 5, time.perf_counter(), time.process_time()
    for _ in range(calls):
        session.run(inputs)
    report(
        {
            "ms": 1e3 * (time.perf_counter() - wall) / calls,
            "cpu": 1e3 * (time.process_time() - cpu) / calls,
        }
    )


if __name__ == "__main__":
    main(*sys.argv[2:])
