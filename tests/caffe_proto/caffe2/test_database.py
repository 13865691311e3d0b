"""minidb files: one that Caffe2 wrote, and forms of it that it did not."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.tests.caffe2_cases import GOLDENS
from prototrt.tests.caffe2_nets import net, operator

EXPORTED = GOLDENS / "caffe2" / "lstm_minidb"
ADD = net(operator("Add", ["x", "w"], ["y"]), external_input=["x", "w"], external_output=["y"])


def field(number: int, payload: bytes) -> bytes:
    """A field of a message that holds bytes."""
    size, length = len(payload), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def record(key: str, blob: bytes) -> bytes:
    return struct.pack("<ii", len(key), len(blob)) + key.encode() + blob


def nets(**by_key: Any) -> bytes:
    entries = [
        field(2, field(1, key.encode()) + field(2, n.SerializeToString())) for key, n in by_key.items()
    ]
    return record("!!META_NET_DEF", field(4, b"".join(entries)))


def tensor(key: str, begin: int | None = None, **fields: Any) -> bytes:
    data = message_class("TensorProto")(**fields).SerializeToString()
    segment = b"" if begin is None else field(11, bytes([8, begin, 16, 99]))
    return record(key, field(3, segment + data))


def loaded(folder: Path, *records: bytes) -> prototrt.Model:
    file = folder / "model.minidb"
    file.write_bytes(b"".join(records))
    return prototrt.load(file)


def test_exported_by_caffe2() -> None:
    inputs, outputs = (dict(np.load(EXPORTED / f"{kind}.npz")) for kind in ("inputs", "outputs"))
    shapes = {name: array.shape for name, array in inputs.items()}
    graph = prototrt.rewrite(prototrt.load(EXPORTED / "model.minidb"), shapes=shapes)
    np.testing.assert_allclose(prototrt.Session(graph).run(inputs)["prob"], outputs["prob"], 1e-4, 2e-5)


def test_weights_for_a_net_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "predict_net.pb").write_bytes(ADD.SerializeToString())
    (tmp_path / "w.minidb").write_bytes(nets(PREDICT_NET_TYPE=ADD) + tensor("w", dims=[2], float_data=[3, 4]))
    model = prototrt.load(tmp_path / "predict_net.pb", tmp_path / "w.minidb")
    assert model.stored["w"].array.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dims": [2, 1], "float_data": [1.5, 2]}, [[1.5], [2.0]]),
        ({"dims": [1], "double_data": [0.25], "data_type": 13}, [0.25]),
        ({"dims": [2], "int32_data": [1, -2], "data_type": 2}, [1, -2]),
        ({"dims": [2], "int64_data": [1, -2], "data_type": 10}, [1, -2]),
        ({"dims": [2], "int32_data": [1, 0], "data_type": 5}, [True, False]),
        ({"dims": [], "float_data": [7]}, 7.0),
    ],
)
def test_types_of_tensors(fields: dict[str, Any], expected: object, tmp_path: Path) -> None:
    model = loaded(tmp_path, nets(PREDICT_NET_TYPE=ADD), tensor("w", **fields))
    assert model.stored["w"].array.tolist() == expected


def test_a_tensor_in_several_records(tmp_path: Path) -> None:
    parts = [
        tensor("w#%1", begin=2, dims=[3], float_data=[5]),
        tensor("w#%0", begin=0, dims=[3], float_data=[3, 4]),
    ]
    model = loaded(tmp_path, nets(PREDICT_NET_TYPE=ADD), *parts)
    assert model.stored["w"].array.tolist() == [3, 4, 5]


W = tensor("w", dims=[2], float_data=[3, 4])
META = nets(PREDICT_NET_TYPE=ADD)
DAMAGED = "this is not a valid minidb of Caffe2, or it is damaged\n  because {}\n  fix: get the file again"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (
            [nets(OTHER=ADD)],
            "holds no PREDICT_NET_TYPE, but OTHER\n"
            "  fix: give the database of a predictor, or predict_net.pb and init_net.pb",
        ),
        (
            [nets()],
            "holds no PREDICT_NET_TYPE, but no nets\n"
            "  fix: give the database of a predictor, or predict_net.pb and init_net.pb",
        ),
        (
            [nets(PREDICT_NET_TYPE=ADD, GLOBAL_INIT_NET_TYPE=net(operator("XavierFill", [], ["w"])))],
            "its GLOBAL_INIT_NET_TYPE runs XavierFill, expected Load alone\n"
            "  fix: export predict_net.pb and init_net.pb with Caffe2's mobile_exporter",
        ),
        (
            [META, W[:-1]],
            DAMAGED.format(f"the record at byte {len(META)} is longer than the rest of the file"),
        ),
        ([META, b"\1\0"], DAMAGED.format(f"it ends inside the record at byte {len(META)}")),
        (
            [META, record("w", b"\x1b")],
            DAMAGED.format(f"the group before byte {len(META) + 10} does not end"),
        ),
        (
            [META, record("w", b"")],
            'blob "w": holds no tensor, expected one of float, double, int32, int64 or bool\n'
            "  fix: export the net again, with weights of these types",
        ),
        (
            [META, tensor("w", dims=[2], byte_data=b"ab", data_type=3)],
            'blob "w": holds elements of type 3, expected float, double, int32, int64 or bool\n'
            "  fix: export the net again, with weights of these types",
        ),
        (
            [META, tensor("w", dims=[3], float_data=[1, 2])],
            'blob "w": the shape (3,) has 3 elements, but there are 2\n'
            "  fix: get the file again: it is damaged",
        ),
    ],
)
def test_refusals(records: list[bytes], expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        loaded(tmp_path, *records)
    assert str(caught.value).partition("model.minidb")[2].lstrip(":, ") == expected


def test_weights_twice() -> None:
    file = EXPORTED / "model.minidb"
    with pytest.raises(ConversionError) as caught:
        prototrt.load(file, "init_net.pb")
    assert str(caught.value) == (
        f"{file}: holds its weights, but init_net.pb is also given\n  fix: give this file alone"
    )
