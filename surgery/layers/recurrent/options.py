"""The options of a ``recurrent_param`` beyond Caffe's. Options that do not apply are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import MISSING, dataclass, fields
from prototrt.surgery.building.layer_builder import positive_sizes
from prototrt.surgery.ir import Op
from prototrt.surgery.ops import ELU, Clip, HardSigmoid, Identity, LeakyReLU, Sigmoid, Softsign, TanH

_KINDS: dict[str, type[Op]] = {
    "Clip": Clip,
    "ELU": ELU,
    "HardSigmoid": HardSigmoid,
    "Identity": Identity,
    "ReLU": LeakyReLU,
    "Sigmoid": Sigmoid,
    "Softsign": Softsign,
    "TanH": TanH,
}


def _normalize(name: str) -> str:
    return name.lower().replace("_", "")


_SPELLED = {_normalize(name): kind for name, kind in _KINDS.items()}
_FORM = re.compile(r"\s*(?P<name>\w+)\s*(?:\((?P<numbers>[^()]*)\)\s*)?", re.ASCII)


def activation_named(text: str, field: str) -> Op:
    """The primitive of a name. Case and underscores do not matter.

    Its numbers follow in brackets: ``HardSigmoid(alpha, beta)``, ``ELU(alpha)``, ``Clip(low, high)``,
    ``ReLU(negative slope)``. ``field`` is the name of the field, for messages. Raises ``NetError``.
    """
    form = _FORM.fullmatch(text)
    name = _normalize(form["name"]) if form else ""
    if form and name == "relu6" and form["numbers"] is None:
        return Clip(0, 6)
    if not form or name not in _SPELLED:
        raise NetError(
            f'{field} is "{text}", which is not an activation of a cell', fix=f"use {_offer(name or text)}"
        )
    return _make(_SPELLED[name], form["numbers"] or "", text, field)


def _make(kind: type[Op], numbers: str, text: str, field: str) -> Op:
    names = [item.name for item in fields(kind)]
    arguments: dict[str, float] = {}
    for place, part in enumerate(filter(None, map(str.strip, numbers.split(",")))):
        name, equals, number = part.rpartition("=")
        key = name.strip() if equals else names[place] if place < len(names) else ""
        if key not in names or key in arguments or not _is_number(number):
            raise NetError(
                f'{field} is "{text}", expected {_expected_text(kind)}',
                fix=f'write {field}: "{_example(kind)}"',
            )
        arguments[key] = float(number)
    try:
        return kind(**arguments)
    except TypeError:
        raise NetError(
            f'{field} is "{text}", expected {_expected_text(kind)}', fix=f'write {field}: "{_example(kind)}"'
        ) from None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _name(kind: type[Op]) -> str:
    return next(name for name, candidate in _KINDS.items() if candidate is kind)


def _example(kind: type[Op]) -> str:
    """With the defaults of its numbers, otherwise 0, 1 and so on."""
    items = fields(kind)
    numbers = [place if item.default is MISSING else item.default for place, item in enumerate(items)]
    return f"{_name(kind)}({', '.join(f'{number:g}' for number in numbers)})" if numbers else _name(kind)


def _expected_text(kind: type[Op]) -> str:
    name = _name(kind)
    numbers = ", ".join(item.name for item in fields(kind))
    return f"{name}({numbers}) with numbers" if numbers else f"{name} alone"


def _offer(name: str) -> str:
    import difflib

    kinds = {_normalize(kind): kind for kind in (*_KINDS, "ReLU6")}
    close = [kinds[match] for match in difflib.get_close_matches(_normalize(name), kinds)]
    names = close or sorted(kinds.values())
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


OURS = 1000
"""Fields with this number or a larger one are not Caffe's."""
MOST_LAYERS = 100

Form = TypeVar("Form")
Read = Callable[[Any, str], object]
"""``read(param, field)``: the value of a field, checked; raises ``NetError``."""


def activation(param: Any, field: str) -> Op:
    """The primitive that is named there."""
    return activation_named(getattr(param, field), field)


def limit(param: Any, field: str) -> float:
    """A number that is not negative; 0 means no limit."""
    number = float(getattr(param, field))
    if not number >= 0:
        raise NetError(
            f"{field} is {number:g}, expected a limit above 0, or 0 for none", fix=f"set {field} to 0 or more"
        )
    return number


def flag(param: Any, field: str) -> bool:
    return bool(getattr(param, field))


def size(param: Any, field: str) -> int:
    """A number of units; 0 means none."""
    return int(getattr(param, field))


def number(param: Any, field: str) -> float:
    return float(getattr(param, field))


def choice(param: Any, field: str) -> str:
    """The word that is stated."""
    values = param.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    return str(values[getattr(param, field)].name)


def several_sizes(param: Any, field: str) -> tuple[int, ...]:
    return tuple(int(each) for each in getattr(param, field))


@dataclass(frozen=True, slots=True)
class RecurrentOption:
    """How a field is read, and which other field it needs, or excludes (and ``because`` of what)."""

    read: Read
    needs: str = ""
    excludes: str = ""
    because: str | None = None


OPTIONS: Mapping[str, RecurrentOption] = {
    "bidirectional": RecurrentOption(choice),
    "candidate_activation": RecurrentOption(activation),
    "cell_activation": RecurrentOption(activation),
    "cell_clip": RecurrentOption(limit),
    "coupled_input_forget": RecurrentOption(flag),
    "forget_bias": RecurrentOption(
        number, excludes="coupled_input_forget", because="a forget gate of 1 - i has no bias"
    ),
    "gate_activation": RecurrentOption(activation),
    "hidden": RecurrentOption(several_sizes),
    "input_clip": RecurrentOption(limit),
    "linear_before_reset": RecurrentOption(flag),
    "num_layers": RecurrentOption(size),
    "num_nonrecurrent_proj": RecurrentOption(size),
    "num_proj": RecurrentOption(size),
    "past_end": RecurrentOption(choice, needs="sequence_lengths"),
    "peephole": RecurrentOption(flag),
    "proj_clip": RecurrentOption(limit, needs="num_proj"),
    "projection_activation": RecurrentOption(activation, needs="num_proj"),
    "reverse": RecurrentOption(flag, excludes="bidirectional"),
    "sequence_lengths": RecurrentOption(flag),
}
"""Every field of ours. The ``RecurrentType`` of a layer lists the fields that it supports."""
OF_ANY_STACK = frozenset(
    {"bidirectional", "hidden", "input_clip", "num_layers", "past_end", "reverse", "sequence_lengths"}
)
"""Fields for the structure of layers, whatever their cell."""


def check_options(layer: Layer, names: Collection[str]) -> None:
    """Refuse fields of ours that the layer's type does not support, that lack another field, or exclude it."""
    param = layer.param
    for field, _ in param.ListFields():
        if field.number < OURS:
            continue
        if field.name not in names:
            raise NetError(
                f"states {field.name}, which does not apply to layers of this type",
                fix=f"remove it; the supported fields are {', '.join(sorted(names))}"
                if names
                else "remove it",
            )
        _check(param, field.name, OPTIONS[field.name])


def _check(param: Any, name: str, option: RecurrentOption) -> None:
    value = option.read(param, name)
    if value == option.read(type(param)(), name):
        return
    if option.needs and not getattr(param, option.needs):
        what = f"{name}: {value}" if isinstance(value, str) else name
        raise NetError(f"states {what} without {option.needs}", fix=f"state {option.needs}, too")
    if option.excludes and getattr(param, option.excludes):
        raise NetError(
            f"states both {name} and {option.excludes}",
            because=option.because,
            fix=f"remove {name} or {option.excludes}",
        )


def form_of(kind: type[Form], param: Any) -> Form:
    """The form of a cell: each of its fields is the option of that name. Both have the same default."""
    names = [item.name for item in fields(kind) if param.HasField(item.name)]  # type: ignore[arg-type]  # forms are dataclasses
    return kind(**{name: OPTIONS[name].read(param, name) for name in names})


def is_caffes(param: Any) -> bool:
    """Whether none of our fields is stated: then Caffe could also run the layer."""
    return all(field.number < OURS for field, _ in param.ListFields())


def directions(param: Any) -> tuple[bool, ...]:
    """For each direction, whether it runs backwards."""
    return (False, True) if param.bidirectional else (bool(param.reverse),)


def hidden_sizes(layer: Layer) -> list[int]:
    """How many hidden units each layer of the stack has; raises ``NetError``."""
    param = layer.param
    if param.num_layers > MOST_LAYERS:
        raise NetError(
            f"num_layers is {param.num_layers}, expected at most {MOST_LAYERS}",
            because="each of them becomes nodes of the graph",
            fix="state fewer, or stack several recurrent layers",
        )
    fix = "set num_output in recurrent_param"
    if layer.type == "LSTM" and layer.message.HasField("lstm_param"):
        fix = f'use the type "Lstm", which reads lstm_param, or {fix}'
    sizes = [*map(int, param.hidden or positive_sizes(param, "num_output", fix=fix))]
    if len(sizes) == 1:
        sizes *= int(param.num_layers)
    _refuse_contradictions(param, sizes)
    return sizes


def _refuse_contradictions(param: Any, sizes: Sequence[int]) -> None:
    """Raise ``NetError`` unless all fields that say how large the layers are say the same."""
    if not sizes or min(sizes) < 1:
        raise NetError(
            f"num_layers is {param.num_layers} and hidden {sizes}, expected sizes of at least 1",
            fix="state hidden once per layer, or one size and num_layers",
        )
    if param.HasField("num_layers") and param.num_layers != len(sizes):
        raise NetError(
            f"hidden is stated {len(sizes)} times, expected {param.num_layers}",
            because="of num_layers",
            fix="state hidden once per layer, or one size and num_layers",
        )
    if param.HasField("num_output") and param.num_output != sizes[-1]:
        raise NetError(
            f"num_output is {param.num_output}, expected {sizes[-1]}",
            because="that is the last hidden size",
            fix=f"remove num_output, or set it to {sizes[-1]}",
        )
