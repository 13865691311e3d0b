"""From a file to its facts. The content says what the file is; the name does not count.

Readers are imported when a file needs them, since ``inspect`` begins here for nets, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from prototrt.caffe_proto.common.files import errors_for_user
from prototrt.caffe_proto.common.wire import Wire, leading_fields
from prototrt.caffe_proto.recognition import (
    CAFFEMODEL,
    DATABASE,
    HDF5,
    NETDEF,
    NPY,
    NPZ,
    ONNX,
    PLAN,
    PYTORCH,
    SAFETENSORS,
    SOLVER_STATE,
    FileForm,
    OpenFile,
    looks_like_text,
    may_be_text,
    open_input,
)
from prototrt.converter.showing.glance.facts import FileFacts, FileKind

_WHAT = "a model or its data"
# Fields of NetParameter and BlobProto.
_LAYERS = (2, Wire.BYTES)
_NUMBERS_OF_BLOB = (5, 8)


def look_at(path: str | os.PathLike[str]) -> FileFacts | None:
    """What the file is and holds. None for text that ``load`` reads: a net, or text of an unknown kind.

    Raises ``UnreadableFileError`` for a file that is missing, empty or damaged.
    """
    name = os.fsdecode(path)
    if os.path.isdir(name):
        return _folder(name)
    file = open_input(name, _WHAT)
    head = file.head
    with errors_for_user(name, _WHAT):
        if head.strip() and (ours := _ours(file)) is not None:
            return ours
        kind = file.kind
        if kind is not None:
            reader = _readers().get(kind)
            return _with_manifest(reader(file)) if reader else _stranger(file, kind)
        file.refuse_others(_WHAT, "get the file again")
        if looks_like_text(head):
            return _readers()[NETDEF](file) if file.is_netdef else _text(file)
        return _message(file, head)


def _ours(file: OpenFile) -> FileFacts | None:
    from prototrt.converter.showing.glance import written

    facts = written.facts_of_ours(file)
    return facts and _with_manifest(facts)


def _with_manifest(facts: FileFacts) -> FileFacts:
    if facts.kind not in (FileKind.MODULE, FileKind.PROGRAM, FileKind.ONNX, FileKind.PLAN):
        return facts
    from prototrt.converter.showing.glance import manifests

    return manifests.with_manifest(facts)


def _readers() -> dict[FileForm, Callable[[OpenFile], FileFacts]]:
    from prototrt.converter.showing.glance import arrays, nets, written

    return {
        CAFFEMODEL: nets.caffemodel,
        DATABASE: nets.minidb,
        HDF5: arrays.hdf5,
        NETDEF: nets.caffe2_net,
        NPY: arrays.npy,
        NPZ: arrays.npz,
        ONNX: nets.onnx_model,
        PLAN: lambda file: FileFacts.of(file, FileKind.PLAN),  # TensorRT alone knows what is in it
        PYTORCH: written.state_dict,
        SAFETENSORS: written.safetensors,
        SOLVER_STATE: nets.solver_state,
    }


def _text(file: OpenFile) -> FileFacts | None:
    from prototrt.converter.showing.glance import texts

    return texts.text(file)


def _stranger(file: OpenFile, kind: FileForm) -> FileFacts:
    """A file of a known form that prototrt does not read."""
    if kind.words.endswith("image"):
        return FileFacts.of(file, FileKind.IMAGE, other=kind.words)
    advice = kind.fix or "prototrt does not read such files"
    return FileFacts.of(file, FileKind.OTHER, other=kind.words, advice=advice)


def _message(file: OpenFile, head: bytes) -> FileFacts | None:
    """A file whose first bytes name no form: by the fields of a protobuf message, or as text in another encoding."""
    from prototrt.converter.showing.glance import arrays, nets

    keys = [(item.number, item.wire) for item in leading_fields(head)]
    if _LAYERS in keys:
        return nets.caffemodel(file)
    if any(number in _NUMBERS_OF_BLOB and wire is not Wire.VARINT for number, wire in keys):
        return arrays.mean_file(file)
    if may_be_text(head):
        return _text(file)
    return FileFacts.of(
        file,
        FileKind.OTHER,
        other="a binary file of an unknown kind",
        advice="look at it with the program that wrote it",
    )


def _folder(file: str) -> FileFacts:
    """The number of files in a folder. Databases of training data are recognized by the names of their files."""
    names = sorted(os.listdir(file))
    if "data.mdb" in names or "CURRENT" in names:
        words = "a database of training data (LMDB or LevelDB)"
        return FileFacts(
            file, FileKind.OTHER, 0, other=words, advice="give the shapes of its blobs as inputs instead"
        )
    return FileFacts(file, FileKind.FOLDER, 0, {"files": len(names)})
