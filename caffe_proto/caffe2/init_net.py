"""An init net, evaluated once: the blobs that its fill operators make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_INIT_NET
from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.fills import Fill, read_fills
from prototrt.caffe_proto.caffe2.param_set import PackedBlob, set_parameter
from prototrt.caffe_proto.caffe2.schema import DTYPE_WORDS, DTYPES, INT64
from prototrt.caffe_proto.common.errors import ConversionError, UnsupportedLayerError, WeightsError, raise_all
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wording import Command, Option, Worded, listed
from prototrt.caffe_proto.recognition import OpenFile
from prototrt.caffe_proto.weights import LARGEST_COUNT, Array, FromFile, RandomWeights, StoredBlob

_INTEGER_FILLS = {
    "GivenTensorIntFill": np.int32,
    "GivenTensorInt64Fill": np.int64,
    "GivenTensorInt16Fill": np.int32,
    "GivenTensorBoolFill": np.bool_,
}
FLOAT_FILLS = ("GivenTensorFill", "GivenTensorDoubleFill")
TENSOR_FILLS = (*FLOAT_FILLS, *_INTEGER_FILLS)
_RANDOM = ("XavierFill", "MSRAFill", "GaussianFill", "UniformFill", "TruncatedNormalFill")
FILLS = (*TENSOR_FILLS, "ConstantFill", *_RANDOM)

Blobs: TypeAlias = dict[str, "StoredBlob | PackedBlob"]


@dataclass(frozen=True, eq=False)
class InitNet(FromFile):
    """The weights of a Caffe2 net, by blob. Nothing is read before an array is asked for.

    ``operators`` compute further weights from these; init nets exported from ONNX have such operators. The state dict
    of a module ``is_state_dict``, and has no operators.
    """

    blobs: dict[str, StoredBlob] = field(repr=False)
    operators: tuple[Fill, ...] = ()
    is_state_dict: bool = False

    def names(self) -> Iterable[str]:
        return self.blobs.keys()

    def blobs_of(self, layer: str) -> Sequence[StoredBlob] | None:
        blob = self.blobs.get(layer)
        return None if blob is None else (blob,)


def open_init_net(file: OpenFile, seed: int | None, *, allow_unknown: bool = False) -> InitNet:
    """Evaluate the init net. Random fills are drawn with ``seed``, and refused without one."""
    blobs: Blobs = {}
    computed: dict[str, Fill] = {}
    errors: list[ConversionError] = []
    operators: list[Fill] = []
    fills = read_fills(file, allow_unknown=allow_unknown)
    _refuse_8_bits(fills)
    for fill in fills:
        try:
            if _computes(fill, blobs, computed):
                operators.append(fill)
                computed |= dict.fromkeys(fill.message.output, fill)
            elif not (_is_placeholder(fill) or _is_translators_placeholder(fill, fills)):
                _refuse_again(fill, computed)
                _run(fill, blobs, seed)
        except ConversionError as error:
            error.origin = error.origin or fill.origin
            errors.append(error)
    raise_all(errors)
    stored = {name: blob.to_blob() if isinstance(blob, PackedBlob) else blob for name, blob in blobs.items()}
    return InitNet(file.name, stored, operators=tuple(operators))


def _refuse_8_bits(fills: Sequence[Fill]) -> None:
    """Raise once for all weights of a quantized model."""
    of_8_bits = [fill for fill in fills if fill.message.type.startswith("Int8Given")]
    if not of_8_bits:
        return
    first, *others = (f'"{name}"' for fill in of_8_bits for name in fill.message.output)
    operators = "another operator fills" if len(others) == 1 else f"{len(others)} other operators fill"
    end = Worded(", and {} {}", operators, listed(others)) if others else ""
    raise UnsupportedLayerError(
        Worded("fills {} with 8 bits{}", first, end),
        origin=of_8_bits[0].origin,
        fix=Worded("export the model in float32; {} measures scales for 8 bits", Command("calibrate")),
    )


def _computes(fill: Fill, *made: Collection[str]) -> bool:
    """Whether this operator is not a fill, but computes blobs from earlier ones."""
    message = fill.message
    if message.type == "RecurrentParamSet" or (message.type in FILLS and message.type != "ConstantFill"):
        return False
    # The input of the net, which may not be here, only says how many columns the matrices have.
    read = message.input[1:] if message.type == "RecurrentParamGet" else message.input
    return bool(read) and all(any(name in each for each in made) for name in read)


def _refuse_again(fill: Fill, computed: Mapping[str, Fill]) -> None:
    for name in fill.message.output:
        if name in computed:
            raise UnsupportedLayerError(
                f'fills "{name}", which {computed[name].origin.subject} has already computed',
                fix="export the weights as GivenTensorFill",
            )


def _is_placeholder(fill: Fill) -> bool:
    """Whether the operator is a placeholder for an input.

    Caffe2's exporter fills each input of the net with a zero of the shape (1, 1), Detectron's with nothing.

    Source: caffe2 ``python/predictor/mobile_exporter.py``, ``Export``; Detectron ``tools/convert_pkl_to_pb.py``,
    ``gen_init_net_from_blobs``.
    """
    if fill.message.type != "GivenTensorFill" or fill.read is None:
        return False
    shape = Arguments(fill.message).integers("shape")
    return shape == (0,) or (shape == (1, 1) and fill.count == 1 and not fill.read().any())


def _is_translators_placeholder(fill: Fill, fills: Sequence[Fill]) -> bool:
    """Whether the operator is a placeholder for the input: Caffe2's translator of Caffe models writes a zero
    of the shape (1,) after the weights.

    Source: caffe2 ``python/caffe_translator.py``, ``ConvertTensorProtosToInitNet``.
    """
    if fill is not fills[-1] or fill.message.type != "ConstantFill" or fill.message.input:
        return False
    arguments = Arguments(fill.message)
    is_one_zero = arguments.integers("shape") == (1,) and not arguments.has("value")
    return is_one_zero and len(fills) > 1 and all(each.message.type in TENSOR_FILLS for each in fills[:-1])


def _run(fill: Fill, blobs: Blobs, seed: int | None) -> None:
    kind = fill.message.type
    if kind == "RecurrentParamSet":
        set_parameter(fill, blobs)
        return
    if kind not in FILLS:
        raise UnsupportedLayerError(
            "this operator fills no blob",
            because=f"an init net is made of {', '.join((*FILLS[:5], 'RecurrentParamSet'))}",
            fix="give the predict net first and the init net second; export the weights as GivenTensorFill",
        )
    if len(fill.message.output) != 1 or (len(fill.message.input) and kind not in ("ConstantFill", *_RANDOM)):
        raise UnsupportedLayerError(
            f"has {len(fill.message.input)} inputs and {len(fill.message.output)} outputs, expected 0 and 1",
            fix="export the weights as GivenTensorFill",
        )
    blobs[fill.message.output[0]] = run_fill(fill, seed)


def run_fill(fill: Fill, seed: int | None) -> StoredBlob:
    """The blob that a fill operator makes."""
    kind, arguments = fill.message.type, Arguments(fill.message)
    shape = arguments.integers("shape")
    if len(fill.message.input):
        raise UnsupportedLayerError("reads its shape from a blob", fix="export it with the argument shape")
    if any(dim < 0 for dim in shape) or prod(shape) > LARGEST_COUNT:
        raise WeightsError(
            f"shape is {shape}, expected sizes from 0 up and at most {LARGEST_COUNT} elements",
            fix=GIVE_INIT_NET,
        )
    if kind in _RANDOM:
        return _draw(fill, shape, seed)
    if kind == "ConstantFill":
        array = constant_fill(arguments, shape)
        return StoredBlob(shape, False, lambda: array)
    if kind in FLOAT_FILLS:
        assert fill.read is not None
        return _fill_blob(shape, fill.count or 0, fill.read)
    values = arguments.integers("values")
    array = np.array(values, np.int64)
    return _fill_blob(shape, len(values), lambda: narrow(array, _INTEGER_FILLS[kind]))


def _fill_blob(shape: tuple[int, ...], count: int, read: Callable[[], Array]) -> StoredBlob:
    if prod(shape) != count:
        raise WeightsError(
            f"the shape {shape} has {prod(shape)} elements, but there are {count} values",
            fix="get the init net again: it is damaged",
        )
    return StoredBlob(shape, False, lambda: read().reshape(shape))


def constant_fill(arguments: Arguments, shape: tuple[int, ...]) -> Array:
    """An array of one number; ``dtype`` is a number of Caffe2's or, in old files, a word.

    Without it, the kind of ``value`` decides. Source: caffe2 ``operators/filler_op.h``, ``ConstantFillOp``.
    """
    if not arguments.has("dtype") and arguments.is_integer("value"):
        number = INT64
    elif arguments.is_text("dtype"):
        number = DTYPE_WORDS.get(arguments.text("dtype", ""), 0)
    else:
        number = arguments.integer("dtype", 1)
    if number not in DTYPES:
        raise UnsupportedLayerError(
            f"dtype is {number}, expected float, int32, int64 or bool",
            fix=CUT_BEFORE,
        )
    if DTYPES[number].startswith("float"):
        return np.broadcast_to(np.float32(arguments.number("value", 0.0)), shape)
    return np.broadcast_to(narrow(np.array(arguments.integer("value", 0)), DTYPES[number]), shape)


def narrow(array: Array, dtype: object) -> Array:
    """The array; int64 becomes int32, the type of whole numbers in engines."""
    if np.dtype(dtype) == np.bool_:  # type: ignore[call-overload]  # any spelling of a dtype
        return array.astype(np.bool_)
    span = np.iinfo(np.int32)
    if array.size and (array.min() < span.min or array.max() > span.max):
        raise WeightsError(
            f"holds numbers from {array.min()} to {array.max()}, expected 32 bits",
            fix="store numbers that fit 32 bits",
        )
    return array.astype(np.int32)


def _draw(fill: Fill, shape: tuple[int, ...], seed: int | None) -> StoredBlob:
    if seed is None:
        raise WeightsError(
            "draws its numbers at random: this init net holds no trained weights",
            fix=Worded(
                "give the init net that was saved after training, or {} to try the topology alone",
                Option("random_weights", 0),
            ),
        )
    name, source = str(fill.message.output[0]), RandomWeights(seed=seed)
    return StoredBlob(shape, False, lambda: source.draw(name, 0, shape))
