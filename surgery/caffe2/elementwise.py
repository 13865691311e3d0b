"""Element-wise functions of several blobs, and comparisons."""

from __future__ import annotations

from functools import reduce

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_SHAPES_AND_INIT_NET, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.caffe2.schema import DTYPE_WORDS, DTYPES
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.surgery import ops
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import axis_of, merge_sizes, misfit, operator_rule
from prototrt.surgery.ir import DType, Shape

_BINARY: dict[str, ops.Binary] = {
    "Add": ops.ADD,
    "And": ops.AND,
    "Div": ops.DIVIDE,
    "EQ": ops.EQUAL,
    "GT": ops.GREATER,
    "Mul": ops.MULTIPLY,
    "Or": ops.OR,
    "Sub": ops.SUBTRACT,
}
# Comparisons as another one with the operands swapped, or not true, or both.
_DERIVED = {
    "GE": (ops.GREATER, True, True),
    "LE": (ops.GREATER, False, True),
    "LT": (ops.GREATER, True, False),
}


@operator_rule(*_BINARY)
def binary(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """``a`` and ``b`` element by element; with ``broadcast`` 1 the second is broadcast over the first.

    Becomes: Add, Subtract, Multiply, Divide, Greater, Equal, And, Or.
    With it, b is aligned with the last axes of a, or with those from ``axis`` on, or is one
    number. Without it, shapes broadcast as in NumPy.
    """
    if operator.type in ("And", "Or"):
        a, b = truths(build, a), truths(build, b)
    return [build.add(_BINARY[operator.type], *operands(build, operator, a, b))]


@operator_rule(*_DERIVED, "NE")
def comparison(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """Comparisons made of others. Broadcasting as for Add.

    Becomes: Greater or Equal, Not.
    """
    kind, swapped, negated = _DERIVED.get(operator.type, (ops.EQUAL, False, True))
    a, b = operands(build, operator, a, b)
    result = build.add(kind, b, a) if swapped else build.add(kind, a, b)
    return [build.add(ops.NOT, result) if negated else result]


@operator_rule("Not")
def negation(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """True where x is false.

    Becomes: Not.
    """
    return [build.add(ops.NOT, truths(build, x))]


def truths(build: Builder, value: Value) -> Value:
    """What is true, of an input of the net too: Caffe2's files state no types, so it holds float32."""
    if value.dtype is not DType.FLOAT32 or value.is_constant or build.writer(value) is not None:
        return value
    return (~value.equals(0)).named("is_true")


def operands(build: Builder, operator: Operator, a: Value, b: Value) -> tuple[Value, Value]:
    """Both operands, with equal numbers of axes."""
    if a.dtype is not b.dtype:
        raise ShapeError(
            f"the inputs hold {a.dtype.value} and {b.dtype.value}, expected one type",
            fix="insert a Cast before it",
        )
    arguments = operator.arguments
    if not arguments.flag("broadcast"):
        rank = max(len(a.shape), len(b.shape))
        return build.aligned(a, rank), build.aligned(b, rank)
    rank = len(a.shape)
    if all(dim == 1 for dim in b.shape):
        return a, build.reshape(b, (1,) * rank)
    axis, letter = arguments.integer("axis", -1), arguments.text("axis_str", "")
    if axis == -1 and letter:
        axis = _axis_of_letter(letter, arguments.text("order", "NCHW"))
    first = rank - len(b.shape) if axis == -1 else axis
    covered = a.shape[max(first, 0) : max(first, 0) + len(b.shape)]
    if first < 0 or not _fit(covered, b.shape):
        raise misfit(operator, 1, b, f"the shape of the first input, {a.shape}, from axis {first} on")
    return a, build.aligned(b, rank, first)


def _axis_of_letter(letter: str, order: str) -> int:
    if len(letter) != 1 or letter not in order:
        raise NetError(
            f'axis_str is "{letter}", expected one letter of the order "{order}"', fix=MEND_ARGUMENTS
        )
    return order.index(letter)


def _fit(covered: Shape, shape: Shape) -> bool:
    """Whether the sizes are equal, apart from sizes of 1 at both ends, which are repeated.

    Source: caffe2 ``operators/elementwise_ops_utils.cc``, ``ComputeLegacyBroadcastSizes``.
    """
    inner = [axis for axis, dim in enumerate(shape) if dim != 1]
    within = slice(inner[0], inner[-1] + 1)
    return len(covered) == len(shape) and covered[within] == shape[within]


@operator_rule("Sum", "SumRelu", "Mean", "Max", "Min")
def fold(build: Builder, operator: Operator, x: Value, *others: Value) -> list[Value]:
    """The sum, the mean, the largest or the smallest of blobs of one shape.

    Becomes: Add, Maximum or Minimum, one per further input; Multiply for Mean, LeakyReLU for SumRelu.
    """
    for index, other in enumerate(others, 1):
        if other.shape != x.shape:
            because = f'that is the shape of the first input, "{operator.bottom_blob(0)}"'
            raise misfit(operator, index, other, x.shape, because)
    kind = {"Max": ops.MAXIMUM, "Min": ops.MINIMUM}.get(operator.type, ops.ADD)
    whole = reduce(lambda a, b: build.add(kind, a, b), others, x)
    if operator.type == "Mean":
        return [build.scaled(whole, 1 / (1 + len(others)))]
    return [build.add(ops.LeakyReLU(), whole) if operator.type == "SumRelu" else whole]


@operator_rule("WeightedSum")
def weighted_sum(build: Builder, operator: Operator, x: Value, weight: Value, *others: Value) -> list[Value]:
    """The sum of blobs of one shape, each times the scalar that follows it.

    Becomes: Multiply, Add.
    """
    pairs = [x, weight, *others]
    if len(pairs) % 2:
        raise NetError(f"has {len(pairs)} inputs, expected a weight after each blob", fix=MEND_ARGUMENTS)
    parts = []
    for index in range(0, len(pairs), 2):
        blob, factor = pairs[index : index + 2]
        if blob.shape != x.shape or merge_sizes(factor.shape) != 1:
            raise ShapeError(
                f"shapes are {blob.shape} and {factor.shape}, expected {x.shape} and (1,)",
                blob=f'inputs "{operator.bottom_blob(index)}" and "{operator.bottom_blob(index + 1)}"',
                fix=GIVE_SHAPES_AND_INIT_NET,
            )
        share = build.reshape(factor, (1,) * len(x.shape))
        parts.append((blob * share).named("weighted"))
    return [reduce(lambda a, b: a + b, parts)]


@operator_rule("Xor")
def exclusive_or(build: Builder, operator: Operator, a: Value, b: Value) -> list[Value]:
    """True where exactly one of the two is. Broadcasting as for Add.

    Becomes: Or, And, Not.
    """
    x, y = operands(build, operator, truths(build, a), truths(build, b))
    return [(x | y) & ~(x & y)]


@operator_rule("Where")
def where(build: Builder, operator: Operator, condition: Value, a: Value, b: Value) -> list[Value]:
    """``a`` where the condition is true, else ``b``; with ``broadcast_on_rows`` whole rows of them.

    Becomes: Select.
    """
    return [_select(build, operator, condition, a, b, by_rows=operator.arguments.flag("broadcast_on_rows"))]


@operator_rule("Conditional")
def conditional(build: Builder, operator: Operator, condition: Value, a: Value, b: Value) -> list[Value]:
    """The rows of ``a`` where the condition (N,) is true, else those of ``b``.

    Becomes: Select.
    """
    return [_select(build, operator, condition, a, b, by_rows=True)]


def _select(
    build: Builder, operator: Operator, condition: Value, a: Value, b: Value, *, by_rows: bool
) -> Value:
    condition = truths(build, condition)
    if condition.dtype is not DType.BOOL:
        raise ShapeError(
            f"holds {condition.dtype.value}, expected bool",
            blob=f'input "{operator.bottom_blob(0)}"',
            fix="insert a comparison or a Cast before it",
        )
    if a.shape != b.shape or a.dtype is not b.dtype:
        raise ShapeError(
            f"holds {b.dtype.value} {b.shape}, expected {a.dtype.value} {a.shape}",
            blob=f'input "{operator.bottom_blob(2)}"',
            fix=GIVE_SHAPES_AND_INIT_NET,
        )
    expected = a.shape[:1] if by_rows else a.shape
    if condition.shape != expected:
        raise misfit(operator, 0, condition, expected)
    return build.add(ops.Select(), build.aligned(condition, len(a.shape), 0), a, b)


@operator_rule("RowMul")
def row_multiply(build: Builder, operator: Operator, x: Value, weights: Value) -> list[Value]:
    """Each row of x times its weight, (N,).

    Becomes: Multiply.
    """
    if weights.shape != x.shape[:1]:
        raise misfit(operator, 1, weights, x.shape[:1])
    return [x * build.aligned(weights, len(x.shape), 0)]


@operator_rule("ElementwiseLinear")
def elementwise_linear(
    build: Builder, operator: Operator, x: Value, scale: Value, shift: Value
) -> list[Value]:
    """``x * scale + shift``, with one scale and one shift per element from ``axis`` on.

    Becomes: Multiply, Add.
    Inputs: x (N..., D...), scale and shift (D,).
    """
    axis = axis_of(operator, x.shape, 1)
    expected = (merge_sizes(x.shape[axis:]),)
    for index, factor in enumerate((scale, shift), 1):
        if factor.shape != expected:
            because = f'"{operator.bottom_blob(0)}" has the shape {x.shape}, flattened from axis {axis} on'
            raise misfit(operator, index, factor, expected, because)
    a, b = (build.aligned(build.reshape(each, x.shape[axis:]), len(x.shape)) for each in (scale, shift))
    return [x * a + b]


@operator_rule("Cast")
def cast(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The same numbers in the type ``to``, a number or in old files a word; int32 for int64, float32 for double.

    Becomes: Cast.
    """
    arguments = operator.arguments
    if arguments.is_text("to"):
        word = arguments.text("to", "")
        number, text = DTYPE_WORDS.get(word.lower(), 0), f'"{word}"'
    else:
        number = arguments.integer("to", 1)
        text = str(number)
    if number not in DTYPES:
        raise UnsupportedLayerError(f"to is {text}, expected float, int32, int64 or bool", fix=CUT_BEFORE)
    dtype = DType(DTYPES[number].replace("64", "32"))
    return [x if x.dtype is dtype else build.add(ops.Cast(dtype), x)]


def refuse_mixed_types(*values: Value) -> None:
    """Raise if values that are combined have different types."""
    if len({value.dtype for value in values}) > 1:
        raise NetError(
            f"inputs hold {', '.join(value.dtype.value for value in values)}, expected one type",
            fix="insert a Cast before the operator",
        )
