"""A peculiarity of Caffe's LSTM when it runs a single step."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.ir import OpenSize, Value


def share_single_step(build: LayerBuilder, layer: Layer, tops: list[Value], state: int) -> None:
    """With T = 1 the first top shares the memory of the state h: an in-place layer on it changes the state.

    The top is a Concat of the h of all steps, and a Concat of one blob copies nothing. ``state``
    is the number of the recurrence of h. With expose_hidden there is none, and the second top, h_T, also
    shares that memory. An RNN does not do this: it computes its top from h.
    If T varies, one graph cannot do both, and a warning says so.
    Source: caffe ``lstm_layer.cpp``, ``recurrent_layer.cpp``, ``concat_layer.cpp``.
    """
    steps = tops[0].shape[0]
    if isinstance(steps, OpenSize) and steps.range.min == 1:
        build.memory.tell(
            layer.tops[:2],
            f'the top of LSTM "{layer.name}": in Caffe that changes the state where T is 1,'
            " here it never does, because T varies",
        )
    if steps != 1:
        return
    if len(tops) > 1:
        build.memory.share(layer.tops[:2])
    elif state < len(build.recurrences) and build.recurrences[state].output.shape == tops[0].shape:
        build.memory.share(layer.tops[:1], [state])
