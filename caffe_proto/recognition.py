"""What a file is, judged by its beginning: a file given by mistake may have many gigabytes."""

from __future__ import annotations

import codecs
import os
import re
from functools import cached_property

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import Buffer, errors_for_user, map_file, open_regular, refuse_size
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wire import Field, Wire, leading_fields
from prototrt.caffe_proto.common.wording import Command, Worded
from prototrt.caffe_proto.text.outline import begins_netdef, is_solver, net_inside, nets_of_solver
from prototrt.caffe_proto.text.scalars import text_without_mark

HEAD = 1 << 16
"""How many bytes are read to recognize a file: enough for the first operators of a Caffe2 net."""
PROTOTXT_FIRST = "give the prototxt first and the weights second"
_ENTRY_OF_ZIP, _EMPTY_ZIP = b"PK\x03\x04", b"PK\x05\x06"
_NAME_OF_ENTRY = 30  # the offset of the first entry's name; its length is in the 4 bytes before it
DATABASE_KEY = "!!META_NET_DEF"
"""The name of the first blob of a minidb, which holds the nets. Two sizes of 4 bytes precede it."""

# Numbers of Caffe's NetParameter, and of a V1 layer.
_LAYER, _LAYERS, _V1_TYPE = 100, 2, 5
# Numbers of Caffe2's NetDef, and of its operators.
OP, OPERATOR_TYPE = 2, 4
_WORD_OF_NETDEF = re.compile(rb"\b(?:op|external_input|external_output)\b")
# Numbers of ONNX's ModelProto, and of Caffe's SolverState.
_IR_VERSION, _GRAPH = 1, 7
_ITERATION, _WEIGHTS_FILE, _HISTORY = 1, 2, 3


@dataclass(frozen=True, slots=True)
class FileForm:
    """A kind of file in words; ``fix`` is the advice for a user who gave such a file by mistake."""

    words: str
    fix: str | None = None


CAFFEMODEL = FileForm("a caffemodel")
NETDEF = FileForm("a Caffe2 net", "give both files of a Caffe2 model: first predict_net.pb, then init_net.pb")
DATABASE = FileForm("a minidb of Caffe2", "give it alone: it holds the net and its weights")
ONNX = FileForm(
    "an ONNX model",
    Worded("build an engine from it with trtexec; if prototrt wrote it, `{}` runs it", Command("run")),
)
PLAN = FileForm(
    "an engine", Worded("run it with `{}`, or give the net that it was built from", Command("run"))
)
SOLVER_STATE = FileForm("a solver state", "give the caffemodel that training saved with it")
NPZ = FileForm("an npz file")
HDF5, NPY = FileForm("an HDF5 file"), FileForm("an npy file")
SAFETENSORS = FileForm("a safetensors file")
PYTORCH = FileForm(
    "a PyTorch file",
    "as weights, give the state dict of a module that prototrt wrote; of another model, save it with"
    " torch.onnx.export, and build an engine from it with trtexec",
)
_ZIP = FileForm("a zip archive", "unpack it with unzip")
_LENGTH_OF_HEADER = 8  # bytes, before the JSON of a safetensors file
_TAR, _TAR_AT = b"ustar", 257
_SIGNATURES = {
    b"\x89HDF\r\n\x1a\n": HDF5,
    _EMPTY_ZIP: NPZ,  # np.savez without arrays
    b"\x93NUMPY": NPY,
    b"\x1f\x8b": FileForm("a gzip file", "unpack it with gunzip"),
    b"\xfd7zXZ\0": FileForm("an xz file", "unpack it with unxz"),
    b"BZh": FileForm("a bzip2 file", "unpack it with bunzip2"),
    b"\x28\xb5\x2f\xfd": FileForm("a Zstandard file", "unpack it with unzstd"),
    b"7z\xbc\xaf\x27\x1c": FileForm("a 7z archive", "unpack it with 7z x"),
    b"Rar!\x1a\x07": FileForm("a RAR archive", "unpack it with unrar x"),
    b"\x7fELF": FileForm("a program or a library"),
    b"\x80\x02": PYTORCH,  # a pickle; before PyTorch 1.6, torch.save wrote one
    **dict.fromkeys((b"vtrt", b"ftrt", b"ptrt"), PLAN),
    b"\x89PNG\r\n\x1a\n": FileForm("a PNG image"),
    b"\xff\xd8\xff": FileForm("a JPEG image"),
    b"GIF8": FileForm("a GIF image"),
    b"%PDF-": FileForm("a PDF document"),
}


@dataclass(frozen=True, eq=False)
class OpenFile:
    """A file of the user, opened once: it is recognized and read by the same bytes. A large one is mapped."""

    name: str
    content: Buffer = field(repr=False)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.content)

    @property
    def head(self) -> bytes:
        """The first bytes, by which a file is recognized: one given by mistake may have many gigabytes."""
        return self.content[:HEAD]

    @cached_property
    def kind(self) -> FileForm | None:
        """What is known to begin like this; None for text, and for what is not known."""
        return _kind_of(self.head)

    @cached_property
    def is_netdef(self) -> bool:
        """Whether the file holds a Caffe2 net, in binary or as text."""
        if self.kind in (DATABASE, NETDEF):
            return True
        head = self.head
        return _WORD_OF_NETDEF.search(head) is not None and begins_netdef(text_without_mark(head))

    def small(self, what: str, fix: str) -> bytes:
        """The content of a file that is never large; ``fix`` is for one that is."""
        refuse_size(self.name, self.size, what, fix=fix)
        return self.content[:]

    def refuse_others(self, what: str, fix: str, accepted: FileForm | None = None) -> None:
        """Raise if the first bytes show that this is not ``what`` was expected, as in "a prototxt".

        ``accepted`` is the kind that is right. ``fix`` is the advice, unless the recognized kind has its own.
        """
        head, file = self.head, self.name
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:40].lower()
        if not head.strip():
            raise UnreadableFileError(
                "the file is empty", where=file, fix=f"give {what}, or get the file again"
            )
        if start.startswith(b"version https://") and b"oid sha256:" in head:
            raise UnreadableFileError(
                f"this is a Git LFS pointer, expected {what}",
                where=file,
                because="the repository it comes from was cloned without Git LFS",
                fix='run "git lfs pull" in that repository',
            )
        if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
            raise UnreadableFileError(
                f"this is a web page, expected {what}",
                where=file,
                fix="download the file itself (the raw link), not the page that shows it",
            )
        kind = self.kind
        if kind is not None and kind is not accepted:
            raise _other_kind_error(kind.words, what, file, kind.fix or fix)


def _other_kind_error(words: str, what: str, file: str, fix: str) -> UnreadableFileError:
    error = UnreadableFileError(f"this is {words}, expected {what}", where=file, fix=fix)
    error.is_of_other_kind = True
    return error


def open_input(file: str | os.PathLike[str], what: str) -> OpenFile:
    """Open a file of the user. ``what`` is the expected file, as in "a prototxt". Raises ``UnreadableFileError``."""
    name = os.fsdecode(file)
    with errors_for_user(name, what), open_regular(name, what) as stream:
        return OpenFile(name, map_file(stream))


def _kind_of(head: bytes) -> FileForm | None:
    if head[_LENGTH_OF_HEADER : _LENGTH_OF_HEADER + 2] == b'{"':  # its length may look like a signature
        return SAFETENSORS
    for signature, kind in _SIGNATURES.items():
        if head.startswith(signature):
            return kind
    if head.startswith(_ENTRY_OF_ZIP):
        return _kind_of_zip(head)
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return FileForm("a tar archive", "unpack it with tar xf")
    if head[8 : 8 + len(DATABASE_KEY)] == DATABASE_KEY.encode():
        return DATABASE
    if _looks_like_operators(head):
        return NETDEF
    if looks_like_text(head):
        return None
    keys = {(item.number, item.wire) for item in leading_fields(head)}
    if (_LAYER, Wire.BYTES) in keys or ((_LAYERS, Wire.BYTES) in keys and _begins_v1_layer(head)):
        return CAFFEMODEL
    if keys >= {(_IR_VERSION, Wire.VARINT), (_GRAPH, Wire.BYTES)}:
        return ONNX
    of_solver = {(_ITERATION, Wire.VARINT), (_WEIGHTS_FILE, Wire.BYTES), (_HISTORY, Wire.BYTES)}
    return SOLVER_STATE if keys >= of_solver else None


def _kind_of_zip(head: bytes) -> FileForm:
    """A kind of zip archive, judged by its first entry: NumPy and PyTorch write archives, too."""
    length = int.from_bytes(head[_NAME_OF_ENTRY - 4 : _NAME_OF_ENTRY - 2], "little")
    name = head[_NAME_OF_ENTRY:][:length]
    if name.endswith(b".npy"):
        return NPZ
    return PYTORCH if name.endswith(b"/data.pkl") else _ZIP


def _looks_like_operators(head: bytes) -> bool:
    """Whether a binary file begins like a NetDef: with operators, not with Caffe's layers.

    The last operator may end with the head, and is judged by what there is of it.
    """
    has_operator = False
    for item in leading_fields(head):
        if item.number == _LAYER:
            return False
        if item.number == OP and item.wire is Wire.BYTES:
            if not _is_operator(head, item):
                return has_operator and item.end == len(head)  # too little of it to be judged
            has_operator = True
    return has_operator


def _is_operator(head: bytes, item: Field) -> bool:
    kinds = _kinds_inside(head, item)
    return (OPERATOR_TYPE, Wire.BYTES) in kinds and (_V1_TYPE, Wire.VARINT) not in kinds


def _begins_v1_layer(head: bytes) -> bool:
    return any(
        (_V1_TYPE, Wire.VARINT) in _kinds_inside(head, item)
        for item in leading_fields(head)
        if item.number == _LAYERS and item.wire is Wire.BYTES
    )


def _kinds_inside(head: bytes, item: Field) -> set[tuple[int, Wire]]:
    return {(inner.number, inner.wire) for inner in leading_fields(head[item.start : item.end])}


_OTHER_LANGUAGES = {
    "a Python program": re.compile(r'\A\s*"""'),
    "JSON": re.compile(r'\A\s*\{\s*"'),
}


def text_of_prototxt(file: OpenFile) -> str:
    """The text of a prototxt, without byte order mark. Bytes that are not UTF-8 are taken as Latin-1."""
    data = text_of(file, "a prototxt", PROTOTXT_FIRST)
    _refuse_binary(data, file.name, "a prototxt", PROTOTXT_FIRST)
    text = text_without_mark(data)
    for words, beginning in _OTHER_LANGUAGES.items():
        if beginning.match(text):
            raise _other_kind_error(words, "a prototxt", file.name, PROTOTXT_FIRST)
    if is_solver(text):
        nets = nets_of_solver(text)
        raise UnreadableFileError(
            "this is a solver, expected a prototxt of a net",
            where=file.name,
            fix=f"give the net that it trains: {nets[0]}" if nets else "give the net that it trains",
        )
    return net_inside(text)


def read_text(file: str, what: str, fix: str) -> bytes:
    """The content of a text file, which is small. Raises ``UnreadableFileError``."""
    return text_of(open_input(file, what), what, fix)


def text_of(file: OpenFile, what: str, fix: str) -> bytes:
    """The content of a text file, which is small; only the beginning of another file is read."""
    file.refuse_others(what, fix)
    _refuse_binary(file.head, file.name, what, fix)
    return file.small(what, fix)


def _refuse_binary(data: bytes, file: str, what: str, fix: str) -> None:
    if not looks_binary(data):
        return
    if encoding := _wide_encoding(data):
        raise UnreadableFileError(
            f"this is {encoding} text, expected UTF-8", where=file, fix="save it as UTF-8"
        )
    raise UnreadableFileError(f"this is a binary file, expected {what} (text)", where=file, fix=fix)


_WIDE = {
    "UTF-32": ((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), ("utf-32-le", "utf-32-be")),
    "UTF-16": ((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), ("utf-16-le", "utf-16-be")),
}
"""Encodings with zero bytes: their byte order marks, and their codecs for text without one. The mark of UTF-32 begins
with that of UTF-16."""
_PLAIN = frozenset(map(chr, (*range(32, 127), 9, 10, 13)))


def _wide_encoding(head: bytes) -> str | None:
    """The encoding with zero bytes that a file, cut anywhere, is in: it has its mark, or most of it is ASCII then."""
    for name, (marks, codecs_) in _WIDE.items():
        if head.startswith(marks) or any(_is_mostly_ascii(head, codec) for codec in codecs_):
            return name
    return None


def _is_mostly_ascii(head: bytes, codec: str) -> bool:
    try:
        text = codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return False
    return 2 * sum(letter in _PLAIN for letter in text) > len(text) and "\0" not in text


def may_be_text(head: bytes) -> bool:
    """Whether the beginning of a file is text of any encoding. Some binary files also look like that."""
    return not looks_binary(head) or _wide_encoding(head) is not None


def looks_like_text(head: bytes) -> bool:
    """Whether the beginning of a file, cut anywhere, is UTF-8 without control characters."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not looks_binary(head)


def looks_binary(data: bytes) -> bool:
    """Whether this is not text, in whatever encoding but those with zero bytes."""
    if b"\0" in data:
        return True
    controls = len(data) - len(data.translate(None, _CONTROLS))
    return controls * 10 > len(data)


_CONTROLS = bytes((*range(1, 9), *range(14, 32), 127))
