"""Recorded calls as statements of a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.naming import Names, literal
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.converter.backends.tensorrt_python.recording import (
    ArrayOfCall,
    NodeCalls,
    RecordedCall,
    RecordedLayer,
    RecordedOwner,
    RecordedTensor,
    Setting,
    TensorName,
)
from prototrt.converter.backends.tensorrt_python.values import Arrays, argument_text, is_mask, mask_text
from prototrt.converter.backends.torch.names import identifier
from prototrt.surgery.ir import Node
from prototrt.surgery.ops import Scan

LONGEST = 110
"""Characters of a line, after which each argument of a call has one."""


def _without_numbers(name: str) -> str:
    """The name of a node without the numbers that passes and copies append."""
    stem, _, number = name.rpartition("_")
    return _without_numbers(stem) if stem and number.isdecimal() else name


class Hints:
    """What the variables of a program are called, if no other one has that name."""

    def __init__(self, calls: NodeCalls) -> None:
        self._calls: dict[Any, tuple[RecordedCall, Node | None]] = {}
        self._names: dict[RecordedTensor, str] = {}
        self._learn(calls)

    def _learn(self, calls: NodeCalls) -> None:
        for step in calls.steps:
            if isinstance(step, NodeCalls):
                self._learn(step)
            elif isinstance(step, TensorName):
                self._names[step.tensor] = step.name
            elif isinstance(step, RecordedCall):
                self._calls[step.result] = step, calls.node

    def tensor(self, tensor: RecordedTensor) -> str:
        """The name of a value, or of the layer that makes it."""
        if tensor in self._names:
            return self._names[tensor].split("@")[0]
        return str(tensor.name) if tensor.layer is None else self.result(tensor.layer)

    def result(self, result: Any) -> str:
        """For a layer or a loop."""
        call, node = self._calls[result]
        kind = call.method.removeprefix("add_").removesuffix("_nd")
        weights = [each for each in call.arguments if isinstance(each, ArrayOfCall)]
        if kind in ("recurrence", "iterator"):
            return self._in_a_loop(call.arguments[0], "before" if kind == "recurrence" else "t")
        if kind == "loop_output":
            is_last = call.arguments[1].name == "LAST_VALUE"
            return self.tensor(result.get_output(0)).removesuffix("_T") + ("_last" if is_last else "_all")
        if kind == "constant" and weights[0].value is not None:
            return weights[0].value.name
        if node is None:
            return kind
        own = f"{node.origin.layer}_"
        if kind in ("loop", "trip_limit"):
            return own + kind
        if kind == "constant" and isinstance(node.op, Scan):
            return f"{own}steps"
        return self._of_node(result, node, kind)

    def _of_node(self, layer: RecordedLayer, node: Node, kind: str) -> str:
        named = self._names.get(layer.get_output(0))
        if len(node.outputs) > 1 and named is not None:
            return named
        name = _without_numbers(node.name) if node.is_surgical else node.name
        return name if named is not None else f"{name}_{kind}"

    def _in_a_loop(self, tensor: RecordedTensor, ending: str) -> str:
        """After what comes into the loop, before it was reshaped."""
        while tensor.layer is not None and self._calls[tensor.layer][0].method == "add_shuffle":
            tensor = self._calls[tensor.layer][0].arguments[0]
        return f"{_without_numbers(self.tensor(tensor))}_{ending}"


class Function:
    """The lines of a function. ``layer`` is the only Caffe layer in it, whose variables need no prefix."""

    def __init__(self, trt: Any, hints: Hints, arrays: Arrays, taken: Names, layer: str = "") -> None:
        self._trt, self._hints, self._arrays = trt, hints, arrays
        self._names, self._layer = taken, layer
        self._results: dict[Any, str] = {}
        self.tensors: dict[RecordedTensor, str] = {}
        """Those that come from outside, and their variables."""
        self.made: set[RecordedLayer] = set()
        self.lines: list[str] = []
        self._note = ""

    def variable(self, hint: str) -> str:
        """A new name."""
        hint = hint.removeprefix("__")
        if self._layer and hint != self._layer:
            hint = hint.removeprefix(f"{self._layer}_")
        return self._names.free(identifier(hint))

    def tensor(self, tensor: RecordedTensor) -> str:
        """An expression; a tensor from outside becomes a parameter."""
        if tensor.layer in self.made:
            return f"{self._results[tensor.layer]}.get_output({tensor.place})"
        if tensor not in self.tensors:
            self.tensors[tensor] = self.variable(self._hints.tensor(tensor))
        return self.tensors[tensor]

    def write(self, calls: NodeCalls) -> None:
        """A node, with what TensorRT keeps about its layers."""
        for step in calls.steps:
            if isinstance(step, NodeCalls):
                self.write(step)
                continue
            self._head(calls.origin)
            if isinstance(step, RecordedCall):
                self._write_call(step, calls.node)
            elif isinstance(step, Setting):
                self._write_setting(step)
            elif calls.node is None:
                self.lines.append(f"{self.tensor(step.tensor)}.name = {literal(step.name)}")
        if calls.node is not None:
            self._write_names(calls, calls.node)

    def _head(self, origin: Origin | None) -> None:
        """The comment about a Caffe layer, where its layers begin."""
        if origin is None or origin.note == self._note:
            return
        self._note = origin.note
        where = f"{origin.layer} ({origin.type}), {Path(origin.file).name}:{origin.line}"
        self.lines += ["", f"# {visible_line(where)}"[: LONGEST - 4], f"note = {literal(self._note)}"]

    def _write_call(self, call: RecordedCall, node: Node | None) -> None:
        owner = self._results.get(call.owner, "network")
        target = ""
        if isinstance(call.result, RecordedOwner):
            self.lines += ["", "# A loop: what reads its recurrences and iterators is its body."]
        if isinstance(call.result, RecordedLayer | RecordedOwner):
            self._results[call.result] = self.variable(self._hints.result(call.result))
            target = f"{self._results[call.result]} = "
        elif isinstance(call.result, RecordedTensor):
            target = f"{self.tensor(call.result)} = "
        if isinstance(call.result, RecordedLayer):
            self.made.add(call.result)
        if call.method == "add_concatenation":
            texts = [*map(self.tensor, call.arguments[0])]
            self.lines += bracket_lines(f"{target}{owner}.{call.method}([", texts, "])")
            return
        texts = [*self._arguments(call, "" if node is None else node.name)]
        self.lines += call_lines(f"{target}{owner}.{call.method}", texts)

    def _arguments(self, call: RecordedCall, node: str) -> Iterator[str]:
        for place, argument in enumerate(call.arguments):
            if isinstance(argument, RecordedTensor):
                yield self.tensor(argument)
            elif isinstance(argument, ArrayOfCall):
                yield self._arrays.text(argument, node)
            elif is_mask(call.method, place):
                yield mask_text(argument)
            else:
                yield argument_text(self._trt, argument)

    def _write_setting(self, step: Setting) -> None:
        layer = self._results[step.layer]
        if isinstance(step.value, RecordedTensor):
            self.lines.append(f"{layer}.set_input({step.attribute}, {self.tensor(step.value)})")
            return
        is_set = step.attribute == "axes"
        value = mask_text(step.value) if is_set else argument_text(self._trt, step.value)
        self.lines.append(f"{layer}.{step.attribute} = {value}")

    def _write_names(self, calls: NodeCalls, node: Node) -> None:
        """The names of layers and results; a node without layers renames what an earlier one made."""
        if node.origin.note != self._note:
            self._note = node.origin.note
            self.lines.append(f"note = {literal(self._note)}")
        layers = calls.layers
        names = {step.tensor: step.name for step in calls.steps if isinstance(step, TensorName)}
        result = [name for tensor, name in names.items() if layers and tensor.layer is layers[-1]]
        is_one = len(names) == len(result) == 1
        if layers:
            texts = [literal(node.name), "note", *(self._results[layer] for layer in layers)]
            if not is_one:
                texts.append("result=None")
            elif result[0] != node.name:
                texts.append(f"result={literal(result[0])}")
            self.lines += call_lines("named", texts)
        for tensor, name in names.items() if not is_one else ():
            self.lines.append(f"{self.tensor(tensor)}.name = {literal(name)}")


def call_lines(function: str, arguments: Sequence[str]) -> list[str]:
    """A call in one line, or its arguments in one line, or in a line each."""
    return bracket_lines(f"{function}(", arguments, ")")


def bracket_lines(opening: str, texts: Sequence[str], closing: str) -> list[str]:
    """Parts between brackets."""
    joined = ", ".join(texts)
    if len(opening + joined + closing) <= LONGEST - 4:
        return [opening + joined + closing]
    if len(joined) <= LONGEST - 8:
        return [opening, f"    {joined}", closing]
    return [opening, *(f"    {each}," for each in texts), closing]


def indent(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]
