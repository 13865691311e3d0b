"""What may be written behind an option: shapes, overrides, ways, states, files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

ON = ("reference", "network", "onnx", "onnx-lstm", "engine")
"""The ways of ``Session``, which click must know without importing it; a test compares them."""


class Written(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """``name`` is shown in help as it is written; click would have capitals throughout."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name


class BlobShape(Written):
    """``NAME:1x3x224x224``"""

    name = "NAME:SIZExSIZE..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        blob, colon, sizes = value.rpartition(":")
        parts = sizes.split("x")
        if not (blob and colon and all(part.isdecimal() and int(part) > 0 for part in parts)):
            self.fail(
                f'"{value}" is no shape: write the blob\'s name, a colon, and sizes of 1 or more'
                " with x between them, as in data:1x3x224x224",
                param,
                ctx,
            )
        return blob, tuple(map(int, parts))


class BlobShapes(Written):
    """``NAME:1x3x224x224,NAME:...``, as trtexec writes shapes."""

    name = "NAME:SIZExSIZE...,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, tuple[int, ...]]:
        if isinstance(value, dict):  # click converts defaults, too
            return value
        return dict(BlobShape().convert(part, param, ctx) for part in value.split(","))


class Override(Written):
    """``LAYER.FIELD=VALUE``"""

    name = "LAYER.FIELD=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        path, equals, setting = value.partition("=")
        if not (equals and "." in path):
            self.fail(
                f'"{value}" sets nothing: write the layer, the field and its value, as in'
                " lstm1.recurrent_param.cell_activation=ReLU",
                param,
                ctx,
            )
        return path, setting


class Ways(Written):
    """``network,onnx``"""

    name = "WAY,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        ways = tuple(dict.fromkeys(value.split(",")))
        for way in ways:
            if way not in ON:
                self.fail(f'"{way}" is no way to run a net: expected some of {", ".join(ON)}', param, ctx)
        return ways


class OutputFile(Written):
    """A file that can be written, told before the work begins."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from prototrt.converter.files import why_unwritable

        if problem := why_unwritable(value):
            self.fail(f'cannot write "{value}": {problem}', param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class StateSource(Written):
    """``bind``, ``zero``, or ``const FILE.npz``, which comes here as ``const:FILE.npz``."""

    name = "bind|zero|const FILE.npz"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        mode, _, file = value.partition(":")
        if value not in ("bind", "zero") and not (mode == "const" and file):
            self.fail(f'"{value}" is none of bind, zero, const FILE.npz', param, ctx)
        return str(value)


def with_state_file(arguments: Sequence[str]) -> list[str]:
    """Arguments with ``--state const FILE`` as ``--state const:FILE``: an option has one value for click."""
    joined = list(arguments)
    for place, argument in enumerate(joined):
        if argument == "const" and joined[place - 1 : place] == ["--state"] and place + 1 < len(joined):
            return [*joined[:place], f"const:{joined[place + 1]}", *joined[place + 2 :]]
    return joined
