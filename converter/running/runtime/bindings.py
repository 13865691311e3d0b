"""The inputs and outputs of an engine, and whether its manifest agrees with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.files.signatures.signature import Signature
from prototrt.surgery.ir import DataSize, Dim, DType, OpenSize, Range, Value, range_of

_FIX = "use the manifest that was written with the plan, or convert the model again"


def signature_of_engine(engine: Any, backend: Backend) -> Signature:
    """The inputs and outputs of an ``ICudaEngine``; it has no list of recurrent pairs.

    Each size that varies becomes its own symbol. Raises ``EngineError`` for inputs and outputs that we cannot feed.
    """
    dtypes: Mapping[Any, DType] = {backend.dtype(dtype): dtype for dtype in DType}
    sides: dict[str, list[Value]] = {"INPUT": [], "OUTPUT": []}
    for name in (engine.get_tensor_name(index) for index in range(engine.num_io_tensors)):
        side = engine.get_tensor_mode(name).name
        if engine.get_tensor_location(name).name != "DEVICE":
            raise EngineError(
                f"\"{name}\" lies in the host's memory, expected the GPU's",
                because="TensorRT calls it a shape tensor: its numbers are sizes of other tensors",
                fix="give the engine an input of that size instead, or run it with trtexec",
            )
        engine_type = engine.get_tensor_dtype(name)
        if engine_type not in dtypes:
            raise EngineError(
                f'"{name}" holds {engine_type}, expected one of {", ".join(dtype.value for dtype in DType)}',
                fix="cast it inside the network that the engine is built from",
            )
        shape = tuple(
            _dim(engine, name, side, axis) if size == -1 else size
            for axis, size in enumerate(engine.get_tensor_shape(name))
        )
        sides[side].append(Value(name, dtypes[engine_type], shape))
    return Signature(tuple(sides["INPUT"]), tuple(sides["OUTPUT"]), ())


def _dim(engine: Any, name: str, side: str, axis: int) -> Dim:
    """A size that varies: over what all profiles allow, for an input."""
    symbol = f"{name}.{axis}"
    if side == "OUTPUT":
        return DataSize(symbol)
    spans = [Range(*(sizes[axis] for sizes in each)) for each in profile_shapes(engine, name)]
    least, most = min(span.min for span in spans), max(span.max for span in spans)
    return OpenSize.symbol(symbol, Range(least, spans[0].opt, most))


def profile_shapes(engine: Any, name: str) -> list[list[tuple[int, ...]]]:
    """The smallest, usual and largest shape of an input, in each profile of the engine."""
    profiles = range(engine.num_optimization_profiles)
    return [
        [tuple(sizes) for sizes in engine.get_tensor_profile_shape(name, profile)] for profile in profiles
    ]


def refuse_other_bindings(promised: Signature, actual: Signature, *, has_profiles: bool = False) -> None:
    """Raise ``EngineError`` unless a manifest has the same inputs and outputs as the engine.

    The manifest decides how much memory is reserved, so all of it must be right. The usual size is that of no profile
    where there are several (``has_profiles``).
    """
    for side, ours, has in (
        ("inputs", promised.inputs, actual.inputs),
        ("outputs", promised.outputs, actual.outputs),
    ):
        have, want = {value.name for value in has}, {value.name for value in ours}
        if have != want:
            raise EngineError(
                f"the {side} in the manifest differ from those of the plan: {', '.join(sorted(have ^ want))}",
                fix=_FIX,
            )
    theirs = {value.name: value for value in (*actual.inputs, *actual.outputs)}
    for value in (*promised.inputs, *promised.outputs):
        other = theirs[value.name]
        if value.dtype != other.dtype:
            raise EngineError(
                f'the manifest says that "{value.name}" is {value.dtype.value}, the plan has {other.dtype.value}',
                fix=_FIX,
            )
        if not _agree(value, other, is_input=other in actual.inputs, has_profiles=has_profiles):
            raise EngineError(
                f'the manifest says that "{value.name}" is {_description(value)}, the plan has {_description(other)}',
                fix=_FIX,
            )
    _refuse_pairs(promised)


def _agree(value: Value, other: Value, *, is_input: bool, has_profiles: bool) -> bool:
    if len(value.shape) != len(other.shape):
        return False
    for ours, theirs in zip(value.shape, other.shape, strict=True):
        # An engine does not know the sizes of an output before those of the inputs.
        if isinstance(ours, DataSize) or isinstance(theirs, DataSize):
            continue
        span, built = range_of(ours), range_of(theirs)
        if has_profiles:
            built = replace(built, opt=span.opt)
        is_inside = isinstance(theirs, int) and span.min <= theirs <= span.max
        if span != built and (is_input or not is_inside):
            return False
    return True


def _description(value: Value) -> str:
    """Type and sizes; those that vary as ``min..max``."""

    def size(dim: Dim) -> str:
        if not isinstance(dim, OpenSize):
            return "?" if isinstance(dim, DataSize) else str(dim)
        span = dim.range
        return f"{span.min}..{span.max} (usually {span.opt})"

    return f"{value.dtype.value} of {' x '.join(map(size, value.shape)) or 'one number'}"


def _refuse_pairs(promised: Signature) -> None:
    """A pair feeds an output back into an input, each of them once, and both hold the same."""
    for pair in promised.recurrences:
        one, other = pair.input, pair.output
        wrong = _wrong_with(one, other, promised)
        if wrong is not None:
            raise EngineError(
                f'the manifest says that "{other.name}" is fed back into "{one.name}", {wrong}', fix=_FIX
            )


def _wrong_with(one: Value, other: Value, promised: Signature) -> str | None:
    if one not in promised.inputs:
        return f'but "{one.name}" is not an input'
    if other not in promised.outputs:
        return f'but "{other.name}" is not an output'
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"but the one is {_description(other)}, the other {_description(one)}"
    if sum(pair.input is one or pair.output is other for pair in promised.recurrences) > 1:
        return "and one of them is also in another pair"
    return None
