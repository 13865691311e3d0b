"""Runs nets with real Caffe: a line of JSON in for each net, a line of JSON out.

It is handed to the Python that has Caffe as text, by ``python3 -c``, so that this may be one in a container;
what it knows of this project are the lines alone. Each net has a process of its own, since Caffe ends the
process where it refuses.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
from typing import Any

import numpy as np

try:
    import caffe  # type: ignore[import-not-found]  # it is not in our environment
except ImportError as error:
    sys.exit(f"CAFFE_PYTHON has no Caffe: {error}")


def array(sent: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(sent["data"]), np.float32).reshape(sent["shape"])


def sent(array: Any) -> dict[str, Any]:
    return {"shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def fill(net: Any, seed: int) -> None:
    """Random weights. Variances are positive, and the factor that divides them may be 0."""
    random = np.random.RandomState(seed)
    for layer in net.layers:
        for index, blob in enumerate(layer.blobs):
            blob.data[...] = random.uniform(-1, 1, blob.data.shape)
            if layer.type == "BatchNorm" and index == 1:
                blob.data[...] = random.uniform(0.1, 2, blob.data.shape)
            if layer.type == "BatchNorm" and index == 2:
                blob.data[...] = random.choice([0, 1, 2.5])


def run(folder: str, request: dict[str, Any]) -> dict[str, Any]:
    """The outputs of each call and the weights, as a caffemodel."""
    with open(f"{folder}/net.prototxt", "w") as file:
        file.write(request["net"])
    net = caffe.Net(f"{folder}/net.prototxt", caffe.TEST)
    if request["weights"] is None:
        fill(net, request["seed"])
    else:
        with open(f"{folder}/given.caffemodel", "wb") as weights:
            weights.write(base64.b64decode(request["weights"]))
        net.copy_from(f"{folder}/given.caffemodel")
    net.save(f"{folder}/net.caffemodel")
    calls = []
    for inputs in request["calls"]:
        for name, given in inputs.items():
            net.blobs[name].data[...] = array(given)
        net.forward()
        calls.append({name: sent(net.blobs[name].data) for name in net.outputs})
    with open(f"{folder}/net.caffemodel", "rb") as weights:
        return {"calls": calls, "weights": base64.b64encode(weights.read()).decode()}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:
            log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 2)
            result = run(folder, request)
            with open(f"{folder}/result", "w") as file:
                json.dump(result, file)
            os._exit(0)
        os.waitpid(child, 0)
        if not os.path.exists(f"{folder}/result"):
            with open(f"{folder}/log", errors="replace") as file:
                return {"refused": "".join(line for line in file if not line.startswith("I"))}
        with open(f"{folder}/result") as file:
            found: dict[str, Any] = json.load(file)
            return found


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
