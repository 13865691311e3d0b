"""Data as calls of a net: from files and folders of arrays or images, and from Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prototrt.caffe_proto.common.errors import ConversionError, NetError, UnreadableFileError
from prototrt.caffe_proto.common.files import errors_for_user, open_regular
from prototrt.caffe_proto.common.memory import refuse_beyond_memory
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.weights.named_arrays import shape_in
from prototrt.caffe_proto.weights.npz import SIGNS_OF_DAMAGE, ArrayHeader, read_header, refuse_contradiction
from prototrt.converter.files.signatures.arrays import host_array
from prototrt.converter.files.signatures.feeds import Feeds, read_feeds, refuse_misfits, unread_arrays
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.data.images import IMAGE_SUFFIXES, ImageFile, ImageFolder, Preparation
from prototrt.converter.running.data.loaders import loader_of
from prototrt.surgery.ir import Value

_ARRAY_SUFFIXES = (".npy", ".npz")


@dataclass(frozen=True, slots=True)
class Call:
    """The inputs of one call. ``starts_anew``: state does not come from the call before it.

    ``pictures`` are the files of images that the inputs are made of.
    """

    where: str
    feeds: Feeds
    starts_anew: bool = False
    pictures: tuple[ImageFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Data:
    """Calls, which are read one after the other, and how many parts they are read in, where that is known.

    ``read`` gives the calls of each part: of a file, of a batch of images, or a single call. ``images`` is how many
    different samples there are, as far as files tell. ``pixels`` says what is done to those of images.
    """

    read: Callable[[], Iterator[Sequence[Call]]]
    parts: int | None = None
    warnings: tuple[str, ...] = ()
    pixels: str = ""

    def calls(self) -> Iterator[Call]:
        for part in self.read():
            yield from part


def starts(calls: Iterable[Call]) -> list[int]:
    """The numbers of the calls before which state is forgotten."""
    return [number for number, call in enumerate(calls) if call.starts_anew]


def data_of(
    source: str | None, loader: str | None, signature: Signature, preparation: Preparation | None = None
) -> Data:
    """The data that the user names, for a net with this signature.

    ``source`` is an npz file, or a folder of ``.npz`` and ``.npy`` files, or of images. ``loader`` is a Python
    function, as in ``load.py:batches``. ``preparation`` says how images become inputs. Raises ``ConversionError``.
    """
    if loader is not None:
        refuse_preparation(preparation, loader)
        batches = loader_of(loader)
        return Data(lambda: _load(batches, loader, signature))
    assert source is not None
    return _data_of_files(source, signature, preparation)


def _data_of_files(source: str, signature: Signature, preparation: Preparation | None) -> Data:
    """The data in a file or a folder, whose files must be of one kind. Raises ``ConversionError``."""
    path = Path(source)
    with errors_for_user(source, "an npz file or a folder"):
        path.stat()
        if not path.is_dir():
            open_regular(path, "an npz file").close()  # a pipe is refused, not waited for
    files = files_in(path)
    kinds = {_kind(file) for file in files}
    if kinds == {"image"}:
        folder = ImageFolder.of(files, source, signature, preparation or Preparation())
        return Data(
            lambda: ([Call(where, feeds, False, pictures)] for where, feeds, pictures in folder.batches()),
            folder.count,
            folder.warnings,
            folder.what_becomes,
        )
    refuse_preparation(preparation, source)
    if kinds != {"array"}:
        raise ConversionError(
            "holds arrays as well as images" if kinds else "holds no arrays and no images",
            where=source,
            because=None if kinds else f"no file ends in {', '.join((*_ARRAY_SUFFIXES, *IMAGE_SUFFIXES))}",
            fix="give a folder with files of one kind",
        )
    return Data(
        lambda: (calls_of(file, signature) for file in files), len(files), _unread(files[0], signature)
    )


def refuse_preparation(preparation: Preparation | None, where: str) -> None:
    """Raise ``ConversionError`` for options that prepare images, as there are none."""
    if preparation is not None and (names := preparation.names_in_use):
        options = [Option(name) for name in names]
        raise ConversionError(
            "holds arrays, but there are options for images",
            where=where,
            fix=Worded("leave out {}", Worded.joined(", ", options)),
        )


def files_in(path: Path) -> list[Path]:
    """The file itself, or all arrays and images below a folder, in the order of their names."""
    if not path.is_dir():
        return [path]
    return sorted(
        file for file in path.rglob("*") if file.is_file() and _kind(file) and not _is_hidden(file, path)
    )


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _kind(file: Path) -> str | None:
    suffix = file.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        return "image"
    return "array" if suffix in _ARRAY_SUFFIXES else None


def _unread(file: Path, signature: Signature) -> tuple[str, ...]:
    if file.suffix.lower() == ".npy":
        return ()
    names = [value.name for value in signature.inputs]
    return tuple(unread_arrays(str(file), names))


def calls_of(file: Path, signature: Signature) -> list[Call]:
    """The calls in a file: several where its arrays are numbered, or hold more than one call needs."""
    if file.suffix.lower() == ".npy":
        every = split(_single(file, signature), signature)
    else:
        every = [part for feed in feeds_of(str(file), signature) for part in split(feed, signature)]
    return [Call(_call_text(str(file), call, len(every)), feed, not call) for call, feed in enumerate(every)]


def feeds_of(file: str, signature: Signature, calls: int | None = None) -> list[Feeds]:
    """The arrays of an npz file, as ``read_feeds`` gives them. Their shapes are checked before they are read."""
    names = [value.name for value in signature.inputs]
    return read_feeds(file, names, calls, partial(_refuse_misfits_of_parts, file, signature))


def _refuse_misfits_of_parts(
    file: str, signature: Signature, feeds: Sequence[Mapping[str, ArrayHeader]]
) -> None:
    """Raise ``ConversionError`` for shapes that do not fit, also of arrays that hold several calls."""
    nothing = np.zeros((), np.bool_)
    shapes = [{name: np.broadcast_to(nothing, array.shape) for name, array in feed.items()} for feed in feeds]
    parts = [split(feed, signature) for feed in shapes]
    refuse_misfits(file, [part for call in parts for part in call], signature)
    if any(len(call) > 1 for call in parts):  # all arrays are read at once
        sizes = {id(array): array.nbytes for feed in feeds for array in feed.values()}
        refuse_beyond_memory("reading its arrays", sum(sizes.values()), file)


def _call_text(where: str, call: int, calls: int) -> str:
    return where if calls == 1 else f"{where}, call {call}"


def _single(file: Path, signature: Signature) -> Feeds:
    """The array of a ``.npy`` file, for the only input. Its shape is checked before it is read."""
    needed = [value.name for value in signature.inputs if value.name not in signature.states]
    if len(needed) != 1:
        raise NetError(
            f"holds one array, but the net has the inputs {', '.join(needed)}",
            where=str(file),
            fix=f"write npz files, each with an array for every input: numpy.savez(FILE, {needed[0]}=array, ...)",
        )
    try:
        with open_regular(file, "an npy file") as stream:
            header = read_header(stream, file.stat().st_size)
        refuse_contradiction(header, "it")
        _refuse_misfits_of_parts(str(file), signature, [{needed[0]: header}])
        return {needed[0]: np.load(file, allow_pickle=False)}
    except SIGNS_OF_DAMAGE as error:
        raise UnreadableFileError(
            "is not an npy file", where=str(file), fix="write it with numpy.save(FILE, array)"
        ) from error


def split(feed: Feeds, signature: Signature) -> list[Feeds]:
    """Calls out of arrays that hold several: one after the other along a new first axis, or along the first one.

    Both leave one call alone. Arrays that all calls share have the shape of the input.
    """
    inputs = {value.name: value for value in signature.inputs}
    rows = {name: _rows(shape_in(feed, name), inputs[name]) for name in feed if name in inputs}
    counts = {row[0] for row in rows.values() if row is not None}
    if len(counts) != 1:
        return [feed]
    arrays = {name: feed[name] if row is None else feed[name].reshape(row) for name, row in rows.items()}
    return [
        {name: array if rows[name] is None else array[call] for name, array in arrays.items()}
        for call in range(counts.pop())
    ]


def _rows(sizes: tuple[int, ...], value: Value) -> tuple[int, ...] | None:
    """The shape of an array with a row for each call; None where it is one call, or something else."""
    shape = value.shape
    if len(sizes) == len(shape) + 1 and sizes[1:] == shape:
        return sizes
    fits = len(sizes) == len(shape) > 0 and sizes[1:] == shape[1:] and isinstance(shape[0], int)
    if not fits or not 0 < int(shape[0]) < sizes[0] or sizes[0] % int(shape[0]):
        return None
    return (sizes[0] // int(shape[0]), int(shape[0]), *sizes[1:])


def _load(batches: Callable[[], Iterable[Any]], where: str, signature: Signature) -> Iterator[Sequence[Call]]:
    """The calls that a user's function gives. State is carried from one to the next."""
    for number, call in enumerate(batches()):
        place = f"{where}, call {number}"
        if not isinstance(call, Mapping):
            raise NetError(
                f"gives an object of the type {type(call).__name__}, expected a dictionary of arrays by input",
                where=place,
                fix='yield dictionaries, as in yield {"data": array}',
            )
        feed = {str(name): host_array(array, str(name)) for name, array in call.items()}
        try:
            refuse_misfits(where, [feed], signature)
        except ConversionError as error:
            error.where = place
            raise
        yield [Call(place, feed)]
