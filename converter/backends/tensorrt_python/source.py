"""The text of a program: its docstring, a function or several that add the layers, and what builds the engine."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prototrt.caffe_proto.common.naming import WORDS, Names, literal
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.backends.python_source import SourceText, heading, plain, value_rows
from prototrt.converter.backends.tensorrt_python import frame
from prototrt.converter.backends.tensorrt_python.recording import (
    NodeCalls,
    RecordedCall,
    RecordedNetwork,
    RecordedTensor,
    Setting,
    TensorName,
)
from prototrt.converter.backends.tensorrt_python.statements import (
    LONGEST,
    Function,
    Hints,
    bracket_lines,
    call_lines,
    indent,
)
from prototrt.converter.backends.tensorrt_python.values import Arrays
from prototrt.converter.backends.torch.expressions import in_tuple
from prototrt.converter.backends.torch.names import identifier
from prototrt.surgery.ir import Graph, Value

_MOST_TOGETHER = 40
"""TensorRT layers of a function, unless one Caffe layer has more."""


def program_text(graph: Graph, network: RecordedNetwork, file: Path, weights: str) -> SourceText:
    """The program that makes this network, which was made from the graph."""
    writer = _StatementWriter(network)
    functions = writer.functions()
    sections = [*frame.helpers(bool(graph.symbols)), *functions, *frame.endings(bool(graph.symbols))]
    head = [_docstring(graph, file), frame.IMPORTS, f"WEIGHTS = Path(__file__).with_name({literal(weights)})"]
    if graph.symbols:
        head.append(_sizes(graph))
        sections.insert(0, _shapes(graph))
    code = "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(sections) + "\n"
    return SourceText(code, writer.arrays.by_alignment)


@dataclass(slots=True)
class _Block:
    """Nodes that one function adds. ``layers`` are their Caffe layers."""

    nodes: list[NodeCalls] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(_layers_in, self.nodes))

    @property
    def layers(self) -> list[str]:
        return [*dict.fromkeys(each.origin.layer for each in self.nodes if each.origin is not None)]


class _StatementWriter:
    """Writes the functions that add layers: one for a short net, else one for each block of it."""

    def __init__(self, network: RecordedNetwork) -> None:
        self._trt, self.arrays = network.trt, Arrays()
        steps = network.calls.steps
        self._nodes = [step for step in steps if isinstance(step, NodeCalls)]
        places = [place for place, step in enumerate(steps) if isinstance(step, NodeCalls)] or [len(steps)]
        self._before, self._after = steps[: places[0]], steps[places[-1] + 1 :]
        self._hints = Hints(network.calls)
        self._taken = {*WORDS, *frame.NAMES}

    def functions(self) -> list[str]:
        """The functions, of which the last one is ``fill``."""
        whole = _Block(self._nodes)
        is_short = whole.size <= _MOST_TOGETHER
        blocks = [] if is_short else [*_blocks(self._nodes)]
        free = Names(self._taken).free
        names = [free(_name(block)) for block in blocks]
        self._taken |= {*names}
        main = self._function(whole.layers[0] if is_short and len(whole.layers) == 1 else "")
        main.write(NodeCalls(None, [*self._before]))
        if is_short:
            for node in self._nodes:
                main.write(node)
        texts = []
        for place, (block, name) in enumerate(zip(blocks, names, strict=True), 1):
            texts.append(
                self._part(main, block, name, [step for each in blocks[place:] for step in each.nodes])
            )
        main.lines.append("")
        main.write(NodeCalls(None, [*self._after]))
        head = ["def fill(network, weights):", f'    """{frame.FILLED}"""']
        return [*texts, "\n".join([*head, *indent(main.lines)])]

    def _function(self, layer: str = "") -> Function:
        return Function(self._trt, self._hints, self.arrays, Names(self._taken), layer)

    def _part(self, main: Function, block: _Block, name: str, later: Sequence[NodeCalls]) -> str:
        """The function of a block, which ``main`` calls."""
        body = self._function(block.layers[0] if len(block.layers) == 1 else "")
        read = {*_tensors([*later, *self._after])}
        for node in block.nodes:
            body.write(node)
        results = [tensor for tensor in _layer_tensors(block.nodes) if tensor in read]
        reads = [main.tensor(tensor) for tensor in body.tensors]
        texts = [body.tensor(tensor) for tensor in results]
        main.lines += _assignment(
            [*map(main.tensor, results)], call_lines(name, ["network", "weights", *reads])
        )
        head = call_lines(f"def {name}", ["network", "weights", *body.tensors.values()])
        head[-1] += ":"
        lines = [f'"""{_title(block)}"""', *body.lines, *_return_lines(texts)]
        return "\n".join([*head, *indent(lines)])


def _assignment(targets: Sequence[str], call: Sequence[str]) -> list[str]:
    """The call of a function, whose results get these names."""
    if not targets:
        return [*call]
    line = f"{', '.join(targets)} = {call[0]}"
    if len(line) <= LONGEST - 4:
        return [line, *call[1:]]
    return [f"results = {call[0]}", *call[1:], *bracket_lines("(", targets, ") = results")]


def _return_lines(texts: Sequence[str]) -> list[str]:
    line = f"return {', '.join(texts)}"
    if len(line) <= LONGEST - 4:
        return [line] if texts else []
    return bracket_lines("return (", texts, ")")


def _layers_in(calls: NodeCalls) -> int:
    return len(calls.layers) + sum(_layers_in(step) for step in calls.steps if isinstance(step, NodeCalls))


def _blocks(nodes: Sequence[NodeCalls]) -> Iterator[_Block]:
    """Caffe layers one after another; those with the same first part of a name, as in ``res2a/``, stay together."""
    block, last = _Block(), list[NodeCalls]()
    for _, group in itertools.groupby(nodes, _stem):
        part = [*group]
        size, apart = _Block(part).size, _MOST_TOGETHER // 2
        if block.nodes and (block.size + size > _MOST_TOGETHER or size > apart or _Block(last).size > apart):
            yield block
            block = _Block()
        block.nodes += part
        last = part
    yield block


def _stem(calls: NodeCalls) -> str:
    return "" if calls.origin is None else calls.origin.layer.split("/")[0]


def _name(block: _Block) -> str:
    """As in ``add_conv1_to_pool1``."""
    first, last = block.layers[0], block.layers[-1]
    return f"add_{identifier(first)}" + ("" if first == last else f"_to_{identifier(last)}")


def _title(block: _Block) -> str:
    first, last = plain(block.layers[0]), plain(block.layers[-1])
    return f"Add Caffe's layer {first}." if first == last else f"Add Caffe's layers {first} to {last}."


def _tensors(steps: Sequence[Any]) -> Iterator[RecordedTensor]:
    """What these steps read or name."""
    for step in steps:
        if isinstance(step, NodeCalls):
            yield from _tensors(step.steps)
        elif isinstance(step, TensorName):
            yield step.tensor
        elif isinstance(step, Setting):
            yield from (each for each in [step.value] if isinstance(each, RecordedTensor))
        elif isinstance(step, RecordedCall):
            nested = [each if isinstance(each, list) else [each] for each in step.arguments]
            yield from (one for each in nested for one in each if isinstance(one, RecordedTensor))


def _layer_tensors(steps: Sequence[Any]) -> Iterator[RecordedTensor]:
    """The tensors that layers of these steps give, in their order."""
    for step in steps:
        if isinstance(step, NodeCalls):
            yield from _layer_tensors(step.steps)
        elif isinstance(step, RecordedCall) and hasattr(step.result, "outputs"):
            yield from step.result.outputs.values()


def _docstring(graph: Graph, file: Path) -> str:
    lines = heading(graph, file.stem, "a program for TensorRT's API")
    lines += [*textwrap.wrap(frame.ABOUT.format(file=plain(file.name)), 100), ""]
    states = {pair.output: pair.input for pair in graph.recurrences}
    lines += _table("Inputs", graph.inputs) + _table("Outputs", graph.outputs)
    if states:
        pairs = [f"    {plain(output.name)} -> {plain(value.name)}" for output, value in states.items()]
        lines += [
            "States: after each call, copy the output into the input; begin with zeros.",
            "",
            *pairs,
            "",
        ]
    return "\n".join(['"""' + lines[0], *lines[1:-1], '"""'])


def _table(title: str, values: Sequence[Value]) -> list[str]:
    return [f"{title}:", "", *value_rows(values, {}), ""]


def _sizes(graph: Graph) -> str:
    rows = [
        f"    {literal(name)}: ({span.min}, {span.opt}, {span.max})," for name, span in graph.symbols.items()
    ]
    return "\n".join(["SIZES = {", *rows, "}", '"""The sizes that vary: smallest, usual, largest."""'])


def _shapes(graph: Graph) -> str:
    rows = []
    for value in graph.inputs:
        if any(not isinstance(dim, int) for dim in value.shape):
            texts = [re.sub(r"([A-Za-z_]\w*)", r'sizes["\1"]', str(dim)) for dim in value.shape]
            rows.append(f"        {literal(value.name)}: {in_tuple(texts)},")
    head = [
        "def shapes(sizes):",
        '    """The shapes of the inputs that vary, for these sizes."""',
        "    return {",
    ]
    return "\n".join([*head, *rows, "    }"])
