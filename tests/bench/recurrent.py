"""One build of an LSTM net: as prototrt rewrites it, or from ONNX by TensorRT's own parser."""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from prototrt.tests.bench.measuring import peak_rss, report

HIDDEN = 256
VARIANTS = ("plain", "cont", "two layers", "both directions")


def main(way: str, variant: str, steps: str) -> None:
    builder, network, _kept = (ours if way == "prototrt" else through_onnx)(variant, int(steps))
    config = builder.create_builder_config()
    wall, cpu = time.perf_counter(), time.process_time()
    plan = builder.build_serialized_network(network, config)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    facts = {"layers": network.num_layers, "bytes": plan.nbytes}
    report({**facts, "wall": wall, "cpu": cpu, "rss": peak_rss()})


def ours(variant: str, steps: int) -> tuple[Any, Any, object]:
    """A builder, the network that prototrt makes, and what holds its weights."""
    import prototrt
    from prototrt.converter.backends.tensorrt.api import find_backend
    from prototrt.converter.backends.tensorrt.builder import network_of

    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(net(variant, steps))
        file.flush()
        model = prototrt.load(file.name, random_weights=1)
        graph = prototrt.rewrite(model, cont="keep" if variant == "cont" else "drop", sequence="loop")
    network = network_of(graph, find_backend("rtx"))
    return network.builder, network.definition, network


def net(variant: str, steps: int) -> str:
    """The prototxt; T steps of one sequence of HIDDEN numbers."""
    inputs = f"""
        layer {{ name: "x" type: "Input" top: "x"
                 input_param {{ shape {{ dim: {steps} dim: 1 dim: {HIDDEN} }} }} }}
        layer {{ name: "cont" type: "Input" top: "cont"
                 input_param {{ shape {{ dim: {steps} dim: 1 }} }} }}"""
    field = " bidirectional: CONCAT" if variant == "both directions" else ""
    names = ("x", "lstm1", "lstm2") if variant == "two layers" else ("x", "lstm1")
    layers = [
        f"""
        layer {{ name: "{top}" type: "LSTM" bottom: "{bottom}" bottom: "cont" top: "{top}"
                 recurrent_param {{ num_output: {HIDDEN}{field} }} }}"""
        for bottom, top in pairwise(names)
    ]
    return inputs + "".join(layers)


def through_onnx(variant: str, steps: int) -> tuple[Any, Any, object]:
    """A builder, the network that TensorRT's parser makes of the same layers in ONNX, and its weights."""
    trt: Any = importlib.import_module("tensorrt_rtx")
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    model = onnx_model(variant, steps)
    assert parser.parse(model), [parser.get_error(index).desc() for index in range(parser.num_errors)]
    return builder, network, (logger, parser, model)


def onnx_model(variant: str, steps: int) -> bytes:
    """The same layers in ONNX, with states as inputs and outputs, as in prototrt's networks."""
    return scan_with_cont(steps) if variant == "cont" else lstm_nodes(variant, steps)


def lstm_nodes(variant: str, steps: int) -> bytes:
    """LSTM nodes, which know no cont."""
    from onnx import TensorProto, helper

    ways = 2 if variant == "both directions" else 1
    x, state = (steps, 1, HIDDEN), (ways, 1, HIDDEN)
    inputs: dict[str, tuple[int, ...]] = {"x": x}
    outputs: dict[str, tuple[int, ...]] = {}
    nodes = []
    layers = 2 if variant == "two layers" else 1
    constants = [helper.make_tensor("joined", TensorProto.INT64, [3], [steps, 1, ways * HIDDEN])]
    y = "x"
    for index in range(layers):
        made, arrays = onnx_lstm(index, y, ways)
        nodes += made
        constants += arrays
        inputs |= {f"h_0_{index}": state, f"c_0_{index}": state}
        outputs |= {f"h_T_{index}": state, f"c_T_{index}": state}
        y = f"y{index}"
    outputs[y] = (steps, 1, ways * HIDDEN)
    return _serialized(nodes, inputs, outputs, constants)


def onnx_lstm(index: int, x: str, ways: int) -> tuple[list[Any], list[Any]]:
    """An LSTM and the joining of its directions: (T, ways, N, H) becomes (T, N, ways * H)."""
    from onnx import helper, numpy_helper

    random = np.random.default_rng(index)
    shapes = {"W": (ways, 4 * HIDDEN, HIDDEN), "R": (ways, 4 * HIDDEN, HIDDEN), "B": (ways, 8 * HIDDEN)}
    arrays = {f"{name}{index}": random.standard_normal(shape) / 16 for name, shape in shapes.items()}
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    read = [x, *arrays, "", f"h_0_{index}", f"c_0_{index}"]
    written = [f"raw{index}", f"h_T_{index}", f"c_T_{index}"]
    direction = "bidirectional" if ways == 2 else "forward"
    return [
        helper.make_node("LSTM", read, written, hidden_size=HIDDEN, direction=direction),
        helper.make_node("Transpose", [f"raw{index}"], [f"turned{index}"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", [f"turned{index}", "joined"], [f"y{index}"]),
    ], constants


def scan_with_cont(steps: int) -> bytes:
    """A Scan whose body is an LSTM's step, in as few ONNX nodes as possible.

    x is multiplied in the body, as in ONNX's LSTM: TensorRT takes that out of the loop, and
    its plan is smaller than that of a product before the Scan.
    """
    from onnx import TensorProto, helper, numpy_helper

    row, gates = (1, HIDDEN), ["i", "f", "o", "g"]
    lines = [
        ("MatMul", ["x_t", "W"], ["transformed"]),
        ("Add", ["transformed", "b"], ["x_sum"]),
        ("Mul", ["h", "cont_t"], ["h_kept"]),
        ("MatMul", ["h_kept", "R"], ["recurrent"]),
        ("Add", ["x_sum", "recurrent"], ["sum"]),
        ("Split", ["sum"], [f"{gate}_sum" for gate in gates]),
        *(("Sigmoid", [f"{gate}_sum"], [gate]) for gate in gates[:3]),
        ("Tanh", ["g_sum"], ["g"]),
        ("Mul", ["c", "cont_t"], ["c_kept"]),
        ("Mul", ["f", "c_kept"], ["kept"]),
        ("Mul", ["i", "g"], ["written"]),
        ("Add", ["kept", "written"], ["c_new"]),
        ("Tanh", ["c_new"], ["shown"]),
        ("Mul", ["o", "shown"], ["h_new"]),
        ("Identity", ["h_new"], ["y_t"]),
    ]
    options: dict[str, dict[str, Any]] = {"Split": {"axis": -1, "num_outputs": 4}}
    step = [helper.make_node(kind, read, written, **options.get(kind, {})) for kind, read, written in lines]
    elements = {"h": row, "c": row, "x_t": row, "cont_t": (1, 1)}
    body = helper.make_graph(
        step, "step", _declared(elements), _declared(dict.fromkeys(["h_new", "c_new", "y_t"], row))
    )
    random = np.random.default_rng(0)
    shapes = {"W": (HIDDEN, 4 * HIDDEN), "R": (HIDDEN, 4 * HIDDEN), "b": (4 * HIDDEN,)}
    arrays = {name: (random.standard_normal(shape) / 16).astype(np.float32) for name, shape in shapes.items()}
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    constants += [
        helper.make_tensor(name, TensorProto.INT64, [1], [axis]) for name, axis in (("first", 0), ("last", 2))
    ]
    nodes = [
        helper.make_node("Unsqueeze", ["cont", "last"], ["delta"]),
        helper.make_node("Squeeze", ["h_0", "first"], ["h_start"]),
        helper.make_node("Squeeze", ["c_0", "first"], ["c_start"]),
        helper.make_node(
            "Scan",
            ["h_start", "c_start", "x", "delta"],
            ["h_end", "c_end", "y"],
            num_scan_inputs=2,
            body=body,
        ),
        helper.make_node("Unsqueeze", ["h_end", "first"], ["h_T"]),
        helper.make_node("Unsqueeze", ["c_end", "first"], ["c_T"]),
    ]
    x, state = (steps, 1, HIDDEN), (1, 1, HIDDEN)
    inputs = {"x": x, "cont": (steps, 1), "h_0": state, "c_0": state}
    return _serialized(nodes, inputs, {"y": x, "h_T": state, "c_T": state}, constants)


def _serialized(
    nodes: list[Any],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: Mapping[str, tuple[int, ...]],
    constants: list[Any],
) -> bytes:
    from onnx import helper

    graph = helper.make_graph(nodes, "lstm", _declared(inputs), _declared(outputs), constants)
    opsets = [helper.make_opsetid("", 18)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def _declared(tensors: Mapping[str, tuple[int, ...]]) -> list[Any]:
    from onnx import TensorProto, helper

    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in tensors.items()]


if __name__ == "__main__":
    main(*sys.argv[2:])
