"""Operators that reduce many elements to one."""

from __future__ import annotations

from prototrt.caffe_proto.caffe2.advice import MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value
from prototrt.surgery.caffe2.operator_rule import axis_of, canonical, merge_sizes, operator_rule
from prototrt.surgery.ir import fixed
from prototrt.surgery.ops import NEGATIVE, SUBTRACT, Reduce, ReduceKind, Reverse, TopK

_KINDS = {"Sum": ReduceKind.SUM, "Mean": ReduceKind.MEAN, "Max": ReduceKind.MAX, "Min": ReduceKind.MIN}


@operator_rule("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
def reduce(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The sum, mean or extreme along ``axes`` (all of them by default), of absolute values for L1; the root
    of the sum of squares for L2.

    Becomes: Reduce; Abs for L1; Multiply, Sqrt for L2.
    """
    axes = operator.arguments.integers("axes") or range(len(x.shape))
    places = tuple(sorted({canonical(axis, x.shape, "axes") for axis in axes}))
    keep = operator.arguments.flag("keepdims", True)
    kind = operator.type.removeprefix("Reduce")
    if kind in _KINDS:
        return [build.add(Reduce(_KINDS[kind], places, keep), x)]
    total = Reduce(ReduceKind.SUM, places, keep)
    if kind == "L1":
        return [abs(x).apply(total)]
    return [(x * x).apply(total).sqrt()]


@operator_rule(*(f"Reduce{end}{kind}" for end in ("Front", "Back") for kind in ("Sum", "Mean", "Max")))
def reduce_end(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The sum, mean or largest over the first or the last ``num_reduce_dim`` axes, which are removed.

    Becomes: Reduce.
    """
    count, rank = operator.arguments.integer("num_reduce_dim", 1), len(x.shape)
    if not 0 <= count <= rank:
        raise NetError(
            f"num_reduce_dim is {count}, but the input has {rank} axes: {x.shape}", fix=MEND_ARGUMENTS
        )
    is_front = operator.type.startswith("ReduceFront")
    axes = tuple(range(count)) if is_front else tuple(range(rank - count, rank))
    kind = _KINDS[operator.type.removeprefix("ReduceFront" if is_front else "ReduceBack")]
    return [build.add(Reduce(kind, axes, keep=False), x) if axes else x]


@operator_rule("RowwiseMax", "ColwiseMax")
def extreme_of_matrices(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The largest of each row, or of each column, of matrices (N, rows, columns).

    Becomes: Reduce.
    """
    axis = 2 if operator.type == "RowwiseMax" else 1
    return [build.add(Reduce(ReduceKind.MAX, (canonical(axis, x.shape),), keep=False), x)]


@operator_rule("SumElements")
def sum_elements(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The sum of all elements, or with ``average`` their mean: one number, without axes.

    Becomes: Reshape, Reduce.
    """
    kind = ReduceKind.MEAN if operator.arguments.flag("average") else ReduceKind.SUM
    return [build.add(Reduce(kind, (0,), keep=False), build.reshape(x, (merge_sizes(x.shape),)))]


@operator_rule("ArgMax", "ArgMin")
def arg_extreme(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The index along ``axis`` of the first largest, or smallest, element.

    Becomes: TopK; Negative for ArgMin; Reverse, Subtract, as TopK finds the last; Reshape without ``keepdims``.
    """
    axis = axis_of(operator, x.shape, -1)
    if operator.type == "ArgMin":
        x = build.add(NEGATIVE, x)
    _, places = _largest(build, x, axis, 1)
    if operator.arguments.flag("keepdims", True):
        return [places]
    return [build.reshape(places, (*places.shape[:axis], *places.shape[axis + 1 :]))]


@operator_rule("TopK")
def top_k(build: Builder, operator: Operator, x: Value) -> list[Value]:
    """The ``k`` largest elements along ``axis``, from the largest on, and their indices.

    Becomes: Reverse, TopK, Subtract: of equal elements Caffe2 takes the first.
    Outputs: the elements and their places; those in the flattened input are not given.
    """
    axis, count = axis_of(operator, x.shape, -1), operator.arguments.integer("k", 0)
    if not 1 <= count <= fixed(x.shape[axis], f"axis {axis}"):
        raise NetError(
            f"k is {count}, expected from 1 to {x.shape[axis]}, the size of axis {axis}", fix=MEND_ARGUMENTS
        )
    return list(_largest(build, x, axis, count))


def _largest(build: Builder, x: Value, axis: int, count: int) -> tuple[Value, Value]:
    """The largest elements and their places. Among equal elements, the first comes first."""
    size, rank = fixed(x.shape[axis], f"axis {axis}"), len(x.shape)
    values, from_end = build.add_all(TopK(axis, count), build.add(Reverse(axis), x, hint="backwards"))
    last = build.scalar(size - 1, rank, from_end.dtype)
    return values, build.add(SUBTRACT, last, from_end, hint="places")
