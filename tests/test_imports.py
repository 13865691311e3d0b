"""What an import brings along: reading and rewriting need no TensorRT, the commands' help needs nothing."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from prototrt.cli import COMMANDS
from prototrt.tests.command_line import STREAM, WEIGHTS
from prototrt.tests.fresh_python import ROOT, run_python
from prototrt.tests.sources import nodes_of


def imported_by(*modules: str) -> set[str]:
    """The modules in a fresh interpreter after it imported these, by the first part of their names."""
    code = f"import {', '.join(modules)}, sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    return set(run_python("-c", code).stdout.split())


@pytest.mark.parametrize(
    ("modules", "strangers"),
    [
        (["prototrt"], {"numpy", "google", "click"}),
        (["prototrt.cli"], {"numpy", "google", "tensorrt_rtx", "rich"}),
        (["prototrt.caffe_proto"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (["prototrt.surgery.pipeline"], {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"}),
        (
            ["prototrt.converter.running.sessions.session"],
            {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"},
        ),
        (
            ["prototrt.converter.backends.tensorrt.builder"],
            {"tensorrt", "tensorrt_rtx", "onnx", "click", "rich"},
        ),
    ],
    ids=lambda item: item[0] if isinstance(item, list) else "",
)
def test_import_leaves_alone(modules: list[str], strangers: set[str]) -> None:
    assert imported_by(*modules) & strangers == set()


def test_caffe_net_needs_nothing_of_caffe2_nor_the_tile_plugin() -> None:
    net = ROOT / "samples" / "digits" / "deploy.prototxt"
    code = (
        "import prototrt, sys; import prototrt.converter.backends.tensorrt.builder; "
        f"prototrt.rewrite(prototrt.load({str(net)!r}, random_weights=1)); "
        "print(*(name for name in sys.modules if 'caffe2' in name or 'plugins' in name))"
    )
    assert run_python("-c", code).stdout.split() == []


@pytest.mark.parametrize(("implementation", "is_in_python"), [("upb", False), ("python", True)])
def test_a_net_is_read_with_messages_in_c_or_in_python(implementation: str, is_in_python: bool) -> None:
    """All that protobuf has in Python takes longer to import than the sample to read."""
    net = ROOT / "samples" / "digits" / "deploy.prototxt"
    code = (
        f"import prototrt, sys; print(prototrt.load({str(net)!r}, random_weights=1).layers[0].name, "
        "'google.protobuf.internal.python_message' in sys.modules)"
    )
    done = run_python("-c", code, variables={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation})
    assert done.stdout.split() == ["data", str(is_in_python)]


def test_a_net_imports_the_families_of_its_layers_alone() -> None:
    net = ROOT / "samples" / "digits" / "deploy.prototxt"
    code = (
        "import prototrt, sys; import prototrt.surgery.layers as layers; "
        f"prototrt.rewrite(prototrt.load({str(net)!r}, random_weights=1)); "
        "print(*(family for family in layers.FAMILIES if f'{layers.__name__}.{family}' in sys.modules))"
    )
    used = (
        "arithmetic.activation arithmetic.batch_norm arithmetic.inner_product arithmetic.normalization"
        " arithmetic.scale inputs.data recurrent.rules shapes.reshaping windows.convolution windows.pooling"
    )
    assert run_python("-c", code).stdout.split() == used.split()


COUNT = """
import json, os, sys, tempfile
from prototrt.cli import COMMANDS, main
from prototrt.tests.sources import nodes_of

def imported(arguments):
    \"\"\"The modules after a command, in a process of its own: how many of ours, and of which other packages.\"\"\"
    reader, writer = os.pipe()
    if os.fork() == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")
        try:
            main(arguments, prog_name="prototrt")
        except SystemExit as end:
            assert not end.code
        ours = sum(name.startswith("prototrt.") for name in sys.modules)
        packages = sorted({name.partition(".")[0] for name in sys.modules})
        os.write(writer, json.dumps([ours, packages]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return json.load(pipe)

net, weights = sys.argv[1:]
os.environ["PROTOTRT_NO_CHILD"] = "1"
with tempfile.TemporaryDirectory() as folder:
    runs = {
        "--version": ["--version"],
        **{f"{name} --help": [name, "--help"] for name in COMMANDS},
        "inspect": ["inspect", net, weights],
        "upgrade": ["upgrade", net, weights, "-o", folder + "/new.prototxt"],
        "convert to ONNX": ["convert", net, weights, "-o", folder + "/net.onnx"],
        "convert to PyTorch": ["convert", net, weights, "-o", folder + "/net.py"],
    }
    print(json.dumps({name: imported(arguments) for name, arguments in runs.items()}))
"""
MOST = {"inspect": 264, "upgrade": 121, "convert to ONNX": 272, "convert to PyTorch": 272}
"""Modules of prototrt that a command imports for the sample. A change that needs more says so here."""
MOST_FOR_HELP = 52
NOT_FOR_HELP = {
    "google",
    "h5py",
    "jinja2",
    "numpy",
    "onnx",
    "onnxruntime",
    "rich",
    "tensorrt_rtx",
    "torch",
    "yaml",
}


@pytest.fixture(scope="module")
def imports() -> dict[str, tuple[int, list[str]]]:
    if not hasattr(os, "fork"):
        pytest.skip("counts modules in copies of a process")
    result: dict[str, tuple[int, list[str]]] = json.loads(run_python("-c", COUNT, STREAM, WEIGHTS).stdout)
    return result


def test_help_imports_little(imports: dict[str, tuple[int, list[str]]]) -> None:
    shown = {name: each for name, each in imports.items() if name not in MOST}
    assert {f"{name} --help" for name in COMMANDS} < shown.keys()
    assert {name: ours for name, (ours, _) in shown.items() if ours > MOST_FOR_HELP} == {}
    assert {
        name: NOT_FOR_HELP & {*packages}
        for name, (_, packages) in shown.items()
        if NOT_FOR_HELP & {*packages}
    } == {}


def test_a_command_imports_what_it_needs(imports: dict[str, tuple[int, list[str]]]) -> None:
    assert {name: imports[name][0] for name in MOST if imports[name][0] > MOST[name]} == {}
    assert {name for name in MOST if {"tensorrt_rtx", "h5py", "torch", "yaml"} & {*imports[name][1]}} == set()


def names_from_the_package(path: Path) -> Iterator[str]:
    """What a module takes of ``prototrt`` itself."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module == "prototrt":
            yield from (alias.name for alias in node.names)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "prototrt"
        ):
            yield node.attr


def test_rooms_take_functions_from_rooms() -> None:
    """The package itself imports its public names from the rooms: a room that took them there would close a circle."""
    paths = [path for room in ("caffe_proto", "surgery", "converter") for path in (ROOT / room).rglob("*.py")]
    taken = {name for path in paths for name in names_from_the_package(path)}
    assert taken <= {"__version__", "__file__"}
