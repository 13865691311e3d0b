"""Paths that no user named, and how to tell that prototrt wrote what is there.

What a user names is replaced, and a link that he names is followed. What he did not name is replaced or removed only if
its content proves that prototrt wrote it; a link there is never followed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_TEXT, open_regular, value_from_json
from prototrt.caffe_proto.common.wire import field_head

DATA_MARK = b"Weights of an ONNX model, written by prototrt\n"
"""The first bytes of a file of weights."""
WEIGHTS_MARK = b'{"__metadata__":{"format":"pt","written_by":"prototrt'
"""The first bytes of the header of a PyTorch module's weights: the file of a trained module has others."""
KEPT_MARK, KEPT_SUFFIX = b"A conversion in a cache, written by prototrt\n", ".conversion"
"""The first bytes of a conversion that a cache keeps, and how its name ends."""
SCRIPT_MARK = "# Written by prototrt "
"""The beginning of a line of a script."""
STAGE = re.compile(r"\.prototrt-[0-9a-f]{16}\.part")
"""The name of a folder with files that will appear together."""
STAGED_LINK = re.compile(rf"{STAGE.pattern}/now/[^/]+")
"""Where a name leads for as long as its file is exchanged, or until a dead process is tidied up after."""
_MODEL_MARK = re.compile(rb"\x08.\x12\x08prototrt")
"""The first bytes of an ONNX model: ``ir_version`` and ``producer_name``."""
_MODULE_MARK = re.compile(rb"^Written by prototrt ", re.MULTILINE)
_CAFFEMODEL_FIELD = 19_999
"""Protobuf keeps this number for itself: no message of a fork has such a field, and all readers pass over it."""
_CAFFEMODEL_TEXT = b"written by prototrt "
_KERNELS = re.compile(r".+\.[0-9a-f]{16}\.cache")
_HEAD = 1 << 13  # bytes; two names, whatever characters they have, come before the mark of a script


class DerivedPath(str):
    """A path that is made of another one: what is there may be the user's, and a link may lead anywhere."""

    __slots__ = ()


def caffemodel_mark(sha256: str) -> bytes:
    """The end of a caffemodel whose name no user chose: a field with the SHA-256 of all before it."""
    text = _CAFFEMODEL_TEXT + sha256.encode()
    return field_head(_CAFFEMODEL_FIELD, len(text)) + text


def is_ours(file: str | os.PathLike[str]) -> bool:
    """Whether the content proves it. A link that a dead process left is ours, wherever it leads."""
    try:
        if os.path.islink(file) and STAGED_LINK.fullmatch(os.readlink(file)):
            return True
        with open_regular(file, "a file") as stream:
            return _PROOFS.get(Path(file).suffix, _is_engine)(stream)
    except (OSError, UnreadableFileError):
        return False


def is_foreign(file: str | os.PathLike[str]) -> bool:
    """Whether there is a file that prototrt did not write. If another process replaces or removes it meanwhile, it is
    looked at again."""
    while (entry := entry_of(file)) is not None and not is_ours(file):
        if entry_of(file) == entry:
            return True
    return False


def entry_of(file: str | os.PathLike[str]) -> object:
    """What changes when another file takes the name; a link is not followed."""
    try:
        status = os.lstat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _manifest(stream: BinaryIO) -> Mapping[str, object]:
    """The facts of a manifest that prototrt wrote, else none."""
    try:
        facts = value_from_json(stream.read(LARGEST_TEXT))
    except ValueError:
        return {}
    tool = facts.get("tool") if isinstance(facts, dict) else None
    return facts if isinstance(tool, dict) and tool.get("name") == "prototrt" else {}


def _is_engine(stream: BinaryIO) -> bool:
    """Whether a manifest beside it is ours, and says how many bytes it has. TensorRT alone knows its content."""
    with open_regular(f"{stream.name}.json", "a manifest") as beside:
        plan = _manifest(beside).get("plan")
    return isinstance(plan, dict) and plan.get("bytes") == os.fstat(stream.fileno()).st_size


def _is_caffemodel(stream: BinaryIO) -> bool:
    """Whether it is as it was written: a program that changes weights may keep a field that it does not know."""
    mark = caffemodel_mark("0" * 64)
    rest = os.fstat(stream.fileno()).st_size - len(mark)
    if rest < 0:
        return False
    stream.seek(rest)
    if not (end := stream.read()).startswith(mark[:-64]):
        return False
    stream.seek(0)
    digest = hashlib.sha256()
    while rest > 0 and (block := stream.read(min(rest, 1 << 20))):
        digest.update(block)
        rest -= len(block)
    return end == caffemodel_mark(digest.hexdigest())


def _are_kernels(stream: BinaryIO) -> bool:
    """TensorRT alone knows their content, so the name is the proof: it has a part of the plan's SHA-256."""
    return not os.path.islink(stream.name) and _KERNELS.fullmatch(Path(stream.name).name) is not None


_PROOFS: Mapping[str, Callable[[BinaryIO], bool]] = {
    ".cache": _are_kernels,
    ".caffemodel": _is_caffemodel,
    KEPT_SUFFIX: lambda stream: stream.read(len(KEPT_MARK)) == KEPT_MARK,
    ".data": lambda stream: stream.read(len(DATA_MARK)) == DATA_MARK,
    ".json": lambda stream: bool(_manifest(stream)),
    ".onnx": lambda stream: _MODEL_MARK.match(stream.read(_HEAD)) is not None,
    ".py": lambda stream: _MODULE_MARK.search(stream.read(_HEAD)) is not None,
    ".safetensors": lambda stream: stream.read(_HEAD)[8:].startswith(WEIGHTS_MARK),
    ".sh": lambda stream: (
        re.search(rb"^" + SCRIPT_MARK.encode(), stream.read(_HEAD), re.MULTILINE) is not None
    ),
}
"""By suffix, what proves that prototrt wrote a file; other files are engines."""
