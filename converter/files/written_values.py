"""Values of options as people write them, on a command line and in a list of models.

What cannot be read raises ``ValueError`` with what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from prototrt.caffe_proto.common.options import takes_words, type_of
from prototrt.caffe_proto.common.records import Field, dataclass
from prototrt.surgery.options import STATE_FILE

_MOST_DIGITS = 18
_FIRST_OF_SHAPES = re.compile(r".*?:(\[[^\]:]*\]|[^\[:,])*(?=,[^,]*:)", re.DOTALL)
ANY_TRUST = "any"


def shape_from_text(text: str) -> tuple[str, tuple[int, ...]]:
    """``data:1x3x224x224``: the name of a blob, and sizes."""
    blob, colon, sizes = text.rpartition(":")
    parts = sizes.split("x")
    if not (blob and colon and all(map(_is_size, parts))):
        raise ValueError(
            f'"{text}" is not a shape: write the blob\'s name, a colon, and sizes of 1 or more'
            f" with x between them, as in {_shape_meant(text)}"
        )
    return blob, tuple(map(int, parts))


def _shape_meant(text: str) -> str:
    """The shape that a text with other separators states: ``data=1,3,224,224``; else any shape."""
    *names, sizes = re.split("[:=](?=[^:=]*$)", text)
    blob = "".join(names)
    parts = re.findall("[0-9]+", sizes)
    is_shape = (
        re.fullmatch(r"[\[(]?\d+([ ,;*xX]+\d+)*[\])]?", sizes)
        and all(map(_is_size, parts))
        and "=" not in blob
    )
    return f"{blob or 'data'}:{'x'.join(parts)}" if is_shape else "data:1x3x224x224"


def open_shape_from_text(text: str) -> tuple[str, tuple[int | str, ...]]:
    """``data:[T*N]x3x224x224``: as ``shape_from_text``, with names and formulas in brackets for sizes that vary."""
    blob, colon, sizes = text.rpartition(":")
    parts = re.split(r"x(?![^\[]{0,1000}\])", sizes)
    if re.fullmatch(r"([^:]+=)?[\dx]*", sizes) or not re.search(r"[A-Za-z]", sizes):
        return shape_from_text(text)
    if blob and re.fullmatch(r"(\d+|[A-Z])(x(\d+|[A-Z]))*", sizes):
        raise ValueError(
            f'"{text}" has letters for sizes: write numbers, as in data:1x3x224x224, or brackets around those'
            " that vary, as in data:[N]x3x224x224"
        )
    if not (blob and colon and all(_is_size(part) or re.fullmatch(r"\[[^\[\]]+\]", part) for part in parts)):
        raise ValueError(
            f'"{text}" is not a shape: write the blob\'s name, a colon, and sizes with x between them; those that'
            " vary stand in brackets, as in data:[N]x3x[16*H]x224"
        )
    return blob, tuple(int(part) if _is_size(part) else part[1:-1] for part in parts)


def open_shapes_from_text(text: str) -> dict[str, tuple[int | str, ...]]:
    """``data:[T]x2x3,cont:[T]x2``: a shape, or several, as trtexec takes them. The name of a blob may have commas."""
    texts = []
    while first := _FIRST_OF_SHAPES.match(text):
        texts.append(first[0])
        text = text[first.end() + 1 :]
    return dict(map(open_shape_from_text, (*texts, text)))


def range_from_text(text: str) -> tuple[str, tuple[int, ...]]:
    """``T=1..16..64``: the name of a size, and its smallest, usual and largest value; ``T=1..64`` if that is usual."""
    name, equals, sizes = text.partition("=")
    parts = sizes.split("..")
    if not (name and equals and len(parts) in (2, 3) and all(map(_is_size, parts))):
        raise ValueError(
            f'"{text}" is not a range: write a name and its sizes, of 1 or more, as in T=1..16..64'
        )
    return name, tuple(map(int, parts))


def _is_size(text: str) -> bool:
    # Python refuses to convert thousands of digits.
    return text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) > 0


def override_from_text(text: str) -> tuple[str, str]:
    """``lstm1.recurrent_param.cell_activation=ReLU``: a field of layers, and its value."""
    path, equals, value = text.partition("=")
    if not (equals and "." in path):
        raise ValueError(
            f'"{text}" is not a setting: write the layer, the field and its value, as in'
            " lstm1.recurrent_param.cell_activation=ReLU"
        )
    return path, value


def definition_from_text(text: str) -> tuple[str, str]:
    """``BATCH=1``: a placeholder of a template, and what is filled in for it."""
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()) or "\n" in value:
        raise ValueError(f'"{text}" is not a definition: write a name and its value, as in BATCH=1')
    return name, value


def recurrence_from_text(text: str) -> tuple[str, str]:
    """``h=h_prev``: an output, and the input that it feeds in the next call."""
    output, equals, fed = text.partition("=")
    if not (output and equals and fed):
        raise ValueError(f'"{text}" is not a recurrence: write the output and the input, as in h=h_prev')
    return output, fed


def replacement_from_text(text: str) -> tuple[str, str]:
    """``roi_pool=my_rules.py:my_pool``: a layer, and the file and the function that is its rule."""
    layer, equals, place = text.rpartition("=")
    file, colon, function = place.rpartition(":")
    if not (equals and layer and colon and file and function.isidentifier()):
        raise ValueError(
            f'"{text}" is not a replacement: write the layer, the file and its function, as in'
            " roi_pool=my_rules.py:my_pool"
        )
    return layer, place


def plugin_from_text(text: str) -> tuple[str, str]:
    """``RoiAlign=RoiAlign:1:acme``: a type of layers, and a plugin's name, version and namespace."""
    kind, equals, plugin = text.partition("=")
    if not (equals and kind and ":" in plugin):
        raise ValueError(
            f'"{text}" names no plugin: write the type of the layers, the plugin\'s name and its version, as in'
            " RoiAlign=RoiAlign:1 or RoiAlign=RoiAlign:1:acme"
        )
    return kind, plugin


def pools_from_text(text: str) -> dict[str, str]:
    """``workspace:512MiB,dlaSRAM:1MiB``: pools of memory and their sizes."""
    pairs = [part.replace("=", ":").partition(":") for part in text.split(",")]
    if not all(pool and size for pool, _, size in pairs):
        raise ValueError(
            f'"{text}" is not a list of pools: write a pool, a colon, and a size with its unit, as in workspace:512MiB'
        )
    return {pool: size for pool, _, size in pairs}


def profile_from_text(text: str) -> dict[str, tuple[int, ...]]:
    """``T=1..8..16,N=1..4``: the smallest, usual and largest values of sizes, by their names."""
    ranges = dict(map(range_from_text, text.split(",")))
    return {
        name: (sizes[0], sizes[-2] if len(sizes) > 2 else sizes[-1], sizes[-1])
        for name, sizes in ranges.items()
    }


def trust_from_text(text: str) -> bool | str:
    """``sha256:4f0c...``, the digest of a manifest; or ``any``, for plans without one."""
    return True if text == ANY_TRUST else text


def words_from_text(text: str) -> tuple[str, ...]:
    """``network,onnx``, each once."""
    return tuple(dict.fromkeys(text.split(",")))


def numbers_from_text(text: str) -> tuple[float, ...]:
    """``104,117,123``"""
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f'"{text}" is not numbers with commas between them, as in 104,117,123') from None


def sizes_from_text(text: str) -> tuple[int, ...]:
    """``256``, or ``256x320``: a side, or height and width, in pixels."""
    parts = text.split("x")
    if len(parts) > 2 or not all(map(_is_size, parts)):
        raise ValueError(f'"{text}" is not a size: write the shorter side, as in 256, or HEIGHTxWIDTH')
    return tuple(map(int, parts))


def state_from_text(text: str) -> str:
    """``bind``, ``zero``, or ``const FILE.npz``, which becomes ``const:FILE.npz``."""
    mode, _, file = text.replace("const ", STATE_FILE, 1).partition(":")
    if mode == "const" and file.strip():
        return f"{STATE_FILE}{file.strip()}"
    if text not in ("bind", "zero"):
        raise ValueError(f'"{text}" is not one of bind, zero, const FILE.npz')
    return text


def with_files(kind: str, value: Any, change: Callable[[str], str]) -> Any:
    """A value of this type, or of None, with other names of the files in it, ``change`` of each."""
    if value is None:
        return None
    if kind == "Replacements":
        return {layer: with_files("PythonFunction", place, change) for layer, place in value.items()}
    if kind == "PythonFunction":  # a text without a function is refused when the file is read
        file, colon, function = value.rpartition(":")
        return f"{change(file)}:{function}" if colon else change(value)
    if kind == "States":
        is_file = value.startswith(STATE_FILE)
        return f"{STATE_FILE}{change(value.removeprefix(STATE_FILE))}" if is_file else value
    return change(value)


def files_in(kind: str, value: Any) -> list[str]:
    """The files that a value of this type names."""
    files: list[str] = []

    def note(file: str) -> str:
        files.append(file)
        return file

    with_files(kind, value, note)
    return files


@dataclass(frozen=True, slots=True)
class Notation:
    """How the values of a type are written: in words of a command line, of which help shows ``shown``, or in YAML.

    ``read`` reads a word, ``collect`` joins what several words gave; None if there is one word. They follow each other
    in one word, with commas, if ``is_one_word``, else the option repeats. A list of models may have a mapping in their
    place if there is a ``pair``, which stands between a name and its value in a word, or is empty if the value is
    the text as it is. ``join`` makes one text of a list in it. ``example`` is a word, where ``shown`` does not say all.
    """

    shown: str
    read: Callable[[str], Any]
    collect: Callable[[Iterable[Any]], Any] | None = None
    pair: str | None = None
    join: Callable[[Sequence[str]], str] | None = None
    is_one_word: bool = False
    example: str = ""

    @property
    def repeats(self) -> bool:
        return self.collect is not None and not self.is_one_word

    def value(self, word: str) -> Any:
        """What one word of a command line states. Raises ``ValueError``."""
        if self.collect is None or self.repeats:
            return self.read(word)
        return self.collect(map(self.read, word.split(",")))


def _joined(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


def _merged(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for each in mappings for name, value in each.items()}


def _open_sizes(sizes: Sequence[str]) -> str:
    """Sizes of a list, in which those that vary need no brackets."""
    return "x".join(
        size if size.lstrip("-").isdecimal() or size.startswith("[") else f"[{size}]" for size in sizes
    )


WORDS = Notation("WORD,...", words_from_text, _joined)
NOTATIONS: Mapping[str, Notation] = {
    "Definitions": Notation("NAME=VALUE", definition_from_text, dict, "", example="BATCH=1"),
    "ImageSize": Notation("SIZE|HEIGHTxWIDTH", sizes_from_text, example="256"),
    "Names": Notation("NAME", str, tuple),
    "Numbers": Notation("NUMBER,...", numbers_from_text, example="104,117,123"),
    "OpenShapes": Notation(
        "NAME:SIZExSIZE...", open_shapes_from_text, _merged, ":", _open_sizes, example="data:1x3x224x224"
    ),
    "Overrides": Notation(
        "LAYER.FIELD=VALUE",
        override_from_text,
        dict,
        "",
        ",".join,
        example="lstm1.recurrent_param.cell_activation=ReLU",
    ),
    "Plugins": Notation(
        "TYPE=NAME:VERSION[:NAMESPACE]", plugin_from_text, dict, "", example="RoiAlign=RoiAlign:1"
    ),
    "PoolSizes": Notation("POOL:SIZE,...", pools_from_text, pair="", example="workspace:512MiB"),
    "Profiles": Notation(
        "NAME=SIZE..SIZE,...", profile_from_text, tuple, "=", "..".join, example="T=1..8..16,N=1..4"
    ),
    "Recurrences": Notation("OUTPUT=INPUT", recurrence_from_text, dict, "", example="h=h_prev"),
    "Replacements": Notation(
        "LAYER=FILE.py:FUNCTION", replacement_from_text, dict, "", example="roi_pool=my_rules.py:my_pool"
    ),
    "Shapes": Notation(
        "NAME:SIZExSIZE...,...",
        shape_from_text,
        dict,
        ":",
        "x".join,
        is_one_word=True,
        example="data:1x3x224x224",
    ),
    "SizeRanges": Notation(
        "NAME=MIN..OPT..MAX", range_from_text, dict, "=", "..".join, example="T=1..16..64"
    ),
    "States": Notation("bind|zero|const FILE.npz", state_from_text, example="zero"),
    "Trust": Notation("DIGEST", trust_from_text),
}
"""By the names of types. Values of all others are a word, a number, true or false."""


def notation_of(option_field: Field[Any]) -> Notation | None:
    """How the values of a field are written; None for a word, a number, and true or false."""
    return WORDS if takes_words(option_field) else NOTATIONS.get(type_of(option_field))
