"""What the pages list: the types of layers, and the operators of Caffe2."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.surgery.views.support import LayerSupport, support_of

_ORIGIN = re.compile(r"[.:)] From ([^;,]+)")


def page_list(rows: list[LayerSupport]) -> str:
    """What docs/layers.md lists: all types, with the fork that they are from; those written in Python last."""
    lists: tuple[list[str], list[str]] = ([], [])
    for row in rows:
        name, origin = row.type.removeprefix("Python: "), _ORIGIN.search(row.notes)
        text = f"`{name}`" if name != row.type else name
        lists[name != row.type].append(f"{text} ({origin[1].removesuffix('.')})" if origin else text)
    return "\n\nWritten in Python: ".join(", ".join(names) for names in lists)


def supported_operators() -> list[LayerSupport]:
    """The operators of Caffe2 that are supported. Those with the same rule share a row."""
    names: dict[Callable[..., Any], list[str]] = {}
    for type_name, rule in sorted(framework_by_name("caffe2").rules.rules.items()):
        if type_name != "Input":
            names.setdefault(rule, []).append(type_name)
    return [support_of(", ".join(types), rule) for rule, types in names.items()]
