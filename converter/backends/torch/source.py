"""The source of a module: its docstring, the functions that it needs, and a class with a line for each layer."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from prototrt.caffe_proto.common.naming import literal
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.weights.module_state import TABLE
from prototrt.converter.backends.python_source import SourceText, heading, plain, value_rows
from prototrt.converter.backends.torch import cells
from prototrt.converter.backends.torch.blobs import TableOfBlobs, is_learned
from prototrt.converter.backends.torch.cells import is_cell
from prototrt.converter.backends.torch.expressions import TORCH_TYPES, atom, in_tuple, is_scalar
from prototrt.converter.backends.torch.functions import FUNCTIONS, NEEDS
from prototrt.converter.backends.torch.kernels import LOAD_WRITTEN, StepKernels
from prototrt.converter.backends.torch.layers import LayerSources, def_lines, result_type
from prototrt.converter.backends.torch.modules import batch_norm, module_of
from prototrt.converter.backends.torch.names import MODULE_NAMES, PythonNames, class_name, identifier
from prototrt.converter.backends.torch.statements import (
    DEVICE,
    LONGEST,
    Statements,
    is_same,
    wrap,
)
from prototrt.surgery.ir import Array, Graph, Node, Value
from prototrt.surgery.ir.shapes import symbol_sources
from prototrt.surgery.ir.uniform_constants import memory_of
from prototrt.surgery.ops import Binary, Identity, Scan, Select, Slice, TopK, While

_LONGEST_COMMENTED = 100
"""Characters of a line with a comment, which is cut there."""
_MOST_INLINE = 3
"""Primitives of a layer that may be one expression."""


@dataclass(slots=True)
class _Net:
    made: list[str] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    attributes: PythonNames = field(default_factory=lambda: PythonNames(MODULE_NAMES))


def module_text(graph: Graph, weights_file: str) -> SourceText:
    """The module of a graph, whose weights are in a file beside it."""
    names = PythonNames()
    name = names.new(class_name(graph.name or "net"), "")
    writer = _NetText(graph, names)
    forward = writer.forward()
    writer.add_table()
    body = [*writer.net.made, *_ties(writer.net.arrays)]
    sections = [
        *_functions("\n".join([*body, *forward, *writer.parts.sources])),
        *_kernels(writer.kernels.sources),
        *writer.parts.sources,
        _class(name, body, forward),
        _LOAD.replace("NAME", name),
    ]
    code = "\n\n\n".join(sections)
    path = f"WEIGHTS = Path(__file__).with_name({literal(weights_file)})"
    docstring = writer.docstring(name)
    return SourceText(f"{docstring}\n\n{_imports(code)}\n\n{path}\n\n\n{code}\n", writer.net.arrays)


class _NetText:
    def __init__(self, graph: Graph, names: PythonNames) -> None:
        self.graph, self.net, self.table = graph, _Net(), TableOfBlobs(graph)
        self.kernels = StepKernels(names)
        self.parts = LayerSources(names, is_learned(graph), self.kernels)
        self._groups = [
            [*nodes]
            for _, nodes in itertools.groupby(graph.nodes, lambda n: (n.origin, is_cell(n) and n.name))
        ]
        self._cells: dict[tuple[Value, ...], str] = {}
        self._reordered: dict[object, Array] = {}
        self._with_cells = {node.origin for node in graph.nodes if is_cell(node)}
        self._same = {node.inputs[0]: node.outputs[0] for node in graph.nodes if is_same(node)}
        self._last_use = self._last_uses()
        states = [pair.input for pair in graph.recurrences if not pair.exposed]
        self.inputs = [value for value in graph.inputs if value not in states]
        self.states = states
        self.body = Statements("", PythonNames(["device"]), self._tensor, self.kernels)
        self._bases: dict[str, str] = {}
        self._held: dict[str, Value] = {}
        self._arguments: dict[Value, str] = {}
        self._place = -1

    def _last_uses(self) -> dict[Value, int]:
        last = {value: place for place, nodes in enumerate(self._groups) for n in nodes for value in n.inputs}
        return last | dict.fromkeys(self.graph.outputs, len(self._groups))

    def _variable(self, value: Value) -> str:
        """The name of a value: its blob's, which an in-place layer writes again."""
        base = identifier(value.name.split("@")[0].removeprefix("__"))
        if base not in self._bases:
            self._bases[base] = self.body.names.new(base)
        name = self._bases[base]
        held = self._held.get(name)
        if held is not None and self._last_use.get(held, -1) > self._place:
            name = self.body.names.new(base)
        self._held[name] = value
        self.body.texts[value] = name
        return name

    def _tensor(self, value: Value) -> str:
        """A constant of the net itself."""
        key = self.net.attributes.new(identifier(value.name.removeprefix("__")))
        self.table.add(value.array, key)
        self._buffer(key, value.array, TORCH_TYPES[value.dtype])
        return f"self.{key}"

    def _buffer(self, key: str, array: Array, dtype: str) -> None:
        self.net.arrays[key] = array
        shape = in_tuple([*map(str, array.shape)])
        self.net.made.append(f'self.register_buffer("{key}", torch.zeros({shape}, dtype={dtype}))')

    def add_table(self) -> None:
        """Let the state dict say which blob of Caffe each of its tensors is, if blobs were read."""
        if any(self.graph.learned.values()):
            self.net.made.append(
                "# Which blob of Caffe each weight is: by this, prototrt reads trained weights."
            )
            self._buffer(TABLE, self.table.as_array(self.net.arrays), "torch.uint8")

    def forward(self) -> list[str]:
        """The lines of the method ``forward``."""
        for value in (*self.inputs, *self.states):
            self._arguments[value] = self._variable(value)
        arguments = [f"{self._arguments[value]}: Tensor" for value in self.inputs]
        arguments += [f"{self._arguments[value]}: Tensor | None = None" for value in self.states]
        for place, nodes in enumerate(self._groups):
            self._place = place
            self._write(nodes)
        self.body.finish([self.body.text(value) for value in self.graph.outputs])
        start = [*self._sizes()]
        head = def_lines("", "forward", ["self", *arguments], result_type(self.graph.outputs))
        return [*head, *(f"    {line}" for line in [*start, *self.body.lines])]

    def _sizes(self) -> Iterator[str]:
        """Sizes that vary, the device, and states that are left out."""
        first = next(iter(self._arguments.values())) if self._arguments else ""
        shapes = [in_tuple([*map(self.body.size, value.shape)]) for value in self.states]
        sources = symbol_sources([*self.inputs, *self.states])
        for symbol, name in self.body.symbols.items():
            if symbol == DEVICE:
                yield f"device = {first}.device" if first else 'device = torch.device("cpu")'
                continue
            source = sources[symbol]
            text = f"{self._arguments[source.input]}.shape[{source.axis}]"
            if not source.is_plain:
                text = f"({text} - {source.summand}) // {source.factor}"
            yield f"{name} = {text}"
        for value, shape in zip(self.states, shapes, strict=True):
            name = self._arguments[value]
            yield f"if {name} is None:"
            yield f"    {name} = {first}.new_zeros({shape})"

    def _write(self, nodes: Sequence[Node]) -> None:
        """Write the primitives of a layer: as a module, as an expression, or as a call of a function."""
        results = [
            value for node in nodes for value in node.outputs if self._last_use.get(value, -1) > self._place
        ]
        for value in (value for node in nodes for value in node.outputs if isinstance(node.op, Identity)):
            if value in results and len(nodes) == 1:
                self.body.texts[value] = self.body.text(nodes[0].inputs[0])
                return
        if not results:
            return
        if is_cell(nodes[0]):
            self._write_cell(nodes[0])
            return
        if nodes[0].origin in self._with_cells:
            self.body.write(nodes)
            return
        if results == [nodes[-1].outputs[0]] and self._write_module(nodes):
            return
        if self._write_split(nodes) or self._write_expression(nodes, results):
            return
        self._write_part(nodes, results)

    def _write_module(self, nodes: Sequence[Node]) -> bool:
        blobs = self.graph.learned.get(nodes[0].origin.layer, ())
        module = batch_norm(nodes, blobs) or module_of(nodes)
        if module is None:
            return False
        name = self._attribute(nodes[0], module.made, module.arrays)
        for key, array in module.arrays.items():
            self.table.add(array, f"{name}.{key}")
        x = atom(self.body.text(module.x)) if module.reads != "{}" else self.body.text(module.x)
        read = module.reads.format(x)
        self.body.add(f"{self._variable(nodes[-1].outputs[0])} = self.{name}({read})")
        return True

    def _write_cell(self, node: Node) -> None:
        """Write a call of an LSTM, a GRU or an RNN of torch.nn; sequences one after another have one module."""
        weights = cells.weights_of(node)
        if weights not in self._cells:
            arrays = cells.arrays(node, self._reordered)
            name = self._attribute(node, cells.constructor(node), arrays)
            cells.note_blobs(node, name, arrays, self.table)
            self._cells[weights] = name
        call = cells.call(node, f"self.{self._cells[weights]}", lambda value: atom(self.body.text(value)))
        names = ["_"] * len(node.outputs)
        for place, value in enumerate(node.outputs):
            if self._last_use.get(value, -1) > self._place:
                names[place] = self.body.texts[value] = self._variable(self._same.get(value, value))
        self.body.add(f"{cells.targets(node, names)} = {call}")
        if cells.is_reverse(node) and names[-1] != "_":
            self.body.add(f"{names[-1]} = {names[-1]}.flip(0)")

    def _attribute(self, node: Node, made: str, arrays: Mapping[str, Array]) -> str:
        """A module of the net, which has the name of its layer."""
        layer = node.origin.layer or node.name
        name = self.net.attributes.new(identifier(layer))
        comment = "" if name == layer else f"  # {visible_line(layer)}"
        line = f"self.{name} = {made}"
        lines = wrap(line, LONGEST - 8) if len(line + comment) > _LONGEST_COMMENTED else [line]
        comment = comment[: max(_LONGEST_COMMENTED - len(lines[0]), 0)].rstrip()
        self.net.made += [lines[0] + comment * (len(comment) > len("  #")), *lines[1:]]
        self.net.arrays |= {f"{name}.{key}": array for key, array in arrays.items()}
        return name

    def _write_split(self, nodes: Sequence[Node]) -> bool:
        """A layer that cuts all of an axis into pieces."""
        if len(nodes) < 2 or not all(isinstance(node.op, Slice) for node in nodes):
            return False
        ops = [node.op for node in nodes if isinstance(node.op, Slice)]
        x, axis = nodes[0].inputs[0], ops[0].axis
        ends = [0, *itertools.accumulate(op.size for op in ops)]
        if any(node.inputs[0] is not x for node in nodes) or any(op.axis != axis for op in ops):
            return False
        if ends != [*(op.start for op in ops), x.shape[axis]]:
            return False
        text = atom(self.body.text(x))
        names = ", ".join(self._variable(node.outputs[0]) for node in nodes)
        sizes = in_tuple([self.body.size(op.size) for op in ops])
        self.body.add(f"{names} = {text}.split({sizes}, {axis})")
        return True

    def _write_expression(self, nodes: Sequence[Node], results: Sequence[Value]) -> bool:
        """A few primitives without weights, each of which the next ones read once."""
        reads = [value for node in nodes for value in node.inputs]
        inner = [value for node in nodes for value in node.outputs]
        is_tree = all(reads.count(value) == 1 for value in inner if value not in results)
        constants = [value for value in reads if value.is_constant and not is_scalar(value)]
        loops = any(isinstance(node.op, Scan | While | TopK) for node in nodes)
        if len(results) != 1 or constants or loops or not is_tree or len(nodes) > _MOST_INLINE:
            return False
        if results[0] is not nodes[-1].outputs[0]:
            return False
        if any(is_scalar(v) and not isinstance(n.op, Binary | Select) for n in nodes for v in n.inputs):
            return False
        texts: dict[Value, str] = {}

        def text(value: Value, as_number: bool) -> str:
            return texts[value] if value in texts else self.body.text(value, as_number)

        for node in nodes:
            texts[node.outputs[0]] = self.body.expression(node, text)
        made = texts[results[0]]
        self.body.add(f"{self._variable(results[0])} = {made}")
        return True

    def _write_part(self, nodes: Sequence[Node], results: Sequence[Value]) -> None:
        part = self.parts.part(nodes, results)
        called = part.name
        if part.made is not None:
            name = self._attribute(nodes[0], part.made, part.arrays)
            for key, array in part.arrays.items():
                self.table.add(array, f"{name}.{key}")
            called = f"self.{name}"
        texts = [self.body.text(value) for value in part.reads]
        for symbol in part.symbols:
            if symbol == DEVICE:
                self.body.symbols[DEVICE] = "device"
            texts.append("device" if symbol == DEVICE else self.body.symbol(symbol))
        names = ", ".join(self._variable(value) for value in part.results)
        self.body.add(f"{names} = {called}({', '.join(texts)})")

    def docstring(self, name: str) -> str:
        """What a reader must know: shapes, states, preprocessing, and where the file comes from."""
        graph = self.graph
        states = {pair.output for pair in graph.recurrences if not pair.exposed}
        outputs = [value for value in graph.outputs if value not in states]
        lines = heading(graph, name, "a PyTorch module")
        lines += [*_table("Arguments", self.inputs, self._arguments), *_table("Results", outputs, {})]
        if self.states:
            lines += [*_table("States", self.states, self._arguments)]
            lines += [*textwrap.wrap(_STATES, 88), ""]
        if any(len(value.shape) == 4 and value.shape[1] == 3 for value in self.inputs):
            lines += [*textwrap.wrap(_PREPROCESSED if self._is_preprocessed else _IMAGES, 88), ""]
        unread = [name for name, facts in self.table.layers.items() if facts is None]
        one_way = [
            f"prototrt cannot read back the weights of {', '.join(unread)}: here are numbers that were computed of them"
        ]
        for warning in (*graph.warnings, *one_way[: len(unread)]):
            note = str(warning)
            for source in graph.sources:  # folders of this machine mean nothing to whoever reads the module
                note = note.replace(source.file, Path(source.file).name)
            lines += [*textwrap.wrap(f"Note: {plain(note)}", 88), ""]
        return "\n".join(['"""' + lines[0], *lines[1:-1], '"""'])

    @property
    def _is_preprocessed(self) -> bool:
        """Whether the net does what the transform_param of its inputs says: else an Input computes nothing."""
        return any(node.origin.type == "Input" for node in self.graph.nodes)


_STATES = (
    "A state that is left out is zeros. The states after the call are the last results, in the same order: pass"
    " them to the next call to go on."
)
_IMAGES = (
    "Preprocessing: as for Caffe. Caffe's nets mostly read images with channels in the order blue, green, red, from 0"
    " to 255, minus the mean of the training data; the transform_param of the training net says so."
)
_PREPROCESSED = (
    "Preprocessing: the module subtracts the mean and scales, as the net's transform_param says. Images have channels"
    " in the order of the training data, mostly blue, green, red."
)
_LOAD = '''def load(path: str | Path = WEIGHTS) -> NAME:
    """The net with its weights, ready to compute. Call ``train()`` on it to train."""
    net = NAME()
    net.load_state_dict(load_file(path))
    return net.eval()'''


def _table(title: str, values: Sequence[Value], names: Mapping[Value, str]) -> list[str]:
    return [f"{title}:", *value_rows(values, names), ""]


def _ties(arrays: Mapping[str, Array]) -> Iterator[str]:
    """Weights that two layers share are one parameter."""
    owners: dict[object, str] = {}
    for key, array in arrays.items():
        if "." not in key or 0 in array.strides or array.dtype != np.float32:
            continue
        if key.rpartition(".")[2].startswith("running"):
            continue
        place = memory_of(array)
        if place in owners:
            yield f"self.{key} = self.{owners[place]}"
        owners.setdefault(place, key)


def _functions(code: str) -> list[str]:
    names = [name for name in FUNCTIONS if re.search(rf"(?<![\w.]){name}\(", code)]
    needed = [*names, *(NEEDS[name] for name in names if name in NEEDS)]
    return [source for name, source in FUNCTIONS.items() if name in needed]


def _kernels(sources: Sequence[str]) -> list[str]:
    lines = "\n\n".join([LOAD_WRITTEN, *sources]).split("\n")
    indented = [part for line in lines for part in wrap(f"    {line}".rstrip(), _LONGEST_COMMENTED)]
    return ["\n".join(["if triton is not None:", *indented])] if sources else []


def _class(name: str, made: Sequence[str], forward: Sequence[str]) -> str:
    lines = [f"class {name}(nn.Module):", "    def __init__(self) -> None:", "        super().__init__()"]
    lines += [f"        {line}" for line in made]
    return "\n".join([*lines, "", *(f"    {line}" for line in forward)])


def _imports(code: str) -> str:
    lines = ["from __future__ import annotations", ""]
    lines += ["from collections.abc import Sequence"] * ("Sequence[" in code) + [
        "from pathlib import Path",
        "",
    ]
    lines += ["import torch"] * bool(re.search(r"(?<!\w)torch\.", code))
    lines += ["from safetensors.torch import load_file", "from torch import Tensor, nn"]
    lines += ["from torch.nn import functional"] * ("functional." in code)
    return "\n".join(lines + ["", _TRITON] * ("@triton.jit" in code))


_TRITON = """try:
    import triton
    import triton.language as tl
except ImportError:  # PyTorch brings it for GPUs
    triton = None
else:
    if [*map(int, triton.__version__.split(".")[:2])] < [3, 4]:  # it cannot compile the kernels
        triton = None"""
