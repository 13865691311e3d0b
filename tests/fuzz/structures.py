"""Changes to pickles, JSON and lines that keep them what they are, one operation, member or line away."""

from __future__ import annotations

import json
import pickletools
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**31, 10**400, 0.5, -1.0, 1e308, float("inf"), float("nan")),
    *("", "x", "\ud800", [], {}),
)
_OPERATIONS = (
    *(code.code.encode("latin-1") for code in pickletools.opcodes if code.arg is None),
    *(b"K\x01", b"h\x00", b"h\x01", b"q\x00", b"r\xff\xff\xff\x7f", b"X\x01\x00\x00\x00a"),
    *(
        b"X\x05\x00\x00\x00model",
        b"ctorch._utils\n_rebuild_tensor_v2\n",
        b"ctorch._utils\n_rebuild_parameter\n",
    ),
    *(b"ctorch\nFloatStorage\n", b"ccollections\nOrderedDict\n", b"cbuiltins\neval\n"),
    *(b"\x8a\x08" + b"\xff" * 8, b"\x8a\x00"),
)
_WORDS = (
    *("", " ", ":", "1.0", "-1", "1e400", "nan", "3f800000", "7f800000", "x", "{", "}", "\t", "\x00"),
    *("fc", "fc_param_0"),
)


def _changed(items: Sequence[T], chance: Random, other: Callable[[], T]) -> list[T]:
    """One of the items removed, repeated, moved, or replaced."""
    changed = [*items] or [other()]
    place, to = chance.randrange(len(changed)), chance.randrange(len(changed))
    action = chance.choice(("remove", "repeat", "swap", "replace", "add"))
    if action == "remove":
        del changed[place]
    elif action == "repeat":
        changed.insert(to, changed[place])
    elif action == "swap":
        changed[place], changed[to] = changed[to], changed[place]
    elif action == "replace":
        changed[place] = other()
    else:
        changed.insert(place, other())
    return changed


def mutated_pickle(data: bytes, chance: Random) -> bytes:
    """A pickle, a few operations away."""
    parts, before = list[bytes](), 0
    operations: Any = pickletools.genops(data)
    with suppress(ValueError, IndexError):  # where it ends
        for _, _, place in operations:
            parts.append(data[before:place])
            before = place
    parts.append(data[before:])
    for _ in range(chance.randint(1, 3)):
        parts = _changed(parts, chance, lambda: chance.choice(_OPERATIONS))
    return b"".join(parts)


def mutated_json(data: bytes, chance: Random) -> bytes:
    """JSON, a few members away."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = {}
    for _ in range(chance.randint(1, 3)):
        value = _with_another_member(value, chance)
    return json.dumps(value).encode()


def _with_another_member(value: Any, chance: Random) -> Any:
    """The value with a change somewhere in it."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return chance.choice(_VALUES)
    if chance.random() < 0.7:  # deeper
        key = chance.choice([*value] if isinstance(value, dict) else range(len(value)))
        value[key] = _with_another_member(value[key], chance)
        return value
    if isinstance(value, list):
        return _changed(value, chance, lambda: chance.choice(_VALUES))
    return dict(
        _changed([*value.items()], chance, lambda: (chance.choice([*value, "x"]), chance.choice(_VALUES)))
    )


def mutated_lines(data: bytes, chance: Random) -> bytes:
    """Lines of words, a few lines or words away."""
    lines = data.decode("utf-8", "replace").split("\n")
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(lines))
        if chance.random() < 0.3:
            lines = _changed(lines, chance, lambda: chance.choice(_WORDS)) or [""]
        else:
            lines[place] = " ".join(_changed(lines[place].split(" "), chance, lambda: chance.choice(_WORDS)))
    return "\n".join(lines).encode()
