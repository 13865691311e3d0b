"""Binary weights, ``.caffemodel``: found in place in the mapped file, in every form that Caffe has written.

Only names and blobs are taken from it. Parameters come from the prototxt: forks use the same field
numbers for different messages, and a caffemodel usually holds the training net.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wire import Buffer, Field, Wire, fields
from prototrt.caffe_proto.recognition import CAFFEMODEL, PROTOTXT_FIRST, OpenFile, looks_like_text
from prototrt.caffe_proto.text.scalars import text_from_bytes
from prototrt.caffe_proto.weights import StoredBlob, StoredWeights
from prototrt.caffe_proto.weights.damage import damage_errors
from prototrt.caffe_proto.weights.stored_blob import stored_blob

# Numbers of NetParameter in caffe.proto: the layers of the present form, and of V1 and V0.
_LAYER, _LAYERS = 100, 2


@dataclass(frozen=True, slots=True)
class _Form:
    name: int
    blobs: int


_PRESENT = _Form(name=1, blobs=7)
_V1 = _Form(name=4, blobs=6)
_V0 = _Form(name=1, blobs=50)
_V0_IN_V1 = 1


@dataclass(slots=True)
class _StoredLayer:
    name: str = ""
    blobs: list[Field] = field(default_factory=list)


def open_caffemodel(source: OpenFile) -> StoredWeights:
    """Find the blobs of the file. No number is read before an array is asked for."""
    file, buffer = source.name, source.content
    fix = "give the file that training has saved, such as a .caffemodel"
    source.refuse_others("a caffemodel", fix, CAFFEMODEL)
    _refuse_text(source.head, file)
    with damage_errors(file, len(buffer), "caffemodel"):
        layers = _layers(buffer, file)
    if not layers:
        raise UnreadableFileError(
            "the file holds no layers, expected a caffemodel",
            where=file,
            fix="give the file with the weights (a mean file or a solver state has none)",
        )
    by_name, repeated = _by_name(layers, file)
    readers = {name: partial(_blobs, buffer, blobs, file, name) for name, blobs in by_name.items()}
    return StoredWeights(file, readers, warnings=repeated)


def _blobs(buffer: Buffer, blobs: Sequence[Field], file: str, layer: str) -> Sequence[StoredBlob]:
    """The blobs of a layer. The file stays mapped while any of their arrays is in use."""
    with damage_errors(file, len(buffer), "caffemodel"):
        where = f'{file}: layer "{layer}"'
        return tuple(
            stored_blob(buffer, blob.start, blob.end, where, f"blob {index}")
            for index, blob in enumerate(blobs)
        )


def _refuse_text(head: bytes, file: str) -> None:
    if not looks_like_text(head):
        return
    is_net = b"layer" in head or b"{" in head
    raise UnreadableFileError(
        "this is text, expected a caffemodel (binary)",
        where=file,
        fix=PROTOTXT_FIRST if is_net else "get the weights file again",
    )


def _layers(buffer: Buffer, file: str) -> list[_StoredLayer]:
    """The layers that Caffe reads. It refuses a file that has some in the old form and others in that of today.

    Source: ``NetNeedsUpgrade`` in BVLC Caffe's ``upgrade_proto.cpp``.
    """
    present, old = [], []
    for item in fields(buffer, 0, len(buffer)):
        if item.wire is Wire.BYTES and item.number == _LAYER:
            present.append(_layer(buffer, item, _PRESENT))
        elif item.wire is Wire.BYTES and item.number == _LAYERS:
            old.append(_old_layer(buffer, item))
    if present and old:
        raise UnreadableFileError(
            "the file has layers in the old form (layers) and in the new one (layer), expected one of them",
            where=file,
            because="Caffe refuses such a file",
            fix="save the weights again, with the program that trained them, or get the file again",
        )
    return present or old


def _old_layer(buffer: Buffer, item: Field) -> _StoredLayer:
    """A V1 layer, or a V0 layer inside a V1 layer that has only bottoms and tops."""
    for inner in fields(buffer, item.start, item.end):
        if inner.number == _V0_IN_V1 and inner.wire is Wire.BYTES:
            return _layer(buffer, inner, _V0)
    return _layer(buffer, item, _V1)


def _layer(buffer: Buffer, item: Field, form: _Form) -> _StoredLayer:
    layer = _StoredLayer()
    for inner in fields(buffer, item.start, item.end):
        if inner.wire is not Wire.BYTES:
            continue
        if inner.number == form.name:
            layer.name = text_from_bytes(buffer[inner.start : inner.end])
        elif inner.number == form.blobs:
            layer.blobs.append(inner)
    return layer


def _by_name(layers: list[_StoredLayer], file: str) -> tuple[dict[str, list[Field]], tuple[str, ...]]:
    """The layers by name. Caffe copies layers with the same name one after the other, so the last one counts."""
    by_name: dict[str, list[Field]] = {}
    warnings = []
    for layer in layers:
        if layer.blobs and layer.name in by_name:
            warnings.append(f'{file}: there are two layers "{layer.name}"; the last one is used, as in Caffe')
            del by_name[layer.name]  # what Caffe copies comes at its last place
        if layer.blobs:
            by_name[layer.name] = layer.blobs
    return by_name, tuple(warnings)
