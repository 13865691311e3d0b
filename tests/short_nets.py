"""Nets in one line, as goldens/repairs writes them.

``TYPE(shapes of the bottoms) fields``: one layer, whose bottoms are b0, b1 and so on, and whose top is y, or those
after ``->`` up to a semicolon. ``x=1x4, z=4: `` stands for inputs before the rest of a prototxt.
``caffe2(x=1x4, w:3x4) TYPE(x w -> y) axis=1; ...``: operators of a Caffe2 net, an input x and a weight w.
``RecurrentNetwork(x h0 w b -> all last ws) **recurrence(...)`` has the arguments of a plain one but for those stated;
``step`` are the operators of its step net, with ``&`` between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prototrt.tests.caffe2_nets import net, operator
from prototrt.tests.small_nets import inputs_of, op

_LAYER = re.compile(r"(?P<type>\w+)\((?P<shapes>[^)]*)\)(?: -> (?P<tops>[\w ]+);)?(?P<fields>.*)", re.DOTALL)
_INPUTS = re.compile(r"(\w+=[\dx]+(?:, \w+=[\dx]+)*): ")
_CAFFE2 = re.compile(r"caffe2\(([^)]*)\) (.*)", re.DOTALL)
_OPERATOR = re.compile(r"(\w+)\(([\w ]*) -> ([\w ]+)\)(.*)")


@dataclass(frozen=True)
class ShortNet:
    """The text of its file, and for a net of Caffe2 that of the init net, and the shapes of the inputs."""

    text: str
    init: str | None = None
    shapes: Mapping[str, list[int]] = field(default_factory=dict)


def written_out(short: str) -> ShortNet:
    """The net that this is short for; a whole prototxt stands for itself."""
    if operators := _CAFFE2.fullmatch(short):
        return _of_caffe2(operators[1].split(", "), operators[2].split("; "))
    if layer := _LAYER.fullmatch(short):
        shapes = {f"b{index}": _sizes(shape) for index, shape in enumerate(layer["shapes"].split(", "))}
        one = op(layer["type"], layer["fields"], shapes, (layer["tops"] or "y").split())
        return ShortNet(inputs_of(shapes) + one)
    if whole := _INPUTS.match(short):
        return ShortNet(inputs_of(_shapes(whole[1].split(", "), "=")) + short[whole.end() :])
    return ShortNet(short)


def _of_caffe2(blobs: Iterable[str], operators: Iterable[str]) -> ShortNet:
    shapes, weights = _shapes(blobs, "="), _shapes(blobs, ":")
    made = [_operator(each) for each in operators]
    predict = net(*made, external_input=[*shapes, *weights], external_output=made[-1].output)
    fills = [operator("ConstantFill", (), [name], shape=shape, value=0.5) for name, shape in weights.items()]
    init = net(*fills, operator("ConstantFill", (), ["unused"], shape=[1]))
    return ShortNet(str(predict), str(init), shapes)


def _operator(text: str) -> Any:
    match = _OPERATOR.fullmatch(text)
    assert match, text
    arguments = eval(f"dict({match[4]})", {"recurrence": _recurrence})
    return operator(match[1], match[2].split(), match[3].split(), **arguments)


def _recurrence(
    step: str = "FC(h_prev w b -> p) axis=2 & Sum(p x_t -> s) & Tanh(s -> h_new)", **changes: Any
) -> dict[str, Any]:
    """The arguments of a RecurrentNetwork over x with the one state h, which starts with input 1."""
    return {
        "step_net": net(*map(_operator, step.split(" & "))),
        "recurrent_states": ["h"],
        "initial_recurrent_state_ids": [1],
        "link_internal": ["h_prev", "h_new", "x_t"],
        "link_external": ["h", "h", "x"],
        "link_offset": [0, 1, 0],
        "alias_src": ["h", "h"],
        "alias_dst": ["all", "last"],
        "alias_offset": [1, -1],
        **changes,
    }


def _shapes(blobs: Iterable[str], sign: str) -> dict[str, list[int]]:
    return {name: _sizes(shape) for name, found, shape in (each.partition(sign) for each in blobs) if found}


def _sizes(shape: str) -> list[int]:
    return [*map(int, shape.split("x"))]
