"""Activations of cells, by their names in nets: ``TanH``, ``HardSigmoid(0.2, 0.5)``."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import MISSING, fields

from prototrt.caffe_proto.common.errors import NetError
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


def _squashed(name: str) -> str:
    return name.lower().replace("_", "")


_SPELLED = {_squashed(name): kind for name, kind in _KINDS.items()}
_FORM = re.compile(r"\s*(?P<name>\w+)\s*(?:\((?P<numbers>[^()]*)\)\s*)?", re.ASCII)


def activation_named(text: str, field: str) -> Op:
    """The primitive of a name. Case and underscores do not matter.

    Its numbers follow in brackets: ``HardSigmoid(alpha, beta)``, ``ELU(alpha)``, ``Clip(low, high)``,
    ``ReLU(negative slope)``. ``field`` is the name of the field, for messages. Raises ``NetError``.
    """
    form = _FORM.fullmatch(text)
    name = _squashed(form["name"]) if form else ""
    if form and name == "relu6" and form["numbers"] is None:
        return Clip(0, 6)
    if not form or name not in _SPELLED:
        raise NetError(
            f'{field} is "{text}", which is not an activation of a cell', fix=f"use {_offered(name or text)}"
        )
    return _made(_SPELLED[name], form["numbers"] or "", text, field)


def _made(kind: type[Op], numbers: str, text: str, field: str) -> Op:
    names = [item.name for item in fields(kind)]
    arguments: dict[str, float] = {}
    for place, part in enumerate(filter(None, map(str.strip, numbers.split(",")))):
        name, equals, number = part.rpartition("=")
        key = name.strip() if equals else names[place] if place < len(names) else ""
        if key not in names or key in arguments or not _is_number(number):
            raise NetError(
                f'{field} is "{text}", expected {_expected(kind)}',
                fix=f'write {field}: "{_example(kind)}"',
            )
        arguments[key] = float(number)
    try:
        return kind(**arguments)
    except TypeError:
        raise NetError(
            f'{field} is "{text}", expected {_expected(kind)}',
            fix=f'write {field}: "{_example(kind)}"',
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


def _expected(kind: type[Op]) -> str:
    name = _name(kind)
    numbers = ", ".join(item.name for item in fields(kind))
    return f"{name}({numbers}) with numbers" if numbers else f"{name} alone"


def _offered(name: str) -> str:
    kinds = {_squashed(kind): kind for kind in (*_KINDS, "ReLU6")}
    close = [kinds[match] for match in difflib.get_close_matches(_squashed(name), kinds)]
    names = close or sorted(kinds.values())
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
