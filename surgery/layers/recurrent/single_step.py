"""A peculiarity of Caffe's LSTM when it runs a single step."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import OpenSize, Value


def share_single_step(build: LayerBuilder, layer: Layer, tops: list[Value], state: int) -> None:
    """With T = 1 the first top shares the memory of the state h: an in-place layer on it changes the state.

    The top is a Concat of the h of all steps, and a Concat of one blob copies nothing. ``state``
    is the number of the recurrence of h. With expose_hidden there is none, and the second top, h_T, also
    shares that memory. An RNN does not do this: it computes its top from h.
    If T varies, the graph chooses in each call.
    Source: caffe ``lstm_layer.cpp``, ``recurrent_layer.cpp``, ``concat_layer.cpp``.
    """
    steps, *rest = tops[0].shape
    of_step = (1, *rest)
    carried = state < len(build.recurrences) and build.recurrences[state].output.shape == of_step
    if isinstance(steps, OpenSize) and steps.range.min == 1:
        if len(tops) > 1:
            build.memory.share_where_one(steps, layer.tops[0], tops[0].shape, layer.tops[1], of_step)
        elif carried:
            build.memory.share_where_one(steps, layer.tops[0], tops[0].shape, state, of_step)
    if steps != 1:
        return
    if len(tops) > 1:
        build.memory.share(layer.tops[:2])
    elif carried:
        build.memory.share(layer.tops[:1], [state])
