"""A binary net of Caffe2 takes bounded work, whatever is in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import prototrt
from prototrt.caffe_proto.caffe2 import files, loading, untangle
from prototrt.caffe_proto.caffe2.fills import read_fills
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import ConversionError, Origin, Problems, UnreadableFileError
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.schema import Message


def net(operators: int = 1) -> Message:
    """A chain of ReLUs."""
    message = message_class("NetDef")()
    message.external_input.append("x0")
    for place in range(operators):
        operator = message.op.add(type="Relu")
        operator.input.append(f"x{place}")
        operator.output.append(f"x{place + 1}")
    return message


def many_operators(message: Message, count: int) -> None:
    for _ in range(count - len(message.op)):
        message.op.add(type="Relu", input=["x0"], output=["y"])


def many_in_step_nets(message: Message, count: int) -> None:
    """Each net alone has few."""
    for _ in range(5):
        step = message.op.add(type="RecurrentNetwork").arg.add(name="step_net").n
        for _ in range(count // 5):
            step.op.add(type="Relu")


def many_arguments(message: Message, count: int) -> None:
    for place in range(count):
        message.op[0].arg.add(name=f"a{place}", i=place)


TOO_MANY: dict[str, tuple[Callable[[Message, int], object], str, int]] = {
    "operators": (many_operators, "op", 40_000),
    "operators of step nets": (many_in_step_nets, "op", 40_000),
    "arguments": (many_arguments, "arg", 400_000),
    "texts": (
        lambda message, count: message.op[0].arg.add(name="s").strings.extend([b"a"] * count),
        "strings",
        400_000,
    ),
    "inputs": (
        lambda message, count: message.op[0].input.extend(["x0"] * (count - 1)),
        "input",
        100_000,
    ),
    "outputs": (
        lambda message, count: message.op[0].output.extend(["y"] * (count - 1)),
        "output",
        100_000,
    ),
    "external inputs": (
        lambda message, count: message.external_input.extend(["x"] * (count - 1)),
        "external_input",
        100_000,
    ),
    "external outputs": (
        lambda message, count: message.external_output.extend(["x"] * count),
        "external_output",
        100_000,
    ),
}


@pytest.mark.parametrize("case", TOO_MANY)
def test_a_net_with_too_many_parts(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add, field, most = TOO_MANY[case]
    assert files._MOST[field] == most
    monkeypatch.setitem(files._MOST, field, 20)
    message = net()
    add(message, 20)
    files.parse_binary(message_class("NetDef")(), net(20).SerializeToString(), "net.pb")
    if case != "operators of step nets":
        files.parse_binary(message_class("NetDef")(), message.SerializeToString(), "net.pb")
    add(message, 21)
    with pytest.raises(UnreadableFileError) as refused:
        files.parse_binary(message_class("NetDef")(), message.SerializeToString(), "net.pb")
    assert str(refused.value) == (
        f"net.pb: the net has more than 20 fields {field}\n"
        "  fix: get the file again, or cut the net into several"
    )


def test_an_init_net_with_too_many_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(files._MOST, "op", 20)
    init = tmp_path / "init_net.pb"
    message = net(20)
    init.write_bytes(message.SerializeToString())
    assert len(read_fills(open_input(init, "an init net"))) == 20
    many_operators(message, 21)
    init.write_bytes(message.SerializeToString())
    with pytest.raises(UnreadableFileError, match="more than 20 fields op"):
        read_fills(open_input(init, "an init net"))


class Counted(dict[str, str]):
    """How often its values were walked."""

    walks = 0

    def values(self) -> Any:
        self.walks += 1
        return super().values()


def test_outputs_are_found_in_one_walk() -> None:
    message = net(50)
    last = Counted({f"x{place}": f"x{place}" for place in range(51)})
    origin = Origin("net.pb", 0, "relu", "Relu")
    operators = [
        Operator("relu", "Relu", each, (each.input[0],), (each.output[0],), origin, None)
        for each in message.op
    ]
    versions = untangle.UntangledOperators(last=last)
    assert loading._outputs(message, operators, versions, "net.pb") == ("x50",)
    assert last.walks == 1


@pytest.mark.parametrize("depth", [40, 5000])
def test_a_net_within_nets(depth: int) -> None:
    """protobuf itself refuses more than a hundred messages within each other."""

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    content = field(2, field(4, b"Relu"))
    for _ in range(depth):
        content = field(
            2, field(4, b"RecurrentNetwork") + field(5, field(1, b"step_net") + field(8, content))
        )
    with pytest.raises(UnreadableFileError, match="this is not a Caffe2 net, or it is truncated or damaged"):
        files.parse_binary(message_class("NetDef")(), content, "net.pb")


def test_advice_for_the_first_blobs_that_nobody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is compared with all others, so the work is bounded; each blob is named."""
    compared: list[str] = []
    monkeypatch.setattr(
        untangle,
        "close_names",
        lambda blob, names: compared.append(blob) or [],  # type: ignore[func-returns-value]
    )
    message = net()
    for place in range(200):
        message.op.add(type="Relu", input=[f"m{place}"], output=[f"y{place}"])
    (tmp_path / "net.pb").write_bytes(message.SerializeToString())
    with pytest.raises(ConversionError) as refused:
        prototrt.load(tmp_path / "net.pb", random_weights=1)
    assert isinstance(refused.value, Problems)
    assert len(refused.value.errors) == 200
    assert compared == [f"m{place}" for place in range(20)]
