"""Expected outputs: reading them, and refusing those that no result can be compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnreadableFileError
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.weights.npz import ArrayHeader
from prototrt.converter.checking.verification.comparison import with_all_tops
from prototrt.converter.files.signatures.feeds import read_feeds, unread_keys
from prototrt.converter.files.signatures.signature import Signature, concrete
from prototrt.converter.running.data.data import Call
from prototrt.surgery.ir import Array, Graph

Arrays: TypeAlias = Mapping[str, Array]


def _more_calls(count: int) -> str:
    return Worded(
        "give inputs for as many calls; one call's inputs are repeated with {}", Option("calls", count)
    )


def read_expected(file: str, watched: Graph, calls: Sequence[Call], truth: Graph) -> Sequence[Arrays]:
    """The outputs of each call that a file holds, some of those that are watched, with the shapes of ``truth``.

    Raises ``NetError`` for a blob that is not computed, ``ShapeError`` for another shape, ``UnreadableFileError``.
    """
    computed = [value.name for value in watched.outputs]
    if unknown := unread_keys(file, computed):
        raise _unknown_output_error(unknown[0], computed)
    check = partial(_refuse_other_shapes, file, calls, with_all_tops(truth))
    expected = read_feeds(file, computed, len(calls), check, _more_calls)
    if not any(expected):
        raise UnreadableFileError(
            "holds no arrays, so there is nothing to compare with",
            where=file,
            fix="save the expected outputs in it by their names, as in numpy.savez(file, NAME=array)",
        )
    return expected


def missing_calls(file: str, expected: Sequence[Arrays]) -> list[str]:
    """A warning of the calls that the file has no arrays for; empty otherwise."""
    missing = [str(call) for call, arrays in enumerate(expected) if not arrays]
    return [f"{file}: not compared: call {listed(missing)}, for which it has no arrays"] if missing else []


def refuse_unlike(expected: Arrays, computed: Arrays) -> None:
    """Raise ``NetError`` for expected arrays that are not computed, ``ShapeError`` for those of another shape."""
    for name, array in expected.items():
        if name not in computed:
            raise _unknown_output_error(name, computed)
        if array.shape != computed[name].shape:
            raise ShapeError(
                f'the expected "{name}" has the shape {array.shape}, the computed one {computed[name].shape}'
            )


def _unknown_output_error(name: str, computed: Iterable[str]) -> NetError:
    return NetError(
        f'the expected outputs hold "{name}", which is not computed',
        fix=Worded(
            "give arrays for some of {}, or make every blob an output with {}",
            listed([*computed]),
            Option("outputs", ["all"]),
        ),
    )


def _refuse_other_shapes(
    path: str, calls: Sequence[Call], graph: Graph, expected: Sequence[Mapping[str, ArrayHeader]]
) -> None:
    signature = Signature.of_graph(graph)
    outputs = {value.name: value for value in graph.outputs}
    for number, (call, arrays) in enumerate(zip(calls, expected, strict=True)):
        sizes = signature.sizes({name: array.shape for name, array in call.feeds.items()})
        for name, array in arrays.items():
            shape = concrete(outputs[name].shape, sizes)
            pairs = zip(array.shape, shape, strict=False)
            if len(array.shape) != len(shape) or any(size not in (dim, -1) for dim, size in pairs):
                raise ShapeError(
                    f'the expected "{name}" has the shape {array.shape}, the computed one {shape}',
                    where=path if len(calls) == 1 else f"{path}, call {number}",
                    fix="save the outputs that were computed from these inputs",
                )
