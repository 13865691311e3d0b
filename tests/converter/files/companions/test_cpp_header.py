"""Headers for C++: valid whatever blobs are called, true to the manifest, and written with the engine or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.converter.backends.tensorrt.builder import Plan
from prototrt.converter.files.companions.cpp_header import header_text, identifiers, literal, namespace_of
from prototrt.tests.command_line import STREAM, WEIGHTS, done, run
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.odd_names import TEXTS
from prototrt.tests.operations import growth

COMPILER = shutil.which("c++") or shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

PRINT_ALL = r"""
#include "net.h"
#include "net.h"

#include <cstdio>

using namespace NAMESPACE;

static const char* name_of(Type type) {
    switch (type) {
        case Type::boolean: return "bool";
        case Type::float16: return "float16";
        case Type::float32: return "float32";
        case Type::int32: return "int32";
    }
    return "";
}

static void print(const char* what, const Tensor* tensor) {
    std::printf("%s ", what);
    for (const char* letter = tensor->name; *letter != 0; ++letter)
        std::printf("%02x", static_cast<unsigned>(static_cast<unsigned char>(*letter)));
    std::printf(" %s %zu", name_of(tensor->type), tensor->element_bytes);
    for (std::size_t axis = 0; axis < tensor->rank; ++axis)
        std::printf(" %lld,%lld,%lld", static_cast<long long>(tensor->min[axis]),
                    static_cast<long long>(tensor->opt[axis]), static_cast<long long>(tensor->max[axis]));
    std::printf("\n");
}

int main() {
    for (const Tensor* each : inputs) print("input", each);
    for (const Tensor* each : outputs) print("output", each);
    for (const Recurrence& each : recurrences) {
        print("from", each.output);
        print("to", each.input);
        std::printf("exposed %d\n", each.exposed);
    }
    for (const Count& each : counts) {
        print("of", each.tensor);
        print("number", each.number);
        std::printf("axis %zu\n", each.axis);
    }
}
"""
BYTES = {"bool": 1, "float16": 2, "float32": 4, "int32": 4}


def printed(manifest: Mapping[str, Any]) -> list[str]:
    """What the program above prints of this manifest."""

    def line(what: str, tensor: Mapping[str, Any]) -> str:
        ranges = [tensor["profile"].get(dim, [dim] * 3) for dim in tensor["shape"]]
        sizes = "".join(" " + ",".join(map(str, each)) for each in ranges)
        name = tensor["name"].encode("utf-8", "surrogateescape").hex()
        return f"{what} {name} {tensor['dtype']} {BYTES[tensor['dtype']]}{sizes}"

    inputs = {each["name"]: each for each in manifest["inputs"]}
    outputs = {each["name"]: each for each in manifest["outputs"]}
    lines = [line("input", each) for each in inputs.values()]
    lines += [line("output", each) for each in outputs.values()]
    for pair in manifest["recurrences"]:
        lines += [line("from", outputs[pair["output"]]), line("to", inputs[pair["input"]])]
        lines.append(f"exposed {int(pair['exposed'])}")
    for each in outputs.values():
        for axis, number in each.get("counted_by", {}).items():
            lines += [line("of", each), line("number", outputs[number]), f"axis {axis}"]
    return lines


def tensor(name: str, dtype: str = "float32", shape: tuple[int | str, ...] = (1, 2), **more: Any) -> Any:
    ranges = {"T": [1, 40, 64], "N": [1, 1, 8]}
    profile = {dim: ranges[dim] for dim in shape if isinstance(dim, str)}
    return {"name": name, "dtype": dtype, "shape": list(shape), "profile": profile, **more}


def manifest_with(inputs: list[Any], outputs: list[Any], **more: Any) -> dict[str, Any]:
    return {"tool": {"version": "0"}, "inputs": inputs, "outputs": outputs, "recurrences": [], **more}


EVERYTHING = manifest_with(
    [
        tensor("data", shape=("T", "N", 3)),
        tensor("mask", "bool", (7,)),
        tensor("ids", "int32", ()),
        tensor("a/b"),
        tensor("a_b", "float16"),
        tensor("h_0", shape=(1, "N", 4)),
    ],
    [
        tensor("boxes", shape=(1, 20, 4), counted_by={"1": "boxes_count"}),
        tensor("boxes_count", "int32", ()),
        tensor("h_T", shape=(1, "N", 4)),
    ],
    recurrences=[
        {"output": "h_T", "input": "h_0", "exposed": False},
        {"output": "h_T", "input": "a/b", "exposed": True},
    ],
    plan={"bytes": 12, "sha256": "ab" * 32},
    tensorrt={"flavour": "rtx", "version": "1.7.1"},
)
MANIFESTS = {
    "everything": EVERYTHING,
    "nothing but an output": manifest_with([], [tensor("y")]),
    "more axes than TensorRT has": manifest_with([tensor("x", shape=(2,) * 9)], [tensor("y")]),
}


def compiled(folder: Path, manifest: Mapping[str, Any], namespace: str) -> list[str]:
    """The lines that a program prints that was compiled with the header."""
    assert COMPILER is not None
    (folder / "net.h").write_text(header_text(manifest, namespace))
    (folder / "print.cpp").write_text(PRINT_ALL.replace("NAMESPACE", namespace))
    command = [
        COMPILER,
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "print.cpp",
        "-o",
        "print",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(
        ["./print"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.splitlines()


@needs_compiler
@pytest.mark.parametrize("case", MANIFESTS)
def test_a_program_sees_what_the_manifest_says(tmp_path: Path, case: str) -> None:
    assert compiled(tmp_path, MANIFESTS[case], "prototrt_net") == printed(MANIFESTS[case])


NASTY = [
    "double",
    "linux",
    "NULL",
    "std",
    "_T",
    "__x",
    "3d",
    "a b",
    "a-b",
    "a_b",
    "a_b_2",
    "",
    " ",
    "é",
    "\udcff",
]
NASTY += [
    '"',
    "\\",
    "??/",
    "\\\n",
    "*/",
    "//",
    "%d",
    "\x01" + "1",
    "fcé1",
    "x" * 300,
    "input",
    "Tensor",
    "type",
]


@needs_compiler
def test_names_of_all_kinds_compile(tmp_path: Path) -> None:
    manifest = manifest_with([tensor(name) for name in NASTY], [tensor(name) for name in NASTY])
    assert compiled(tmp_path, manifest, namespace_of("3-D \\")) == printed(manifest)


NAMES = st.lists(TEXTS | st.from_regex("[a_]{0,3}(_2)?", fullmatch=True), unique=True)


@given(NAMES)
def test_identifiers_are_valid_and_none_is_given_twice(names: list[str]) -> None:
    found = identifiers("input", names)
    assert list(map(found.get, names)).count(None) == 0
    assert len(set(found.values())) == len(names)
    for name, identifier in found.items():
        assert re.fullmatch(
            "input(_[A-Za-z0-9]+)*", identifier
        )  # no two underscores in a row: those are reserved
        if re.fullmatch("[A-Za-z0-9]+(_[A-Za-z0-9]+)*", name):
            assert identifier == f"input_{name}"


def test_many_names_that_are_punctuation() -> None:
    def names(count: int) -> list[str]:
        return [f"{number:b}".replace("0", "+").replace("1", "-") for number in range(count)]

    assert growth(lambda count: identifiers("input", names(count)), 100, 800) < 1.5


@given(TEXTS)
def test_literals_are_plain_and_exact(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    found = literal(text)
    inside = found[1:-1]
    assert re.fullmatch(r'"(?:[ !#->@-\[\]-~]|\\[0-3][0-7]{2})*"', found)
    told = re.sub(rb"\\(\d{3})", lambda match: bytes([int(match[1], 8)]), inside.encode())
    assert told.decode() == text


def test_the_text(check_text: Callable[[Path, str], None]) -> None:
    check_text(GOLDENS / "cpp_header" / "net.h", header_text(EVERYTHING, "prototrt_net"))


@pytest.mark.parametrize("name", ["net.h", "folder/net.hpp", "net"])
def test_namespaces(name: str) -> None:
    assert namespace_of(name) == "prototrt_net"


@pytest.mark.trt
def test_convert_writes_it_beside_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = (
        "convert",
        STREAM,
        WEIGHTS,
        "--backend",
        "rtx",
        "-o",
        "net.plan",
        "--emit-header",
        "digits.h",
    )
    assert "digits.h: namespace prototrt_digits\nnet.plan: " in done(*arguments).output
    manifest = json.loads(Path("net.plan.json").read_text())
    assert Path("digits.h").read_text() == header_text(manifest, "prototrt_digits")
    assert f'plan_sha256 = "{manifest["plan"]["sha256"]}"' in Path("digits.h").read_text()
    assert json.loads(done(*arguments, "--json").output)["header"] == "digits.h"


def test_convert_writes_it_beside_an_onnx_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx", reason="writes a model")
    monkeypatch.chdir(tmp_path)
    done("convert", STREAM, WEIGHTS, "-o", "net.onnx", "--emit-header", "net.h")
    manifest = json.loads(Path("net.onnx.json").read_text())
    assert Path("net.h").read_text() == header_text(manifest, "prototrt_net")
    assert "plan_bytes = 0;" in Path("net.h").read_text()


USAGE = "Usage: prototrt convert [OPTIONS] MODEL [WEIGHTS]\nTry 'prototrt convert --help' for help.\n\n"
REFUSALS: dict[tuple[str, ...], str] = {
    (
        "-o",
        "net.plan",
        "--emit-header",
        "link.h",
    ): 'Error: -o and --emit-header would both write "link.h"\n  fix: give each its own file\n',
    (
        "-o",
        "net.plan",
        "--emit-header",
        "net.json",
    ): "Error: Invalid value for '--emit-header': \"net.json\" ends in"
    " .json, expected .h, .hh, .hpp or .hxx\n",
    (
        "-o",
        os.devnull,
        "--emit-header",
        "net.h",
    ): 'Error: --emit-header describes a file, but "/dev/null" is a device\n  fix: write -o to a file\n',
    ("-o", "net.plan", "--emit-header", "no/net.h"): "Error: Invalid value for '--emit-header': cannot write"
    ' "no/net.h": the folder "no" does not exist\n',
}


@pytest.mark.parametrize("options", REFUSALS)
def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link.h").symlink_to("net.plan.json")
    result = run("convert", STREAM, WEIGHTS, *options)
    assert (result.exit_code, result.output) == (2, USAGE + REFUSALS[options])
    assert os.listdir() == ["link.h"]


PLAN = Plan(memoryview(b"plan"), EVERYTHING)


def test_an_engine_and_its_header_appear_together_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConversionError):
        PLAN.save(tmp_path / "net.plan", header=tmp_path / "no" / "net.h")
    assert os.listdir(tmp_path) == []
    (tmp_path / "include").mkdir()
    PLAN.save(tmp_path / "net.plan", header=tmp_path / "include" / "net.h")
    assert os.listdir(tmp_path / "include") == ["net.h"]
    assert sorted(os.listdir(tmp_path)) == ["include", "net.plan", "net.plan.json"]


def test_a_header_may_go_to_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    PLAN.save(tmp_path / "net.plan", header=pipe)
    text = header_text(PLAN.manifest, "prototrt_pipe")
    assert os.read(reader, len(text) + 1).decode() == text
    os.close(reader)
    assert sorted(os.listdir(tmp_path)) == ["net.plan", "net.plan.json", "pipe"]
