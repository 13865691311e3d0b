"""Pass: say in other primitives what OpenCV 5 reads, but computes wrongly."""

from __future__ import annotations

from prototrt.surgery.building.builder import Builder
from prototrt.surgery.ir import Graph, Value
from prototrt.surgery.ops import MULTIPLY, NEGATIVE, SUBTRACT, Clip, LeakyReLU, PReLU, Reduce, TanH
from prototrt.surgery.passes.respelled import respelled

BOUND = 15.0
"""The hyperbolic tangent of this and of all larger numbers is 1 in float32."""


def suit_opencv(graph: Graph) -> Graph:
    """Replace what OpenCV computes wrongly by primitives that it computes well.

    Before: ``TanH(x)``, whose result is NaN for large x
    After:  ``TanH(Clip[-15, 15](x))``
    Before: ``Reduce[axes=(0, 2, 3)](x)``, where OpenCV mixes the elements up
    After:  ``Reduce[axes=(2, 3)](Reduce[axes=(0,)](x))``
    Before: ``PReLU(x, slope)`` with other slopes than one for each channel
    After:  ``LeakyReLU(x) - slope * LeakyReLU(-x)``
    Left alone: everything else. There are no bodies: OpenCV reads no loops.
    """
    return respelled(graph, {TanH: _tanh, Reduce: _reduce, PReLU: _prelu})


def _tanh(build: Builder, op: TanH, x: Value) -> Value:
    return build.add(op, build.add(Clip(-BOUND, BOUND), x, hint="bounded"))


def _reduce(build: Builder, op: Reduce, x: Value) -> Value | None:
    last = tuple(range(len(x.shape) - len(op.axes), len(x.shape)))
    if len(op.axes) < 3 or op.axes == last:
        return None
    first = build.add(Reduce(op.kind, op.axes[:1]), x, hint="first_axis")
    rest = build.add(Reduce(op.kind, op.axes[1:]), first)
    return rest if op.keep else build.reshape(rest, op.shape(x.shape)[0])


def _prelu(build: Builder, op: PReLU, x: Value, slope: Value) -> Value | None:
    if all(size == 1 for axis, size in enumerate(slope.shape) if axis != 1):
        return None
    positive, negative = build.add(LeakyReLU(), x), build.add(LeakyReLU(), build.add(NEGATIVE, x))
    return build.add(SUBTRACT, positive, build.add(MULTIPLY, slope, negative))
