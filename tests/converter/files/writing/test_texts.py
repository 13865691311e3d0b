"""Texts that their readers would not read are internal errors, and nothing is written."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner

import prototrt
from prototrt.caffe_proto.text.findings import message_of
from prototrt.cli import main
from prototrt.converter.backends.python_source import SourceText
from prototrt.converter.files.writing.texts import (
    InvalidTextError,
    Reader,
    atomic_text,
    json_value,
    prototxt,
    python,
    xml,
)
from prototrt.converter.serving.deepstream.key_file import groups_of
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.small_nets import tanh
from prototrt.tests.sources import files_with, nodes_of

READERS: dict[str, tuple[Reader, str, list[str]]] = {
    "JSON": (json_value, '{"a": [1]}', ['{"a": \\x23}', "{", "[1] 2"]),
    "Python": (
        python,
        "def f(a, b): pass\n",
        ["class True: pass", "def f(a, a): pass", "a = f(3,", "a = '\0'"],
    ),
    "prototxt": (
        prototxt,
        '# a\nname: "a"\nlayer { top: "b" }',
        ["\\x23#[a]", 'name: "a', "layer {", "nam: 1"],
    ),
    "Triton": (
        message_of,
        '# a\na: "b" c [ { d: 1 }, { e: -2.5 } ] f { }',
        ['a: "b', "a {", "a }", "a: -b", "a: ?"],
    ),
    "DeepStream": (groups_of, "# a\n[b]\nc=d", ["c=d", "[b]\nc", "[b]\n=d", "[b]\nc[=d"]),
    "XML": (xml, "<a b='c'/>", ["<a>", "<a b=c/>", "<a>\x1b</a>"]),
}


@pytest.mark.parametrize("name", READERS)
def test_what_readers_do_not_take(name: str, tmp_path: Path) -> None:
    reader, good, wrong = READERS[name]
    file = tmp_path / "file"
    atomic_text(file, good, reader)
    for text in wrong:
        with pytest.raises(InvalidTextError, match=r"file would be written so that nothing reads it: "):
            atomic_text(file, text, reader)
    assert file.read_text() == good
    assert [*tmp_path.iterdir()] == [file]


def test_a_surrogate_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidTextError):
        atomic_text(tmp_path / "file", "\ud800", None)
    assert [*tmp_path.iterdir()] == []


def test_the_config_of_triton_means_what_is_read() -> None:
    text = 'a: "\\303\\251\\"" b { c: [ 1, -2 ] } b { d: true } # e\nf: TYPE'
    assert message_of(text) == {"a": 'é"', "b": [{"c": [1, -2]}, {"d": True}], "f": "TYPE"}


def test_a_module_that_python_cannot_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "prototrt.converter.backends.torch.export.module_text",
        lambda graph, weights: SourceText("class True: pass", {}),
    )
    with pytest.raises(InvalidTextError):
        prototrt.export_torch(tanh(), tmp_path / "net.py")
    assert [*tmp_path.iterdir()] == []


def test_a_command_says_that_it_is_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.prototxt").write_text(
        'input: "x" input_shape { dim: 1 } layer { name: "y" type: "TanH" bottom: "x" top: "y" }'
    )
    monkeypatch.setattr("prototrt.caffe_proto.net.deploy_text.net_text", lambda *parts: "layer {")
    result = CliRunner().invoke(main, ["deploy", str(tmp_path / "net.prototxt")])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(
        "internal error: InvalidTextError: standard output would be written so that nothing reads it: 1:"
    )


def test_every_text_is_checked() -> None:
    """What encodes a text and writes it, or lets ``Path`` do so, is only here.

    Nets of the self-test are temporary, and notes of a cache are ASCII.
    """
    writing = {
        str(file.relative_to(ROOT / "converter"))
        for file in files_with(".write", (ROOT / "converter").rglob("*.py"))
        for call in nodes_of(file)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if call.func.attr == "write_text"
        or (call.func.attr in ("write", "write_bytes") and ".encode(" in ast.unparse(call))
    }
    assert writing == {"checking/selftest/nets.py", "front/batch/cache.py"}
