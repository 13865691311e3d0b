"""Files of every kind, each written by a function of its path."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.weights.state_dict import write_state_dict
from prototrt.converter.backends.onnx import file as onnx_file
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, done
from prototrt.tests.converter.serving.deepstream.test_deepstream import CLUSTERS, written
from prototrt.tests.golden_cases import GOLDENS

CAFFE2 = GOLDENS / "caffe2" / "lstm_basic"
MINIDB = GOLDENS / "caffe2" / "lstm_minidb"


def blob(*shape: int) -> Any:
    message = message_class("BlobProto")()
    message.shape.dim.extend(shape)
    message.data.extend(range(int(np.prod(shape))))
    return message


def v1(path: Path) -> None:
    net = message_class("NetParameter")(name="old")
    net.layers.add(name="conv", type=4).blobs.append(blob(2, 3))
    path.write_bytes(net.SerializeToString())


def v0(path: Path) -> None:
    net = message_class("NetParameter")(name="older")
    layer = net.layers.add().layer
    layer.name, layer.type = "ip", "innerproduct"
    layer.blobs.append(blob(5))
    path.write_bytes(net.SerializeToString())


def mean(path: Path) -> None:
    message = message_class("BlobProto")(num=1, channels=2, height=1, width=2)
    message.data.extend([1, 3, 5, 9])
    path.write_bytes(message.SerializeToString())


def solver_state(path: Path) -> None:
    history = blob(3).SerializeToString()
    iteration, weights = b"\x08\xbc\x05", b"\x12\x12net_700.caffemodel"
    path.write_bytes(iteration + weights + b"\x1a" + bytes([len(history)]) + history)


def onnx(path: Path) -> None:
    prototrt.export_onnx(prototrt.rewrite(prototrt.load(DEPLOY, WEIGHTS)), path)


def hdf5(path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(path, "w") as store:
        store["data/conv/0"] = np.zeros((2, 3), np.float32)


def hdf5_data(path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(path, "w") as store:
        store["images"] = np.zeros((2, 3), np.float32)
        store["elsewhere"] = h5py.ExternalLink("/etc/passwd", "x")


def plan(path: Path) -> None:
    path.write_bytes(b"vtrt".ljust(4096, b"\0"))


def plan_with_manifest(path: Path) -> None:
    plan(path)
    Path(f"{path}.json").write_text(json.dumps({**MANIFEST, "plan": {"bytes": 4096}}))


MANIFEST = {
    "format": 1,
    "tool": {"name": "prototrt", "version": "0.3.0"},
    "network": "net",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": ["N", 3], "profile": {"N": [1, 2, 4]}},
        {"name": "h_0", "dtype": "float32", "shape": [1], "profile": {}},
    ],
    "outputs": [
        {"name": "y", "dtype": "float32", "shape": [1], "profile": {}},
        {"name": "h_T", "dtype": "float32", "shape": [1], "profile": {}},
    ],
    "recurrences": [{"input": "h_0", "output": "h_T"}],
}
FACTS_OF_MANIFEST = {
    "inputs": ["x float32 [N]x3", "h_0 float32 1"],
    "outputs": ["y float32 1", "h_T float32 1"],
    "sizes": "N is 1 to 4, usually 2",
    "state": ["h_T -> h_0"],
}
SCALES = {
    "format": 1,
    "network": "net",
    "method": "max",
    "sources": {},
    "data": [],
    "blobs": {"x": {"scale": 0.5}},
}


@cache
def content(name: str, act: Callable[[Path], object]) -> bytes:
    """A file that a command writes into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        act(Path(folder))
        return Path(folder, name).read_bytes()


def made(name: str, act: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content(name, act))


def converted(name: str, **options: Any) -> Callable[[Path], object]:
    return lambda folder: prototrt.convert(DEPLOY, WEIGHTS, folder / name, **options)


def with_weights_outside(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_file, "EXTERNAL_FROM", 0)
        converted("net.onnx")(folder)


def with_header(folder: Path) -> None:
    converted("net.py", emit_header=str(folder / "net.h"))(folder)


def served(folder: Path) -> None:
    done("triton", STREAM, WEIGHTS, "-o", str(folder), "--platform", "python", "--name", "m")


def detector(folder: Path) -> None:
    written(CLUSTERS, folder)


def new_rule(folder: Path) -> None:
    (folder / "net.prototxt").write_text(
        'layer { name: "d" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }\n'
        'layer { name: "m" type: "Mystery" bottom: "x" top: "y" }\n'
    )
    done("new-rule", str(folder / "net.prototxt"), "m", "-o", str(folder / "rules.py"))


def drawn(name: str) -> Callable[[Path], object]:
    return lambda folder: done("dot", DEPLOY, "-o", str(folder / name))


def listed(folder: Path) -> None:
    (folder / "models.yaml").write_text(
        f"models: [{{ prototxt: {Path(DEPLOY).resolve()}, weights: {Path(WEIGHTS).resolve()}, format: onnx }}]"
    )
    reports = ("--report-md", str(folder / "r.md"), "--report-junit", str(folder / "r.xml"))
    done("batch", str(folder / "models.yaml"), "-o", str(folder / "out"), *reports)


def texts(content: object) -> Callable[[Path], object]:
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda path: path.write_text(text)


def copy_of(source: str | Path) -> Callable[[Path], object]:
    return lambda path: shutil.copy(source, path)


def arrays(**named: tuple[int, ...]) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with path.open("wb") as stream:
            np.savez(stream, **{name.replace("_", "/"): np.zeros(shape) for name, shape in named.items()})  # type: ignore[arg-type]  # numpy's stub wants flags there

    return write


def arrays_of_pytorch(path: Path) -> None:
    with path.open("wb") as stream:
        write_state_dict(stream, {"fc.bias": np.zeros(3, np.float32)})


def array(path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, np.zeros((2, 3), np.float32))


def kernels(path: Path) -> None:
    path.write_bytes(bytes(range(256)))
