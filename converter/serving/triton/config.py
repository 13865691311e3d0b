"""The ``config.pbtxt`` of a model: what Triton must know to batch requests, and to keep the state of sequences.

Source: ``model_config.proto`` of Triton, and its user guide on sequence batching and implicit state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from prototrt.converter.files.companions.cpp_header import literal
from prototrt.converter.options import Platform
from prototrt.converter.serving.triton.served import ServedGraph
from prototrt.surgery.ir import DType, Recurrence, Shape, Value, computable, range_of

LABELS = "labels.txt"
"""The file with the names of classes, in the folder of a model."""
IDLE_SECONDS = 60
"""After this time without a request, a sequence ends: its client is gone."""
MOST_SEQUENCES = 1024
"""Sequences at a time. A further one waits until another ends."""

_TYPES = {DType.FLOAT32: "FP32", DType.FLOAT16: "FP16", DType.INT32: "INT32", DType.BOOL: "BOOL"}
_START_FIELDS = {DType.FLOAT32: "fp32_false_true", DType.INT32: "int32_false_true"}


def config_of(
    served: ServedGraph, name: str, platform: Platform, on_gpu: bool, labelled: str | None = None
) -> Message:
    """The config of a model. ``labelled`` is the output whose classes have names.

    ``on_gpu`` is where a model in Python runs; the other platforms find out themselves.
    """
    config: dict[str, Field] = {
        "name": name,
        "backend": platform,
        "max_batch_size": served.batch,
        "input": [_tensor(value, served) for value in served.inputs],
        "output": [_output(value, served, labelled) for value in served.outputs],
    }
    keeps_state = served.is_stateful and platform != "python"
    if served.is_stateful:
        config["sequence_batching"] = _sequences(served, keeps_state)
    elif served.batch > 1:
        config["# Requests that arrive together are computed together."] = ""
        config["dynamic_batching"] = {}
    if platform == "python":
        config["instance_group"] = [{"count": 1, "kind": Enum("KIND_GPU" if on_gpu else "KIND_CPU")}]
    if not keeps_state:  # Triton's warm-up has no sequence whose state a backend could keep
        config["model_warmup"] = [_warmup(served, size) for size in sorted({1, max(served.batch, 1)})]
    return config


def _tensor(value: Value, served: ServedGraph) -> dict[str, Field]:
    sizes = _dims(served.sizes(value))
    facts: dict[str, Field] = {"name": value.name, "data_type": _type(value), "dims": sizes or [1]}
    return facts if sizes else {**facts, "reshape": {"shape": []}}


def _output(value: Value, served: ServedGraph, labelled: str | None) -> Message:
    facts = _tensor(value, served)
    if value.name == labelled:
        facts["label_filename"] = LABELS
    return facts


def _sequences(served: ServedGraph, keeps_state: bool) -> Message:
    batching: dict[str, Field] = {
        f"# A sequence without a request for {IDLE_SECONDS} s ends.": "",
        "max_sequence_idle_microseconds": IDLE_SECONDS * 1_000_000,
        "oldest": {"max_candidate_sequences": MOST_SEQUENCES},
    }
    if served.controls:
        batching["control_input"] = [_start(served.controls[0])]
    if keeps_state:
        batching["state"] = [_state(pair, served) for pair in served.graph.recurrences]
    return batching


def _start(cont: Value) -> Message:
    """cont is 0 in the first step of a sequence, and 1 in all others."""
    numbers: Field = [1, 0]
    return {
        "name": cont.name,
        "control": [{"kind": Enum("CONTROL_SEQUENCE_START"), _START_FIELDS[cont.dtype]: numbers}],
    }


def _state(pair: Recurrence, served: ServedGraph) -> Message:
    dims = _dims(served.sizes(pair.input))
    initial: dict[str, Field] = {"name": pair.input.name, "data_type": _type(pair.input), "dims": dims}
    if pair.input.name in served.initial:
        initial["data_file"] = initial_file(served, pair.input.name)
    else:
        initial["zero_data"] = True
    return {
        "input_name": pair.input.name,
        "output_name": pair.output.name,
        "data_type": _type(pair.input),
        "dims": dims,
        "initial_state": [initial],
    }


def _warmup(served: ServedGraph, batch: int) -> Message:
    values = (*served.inputs, *served.controls[:1])
    return {
        "name": f"batch {batch}",
        "batch_size": batch,
        "inputs": [
            {
                "key": value.name,
                "value": {"data_type": _type(value), "dims": _usual(value, served), "zero_data": True},
            }
            for value in values
        ],
    }


def _usual(value: Value, served: ServedGraph) -> list[int]:
    """The usual shape of a request; of a start, one number."""
    if value in served.controls:
        return [1]
    return [range_of(computable(dim)).opt for dim in served.sizes(value)] or [1]


def _dims(shape: Shape) -> list[int]:
    """The sizes; -1 for one that varies."""
    return [-1 if isinstance(dim, str) else int(dim) for dim in shape]


def _type(value: Value) -> Enum:
    return Enum(f"TYPE_{_TYPES[value.dtype]}")


def outputs_with(served: ServedGraph, classes: int) -> Sequence[Value]:
    """The outputs with a number for each of so many classes."""
    return [value for value in served.outputs if served.sizes(value)[-1:] == (classes,)]


def initial_file(served: ServedGraph, state: str) -> str:
    """The file of the state that sequences start with, as raw numbers. A name of a state may hold anything."""
    return f"{list(served.initial).index(state)}.raw"


class Enum(str):
    """A value of an enumeration, which is written without quotes: ``TYPE_FP32``."""

    __slots__ = ()


Scalar: TypeAlias = str | bool | int | float
Field: TypeAlias = "Scalar | Mapping[str, Field] | Sequence[Scalar] | Sequence[Mapping[str, Field]]"
Message: TypeAlias = Mapping[str, Field]
"""The fields of a message by name. A key that begins with ``#`` is a comment, and its value is not read."""

_STEP = "  "


def text_of(message: Message, indent: str = "") -> str:
    """The text of a message, a field on each line."""
    return "".join(
        f"{indent}{name}\n" if name.startswith("#") else f"{indent}{_field(name, value, indent)}\n"
        for name, value in message.items()
    )


def _field(name: str, value: Field, indent: str) -> str:
    if isinstance(value, Mapping):
        return f"{name} {_in_braces(value, indent)}"
    if isinstance(value, (str, bool, int, float)):
        return f"{name}: {_scalar(value)}"
    parts = [
        _in_braces(part, indent + _STEP) if isinstance(part, Mapping) else _scalar(part) for part in value
    ]
    if any(isinstance(part, Mapping) for part in value):
        inner = f",\n{indent}{_STEP}".join(parts)
        return f"{name} [\n{indent}{_STEP}{inner}\n{indent}]"
    return f"{name}: [ {', '.join(parts)} ]" if parts else f"{name}: [ ]"


def _in_braces(message: Message, indent: str) -> str:
    return f"{{\n{text_of(message, indent + _STEP)}{indent}}}"


def _scalar(value: Scalar) -> str:
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
