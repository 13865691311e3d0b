"""Init nets: what their operators fill, and where the numbers stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.caffe2.init_net import InitNet, open_init_net
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.recognition import open_input

VALUES = [1.5, -2.0, 0.25, 8.0, 0.0, 3.0]


def fill(kind: str, **arguments: Any) -> Any:
    operator = message_class("OperatorDef")(type=kind, output=["blob"])
    for name, fields in arguments.items():
        operator.arg.add(name=name, **fields)
    return operator


def opened(folder: Path, *operators: Any, packed: bool = False) -> InitNet:
    data = message_class("NetDef")(name="init", op=operators).SerializeToString()
    if packed:
        unpacked = b"".join(b"\x2d" + np.float32(value).tobytes() for value in VALUES)
        numbers = np.array(VALUES, "<f4").tobytes()
        # Lengths shrink with the removed tags: only those of the argument and the operator.
        data = data.replace(unpacked, b"\x2a" + bytes([len(numbers)]) + numbers)
        saved = len(unpacked) - len(numbers) - 2
        outer = data.index(b"\x12") + 1
        inner = data.index(b"\n\x06values") - 1
        data = bytearray(data)
        data[outer] -= saved
        data[inner] -= saved
        data = bytes(data)
    (folder / "init_net.pb").write_bytes(data)
    return open_init_net(open_input(folder / "init_net.pb", "an init net"), None)


@pytest.mark.parametrize("packed", [False, True])
def test_floats_are_views_of_the_file(tmp_path: Path, packed: bool) -> None:
    net = opened(
        tmp_path,
        fill("GivenTensorFill", shape={"ints": [2, 3]}, values={"floats": VALUES}),
        packed=packed,
    )
    array = net.blobs["blob"].array
    assert array.tolist() == [VALUES[:3], VALUES[3:]]
    assert not array.flags.owndata
    assert not array.flags.writeable
    assert array.flags.c_contiguous == packed or array.base is not None


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (
            fill("GivenTensorIntFill", shape={"ints": [2]}, values={"ints": [3, -4]}),
            np.array([3, -4], np.int32),
        ),
        (fill("GivenTensorInt64Fill", shape={"ints": [1]}, values={"ints": [7]}), np.array([7], np.int32)),
        (fill("GivenTensorFill", shape={}, values={"floats": [2.5]}), np.array(2.5, np.float32)),
        (fill("GivenTensorFill", shape={"ints": [0, 2]}, values={}), np.zeros((0, 2), np.float32)),
        (fill("ConstantFill", shape={"ints": [2]}, value={"f": 0.5}), np.array([0.5, 0.5], np.float32)),
        (
            fill("ConstantFill", shape={"ints": [1]}, value={"i": 9}, dtype={"i": 2}),
            np.array([9], np.int32),
        ),
    ],
)
def test_fill(operator: Any, expected: np.ndarray[Any, Any], tmp_path: Path) -> None:
    array = opened(tmp_path, operator).blobs["blob"].array
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_wrong_number_of_values(tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        opened(tmp_path, fill("GivenTensorFill", shape={"ints": [4]}, values={"floats": VALUES}))
    assert str(caught.value) == (
        f"{tmp_path}/init_net.pb: operator 0 (GivenTensorFill): the shape (4,) has 4 elements, but there are 6"
        " values\n  fix: get the init net again: it is damaged"
    )


def test_a_name_that_is_longer_than_its_argument(tmp_path: Path) -> None:
    """The file is whole, so the message must not call it cut short."""
    net = message_class("NetDef")(
        op=[fill("GivenTensorFill", values={"floats": VALUES}), fill("ConstantFill")]
    )
    data = net.SerializeToString().replace(b"\n\x06values", b"\n\x7fvalues")
    (tmp_path / "init_net.pb").write_bytes(data)
    with pytest.raises(ConversionError) as caught:
        open_init_net(open_input(tmp_path / "init_net.pb", "an init net"), None)
    assert str(caught.value) == (
        f"{tmp_path}/init_net.pb: this is not a valid init net, or it is damaged\n"
        "  because the field at byte 27 is 91 bytes longer than what holds it\n"
        "  fix: get the file again"
    )


def test_the_last_fill_of_a_blob_wins(tmp_path: Path) -> None:
    net = opened(
        tmp_path,
        fill("ConstantFill", shape={"ints": [1]}, value={"f": 1.0}),
        fill("ConstantFill", shape={"ints": [1]}, value={"f": 2.0}),
    )
    assert net.blobs["blob"].array.tolist() == [2.0]


@pytest.mark.parametrize(
    ("operator", "is_there"),
    [
        (fill("GivenTensorFill", shape={"ints": [1, 1]}, values={"floats": [0.0]}), False),
        (fill("GivenTensorFill", shape={"ints": [0]}, values={"floats": []}), False),
        (fill("GivenTensorFill", shape={"ints": [1, 1]}, values={"floats": [0.5]}), True),
        (fill("GivenTensorFill", shape={"ints": [1]}, values={"floats": [0.0]}), True),
        (fill("ConstantFill", shape={"ints": [1, 1]}), True),
    ],
)
def test_a_placeholder_for_an_input_fills_nothing(operator: Any, is_there: bool, tmp_path: Path) -> None:
    assert ("blob" in opened(tmp_path, operator).blobs) == is_there


def made(kind: str, output: str, *inputs: str, **arguments: Any) -> Any:
    operator = fill(kind, **arguments)
    operator.input.extend(inputs)
    operator.output[0] = output
    return operator


def test_operators_that_compute_weights_are_kept_for_the_net(tmp_path: Path) -> None:
    net = opened(
        tmp_path,
        made("GivenTensorFill", "w", shape={"ints": [2]}, values={"floats": [1.0, 2.0]}),
        made("Shape", "sizes", "w"),
        made("ConstantFill", "ones", "sizes", input_as_shape={"i": 1}),
        made("ConstantFill", "bias", shape={"ints": [2]}),
    )
    assert [operator.message.type for operator in net.operators] == ["Shape", "ConstantFill"]
    assert list(net.names()) == ["w", "bias"]


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (
            [made("Relu", "y", "x")],
            "operator 0 (Relu): this operator fills no blob\n"
            "  because an init net is made of GivenTensorFill, GivenTensorDoubleFill, GivenTensorIntFill,"
            " GivenTensorInt64Fill, GivenTensorInt16Fill, RecurrentParamSet\n"
            "  fix: give the predict net first and the init net second; export the weights as GivenTensorFill",
        ),
        (
            [made("Int8GivenTensorFill", "w", shape={"ints": [2]})],
            'operator 0 (Int8GivenTensorFill): fills "w" with 8 bits\n'
            "  fix: export the model in float32; prototrt.calibrate(...) measures scales for 8 bits",
        ),
        (
            [
                made("Relu", "y", "x"),
                made("Int8GivenTensorFill", "w", shape={"ints": [2]}),
                made("Int8GivenIntTensorFill", "b", shape={"ints": [2]}),
                made("Int8GivenTensorFill", "v", shape={"ints": [2]}),
            ],
            'operator 1 (Int8GivenTensorFill): fills "w" with 8 bits, and 2 other operators fill "b", "v"\n'
            "  fix: export the model in float32; prototrt.calibrate(...) measures scales for 8 bits",
        ),
        (
            [
                made("ConstantFill", "w", shape={"ints": [2]}),
                made("Relu", "v", "w"),
                made("ConstantFill", "v", shape={"ints": [2]}),
            ],
            'operator 2 (ConstantFill): fills "v", which operator 1 (Relu) has already computed\n'
            "  fix: export the weights as GivenTensorFill",
        ),
    ],
)
def test_operators_that_cannot_be_kept(operators: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        opened(tmp_path, *operators)
    assert str(caught.value).partition("init_net.pb: ")[2] == message


GIVEN = fill("GivenTensorFill", shape={"ints": [1]}, values={"floats": [1.0]})
ZERO = made("ConstantFill", "data", shape={"ints": [1]})
TRANSLATED = {
    "behind the weights": ([GIVEN, ZERO], True),
    "in front of them": ([ZERO, GIVEN], False),
    "alone": ([ZERO], False),
    "behind weights that are drawn": ([fill("XavierFill", shape={"ints": [1]}), ZERO], False),
    "of another size": ([GIVEN, made("ConstantFill", "data", shape={"ints": [2]})], False),
    "with a value": ([GIVEN, made("ConstantFill", "data", shape={"ints": [1]}, value={"f": 1.0})], False),
}


@pytest.mark.parametrize("case", TRANSLATED)
def test_the_translators_placeholder_for_the_input_fills_nothing(case: str, tmp_path: Path) -> None:
    operators, is_input = TRANSLATED[case]
    path = tmp_path / "init_net.pb"
    path.write_bytes(message_class("NetDef")(op=operators).SerializeToString())
    assert ("data" not in open_init_net(open_input(path, "an init net"), 1).blobs) == is_input
