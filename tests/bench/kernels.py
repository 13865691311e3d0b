"""How many kernels a recurrent engine launches: a plan of TensorRT for RTX holds its program as text."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import prototrt
from prototrt import Form, LayoutName, Precision
from prototrt.caffe_proto.common.options import narrow
from prototrt.tests.bench.measuring import report

HIDDEN = 256
LAYERS: Mapping[str, tuple[str, str]] = {
    "LSTM": ("LSTM", ""),
    "LSTM with peepholes": ("LSTM", "peephole: true"),
    "two LSTM layers": ("LSTM", "num_layers: 2"),
    "LSTM in both directions": ("LSTM", "bidirectional: CONCAT"),
    "LSTM with projection": ("LSTM", "num_proj: 128"),
    "GRU": ("GRU", ""),
    "GRU in both directions": ("GRU", "bidirectional: CONCAT"),
    "GRU with linear_before_reset": ("GRU", "linear_before_reset: true"),
    "RNN": ("RNN", ""),
    "VanillaRNN": ("VanillaRNN", ""),
}
"""Type and fields of each layer."""
FORMS = {"step": 1, "loop": 32, "unroll": 8}
"""T of each form; TensorRT writes eight steps of a loop out."""
_WRITTEN_OUT = 8
_PROGRAM = re.compile(rb"\nmain \{\n(.*?)\n\}", re.DOTALL)
_HOST = {"add", "cjmp", "label", "memset", "signal", "wait"}
"""Instructions that count, jump, clear and order streams; all others launch kernels."""


def main(layer: str, form: str, precision: str) -> None:
    known = narrow("sequence", form, get_args(Form)), narrow("precision", precision, get_args(Precision))
    report({"kernels": kernels(layer, *known)})


def kernels(
    layer: str, form: Form, precision: Precision, layout: LayoutName = "caffe", streams: int = 1
) -> float:
    """Kernels a step, by default for one stream; those before and after the steps count where they are written out."""
    steps = FORMS[form]
    plan = plan_of(layer, form, precision, steps, layout, streams)
    if form != "loop":
        return len(launched(plan)) / steps
    return sum(len([kind for kind in loop if kind not in _HOST]) for loop in _loops(plan)) // _WRITTEN_OUT


def kernels_of_a_call(layer: str, form: Form, precision: Precision, steps: int) -> int:
    """All kernels of one call, for as few steps as TensorRT writes out by itself."""
    plan = plan_of(layer, form, precision, steps)
    assert not _loops(plan), "the number of kernels depends on how often the loop runs"
    return len(launched(plan))


def plan_of(
    layer: str, form: Form, precision: Precision, steps: int, layout: LayoutName = "caffe", streams: int = 1
) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.prototxt")
        path.write_text(_net(*LAYERS[layer], steps, streams))
        model = prototrt.load(path, random_weights=1)
        graph = prototrt.rewrite(model, sequence=form, precision=precision, layout=layout)
        return bytes(prototrt.build(graph, "rtx").plan)


def _loops(plan: bytes) -> list[list[str]]:
    return [block for block in blocks(plan) if "cjmp" in block]


def launched(plan: bytes) -> list[str]:
    """What the program launches, one by one."""
    return [kind for block in blocks(plan) for kind in block if kind not in _HOST]


def blocks(plan: bytes) -> list[list[str]]:
    """The kinds of instructions in the program, label by label."""
    program = _PROGRAM.search(plan)
    assert program is not None, "a plan holds its program as text"
    found: list[list[str]] = []
    for line in program[1].decode(errors="replace").splitlines():
        kind = re.split(r"[ =]", line.strip(), maxsplit=1)[0]
        if kind == "label":
            found.append([])
        found[-1].append(kind)
    return found


def _net(kind: str, fields: str, steps: int, streams: int) -> str:
    return f"""
        layer {{ name: "x" type: "Input" top: "x"
                 input_param {{ shape {{ dim: {steps} dim: {streams} dim: {HIDDEN} }} }} }}
        layer {{ name: "cont" type: "Input" top: "cont" input_param {{ shape {{ dim: {steps} dim: {streams} }} }} }}
        layer {{ name: "l" type: "{kind}" bottom: "x" bottom: "cont" top: "h"
                 recurrent_param {{ num_output: {HIDDEN} {fields} }} }}"""


if __name__ == "__main__":
    main(*sys.argv[2:])
