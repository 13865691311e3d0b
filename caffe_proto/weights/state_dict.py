"""The file of a state dict of PyTorch: a zip archive with a pickle and the bytes of each storage.

The pickle only describes tensors: each function and class that it names is a ``Description``, which does nothing.
Numbers become arrays on request, because a small file may have many names for one storage. Source: PyTorch
``torch/serialization.py``, ``torch/_utils.py``.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any, BinaryIO, Literal

import numpy as np

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_TEXT, errors_for_user, open_regular
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.array_files import damage_of
from prototrt.caffe_proto.weights.named_arrays import ArraysOnRequest

_WHAT = "a state dict of PyTorch"
_SAVE = "write it with torch.save(net.state_dict(), FILE)"
_DTYPES = {
    "BFloat16Storage": "u2",
    "BoolStorage": "?",
    "ByteStorage": "u1",
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "IntStorage": "i4",
    "LongStorage": "i8",
    "ShortStorage": "i2",
}
_NESTED = ("state_dict", "model_state_dict", "model")
"""Where a checkpoint keeps the state dict."""
_TENSOR, _PARAMETER = "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A part of a storage: the kind of its numbers, and the name of the file that holds them."""

    kind: str
    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_state_dict(file: str) -> Mapping[str, Array]:
    """The tensors by name. Raises ``UnreadableFileError``."""
    with errors_for_user(file, _WHAT), open_regular(file, _WHAT) as stream:
        if not zipfile.is_zipfile(stream):
            raise UnreadableFileError(f"this is not {_WHAT} of version 1.6 or newer", where=file, fix=_SAVE)
        with damage_of(file, "PyTorch"), zipfile.ZipFile(stream) as archive:
            return _read(archive, file)


def _read(archive: zipfile.ZipFile, file: str) -> Mapping[str, Array]:
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(pickles) != 1 or archive.getinfo(pickles[0]).file_size > LARGEST_TEXT:
        raise UnreadableFileError(f"this is not {_WHAT}", where=file, fix=_SAVE)
    folder = pickles[0].removesuffix("data.pkl")
    tensors = _tensors(_description(_member(archive, pickles[0])))
    if not tensors:
        raise UnreadableFileError("the file holds no tensors by name", where=file, fix=_SAVE)
    orders = [_member(archive, name) for name in archive.namelist() if name == f"{folder}byteorder"]
    order: Literal["<", ">"] = ">" if orders == [b"big"] else "<"
    keys = {tensor.key for tensor in tensors.values()}
    storages = {key: _member(archive, f"{folder}data/{key}") for key in keys}
    views = {name: _view(storages[each.key], order, each, name) for name, each in tensors.items()}
    return ArraysOnRequest({name: partial(_array, view, tensors[name].kind) for name, view in views.items()})


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, which PyTorch does not do")
    return archive.read(name)


def _view(storage: bytes, order: Literal["<", ">"], tensor: StoredTensor, name: str) -> Array:
    if tensor.kind not in _DTYPES:
        raise ValueError(f'"{name}" holds a {tensor.kind}, expected one of {", ".join(_DTYPES)}')
    dtype = np.dtype(_DTYPES[tensor.kind]).newbyteorder(order)
    numbers = np.frombuffer(storage, dtype)
    sizes = (*tensor.shape, *tensor.strides, tensor.offset)
    count = prod(tensor.shape)
    last = tensor.offset + sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True)
    )
    if min(sizes) < 0 or count > numbers.size or (count and last >= numbers.size):
        raise ValueError(f'"{name}" has the shape {tensor.shape}, but its storage {numbers.size} numbers')
    steps = [stride * dtype.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, steps, writeable=False)


def _array(view: Array, kind: str) -> Array:
    array = view.astype(view.dtype.newbyteorder("="))
    if kind == "BFloat16Storage":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


# ---------------------------------------------------------------- the pickle


class Description:
    """What calling a function or a class would make. Nothing is imported, and nothing called."""

    name = ""

    def __new__(cls, *arguments: Any) -> Description:
        made = super().__new__(cls)
        made.arguments, made.items = arguments, {}
        return made

    arguments: tuple[Any, ...]
    items: dict[str, Any]

    def __setitem__(self, key: object, value: object) -> None:
        if isinstance(key, str | int):
            self.items[str(key)] = value

    def __setstate__(self, state: object) -> None:
        """Attributes, such as the versions of modules."""

    def extend(self, values: object) -> None:
        """Elements of a list, which holds no tensors of a state dict."""

    append = extend


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[Description]:
        return type("Description", (Description,), {"name": f"{module}.{name}"})

    def persistent_load(self, identity: Any) -> Any:
        return identity


_OPERATIONS = (
    *("APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPERSID", "BINPUT"),
    *("BINUNICODE", "BINUNICODE8", "BUILD", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "FRAME", "GLOBAL"),
    *("LONG1", "LONG_BINGET", "LONG_BINPUT", "MARK", "MEMOIZE", "NEWFALSE", "NEWOBJ", "NEWTRUE", "NONE"),
    *("PROTO", "REDUCE", "SETITEM", "SETITEMS", "SHORT_BINUNICODE", "STACK_GLOBAL", "STOP", "TUPLE"),
    *("TUPLE1", "TUPLE2", "TUPLE3"),
)
_INSTEAD = {"EMPTY_DICT": b"cbuiltins\ndict\n)R", "FRAME": b""}
"""A dictionary of the pickle is described, too: it would hash any key, and that of a million tuples in each other ends
the process. Frames are only there to be skipped."""


def _description(content: bytes) -> object:
    """What the pickle describes. Raises ``ValueError`` for operations that no state dict needs."""
    parts, before = list[bytes](), 0
    operations: Any = pickletools.genops(content)  # from bytes, each has a place
    for opcode, argument, place in operations:
        if opcode.name not in _OPERATIONS:
            raise ValueError(f"its pickle has the operation {opcode.name}, which no state dict needs")
        if opcode.name == "LONG_BINPUT" and argument > place:  # it would make room for all numbers below
            raise ValueError("its pickle numbers more values than it has")
        if opcode.name in _INSTEAD:
            parts += content[before:place], _INSTEAD[opcode.name]
            before = place + (1 if argument is None else 9)
    try:
        return _Unpickler(io.BytesIO(b"".join(parts) + content[before:])).load()
    except (AttributeError, pickle.UnpicklingError) as error:
        raise ValueError(f"its pickle makes no sense: {error}") from error


def _tensors(value: object) -> dict[str, StoredTensor]:
    """The tensors of a state dict, or of the one in a checkpoint."""
    if not isinstance(value, Description):
        return {}
    names = {name: _tensor_of(each) for name, each in value.items.items()}
    tensors = {name: tensor for name, tensor in names.items() if tensor is not None}
    return tensors or next((_tensors(value.items[name]) for name in _NESTED if name in value.items), {})


def _tensor_of(value: object) -> StoredTensor | None:
    """The tensor that is described; None if it is something else. Raises ``ValueError`` for odd arguments."""
    while isinstance(value, Description) and value.name == _PARAMETER:
        value = value.arguments[0]
    if not isinstance(value, Description) or value.name != _TENSOR:
        return None
    storage, offset, shape, strides, *_ = value.arguments
    _, kind, key, *_ = storage
    sizes = (offset, *shape, *strides)
    if not (
        isinstance(kind, type)
        and issubclass(kind, Description)
        and isinstance(key, str)
        and all(type(size) is int for size in sizes)
    ):
        raise ValueError("a tensor of its pickle has no storage, or sizes that are no numbers")
    return StoredTensor(kind.name.rpartition(".")[2], key, offset, tuple(shape), tuple(strides))


# ---------------------------------------------------------------- writing


def write_state_dict(stream: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write a file that ``torch.load`` reads, of float32 tensors."""
    with zipfile.ZipFile(stream, "w") as archive:

        def add(name: str, content: bytes | memoryview) -> None:
            with archive.open(zipfile.ZipInfo(f"archive/{name}"), "w", force_zip64=True) as member:
                member.write(content)

        add("data.pkl", _pickle(arrays))
        add("byteorder", b"little")
        for place, array in enumerate(arrays.values()):
            add(f"data/{place}", np.ascontiguousarray(array, "<f4").reshape(-1).view(np.uint8).data)
        add("version", b"3\n")


def _pickle(arrays: Mapping[str, Array]) -> bytes:
    items = [_text(name) + _tensor(place, array) for place, (name, array) in enumerate(arrays.items())]
    return b"\x80\x02}(" + b"".join(items) + b"u."


def _tensor(place: int, array: Array) -> bytes:
    """A call of ``_rebuild_tensor_v2``: storage, offset, shape, strides, no gradient, no hooks."""
    storage = b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text(str(place)) + _text("cpu")
    strides = [prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
    parts = [storage, _number(array.size), b"tQ", _number(0), _numbers(array.shape), _numbers(strides)]
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + b"".join(parts) + b"\x89ccollections\nOrderedDict\n)RtR"


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return b"X" + len(encoded).to_bytes(4, "little") + encoded


def _numbers(values: Any) -> bytes:
    return b"(" + b"".join(map(_number, values)) + b"t"


def _number(value: int) -> bytes:
    return b"\x8a\x08" + int(value).to_bytes(8, "little", signed=True)
