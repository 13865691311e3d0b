"""Whatever is written is the same, byte for byte, in another process.

Processes differ in the seed of Python's hashes, which orders sets, and in the addresses of objects. Durations are
left out, and the differences that a verification measures. Plans: see docs/batch.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.weights import drop_pages, place_in_file
from prototrt.converter.files.companions import manifest
from prototrt.converter.files.companions.manifest import sha256_of_graph
from prototrt.surgery.ir import Array, Graph, Value
from prototrt.tests.fresh_python import ROOT, run_python
from prototrt.tests.tools.random_caffemodel import write_random

CAFFE, FORKS, CAFFE2 = (ROOT / "tests" / "goldens" / name for name in ("caffe", "forks", "caffe2"))
DIGITS = ROOT / "samples" / "digits"
DEPLOY, WEIGHTS = DIGITS / "deploy.prototxt", DIGITS / "digits.caffemodel"
LSTM = CAFFE / "lstm_t20" / "model.prototxt"
SEEDS = (0, 1)

COMMANDS: dict[str, list[str | Path]] = {
    "loop as ONNX": ["convert", DEPLOY, WEIGHTS, "-o", "loop.onnx"],
    "steps as ONNX": ["convert", LSTM, "--random-weights", "1", "--sequence", "unroll", "-o", "steps.onnx"],
    "half precision as ONNX": ["convert", DEPLOY, WEIGHTS, "--precision", "fp16", "-o", "half.onnx"],
    "detector as ONNX": [
        "convert",
        FORKS / "net_ssd" / "model.prototxt",
        "--random-weights",
        "1",
        "-o",
        "ssd.onnx",
    ],
    "Caffe2 as ONNX": [
        "convert",
        CAFFE2 / "custom_tanh_rnn" / "predict_net.pb",
        CAFFE2 / "custom_tanh_rnn" / "init_net.pb",
        "--shape",
        "data:5x2x4",
        "--shape",
        "h0:1x2x3",
        "-o",
        "rnn.onnx",
    ],
    "graph": ["inspect", DEPLOY, "--stage", "lowered"],
    "table": ["inspect", DEPLOY, "--json"],
    "drawing": ["dot", DEPLOY, "-o", "net.dot"],
    "drawing of the graph": ["dot", DEPLOY, "--stage", "lowered", "-o", "graph.dot"],
    "deploy net": [
        "deploy",
        DIGITS / "train_val.prototxt",
        "--shape",
        "data:40x1x32x16",
        "--shape",
        "cont:40x1",
        "-o",
        "deploy.prototxt",
    ],
    "survey": ["survey", CAFFE2 / "lstm_basic", DIGITS, "-o", "survey.json", "--json"],
    "layers": ["layers", "--json"],
    "batch": [
        "batch",
        "models.yaml",
        "-o",
        "made",
        "--jobs",
        "1",
        "--keep-going",
        "--quiet",
        "--report-json",
        "report.json",
        "--report-md",
        "report.md",
        "--report-junit",
        "report.xml",
    ],
}
LIST = f"""
defaults: {{format: onnx, random_weights: 1}}
models:
  - {{name: digits, prototxt: {DEPLOY}, matrix: {{sequence: [loop, unroll]}}}}
  - {{name: relu6, prototxt: {FORKS}/relu6/model.prototxt}}
  - {{name: missing, prototxt: missing.prototxt}}
"""
MADE = ("digits-loop", "digits-unroll", "relu6")
PROGRAM = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from prototrt.cli import main
for name, arguments in json.loads(Path(sys.argv[1]).read_text()).items():
    result = CliRunner().invoke(main, arguments, prog_name="prototrt")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    Path(f"{name}.txt").write_text(f"{result.exit_code}\\n{result.output}")
"""
DURATIONS = re.compile(rb'"seconds": [\d.]+|"began": "[^"]+"|time(?:stamp)?="[^"]+"|\b\d+\.\d+ (?:s|\|)')


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Mapping[str, bytes]]:
    """By the seed of a process, what it printed and every file that it wrote."""
    pytest.importorskip("onnx", reason="writes ONNX models")
    commands = tmp_path_factory.mktemp("commands") / "commands.json"
    commands.write_text(json.dumps(COMMANDS, default=str))
    return {seed: files_of(tmp_path_factory.mktemp("seed"), commands, seed) for seed in SEEDS}


def files_of(folder: Path, commands: Path, seed: int) -> dict[str, bytes]:
    (folder / "models.yaml").write_text(LIST)
    run_python("-c", PROGRAM, commands, cwd=folder, variables={"PYTHONHASHSEED": str(seed)})
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): DURATIONS.sub(b"", path.read_bytes()) for path in paths}


@pytest.mark.slow
def test_every_command_wrote(written: Mapping[int, Mapping[str, bytes]]) -> None:
    files = written[0]
    exits = {name: files[f"{name}.txt"].split(b"\n")[0] for name in COMMANDS}
    assert exits == dict.fromkeys(COMMANDS, b"0") | {"batch": b"3"}
    named = [
        word for command in COMMANDS.values() for word in command if re.fullmatch(r"\w+\.\w+", str(word))
    ]
    assert set(map(str, named)) <= set(files)
    assert {name for name in files if name.startswith("made/")} == {
        f"made/{name}{suffix}" for name in MADE for suffix in (".onnx", ".onnx.json")
    }


@pytest.mark.slow
def test_files_and_outputs_are_the_same_byte_for_byte(written: Mapping[int, Mapping[str, bytes]]) -> None:
    first, *others = written.values()
    for other in others:
        assert set(other) == set(first)
        assert [name for name in first if other[name] != first[name]] == []


SIZES = {"x": (20, 2, 5), "cont": (20, 2)}
SMALLEST = {"x": (1, 2, 5), "cont": (1, 2)}

BUILDS: Sequence[Mapping[str, Any]] = [
    {"precision": "fp32"},
    {"precision": "fp16"},
    {"min_shapes": SMALLEST, "max_shapes": SIZES},
]
BUILD = """
import json, sys
import prototrt
model = prototrt.load(sys.argv[1], random_weights=1)
for options in json.loads(sys.argv[2]):
    plan = prototrt.build(prototrt.rewrite(model, sequence="loop", **options), backend="rtx")
    print(plan.sha256, plan.manifest["graph"]["sha256"])
"""


@pytest.mark.exhaustive
@pytest.mark.trt
@pytest.mark.slow
def test_plans_are_the_same_byte_for_byte() -> None:
    """With open sizes, TensorRT orders the computations of sizes by addresses: their graphs are the same."""
    runs = [
        run_python("-c", BUILD, LSTM, json.dumps(BUILDS), variables={"PYTHONHASHSEED": str(seed)})
        for seed in SEEDS
    ]
    found = [[line.split() for line in done.stdout.splitlines()] for done in runs]
    *fixed, opened = zip(*found, strict=True)
    assert len(fixed) == 2
    for plans in fixed:
        assert plans == (plans[0],) * len(SEEDS)
    assert len({graph for _, graph in opened}) == 1


def graph_of(seed: int = 1, **options: Any) -> Graph:
    return prototrt.rewrite(prototrt.load(LSTM, random_weights=seed), **options)


def test_the_hash_of_a_graph_tells_apart_what_differs() -> None:
    """Weights, attributes, sizes that vary, and names."""
    longer = {"x": (30, 2, 5), "cont": (30, 2)}
    graphs = [
        graph_of(),
        graph_of(seed=2),
        graph_of(sequence="unroll"),
        graph_of(state="zero"),
        graph_of(min_shapes=SMALLEST, max_shapes=SIZES),
        graph_of(min_shapes=SMALLEST, max_shapes=longer),
    ]
    hashes = [sha256_of_graph(graph) for graph in graphs]
    assert len(set(hashes)) == len(graphs)
    assert sha256_of_graph(graph_of()) == hashes[0]


def test_the_hash_of_a_graph_depends_on_numbers_and_not_on_their_layout() -> None:
    graph = graph_of()

    def in_columns(value: Value) -> Value:
        return value if value.data is None else replace(value, data=np.asfortranarray(value.data))

    nodes = [replace(node, inputs=tuple(map(in_columns, node.inputs))) for node in graph.nodes]
    data = [value.data for node in nodes for value in node.inputs if value.data is not None]
    assert not all(array.flags.c_contiguous for array in data)
    assert sha256_of_graph(graph.with_nodes(nodes)) == sha256_of_graph(graph)


LARGE = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2048 dim: 1 dim: 1 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "c"
  convolution_param { num_output: 2100 kernel_size: 1 bias_term: false } }
layer { name: "s" type: "Scale" bottom: "c" top: "s" }
"""


def test_the_hash_of_a_graph_takes_large_weights_from_that_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a pass made, and those of small files, are read."""
    net, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    net.write_text(LARGE)
    write_random(weights, net)
    read = []

    def pieces(array: Array) -> list[bytes]:
        read.append(array.nbytes)
        return [array.tobytes()]

    monkeypatch.setattr(manifest, "_pieces", pieces)

    def sha256() -> str:
        return sha256_of_graph(prototrt.rewrite(prototrt.load(net, weights)))

    first = sha256()
    assert sha256() == first
    assert max(read) < 2048 * 2100 * 4
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert sha256() != first


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the facts of a process on Linux")
def test_pages_of_mapped_weights_can_be_dropped(tmp_path: Path) -> None:
    net, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    net.write_text(LARGE)
    write_random(weights, net)
    graph = prototrt.rewrite(prototrt.load(net, weights))
    (kernel,) = (
        value.array for value in graph.nodes[0].inputs if value.data is not None and value.data.ndim == 4
    )
    file, offset = place_in_file(kernel) or (None, 0)
    assert file is not None
    assert weights.read_bytes()[offset : offset + kernel.nbytes] == kernel.tobytes()
    before = kernel.copy()
    resident = resident_bytes()
    drop_pages(kernel)
    assert resident_bytes() < resident - kernel.nbytes // 2
    assert np.array_equal(kernel, before)


def resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
