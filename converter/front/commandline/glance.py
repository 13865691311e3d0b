"""How a file that is not a net is shown: what it is, what it holds, and the command to run next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.shell_words import joined, quoted
from prototrt.converter.front.commandline.printing import show, warn
from prototrt.converter.front.commandline.tables import Table
from prototrt.converter.front.commandline.wording import in_command_line_words
from prototrt.converter.showing.glance.facts import Fact, FileFacts, FileKind, Rows

_FEW, _MOST = 2, 20


def print_glance(facts: FileFacts) -> None:
    size = f", {text_of_bytes(facts.size)}" if facts.size else ""
    show(f"{facts.file}: {facts.words}{size}")
    if facts.rows is not None and facts.rows.rows:
        _print_rows(facts.rows)
    step, about = next_step(facts), in_command_line_words(hint(facts))
    rows = {name: _lines(fact) for name, fact in facts.facts.items()}
    rows |= {"next": [line for line in (step, about) if line is not None]}
    width = max(map(len, rows))
    for name, lines in rows.items():
        for place, line in enumerate(lines):
            show(f"{'' if place else name:{width}}  {line}")
    warn(facts.warnings)


def _print_rows(rows: Rows) -> None:
    right = [
        place for place in range(len(rows.columns)) if all(isinstance(row[place], int) for row in rows.rows)
    ]
    table = Table(rows.columns, right=right, folds=(len(rows.columns) - 1,))
    for row in rows.rows:
        table.add_row(*map(_text, row))
    table.show()


def _text(fact: Fact) -> str:
    if isinstance(fact, int):
        return f"{fact:,}"
    return fact if isinstance(fact, str) else ", ".join(fact)


def _lines(fact: Fact) -> Sequence[str]:
    """A list of many has a line for each, up to a limit; ``--json`` has all."""
    if isinstance(fact, str | int) or len(fact) <= _FEW:
        return [_text(fact)]
    return fact if len(fact) <= _MOST + 1 else [*fact[:_MOST], f"{len(fact) - _MOST} others"]


_NET, _WEIGHTS = "NET.prototxt", "WEIGHTS.caffemodel"
_STEPS: dict[FileKind, str] = {
    FileKind.CAFFEMODEL: "prototrt convert {net} {file} -o {stem}.plan",
    FileKind.SOLVER_STATE: "prototrt convert {net} {weights} -o {weights_stem}.plan",
    FileKind.SOLVER: "prototrt inspect {net}",
    FileKind.MEAN: "prototrt convert {net} WEIGHTS.caffemodel --preprocess"
    " --set 'LAYER.transform_param.mean_file={plain}' -o {net_stem}.plan",
    FileKind.PREDICT_NET: "prototrt convert {file} {init_net} --shape {input}:SIZES -o {stem}.plan",
    FileKind.INIT_NET: "prototrt convert {predict_net} {file} --shape INPUT:SIZES -o model.plan",
    FileKind.DATABASE: "prototrt convert {file} --shape {input}:SIZES -o {stem}.plan",
    FileKind.ONNX: "trtexec --onnx={file} --saveEngine={stem}.plan",
    FileKind.PLAN: "prototrt run {file} --inputs in.npz -o out.npz{trust}",
    FileKind.MODULE: "{path}python -c 'import {stem}; print({stem}.load())'",
    FileKind.PROGRAM: "python {file} -o {stem}.plan",
    FileKind.SAFETENSORS: "prototrt weights set {net} WEIGHTS.caffemodel {file} -o new.caffemodel",
    FileKind.STATE_DICT: "prototrt weights set {net} WEIGHTS.caffemodel {file} -o new.caffemodel",
    FileKind.ONNX_WEIGHTS: "prototrt inspect {of}",
    FileKind.SCRIPT: "sh {file}",
    FileKind.KERNELS: "prototrt inspect {of}",
    FileKind.SELFTEST: "prototrt selftest --show {file}",
    FileKind.RULE: "prototrt inspect {net} --rules {file}",
    FileKind.RULE_TEST: "python -m pytest {file}",
    FileKind.SERVER_CONFIG: "tritonserver --model-repository={repository}",
    FileKind.VIDEO_PARSER: "make -C {folder}",
    FileKind.NPZ_WEIGHTS: "prototrt convert {net} {file} -o {stem}.plan",
    FileKind.NPZ: "prototrt run {net} WEIGHTS.caffemodel --inputs {file} -o out.npz",
    FileKind.NPY: "prototrt run {net} WEIGHTS.caffemodel --inputs {file} -o out.npz",
    FileKind.HDF5_WEIGHTS: "prototrt convert {net} {file} -o {stem}.plan",
    FileKind.HDF5: "prototrt run {net} WEIGHTS.caffemodel --inputs in.npz -o out.npz",
    FileKind.MANIFEST: "prototrt inspect {of}",
    FileKind.SCALES: "prototrt convert {net} WEIGHTS.caffemodel --precision int8 --scales {file} -o model.plan",
    FileKind.TABLE: "prototrt convert {net} WEIGHTS.caffemodel --precision int8 --calibration-cache {file}"
    " -o model.plan",
    FileKind.VERIFICATION: "prototrt dot {net} WEIGHTS.caffemodel --verification {file} -o {net_stem}.html",
    FileKind.MODEL_LIST: "prototrt batch {file} -o engines",
    FileKind.IMAGE: "prototrt run {net} WEIGHTS.caffemodel --inputs {folder} -o out.npz",
    FileKind.FOLDER: "prototrt survey {file}",
}
_OF_SHAPES = "give the sizes of each input, as in --shape data:1x3x224x224"
_HINTS = {
    **dict.fromkeys((FileKind.PREDICT_NET, FileKind.INIT_NET, FileKind.DATABASE), _OF_SHAPES),
    FileKind.HDF5: 'save the arrays by blob name first, as numpy.savez("in.npz", data=array) does',
    FileKind.MEAN: "LAYER is the input that the mean is subtracted from",
    FileKind.HEADER: "include it in a program in C++: samples/cpp shows one",
    FileKind.LAYERS: "trex and other programs for layers of engines read it",
    FileKind.REPORT: "a CI system shows it",
    FileKind.CACHED: "`prototrt cache prune` removes what is old",
    FileKind.RESULT: "a program reads it: docs/json.md describes its keys",
    FileKind.PAGE: "open it in a browser",
    FileKind.DRAWING: "Graphviz shows it, and a browser if it is SVG",
    FileKind.SERVER_MODEL: "Triton runs it, by the config in the folder above",
    FileKind.VIDEO_CONFIG: "name it as config-file-path of nvinfer",
}


def next_step(facts: FileFacts) -> str | None:
    """The command, with the names of the files that lie beside this one; None if there is none."""
    if facts.command:
        return joined(facts.command)
    template = _STEPS.get(facts.kind)
    if facts.kind is FileKind.SAFETENSORS and "of" in facts.mentions:
        template = "prototrt inspect {of}"
    elif "blobs" in facts.mentions:
        template = _STEPS[FileKind.CAFFEMODEL]
    if template is None:
        return None
    path = Path(facts.file)
    net = facts.mentions.get("net") or _net_beside(path)
    weights = facts.mentions.get("weights", _WEIGHTS)
    inputs = facts.facts.get("external inputs")
    is_trusted = facts.kind is FileKind.PLAN and "inputs" not in facts.facts
    names = {
        "file": facts.file,
        "folder": str(path.parent),
        "repository": str(path.parent.parent),
        "stem": path.stem,
        "net": net,
        "net_stem": Path(net).stem,
        "weights": weights,
        "weights_stem": Path(weights).stem,
        "of": facts.mentions.get("of", ""),
        "init_net": _beside(path, "init_net.pb"),
        "predict_net": _beside(path, "predict_net.pb"),
        "input": inputs[0] if isinstance(inputs, list) and inputs else "INPUT",
    }
    words = {name: quoted(text) for name, text in names.items()}
    words["path"] = "" if path.parent == Path() else f"PYTHONPATH={quoted(str(path.parent))} "
    return template.format(**words, plain=facts.file, trust=" --trust" if is_trusted else "")


def hint(facts: FileFacts) -> str | None:
    """What to know before that."""
    return facts.advice or _HINTS.get(facts.kind)


def _net_beside(path: Path) -> str:
    """The net in the folder of the file: ``deploy.prototxt``, or the only prototxt; else a name to be replaced."""
    try:
        nets = [file for file in path.parent.iterdir() if file.suffix == ".prototxt"]
    except OSError:
        return _NET
    chosen = [file for file in nets if file.name == "deploy.prototxt"] or nets
    return str(chosen[0]) if len(chosen) == 1 else _NET


def _beside(path: Path, name: str) -> str:
    """The file of this usual name in the same folder, if it is there; else the name, to be replaced."""
    file = path.parent / name
    return str(file) if file.is_file() else name
