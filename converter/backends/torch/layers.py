"""Layers of several primitives as a function or a class of the file, once for all layers that compute alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.backends.torch.expressions import TORCH_TYPES, in_tuple
from prototrt.converter.backends.torch.kernels import StepKernels
from prototrt.converter.backends.torch.names import (
    FUNCTION_PREFIX,
    MODULE_NAMES,
    PythonNames,
    class_name,
    identifier,
)
from prototrt.converter.backends.torch.statements import DEVICE, Statements
from prototrt.surgery.ir import Array, DType, Node, Value


@dataclass(frozen=True, slots=True)
class LayerSource:
    """What a net calls for a layer: ``made`` makes the module, or is None for a function called ``name``."""

    name: str
    made: str | None
    reads: Sequence[Value]
    symbols: Sequence[str]
    results: Sequence[Value]
    arrays: Mapping[str, Array]


class LayerSources:
    """The functions and classes of a file, with names of its register. Equal ones are written once."""

    def __init__(
        self, names: PythonNames, is_learned: Callable[[Node, Value], bool], kernels: StepKernels
    ) -> None:
        self._names, self._kernels = names, kernels
        self._written: dict[str, str] = {}
        self._is_learned = is_learned
        self.sources: list[str] = []

    def part(self, nodes: Sequence[Node], read_elsewhere: Collection[Value]) -> LayerSource:
        """The part that computes these nodes of a layer."""
        layer = nodes[0].origin.layer
        constants: dict[Value, str] = {}
        attributes = PythonNames(["weight", *MODULE_NAMES])

        def tensor(value: Value) -> str:
            if value not in constants:
                hint = value.name.removeprefix("__").removeprefix(f"{layer}_")
                constants[value] = attributes.new(identifier(hint))
            return f"self.{constants[value]}"

        body = Statements(layer, PythonNames(["device"]), tensor, self._kernels)
        made = {value for node in nodes for value in node.outputs}
        reads = [
            *dict.fromkeys(v for node in nodes for v in node.inputs if not v.is_constant and v not in made)
        ]
        for place, value in enumerate(reads):
            body.texts[value] = _argument(body, layer, value, place)
        arguments = [body.texts[value] for value in reads]
        results = [value for node in nodes for value in node.outputs if value in read_elsewhere]
        body.write(nodes)
        body.finish([body.text(value) for value in results])
        arguments = [f"{name}: Tensor" for name in arguments]
        arguments += [
            f"{text}: {'torch.device' if name == DEVICE else 'int'}" for name, text in body.symbols.items()
        ]
        result = result_type(results)
        learned = [value for value in constants if self._is_learned(nodes[0], value)]
        name = self._name(nodes[0], constants, arguments, result, body, learned)
        arrays = {text: value.array for value, text in constants.items()}
        shapes = [f"{text}={in_tuple([*map(str, array.shape)])}" for text, array in arrays.items()]
        made_by = f"{name}({', '.join(shapes)})" if constants else None
        return LayerSource(name, made_by, reads, list(body.symbols), results, arrays)

    def _name(
        self,
        node: Node,
        constants: Mapping[Value, str],
        arguments: Sequence[str],
        result: str,
        body: Statements,
        learned: Collection[Value],
    ) -> str:
        """The name of the source, which is written if there is none like it."""
        kind = node.origin.type
        text = _class(kind, constants, arguments, result, body, learned) if constants else ""
        text = text or _function(kind, arguments, result, body)
        if text not in self._written:
            hint = class_name(kind) if constants else f"{FUNCTION_PREFIX}{identifier(kind)}"
            self._written[text] = self._names.new(hint, "" if constants else "_")
            self.sources.append(text.replace(_NAME, self._written[text]))
        return self._written[text]


_MOST_NAMED = 6
"""Results that an annotation lists one by one."""
_NAME = "\0"
"""Where the name stands in a source."""


def _argument(body: Statements, layer: str, value: Value, place: int) -> str:
    """A name for what a layer reads: ``x`` for its bottom; cont and states keep theirs."""
    if value.name.startswith(f"{layer}_"):
        return body.names.new(identifier(value.name.removeprefix(f"{layer}_")))
    if identifier(value.name) == "cont":
        return body.names.new("cont")
    return body.names.new("xyz"[min(place, 2)])


def _function(kind: str, arguments: Sequence[str], result: str, body: Statements) -> str:
    lines = [*def_lines("", _NAME, arguments, result), f'    """Caffe\'s {_plain(kind)}."""']
    return "\n".join([*lines, *(f"    {line}" for line in body.lines)])


def _class(
    kind: str,
    constants: Mapping[Value, str],
    arguments: Sequence[str],
    result: str,
    body: Statements,
    learned: Collection[Value],
) -> str:
    shapes = [f"{name}: Sequence[int]" for name in constants.values()]
    lines = [f"class {_NAME}(nn.Module):", f'    """Caffe\'s {_plain(kind)}."""', ""]
    lines += def_lines("    ", "__init__", ["self", *shapes], "None")
    lines.append("        super().__init__()")
    for value, name in constants.items():
        if value in learned and value.dtype is DType.FLOAT32:
            lines.append(f"        self.{name} = nn.Parameter(torch.zeros({name}))")
        else:
            kind_of = "" if value.dtype is DType.FLOAT32 else f", dtype={TORCH_TYPES[value.dtype]}"
            lines.append(f'        self.register_buffer("{name}", torch.zeros({name}{kind_of}))')
    lines += ["", *def_lines("    ", "forward", ["self", *arguments], result)]
    return "\n".join([*lines, *(f"        {line}" for line in body.lines)])


def result_type(values: Sequence[Value]) -> str:
    """The annotation of a function that returns these values."""
    if len(values) > _MOST_NAMED:
        return "tuple[Tensor, ...]"
    return "Tensor" if len(values) == 1 else f"tuple[{', '.join(['Tensor'] * len(values))}]"


def def_lines(indent: str, name: str, arguments: Sequence[str], result: str) -> list[str]:
    """The line of a def; one argument a line if it is long."""
    line = f"{indent}def {name}({', '.join(arguments)}) -> {result}:"
    if len(line) + 20 <= 110:
        return [line]
    return [
        f"{indent}def {name}(",
        *(f"{indent}    {each}," for each in arguments),
        f"{indent}) -> {result}:",
    ]


def _plain(kind: str) -> str:
    return "".join(letter for letter in kind if letter.isalnum() or letter in "_-. ")
