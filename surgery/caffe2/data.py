"""Operators that make data, or pass it on unchanged."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.caffe2.advice import GIVE_SHAPES_AND_INIT_NET, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.fills import Fill
from prototrt.caffe_proto.caffe2.init_net import FLOAT_FILLS, TENSOR_FILLS, constant_fill, run_fill
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.caffe2.schema import INT32
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.caffe2.operator_rule import (
    constant_array,
    expect_whole_numbers,
    misfit,
    operator_rule,
    sizes_of,
)
from prototrt.surgery.ir import DType, element_count


@operator_rule("Input")
def input_operator(build: LayerBuilder, operator: Operator) -> list[Value]:
    """An external input of the net. Caffe2's files state neither its shape nor its type, unless an init net fills it.

    Becomes: an input of the engine, float32, or int32 where its readers need whole numbers. In conditions, 0 is false.
    """
    name = operator.tops[0]
    arguments = operator.arguments
    dtype = DType.INT32 if arguments.integer("dtype", 1) == INT32 else DType.FLOAT32
    shape = arguments.integers("shape") if arguments.has("shape") else None
    return [build.input(name, build.shape_of_input(name, shape), dtype)]


@operator_rule(
    *(
        "Alias",
        "AliasWithName",
        "Copy",
        "CopyCPUToGPU",
        "CopyFromCPUInput",
        "CopyGPUToCPU",
        "CopyOnDeviceLike",
    ),
    *("EnsureCPUOutput", "EnsureDense", "StopGradient"),
)
def copy(build: Builder, operator: Operator, x: Value, *others: Value) -> list[Value]:
    """The input under another name, or on another device.

    Becomes: nothing.
    """
    return [x]


@operator_rule("Dropout")
def dropout(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The identity at inference, also where ``is_test`` is not set.

    Becomes: nothing.
    """
    if not operator.arguments.flag("is_test"):
        build.warn("is_test is not set: prototrt assumes inference, which drops nothing")
    return [x]


@operator_rule("ConstantFill")
def constant(build: Builder, operator: Operator, *like: Value) -> list[Value]:
    """One number in the stated shape, in the shape of an input, or with ``input_as_shape`` in the shape that it holds.

    Becomes: a constant.
    """
    arguments = operator.arguments
    holds_shape = bool(like) and arguments.flag("input_as_shape")
    sizes = sizes_of(build, operator, "shape", 0, like[0] if holds_shape else None)
    if like and not holds_shape:
        element_count(like[0].shape, "a size of the constant")
        sizes = [int(size) for size in like[0].shape]
    more = arguments.integers("extra_shape")
    shape = (*sizes, *more)
    if any(size < 0 for size in shape):
        has_shape = not like or any(size < 0 for size in more)
        raise ShapeError(
            f"shape is {shape}, expected sizes that are not negative",
            fix=MEND_ARGUMENTS if has_shape else GIVE_SHAPES_AND_INIT_NET,
        )
    return [build.constant(constant_fill(arguments, shape), "filled")]


@operator_rule(*TENSOR_FILLS)
def filled_tensor(build: Builder, operator: Operator) -> list[Value]:
    """Numbers stored in the predict net itself.

    Becomes: a constant.
    """
    is_float = operator.type in FLOAT_FILLS
    values = np.array(operator.arguments.numbers("values") if is_float else (), np.float32)
    fill = Fill(operator.message, operator.origin, len(values), lambda: values)
    return [build.constant(run_fill(fill, None).array, "given")]


@operator_rule("ScatterAssign")
def scatter_assign(build: Builder, operator: Operator, data: Value, index: Value, rows: Value) -> list[Value]:
    """A blob in which the rows at given indices are replaced. All inputs must be known when the engine is built.

    Becomes: a constant.
    """
    expect_whole_numbers(operator, index, 1)
    array, places, values = (
        constant_array(build, operator, position, value) for position, value in enumerate((data, index, rows))
    )
    if array.ndim == 0:
        raise misfit(operator, 0, array, "at least one axis")
    if values.shape != (*places.shape, *array.shape[1:]) or places.ndim != 1:
        raise misfit(operator, 2, values, (*places.shape, *array.shape[1:]))
    if places.size and not 0 <= places.min() <= places.max() < len(array):
        raise ShapeError(
            f"index {places.max()} is outside the {len(array)} rows",
            blob=f'input "{operator.bottom_blob(1)}"',
            fix="store indices of existing rows",
        )
    changed = np.array(array)
    changed[places] = values
    return [build.constant(changed, "changed")]
