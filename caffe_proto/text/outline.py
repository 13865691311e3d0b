"""What a text is, by the words that no block is around: a net of either framework, or a solver."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prototrt.caffe_proto.text.tokens import TokenKind, tokens

_WORDS_OF_NETDEF = ("op", "external_input", "external_output")
_WORDS_OF_CAFFE = ("layer", "layers", "input", "input_dim", "input_shape", "state")
_SOLVER = re.compile(
    r"^[^\S\n]*(?:base_lr|lr_policy|solver_mode|max_iter|train_net|snapshot_prefix)\s*:", re.MULTILINE
)
_NET_OF_SOLVER = re.compile(r"^[^\S\n]*(?:net|train_net)\s*:\s*[\"']([^\"']+)", re.MULTILINE)
_OF_NET = re.compile(r"^[^\S\n]*(?:layers?|input|op)\b", re.MULTILINE)
_NETS_INSIDE = ("net_param", "test_net_param", "train_net_param")


def is_solver(text: str) -> bool:
    """Whether a text states how a net is trained, and no net."""
    return not is_net(text) and _SOLVER.search(text) is not None


def net_inside(text: str) -> str:
    """The net that a solver holds in itself, on the lines where it stands; other texts as they are."""
    if not any(name in text for name in _NETS_INSIDE):
        return text
    blocks = dict(reversed([each for each in _outer_words(text) if each[1] != (0, 0)]))
    start, end = next((blocks[name] for name in _NETS_INSIDE if name in blocks), (0, len(text)))
    return re.sub(r"[^\n]", " ", text[:start]) + text[start:end]


def _outer_words(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The words that no block is around, and where the block behind each begins and ends."""
    depth, name, start = 0, "", 0
    for token in tokens(text):
        if token.text in ("{", "<"):
            start = start if depth else token.offset + 1
            depth += 1
        elif token.text in ("}", ">"):
            depth -= 1
            if depth == 0:
                yield name, (start, token.offset)
        elif depth == 0 and token.kind is TokenKind.WORD:
            name = token.text
            yield name, (0, 0)


def is_net(text: str) -> bool:
    """Whether a text states layers, operators or inputs, in whatever form."""
    return _OF_NET.search(text) is not None


def nets_of_solver(text: str) -> list[str]:
    """The files of the nets that a solver names."""
    return _NET_OF_SOLVER.findall(text)


def begins_netdef(text: str) -> bool:
    """Whether a text begins as a Caffe2 net: its first word that only one of both frameworks has is Caffe2's."""
    names = (name for name, _ in _outer_words(text))
    first = next((name for name in names if name in (*_WORDS_OF_NETDEF, *_WORDS_OF_CAFFE)), None)
    return first in _WORDS_OF_NETDEF
