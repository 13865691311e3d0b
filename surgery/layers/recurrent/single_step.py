"""What is peculiar to Caffe's LSTM where it runs a single step."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.ir import Value


def share_single_step(build: LayerBuilder, layer: Layer, tops: list[Value], state: int) -> None:
    """With T = 1 the first top lies in the memory of the state h: a layer in place on it changes the state.

    The top is a Concat of the h of all steps, and a Concat of one blob copies nothing. ``state``
    is the number of the recurrence of h; with expose_hidden there is none, and the second top,
    h_T, lies in that memory, too. An RNN does not do this: its top is made of h.
    Where T varies, one graph cannot do both: who uses it is told.
    Source: caffe ``lstm_layer.cpp``, ``recurrent_layer.cpp``, ``concat_layer.cpp``.
    """
    steps = tops[0].shape[0]
    if isinstance(steps, str) and build.symbols[steps].min == 1:
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
