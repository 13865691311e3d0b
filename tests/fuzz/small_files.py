"""Files beside a net: state dicts, scales, tables of other programs, results of ``verify``."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import prototrt
from prototrt.caffe_proto.weights.state_dict import write_state_dict
from prototrt.converter.checking.calibration.calibration import Calibration, adopt, merge
from prototrt.converter.checking.calibration.exporting import table_text
from prototrt.converter.front.parameters.files import read_arrays
from prototrt.surgery.scales.scales_file import INT8, Counts, DataSet, Scales, ValueScale
from prototrt.tests.small_nets import loaded

GOLDENS = Path(__file__).parents[1] / "goldens"
NET = """
    layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 3 } } }
    layer { name: 'p' type: 'Power' bottom: 'x' top: 'p' power_param { scale: 2 } }
    layer { name: 'fc' type: 'InnerProduct' bottom: 'p' top: 'y' inner_product_param { num_output: 2 } }
"""
RNN = """
    layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 5 dim: 2 dim: 4 } } }
    layer { name: 'cont' type: 'Input' top: 'cont' input_param { shape { dim: 5 dim: 2 } } }
    layer { name: 'rnn' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'h' recurrent_param { num_output: 3 } }
"""
_STORAGE = bytes(4 * 144)


def _net(folder: Path) -> prototrt.Model:
    return loaded(folder, NET, {"fc/0": np.ones((2, 3), np.float32), "fc/1": np.zeros(2, np.float32)})


def _recurrent(folder: Path) -> prototrt.Model:
    shapes = ((12, 4), (12,), (12, 3))
    return loaded(
        folder, RNN, {f"rnn/{place}": np.zeros(shape, np.float32) for place, shape in enumerate(shapes)}
    )


def state(folder: Path, data: bytes) -> None:
    """Read the pickle of a state dict, whose storages are all alike, and set the weights of an LSTM by it."""
    file = folder / "state.pt"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        for key in range(6):
            archive.writestr(f"archive/data/{key}", _STORAGE)
    for array in read_arrays(file).values():
        assert array.size <= len(_STORAGE)
    prototrt.set_weights(_recurrent(folder), file, folder / "out.caffemodel")


def states() -> Iterator[tuple[str, bytes]]:
    """What PyTorch saved, and what is written here."""
    with zipfile.ZipFile(GOLDENS / "cudnn" / "lstm_1l" / "checkpoint.pt") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        yield "checkpoint", archive.read(name)
    stream = io.BytesIO()
    shapes = {"weight_ih_l0": (12, 4), "weight_hh_l0": (12, 3), "bias_ih_l0": (12,), "bias_hh_l0": (12,)}
    write_state_dict(stream, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    yield "written", zipfile.ZipFile(stream).read("archive/data.pkl")


def safetensors(folder: Path, data: bytes) -> None:
    """Read the header of a safetensors file, and set the weights of an LSTM by it."""
    file = folder / "state.safetensors"
    file.write_bytes(len(data).to_bytes(8, "little") + data + _STORAGE)
    for array in read_arrays(file).values():
        assert array.nbytes <= 2 * len(_STORAGE)
    prototrt.set_weights(_recurrent(folder), file, folder / "out.caffemodel")


def headers() -> Iterator[tuple[str, bytes]]:
    """All numbers at the beginning of the data."""
    shapes = {"weight_ih_l0": [12, 4], "weight_hh_l0": [12, 3], "bias_ih_l0": [12], "bias_hh_l0": [12]}
    for kind, size in (("F32", 4), ("BF16", 2), ("F64", 8)):
        facts = {
            name: {"dtype": kind, "shape": shape, "data_offsets": [0, size * int(np.prod(shape))]}
            for name, shape in shapes.items()
        }
        yield kind, json.dumps({"__metadata__": {}, **facts}).encode()


def scales(folder: Path, data: bytes) -> None:
    """Read a file of scales, quantize by it, and join it with itself and a sound one."""
    file, sound = folder / "scales.json", folder / "sound.json"
    file.write_bytes(data)
    sound.write_text(_scales().text())
    _used(folder, adopt(_net(folder), str(file), None))
    for pair, method in {
        (file, file): "entropy",
        (file, sound): "max",
        (sound, file): "percentile:99",
    }.items():
        merge([*map(str, pair)], method).scales.text()


def _used(folder: Path, calibration: Calibration) -> None:
    """Quantize, write the tables of other programs, and the file again."""
    calibration.scales.text()
    net = _net(folder)
    prototrt.rewrite(net, precision="int8", quantize_all=True, scales=calibration)
    numbers = {name: record.scale for name, record in calibration.scales.records.items()}
    for name in ("net.table", "net.json", "net.cache"):
        table_text(net, numbers, name)


def _scales() -> Scales:
    counts = Counts(2.0**-5, (0,) * 4064 + (3,))
    return Scales({"p": ValueScale(127 / INT8, 127.0, 0.0, counts)}, "net", "max", {}, (DataSet(3, "data"),))


def files_of_scales() -> Iterator[tuple[str, bytes]]:
    """One, with few counts, so that most changes are to other members."""
    few = Counts(2.0**-5, (1, 0, 2))
    record = ValueScale(2 * 2.0**-5 / INT8, 2 * 2.0**-5, 0.0, few)
    sound = Scales({"p": record}, "net", "max", {}, (DataSet(3, "data"),))
    yield "few", sound.text().encode()


def table(folder: Path, data: bytes) -> None:
    """Read a table of another program, and quantize by it."""
    file = folder / "net.cache"
    file.write_bytes(data)
    _used(folder, adopt(_net(folder), None, str(file)))


def tables() -> Iterator[tuple[str, bytes]]:
    """The tables that are written here."""
    with TemporaryDirectory() as folder:
        net = _net(Path(folder))
        for name in ("net.table", "net.json", "net.cache"):
            yield name, table_text(net, {"x": 0.5, "p": 0.25, "y": 1.0}, name).encode()


def checks(folder: Path, data: bytes) -> None:
    """Read what ``verify`` printed, and write a page with it."""
    file = folder / "checks.json"
    file.write_bytes(data)
    prototrt.draw(_net(folder), folder / "net.html", verification=file)


def verifications() -> Iterator[tuple[str, bytes]]:
    """What ``verify`` says of the net."""
    with TemporaryDirectory() as folder:
        found = prototrt.verify(_net(Path(folder)), ways=["onnx"])
    yield "onnx", json.dumps(found.as_dict()).encode()
