"""The values that options accept: shapes, overrides, ways, states, files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from prototrt.converter.files.written_values import (
    ANY_TRUST,
    definition_from_text,
    file_of_state,
    numbers_from_text,
    open_shape_from_text,
    override_from_text,
    plugin_from_text,
    pools_from_text,
    profile_from_text,
    range_from_text,
    recurrence_from_text,
    replacement_from_text,
    shape_from_text,
    sizes_from_text,
    state_from_text,
    trust_from_text,
    with_state_file,
    words_from_text,
)

if TYPE_CHECKING:
    from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile


class ShownType(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """``name`` is shown in help as it is written; click would have capitals throughout."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name


class ReadType(ShownType):
    """What the library reads; ``reader`` raises ``ValueError``."""

    reader: Callable[[str], Any]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or (param is not None and value == param.default):
            return value  # click also converts defaults, which are values already
        try:
            return type(self).reader(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class BlobShape(ReadType):
    """``NAME:1x3x224x224`` or ``NAME:[N]x3x[16*H]x224``"""

    name = "NAME:SIZExSIZE..."
    reader = staticmethod(open_shape_from_text)


class SizeRange(ReadType):
    """``NAME=1..16..64``"""

    name = "NAME=MIN..OPT..MAX"
    reader = staticmethod(range_from_text)


class BlobShapes(ReadType):
    """``NAME:1x3x224x224,NAME:...``, as trtexec writes shapes."""

    name = "NAME:SIZExSIZE...,..."

    @staticmethod
    def reader(text: str) -> dict[str, tuple[int, ...]]:
        return dict(map(shape_from_text, text.split(",")))


class Pools(ReadType):
    """``workspace:512MiB,dlaSRAM:1MiB``, as trtexec writes pools of memory."""

    name = "POOL:SIZE,..."
    reader = staticmethod(pools_from_text)


class ProfileText(ReadType):
    """``T=1..8..16,N=1..4``"""

    name = "NAME=SIZE..SIZE,..."
    reader = staticmethod(profile_from_text)


class Trust(ReadType):
    """``sha256:4f0c...``"""

    name = "DIGEST"
    reader = staticmethod(trust_from_text)


class Words(ReadType):
    """Words with commas between them. Further ones may follow where the option is given again."""

    reader = staticmethod(words_from_text)


class Capabilities(Words):
    """``8.6,8.9``"""

    name = "CAPABILITY,..."


class Numbers(ReadType):
    """``104,117,123``"""

    name = "NUMBER,..."
    reader = staticmethod(numbers_from_text)


class Sizes(ReadType):
    """``256`` or ``256x320``"""

    name = "SIZE|HEIGHTxWIDTH"
    reader = staticmethod(sizes_from_text)


class Override(ReadType):
    """``LAYER.FIELD=VALUE``"""

    name = "LAYER.FIELD=VALUE"
    reader = staticmethod(override_from_text)


class Definition(ReadType):
    """``NAME=VALUE``"""

    name = "NAME=VALUE"
    reader = staticmethod(definition_from_text)


class FedOutput(ReadType):
    """``OUTPUT=INPUT``"""

    name = "OUTPUT=INPUT"
    reader = staticmethod(recurrence_from_text)


class PluginForType(ReadType):
    """``TYPE=NAME:VERSION:NAMESPACE``"""

    name = "TYPE=NAME:VERSION[:NAMESPACE]"
    reader = staticmethod(plugin_from_text)


class Blobs(Words):
    """``conv1,fc7``"""

    name = "BLOB,...|all"


class Ways(Words):
    """``network,onnx``"""

    name = "WAY,..."


def joined(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All ``Words`` of an option that was given several times."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


class InputFile(click.Path):
    """A file that a command reads, and therefore never writes.

    Whoever reads it tells what is wrong with it, and what helps.
    """

    def __init__(self) -> None:
        super().__init__(readable=False)

    def files(self, source: str) -> Iterator[str | PathLike[str]]:
        """All files that are read for the sake of this one; a folder is searched when the first is asked for."""
        yield source


class DataSource(InputFile):
    """A file, or a folder of arrays or images."""

    def files(self, source: str) -> Iterator[str | PathLike[str]]:
        from prototrt.converter.running.data.data import files_in

        yield from files_in(Path(source))


class PythonFunction(InputFile):
    """``FILE.py:FUNCTION``"""

    def files(self, source: str) -> Iterator[str | PathLike[str]]:
        yield from (source, source.rpartition(":")[0])


class RuleForLayer(InputFile):
    """``LAYER=FILE.py:FUNCTION``"""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return replacement_from_text(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def files(self, source: Any) -> Iterator[str | PathLike[str]]:
        for place in source.values():
            yield place.rpartition(":")[0]


class NetOrFolder(InputFile):
    """A net, or a folder of nets."""

    def files(self, source: str) -> Iterator[str | PathLike[str]]:
        from prototrt.converter.showing.survey.survey import nets_below

        yield from nets_below([source])


class OutputFile(ShownType):
    """A file that can be written, checked before the work begins: its name ends in one of the suffixes, if any."""

    name = "FILE"

    def __init__(self, *suffixes: str) -> None:
        self.suffixes = suffixes

    def files(self, target: str) -> list[str]:
        """All files that are written for the sake of this one."""
        return [target]

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What click adds to its message for an option that is not given."""
        suffix = self.suffixes[0] if self.suffixes else ""
        return f"Name the file to write, as in {param.opts[0]} net{suffix}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from prototrt.converter.files.writing.files import why_misnamed, why_unwritable

        if problem := why_misnamed(value, self.suffixes):
            self.fail(problem, param, ctx)
        if problem := why_unwritable(value):
            self.fail(f'cannot write "{value}": {problem}', param, ctx)
        for file in self.files(value):
            if problem := why_unwritable(file, follow_link=file == value):
                self.fail(f'cannot write "{file}": {problem}', param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class ProductFile(OutputFile):
    """An engine or a model, with its manifest and its weights."""

    def files(self, target: str) -> list[str]:
        from prototrt.converter.files.writing.side_files import product_files

        return product_files(target)


class StateSource(ReadType):
    """``bind``, ``zero``, or ``const FILE.npz``, which arrives here as ``const:FILE.npz``."""

    name = "bind|zero|const FILE.npz"

    @staticmethod
    def reader(text: str) -> str | ArraysOfFile:
        file = file_of_state(state_from_text(text))
        if file is None:
            return text
        from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile

        return ArraysOfFile(file)


def with_one_word_each(arguments: Sequence[str]) -> list[str]:
    """Arguments with ``--state const FILE`` as ``--state const:FILE``, and ``--trust`` without a digest as
    ``--trust=any``: an option has one value for click."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=False)
    joined = [
        f"{word}={ANY_TRUST}" if word == "--trust" and not after.startswith("sha") else word
        for word, after in pairs
    ]
    for place, argument in enumerate(joined):
        if argument == "const" and joined[place - 1 : place] == ["--state"] and place + 1 < len(joined):
            return [*joined[:place], with_state_file(joined[place + 1]), *joined[place + 2 :]]
    return joined
