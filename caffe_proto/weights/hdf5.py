"""Weights as Caffe saves them in HDF5: the datasets ``data/LAYER/INDEX`` of a ``.caffemodel.h5``.

HDF5 can keep the numbers of a dataset elsewhere: behind a link, in files beside it, or packed by a
library that it loads. So a file from somebody else could choose which files are opened on the reader's
machine, and which code runs. Caffe writes none of this, and it is refused before anything is opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import errors_for_user
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.caffe_proto.weights import Array, StoredBlob, StoredWeights, check_count
from prototrt.caffe_proto.weights.array_files import (
    Index,
    check_dtype,
    damage_of,
    layer_and_index,
    weights_of_arrays,
)

_OF_KERAS = "keras_version"  # an attribute of the whole file
_MOST_PACKED = 1100  # bytes from one: no filter of HDF5 packs better
# The rest are plugins.
_OWN_FILTERS = ("DEFLATE", "SHUFFLE", "FLETCHER32", "SZIP", "NBIT", "SCALEOFFSET", "LZF")


def open_hdf5(file: str) -> StoredWeights:
    return weights_of_arrays(file, blobs_in_hdf5(file))


def blobs_in_hdf5(file: str) -> Index:
    """Caffe's ``.caffemodel.h5``. Raises ``UnreadableFileError`` if its numbers are not all in the file itself."""
    h5py = _h5py(file)
    layers: Index = {}
    with errors_for_user(file, "an HDF5 file"), damage_of(file, "HDF5"), h5py.File(file, "r") as store:
        data = _member(h5py, file, store, b"data") if store.id.links.exists(b"data") else None
        if not isinstance(data, h5py.Group):
            if _OF_KERAS in store.attrs:
                fix = "save the model as ONNX with tf2onnx, and build an engine from it with trtexec"
                raise UnreadableFileError(
                    "this is a Keras file, expected weights of Caffe", where=file, fix=fix
                )
            fix = "give the .caffemodel.h5 that Caffe saved (a .solverstate.h5 holds no weights)"
            raise UnreadableFileError('there is no group "data", expected one', where=file, fix=fix)
        if not len(data):
            fix = "give the .caffemodel.h5 that Caffe saved for this net"
            raise UnreadableFileError("the file holds no layers, expected weights", where=file, fix=fix)
        for dataset in _datasets(h5py, file, data):
            name = dataset.name.removeprefix("/data/")
            layer, index = layer_and_index(name, file)
            layers.setdefault(layer, {})[index] = _stored_blob(h5py, file, dataset, name, layer, index)
    return layers


def _datasets(h5py: Any, file: str, data: Any) -> Iterator[Any]:
    """All datasets of the group, in groups at any depth. Only hard links are followed."""
    waiting, seen = deque([data]), {h5py.h5o.get_info(data.id).addr}
    while waiting:
        group = waiting.popleft()
        for name in group.id:
            item = _member(h5py, file, group, name)
            if isinstance(item, h5py.Dataset):
                yield item
            elif isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address in seen:  # a cycle, or a tree with exponentially many paths
                    raise UnreadableFileError(
                        "the group has two names, expected one",
                        where=file,
                        blob=f'group "{item.name}"',
                        fix="copy the layers into a new file, each once",
                    )
                seen.add(address)
                waiting.append(item)


def _member(h5py: Any, file: str, group: Any, name: bytes) -> Any:
    kind = group.id.links.get_info(name).type
    if kind == h5py.h5l.TYPE_HARD:
        return group[name]
    if kind == h5py.h5l.TYPE_SOFT:
        target = f'a soft link to "{group.get(name, getlink=True).path}"'
    elif kind == h5py.h5l.TYPE_EXTERNAL:
        link = group.get(name, getlink=True)
        target = f'a link to "{link.path}" in the file "{link.filename}"'
    else:
        target = f"a user-defined link of class {kind}"
    path = f"{group.name.rstrip('/')}/{name.decode(errors='replace')}"
    raise _external_data_error(file, path, f"this is {target}, expected numbers")


def _stored_blob(h5py: Any, file: str, dataset: Any, name: str, layer: str, index: int) -> StoredBlob:
    # Before its shape is asked for: HDF5 looks into the other files for the shape of a virtual dataset.
    _refuse_external_data(h5py, file, dataset)
    where, blob = f'{file}: layer "{layer}"', f"blob {index}"
    check_dtype(dataset.dtype, where, blob)
    # What nobody wrote takes no room in the file, whatever its shape.
    is_written = dataset.nbytes <= _MOST_PACKED * dataset.id.get_storage_size()
    check_count(dataset.shape, dataset.size if is_written else 0, where, blob)
    return StoredBlob(dataset.shape, False, partial(_read, h5py, file, name))


def _refuse_external_data(h5py: Any, file: str, dataset: Any) -> None:
    created = dataset.id.get_create_plist()
    if created.get_layout() == h5py.h5d.VIRTUAL:
        others = [created.get_virtual_filename(index) for index in range(min(created.get_virtual_count(), 9))]
        problem = f"the dataset is virtual, made of parts of {_quoted(others)}, expected numbers"
        raise _external_data_error(file, dataset.name, problem)
    if count := created.get_external_count():
        others = [created.get_external(index)[0].decode(errors="replace") for index in range(min(count, 9))]
        raise _external_data_error(
            file, dataset.name, f"the numbers are in {_quoted(others)}, expected them in this file"
        )
    own = {getattr(h5py.h5z, f"FILTER_{name}") for name in _OWN_FILTERS}
    for number, _, _, title in map(created.get_filter, range(created.get_nfilters())):
        if number not in own:
            raise UnreadableFileError(
                f"the numbers are compressed by a plugin of HDF5, filter {number} ({title.decode(errors='replace')})",
                where=file,
                blob=f'dataset "{dataset.name}"',
                because="a plugin is a library, and the file would choose which one is loaded",
                fix="compress with gzip instead: h5repack -f GZIP=6 OLD NEW",
            )


def _external_data_error(file: str, path: str, problem: str) -> UnreadableFileError:
    return UnreadableFileError(
        problem,
        where=file,
        blob=f'dataset "{path}"',
        because="a weights file from somebody else could name any of your files",
        fix="store the numbers in the file itself, as Caffe does",
    )


def _quoted(names: Sequence[str]) -> str:
    """The names in quotes, each once, at most three."""
    named = [f'"{name}"' for name in dict.fromkeys(names)]
    return ", ".join(named[:3] + ["..."] * (len(named) > 3))


def _read(h5py: Any, file: str, name: str) -> Array:
    with errors_for_user(file, "an HDF5 file"), damage_of(file, "HDF5"), h5py.File(file, "r") as store:
        return np.asarray(store["data"][name], np.float32)


def _h5py(file: str) -> Any:
    try:
        import h5py  # type: ignore[import-untyped]  # it has no stubs
    except ImportError as error:
        raise UnreadableFileError(
            "this is an HDF5 file, and h5py is not installed", where=file, fix=pip_install("hdf5")
        ) from error
    return h5py
