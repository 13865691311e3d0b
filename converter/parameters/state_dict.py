"""The file of a state dict of PyTorch: a zip archive with a pickle and the bytes of each storage.

The pickle is read without running it: its few operations build dictionaries, tuples and descriptions of tensors, and
any other function that it names is not called. Source: PyTorch ``torch/serialization.py``, ``torch/_utils.py``.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

import numpy as np

from prototrt.caffe_proto.common.errors import UnreadableFileError
from prototrt.caffe_proto.common.files import LARGEST_TEXT, errors_for_user, open_regular
from prototrt.caffe_proto.weights import Array
from prototrt.caffe_proto.weights.array_files import damage_of

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


@dataclass(frozen=True, slots=True)
class ForeignName:
    """A function or class that the pickle names, which is not called."""

    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """The kind of numbers, and the name of the file that holds them."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A part of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_state_dict(file: str) -> dict[str, Array]:
    """The tensors by name. Raises ``UnreadableFileError``."""
    with errors_for_user(file, _WHAT), open_regular(file, _WHAT) as stream:
        if not zipfile.is_zipfile(stream):
            raise UnreadableFileError(f"this is not {_WHAT} of version 1.6 or newer", where=file, fix=_SAVE)
        with damage_of(file, "PyTorch"), zipfile.ZipFile(stream) as archive:
            return _read(archive, file)


def _read(archive: zipfile.ZipFile, file: str) -> dict[str, Array]:
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(pickles) != 1 or archive.getinfo(pickles[0]).file_size > LARGEST_TEXT:
        raise UnreadableFileError(f"this is not {_WHAT}", where=file, fix=_SAVE)
    folder = pickles[0].removesuffix("data.pkl")
    tensors = _tensors(_value(_member(archive, pickles[0])))
    if not tensors:
        raise UnreadableFileError("the file holds no tensors by name", where=file, fix=_SAVE)
    orders = [_member(archive, name) for name in archive.namelist() if name == f"{folder}byteorder"]
    is_big = orders == [b"big"]
    return {name: _array(archive, folder, tensor, is_big, name) for name, tensor in tensors.items()}


def _tensors(value: object) -> dict[str, StoredTensor]:
    """The tensors of a state dict, or of the one in a checkpoint."""
    if not isinstance(value, dict):
        return {}
    tensors = {str(name): each for name, each in value.items() if isinstance(each, StoredTensor)}
    inner = next((value[name] for name in _NESTED if isinstance(value.get(name), dict)), None)
    return tensors or _tensors(inner)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, which PyTorch does not do")
    return archive.read(name)


def _array(archive: zipfile.ZipFile, folder: str, tensor: StoredTensor, is_big: bool, name: str) -> Array:
    kind = tensor.storage.kind
    if kind not in _DTYPES:
        raise ValueError(f'"{name}" holds a {kind}, expected one of {", ".join(_DTYPES)}')
    dtype = np.dtype(_DTYPES[kind]).newbyteorder(">" if is_big else "<")
    numbers = np.frombuffer(_member(archive, f"{folder}data/{tensor.storage.key}"), dtype)
    sizes = (*tensor.shape, *tensor.strides, tensor.offset)
    count = prod(tensor.shape)
    last = tensor.offset + sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True)
    )
    if min(sizes) < 0 or count > numbers.size or (count and last >= numbers.size):
        raise ValueError(f'"{name}" has the shape {tensor.shape}, but its storage {numbers.size} numbers')
    steps = [stride * dtype.itemsize for stride in tensor.strides]
    view = np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, steps, writeable=False)
    array = view.astype(dtype.newbyteorder("="))
    if kind == "BFloat16Storage":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


# ---------------------------------------------------------------- the pickle


_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NEWFALSE": lambda: False,
    "NEWTRUE": lambda: True,
    "NONE": lambda: None,
}
_NUMBERS_AND_TEXTS = (
    *("BINFLOAT", "BININT", "BININT1", "BININT2", "LONG1"),
    *("BINUNICODE", "BINUNICODE8", "SHORT_BINUNICODE"),
)
_OPERATIONS = (
    *("APPEND", "APPENDS", "BINGET", "BINPERSID", "BINPUT", "BUILD", "GLOBAL", "LONG_BINGET", "LONG_BINPUT"),
    *("MARK", "MEMOIZE", "NEWOBJ", "REDUCE", "SETITEM", "SETITEMS", "STACK_GLOBAL", "TUPLE"),
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _value(content: bytes) -> object:
    """What the pickle describes. Raises ``ValueError`` for operations that no state dict needs."""
    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(content):
        machine.step(opcode.name, argument)
    return machine.stack[-1]


class _Machine:
    """The stack of a pickle. Nothing is imported, and nothing called."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _NUMBERS_AND_TEXTS:
            self.stack.append(argument)
        elif name in _TUPLES:
            self.stack.append(tuple(self._pop(_TUPLES[name])))
        elif name in _OPERATIONS:
            getattr(self, f"_{name.lower()}")(argument)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise ValueError(f"its pickle has the operation {name}, which no state dict needs")

    def _pop(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise ValueError("its pickle ends too early")
        parts = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return parts

    def _since_mark(self) -> list[Any]:
        return self._pop(len(self.stack) - self._marks.pop())

    def _mark(self, _: object) -> None:
        self._marks.append(len(self.stack))

    def _tuple(self, _: object) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _global(self, name: str) -> None:
        self.stack.append(ForeignName(name.replace(" ", ".")))

    def _stack_global(self, _: object) -> None:
        module, name = self._pop(2)
        self.stack.append(ForeignName(f"{module}.{name}"))

    def _memoize(self, _: object) -> None:
        self._memo[len(self._memo)] = self.stack[-1]

    def _binput(self, place: int) -> None:
        self._memo[place] = self.stack[-1]

    def _binget(self, place: int) -> None:
        self.stack.append(self._memo[place])

    _long_binput, _long_binget = _binput, _binget

    def _setitem(self, _: object) -> None:
        key, value = self._pop(2)
        self._store(self.stack[-1], [key, value])

    def _setitems(self, _: object) -> None:
        items = self._since_mark()
        self._store(self.stack[-1], items)

    @staticmethod
    def _store(target: object, items: list[Any]) -> None:
        if isinstance(target, dict):
            target.update(zip(map(_key, items[::2]), items[1::2], strict=True))

    def _append(self, _: object) -> None:
        self._pop(1)  # of a list, which holds no tensors of a state dict

    def _appends(self, _: object) -> None:
        self._since_mark()

    def _build(self, _: object) -> None:
        self._pop(1)  # attributes, such as the versions of modules

    def _binpersid(self, _: object) -> None:
        (identity,) = self._pop(1)
        _, kind, key, *_ = identity
        self.stack.append(Storage(kind.name.rpartition(".")[2], str(key)))

    def _reduce(self, _: object) -> None:
        function, arguments = self._pop(2)
        name = function.name if isinstance(function, ForeignName) else ""
        if name == "torch._utils._rebuild_tensor_v2":
            storage, offset, shape, strides, *_ = arguments
            _refuse_odd(storage, offset, *shape, *strides)
            self.stack.append(StoredTensor(storage, offset, tuple(shape), tuple(strides)))
        elif name == "torch._utils._rebuild_parameter":
            self.stack.append(arguments[0])
        else:
            self.stack.append({} if name == "collections.OrderedDict" else ForeignName(f"{name}()"))

    def _newobj(self, _: object) -> None:
        self._pop(2)
        self.stack.append(ForeignName("an object"))


def _key(key: object) -> object:
    return key if isinstance(key, str | int) else repr(type(key))


def _refuse_odd(storage: object, *sizes: object) -> None:
    if not isinstance(storage, Storage) or not all(type(size) is int for size in sizes):
        raise ValueError("a tensor of its pickle has no storage, or sizes that are no numbers")


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
