"""Primitives as statements of a function: each an assignment, a Scan and a While a loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from prototrt.converter.backends.torch.expressions import (
    Application,
    expression,
    is_scalar,
    number,
    size_text,
)
from prototrt.converter.backends.torch.kernels import StepKernel, StepKernels
from prototrt.converter.backends.torch.names import PythonNames, identifier
from prototrt.surgery.ir import Node, Value
from prototrt.surgery.ops import Binary, Cast, Count, Identity, Reshape, Scan, Select, While

LONGEST = 88
"""Characters of a line, after which a call goes on in the next one."""
DEVICE = "torch.device"
"""Among symbols: the device of the inputs. No size can have this name."""


class Statements:
    """The lines of a function. ``tensor`` names a constant that is no number of an expression.

    ``symbols`` are the sizes that the lines read, and ``DEVICE`` if they make a tensor.
    """

    def __init__(
        self, layer: str, names: PythonNames, tensor: Callable[[Value], str], kernels: StepKernels
    ) -> None:
        self.layer, self.names, self.tensor, self.kernels = layer, names, tensor, kernels
        self.texts: dict[Value, str] = {}
        self.symbols: dict[str, str] = {}
        self.lines: list[str] = []
        self._indent = ""

    def local(self, value: Value) -> str:
        """A new name for a value of the layer."""
        return self.names.new(self.hint(value))

    def hint(self, value: Value) -> str:
        """What a value of the layer is called: its own name, without the layer's; ``y`` for a top."""
        name = value.name.removeprefix("__")
        if name.startswith(f"{self.layer}_"):
            return identifier(name.removeprefix(f"{self.layer}_"))
        return "y" if not value.is_surgical else identifier(name)

    def size(self, dim: object) -> str:
        return size_text(dim, self.symbol)  # type: ignore[arg-type]

    def symbol(self, name: str) -> str:
        """The name of a size in the function."""
        if name not in self.symbols:
            self.symbols[name] = self.names.new(identifier(name))
        return self.symbols[name]

    def text(self, value: Value, as_number: bool = False) -> str:
        """The name of a value, or its number."""
        if value.data is None:
            return self.texts[value]
        if as_number and is_scalar(value):
            return number(value.array.reshape(-1)[0].item())
        return self.tensor(value)

    def expression(self, node: Node, text: Callable[[Value, bool], str] | None = None) -> str:
        """A primitive with one expression."""
        read = text or self.text
        if isinstance(node.op, Count):
            self.symbols[DEVICE] = "device"
        takes_numbers = isinstance(node.op, Binary | Select)
        inputs = [
            read(value, takes_numbers and (not isinstance(node.op, Select) or place > 0))
            for place, value in enumerate(node.inputs)
        ]
        return expression.get(type(node.op))(Application(node, inputs, self.size))

    @contextmanager
    def _indented_lines(self) -> Iterator[None]:
        self._indent += "    "
        yield
        self._indent = self._indent[4:]

    def add(self, line: str) -> None:
        self.lines += wrap(self._indent + line)

    def write(self, nodes: Sequence[Node]) -> None:
        """Write nodes in their order."""
        for node in nodes:
            if isinstance(node.op, Scan):
                self._scan(node, node.op)
            elif isinstance(node.op, While):
                self._while(node, node.op)
            elif isinstance(node.op, Identity) or is_same(node):
                self.texts[node.outputs[0]] = self.text(node.inputs[0])
            else:
                made = self.expression(node)
                self.add(f"{', '.join(map(self._name, node.outputs))} = {made}")

    def _name(self, value: Value) -> str:
        self.texts[value] = self.local(value)
        return self.texts[value]

    def _begin(self, before: Sequence[Value], after: Sequence[Value]) -> list[str]:
        names = [self.local(new if new.data is None else old) for old, new in zip(before, after, strict=True)]
        self.texts |= dict(zip(before, names, strict=True))
        return names

    def _end(self, names: Sequence[str], after: Sequence[Value]) -> None:
        """Give states their values for the next round."""
        texts = [self.text(value) for value in after]
        changed = [(name, text) for name, text in zip(names, texts, strict=True) if name != text]
        self._assign([name for name, _ in changed], [text for _, text in changed])

    def _assign(self, names: Sequence[str], texts: Sequence[str]) -> None:
        if not names:
            return
        line = f"{', '.join(names)} = {', '.join(texts)}"
        is_long = len(names) > 1 and len(self._indent + line) > LONGEST
        self.add(f"{', '.join(names)} = ({', '.join(texts)})" if is_long else line)

    def _scan(self, node: Node, op: Scan) -> None:
        outside, inside = op.named_inputs(node.inputs), op.named_inputs(op.body.inputs)
        results, outputs = op.named_outputs(op.body.outputs), op.named_outputs(node.outputs)
        self.texts |= {
            inner: self.text(outer)
            for inner, outer in zip(inside.invariants, outside.invariants, strict=True)
        }
        states = self._begin(inside.states, results.states)
        lists = [self.names.new(f"{self.local(value)}_steps") for value in outputs.stacked]
        stacked = [name.removesuffix("_steps") for name in lists]
        kernel = self.kernels.kernel(node, op, self.hint)
        if kernel is None:
            self._loop(node, op, states, lists)
        else:
            self._launch(node, op, kernel, states, stacked)
            self.add("else:")
            with self._indented_lines():
                self._loop(node, op, states, lists)
        self.texts |= dict(zip(outputs, [*states, *stacked], strict=True))

    def _loop(self, node: Node, op: Scan, states: Sequence[str], lists: Sequence[str]) -> None:
        outside, inside = op.named_inputs(node.inputs), op.named_inputs(op.body.inputs)
        results = op.named_outputs(op.body.outputs)
        self._assign(states, [self.text(value) for value in outside.states])
        for name in lists:
            self.add(f"{name} = []")
        sequences = [self.text(value) + ".flip(0)" * op.reverse for value in outside.sequences]
        steps = [self._name(value) for value in inside.sequences]
        among = f"zip({', '.join(sequences)}, strict=True)" if len(sequences) > 1 else sequences[0]
        self.add(f"for {', '.join(steps)} in {among}:")
        with self._indented_lines():
            self.write(op.body.nodes)
            for name, value in zip(lists, results.stacked, strict=True):
                self.add(f"{name}.append({self.text(value)})")
            self._end(states, results.states)
        for name in lists:
            self.add(f"{name.removesuffix('_steps')} = torch.stack({name}{'[::-1]' if op.reverse else ''})")

    def _launch(
        self, node: Node, op: Scan, kernel: StepKernel, states: Sequence[str], stacked: Sequence[str]
    ) -> None:
        """The condition of a kernel for all steps, and its call."""
        outside, results = op.named_inputs(node.inputs), op.named_outputs(op.body.outputs)
        read = [self.text(value) for value in (*outside.sequences, *outside.invariants, *kernel.constants)]
        before = [self.text(value) for value in outside.states]
        shown = dict(zip(results.stacked, stacked, strict=True))
        after = [
            shown.get(value) or self.names.new(f"{state}_steps")
            for value, state in zip(results.states, states, strict=True)
        ]
        units = self.names.new("units")
        self.add(f"if {units} := units_of_a_program({before[0]}, {kernel.gates}):")
        with self._indented_lines():
            arguments = (
                f"{kernel.name}, {units}, [{', '.join(read)}], [{', '.join(before)}], {kernel.exchanged}"
            )
            names = ", ".join(after) if len(after) > 1 else f"({after[0]},)"
            self.add(f"{names} = in_one_kernel({arguments})")
            self._assign(states, [f"{name}[{0 if op.reverse else -1}]" for name in after])

    def _while(self, node: Node, op: While) -> None:
        outside, inside = op.named_inputs(node.inputs), op.named_inputs(op.body.inputs)
        results = op.round_outputs(op.body.outputs)
        self.texts |= {
            inner: self.text(outer)
            for inner, outer in zip(inside.invariants, outside.invariants, strict=True)
        }
        states = self._begin(inside.states, results.states)
        self._assign(states, [self.text(value) for value in outside.states])
        self.add("while True:" if op.rounds is None else f"for _ in range({op.rounds}):")
        with self._indented_lines():
            self.write(op.body.nodes)
            again = results.another_round and self.text(results.another_round)
            self._end(states, results.states)
            if again:
                self.add(f"if not {again}:")
                self.add("    break")
        self.texts |= dict(zip(node.outputs, states, strict=True))

    def finish(self, results: Sequence[str]) -> None:
        """Return these values. One that the last line makes is returned at once."""
        self._mark_unread([*results])
        first = self._last_statement()
        begins = self.lines[first].partition(" = ")[0] if self.lines else None
        if [begins] == [*results]:
            self.lines[first] = f"return {self.lines[first].removeprefix(f'{begins} = ')}"
        else:
            line = f"return {', '.join(results)}"
            self.add(line if len(line) <= LONGEST else f"return ({line.removeprefix('return ')})")

    def _last_statement(self) -> int:
        """Where the last statement begins: further lines of one are indented, or close its bracket."""
        return max((place for place, line in enumerate(self.lines) if line[:1] not in (" ", ")")), default=0)

    def _mark_unread(self, results: Sequence[str]) -> None:
        """Begin the names of results that nothing reads with an underscore."""
        words = Counter(re.findall(r"\w+", " ".join([*self.lines, *results])))
        for place, line in enumerate(self.lines):
            names, equals, made = line.partition(" = ")
            if equals and ", " in names and made.endswith(("(", ")")):
                marked = re.sub(r"\w+", lambda match: "_" * (words[match[0]] == 1) + match[0], names)
                self.lines[place] = f"{marked}{equals}{made}"


def is_same(node: Node) -> bool:
    """Whether a Cast or a Reshape changes nothing."""
    if isinstance(node.op, Reshape):
        return node.inputs[0].shape == node.outputs[0].shape
    return isinstance(node.op, Cast) and node.inputs[0].dtype is node.op.to


def wrap(line: str, longest: int = LONGEST) -> list[str]:
    """A line, or several if it is long and ends with parentheses: what is in them in a line, or each part in one."""
    if len(line) <= longest or not line.endswith((")", "):")):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    tail = ":" if line.endswith(":") else ""
    body = line.removesuffix(":")
    opening = _opening(body)
    inner = f"{indent}    {body[opening + 1 : -1]}"
    if len(inner) <= longest:
        return [body[: opening + 1], inner, f"{indent}){tail}"]
    parts = [wrap(f"{indent}    {each}", longest) for each in _arguments(body[opening + 1 : -1])]
    # A comma would make a tuple of a sum in parentheses.
    comma = "," if len(parts) > 1 or re.search(r"[\w\])]$", body[:opening]) else ""
    lines = [line for part in parts for line in (*part[:-1], f"{part[-1]}{comma}")]
    return [body[: opening + 1], *lines, f"{indent}){tail}"]


def _opening(text: str) -> int:
    """Where the last parenthesis of a text opens."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] in ")]") - (text[place] in "([")
        if depth == 0:
            return place
    raise AssertionError(text)


def _arguments(text: str) -> list[str]:
    """The parts of a text between commas that are in no parentheses."""
    parts, depth, since = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append(text[since:place].strip())
            since = place + 1
    return [part for part in [*parts, text[since:].strip()] if part]
