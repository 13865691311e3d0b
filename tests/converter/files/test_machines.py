"""The table of machines: its rows have sources, its names are told apart, and each machine has its release."""

from __future__ import annotations

import re
from datetime import date

import pytest

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.converter.checking.machines.targets import TARGETS, find_target
from prototrt.converter.files import machines
from prototrt.converter.files.machine_types import missing_type, names_of
from prototrt.converter.files.machines import MACHINES, TABLE, close_machines, find_machine, version
from prototrt.surgery.options import Precision

TABLES = ["capabilities", "enterprise", "rtx", "systems", "trtexec", "machines"]


@pytest.mark.parametrize("name", TABLES)
def test_each_row_has_its_source_and_its_date(name: str) -> None:
    for row in TABLE[name]:
        assert row["source"] in TABLE["sources"], row
        assert date.fromisoformat(row["date"]) <= date.fromisoformat(TABLE["checked"]), row


def test_each_source_is_used() -> None:
    assert {row["source"] for name in TABLES for row in TABLE[name]} == {*TABLE["sources"]}


def test_no_name_stands_for_two_machines() -> None:
    named = [
        (machines._key(name), machine) for machine in MACHINES for name in {machine.name, *machine.words}
    ]
    for key, machine in named:
        assert {other.capability.version for same, other in named if same == key} == {
            machine.capability.version
        }
    assert not {*machines.MACHINE_WORDS} & {*TARGETS}
    assert len({*machines.MACHINE_WORDS}) == len(machines.MACHINE_WORDS)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.words[0])
def test_each_machine_has_its_release_or_its_refusal(machine: machines.Machine) -> None:
    word = machine.words[0]
    if not machine.target:
        with pytest.raises(OptionsError, match=f'^no engine can be built for target="{word}"\n'):
            find_target(word)
        return
    target = find_target(word)
    assert target.name == machine.target
    if target.uses_trtexec:
        assert re.search(r"TensorRT (8\.[256]|10\.\d+|11\.\d+)\b", target.runs_on), target.runs_on
    if machine.dla is not None:
        assert machine.systems, word


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", "rtx3080"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA A10G", "a10g"),
        ("Quadro RTX 6000", "rtx6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA GeForce GTX 1660 SUPER", "gtx1660"),
        ("GeForce GTX TITAN X", "gtx-titan-x"),
        ("NVIDIA TITAN X", "titan-x"),
        ("NVIDIA GB10", "dgx-spark"),
        ("Jetson Orin Nano Super", "orin-nano"),
        ("AGX_Xavier", "xavier"),
        ("jetson-nano", "nano"),
        ("drive thor", "drive-thor"),
    ],
)
def test_a_machine_by_what_people_and_drivers_call_it(name: str, word: str) -> None:
    machine = find_machine(name)
    assert machine is not None
    assert machine.words[0] == word


@pytest.mark.parametrize("name", ["", "nvidia", "cpu", "rtx9999", "8.6", "ti"])
def test_other_names_are_no_machine(name: str) -> None:
    assert find_machine(name) is None


@pytest.mark.parametrize(
    ("name", "close"),
    [("rtx4091", "rtx4090"), ("xavierr", "xavier"), ("thorr", "thor"), ("gtx 1090", "gtx1080")],
)
def test_an_unknown_machine_has_suggestions(name: str, close: str) -> None:
    assert close in close_machines(name)


# What NVIDIA's support matrices say: V100 and T4 have no bfloat16, A100 has no float8, P4 no float16, TX2 no int8.
@pytest.mark.parametrize(
    ("word", "precision", "missing"),
    [
        ("t4", "bf16", "bf16"),
        ("t4", "int8,bf16", "bf16"),
        ("t4", "int8", None),
        ("a100", "fp8", "fp8"),
        ("a100", "bf16", None),
        ("a100", "fp8,bf16", "fp8"),
        ("l4", "fp8", None),
        ("p4", "fp16", "fp16"),
        ("p4", "int8", "fp16"),
        ("tx2", "int8", "int8"),
        ("nano", "fp16", None),
        ("thor", "fp8", None),
        ("orin", "fp8", "fp8"),
        ("dgx-spark", "fp8", None),
    ],
)
def test_what_a_machine_cannot_compute(word: str, precision: Precision, missing: str | None) -> None:
    machine = find_machine(word)
    assert machine is not None
    assert missing_type(machine.capability.version, precision) == missing


def test_nothing_is_said_of_a_capability_that_is_not_known() -> None:
    assert missing_type((99, 0), "fp8") is None
    assert names_of((99, 0)) == ""


def test_types_by_capability() -> None:
    assert names_of(version("7.5")) == "float32, float16, int8"
