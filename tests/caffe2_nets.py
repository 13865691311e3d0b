"""Caffe2 nets of one or a few operators, run on every way we have."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Form, Way
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.surgery.ir import Array, Graph

Arrays = Mapping[str, Array]


def operator(
    kind: str, inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",), **arguments: Any
) -> Any:
    """An OperatorDef; the kind of each argument is that of its value."""
    message = message_class("OperatorDef")(type=kind, input=inputs, output=outputs)
    for name, value in arguments.items():
        message.arg.add(name=name, **_payload(value))
    return message


def _payload(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"i": int(value)}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"s": value.encode()}
    if not isinstance(value, list | tuple):
        return {"n": value}
    if not value:
        return {}
    kind = {int: "ints", float: "floats", str: "strings"}[type(value[0])]
    return {kind: [item.encode() if isinstance(item, str) else item for item in value]}


def net(*operators: Any, **fields: Any) -> Any:
    """A NetDef."""
    return message_class("NetDef")(name="net", op=operators, **fields)


def graph_of(
    operators: Sequence[Any],
    inputs: Arrays,
    weights: Arrays,
    *,
    fills: Sequence[Any] = (),
    sequence: Form = "auto",
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    **ranges: Any,
) -> Graph:
    """The graph of a net whose init net fills ``weights``, and then runs ``fills``.

    ``shapes`` are instead of those of ``inputs``. ``ranges`` are of sizes that may vary: ``sizes``, or ``min_shapes``
    and ``max_shapes``.
    """
    given = [
        operator(
            "GivenTensorFill" if array.dtype.kind == "f" else "GivenTensorIntFill",
            (),
            [name],
            shape=[*array.shape],
            values=array.reshape(-1).tolist(),
        )
        for name, array in weights.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        predict, init = Path(folder, "predict_net.pb"), Path(folder, "init_net.pb")
        predict.write_bytes(net(*operators).SerializeToString())
        init.write_bytes(
            net(*given, *fills, operator("ConstantFill", (), ["unused"], shape=[1])).SerializeToString()
        )
        shapes = shapes or {name: array.shape for name, array in inputs.items()}
        return prototrt.rewrite(prototrt.load(predict, init), shapes=shapes, sequence=sequence, **ranges)


def check(
    operators: Sequence[Any] | Any, inputs: Arrays, weights: Arrays, expected: Arrays, on: Way, **options: Any
) -> Graph:
    """The net gives what was expected, in shape and numbers."""
    operators = operators if isinstance(operators, Sequence) else [operators]
    graph = graph_of(operators, inputs, weights, **options)
    results = prototrt.Session(graph, on=on).run(inputs)
    for name, wanted in expected.items():
        assert results[name].shape == wanted.shape, name
        np.testing.assert_allclose(results[name], wanted, 1e-4, 2e-5, err_msg=name)
    return graph


def refusal(operators: Sequence[Any] | Any, inputs: Arrays, weights: Arrays, **options: Any) -> str:
    """The message for the user, without the name of the file."""
    operators = operators if isinstance(operators, Sequence) else [operators]
    with pytest.raises(ConversionError) as caught:
        graph_of(operators, inputs, weights, **options)
    return str(caught.value).partition("_net.pb: ")[2]
