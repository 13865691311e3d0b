"""RecurrentParamSet: writes one matrix or bias into the packed weights of cuDNN's Recurrent."""

from __future__ import annotations

from collections.abc import MutableMapping

import numpy as np

from prototrt.caffe_proto.caffe2.advice import CUT_BEFORE, GIVE_INIT_NET, MEND_ARGUMENTS
from prototrt.caffe_proto.caffe2.arguments import Arguments
from prototrt.caffe_proto.caffe2.fills import Fill
from prototrt.caffe_proto.caffe2.packed import GATES, PackedLayout
from prototrt.caffe_proto.common.errors import NetError, Origin, UnsupportedLayerError, WeightsError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.weights import StoredBlob


@dataclass(slots=True, eq=False)
class PackedBlob:
    """Packed weights, some of which have been set.

    The operators read the net's input only for its number of columns. That is not known here, so it is
    taken from the first layer's matrices.
    """

    origin: Origin
    before: StoredBlob
    mode: str
    hidden: int
    layers: int
    directions: int
    parts: dict[tuple[int, str, str], StoredBlob] = field(default_factory=dict)

    def to_blob(self) -> StoredBlob:
        """The packed weights as one blob. What was not set keeps its old number, if there was one."""
        layout = PackedLayout(self.mode, self._inputs(), self.hidden, self.layers, self.directions)
        packed = np.zeros(layout.size, np.float32)
        before = self.before.array.reshape(-1)[: layout.size]
        packed[: len(before)] = before
        for key, blob in self.parts.items():
            part = layout.arrays.get(key)
            flat = blob.array.reshape(-1)
            if part is None or flat.size != int(np.prod(part.shape)):
                expected = "no such parameter" if part is None else f"{part.shape}"
                raise WeightsError(
                    f"layer {key[0]}, {key[1]} {key[2]} has the shape {blob.shape}, expected {expected}",
                    origin=self.origin,
                    fix=GIVE_INIT_NET,
                )
            packed[part.offset : part.offset + flat.size] = flat
        return StoredBlob(packed.shape, False, lambda: packed)

    def _inputs(self) -> int:
        for (layer, source, parameter), blob in self.parts.items():
            if layer < self.directions and source == "input" and parameter.endswith("_w"):
                return int(np.prod(blob.shape)) // self.hidden
        raise WeightsError(
            "sets no matrix of the first layer's input",
            origin=self.origin,
            fix=GIVE_INIT_NET,
        )


def set_parameter(fill: Fill, blobs: MutableMapping[str, StoredBlob | PackedBlob]) -> None:
    """Run one RecurrentParamSet: inputs are the net's input, the packed blob, and the values."""
    arguments, message = Arguments(fill.message), fill.message
    if len(message.input) != 3 or list(message.output) != [message.input[1]]:
        raise NetError(
            "expected the inputs input, weights, values, and weights again as output",
            fix=MEND_ARGUMENTS,
        )
    weights, values = (blobs.get(name) for name in message.input[1:])
    if weights is None or not isinstance(values, StoredBlob):
        missing = message.input[1] if weights is None else message.input[2]
        raise NetError(
            "no earlier operator fills it",
            blob=f'input "{missing}"',
            fix="give the complete init net of this predict net",
        )
    if isinstance(weights, StoredBlob):
        weights = _begin(fill.origin, arguments, weights)
        blobs[message.output[0]] = weights
    weights.parts[(arguments.integer("layer", 0), *source_and_name(arguments, weights.mode))] = values


def source_and_name(arguments: Arguments, mode: str) -> tuple[str, str]:
    """Which matrix or bias is accessed: its source, and its name in the layout.

    Caffe2 counts four gates of the input and four of the recurrence, and gives cuDNN the number,
    whatever the mode is: of a GRU, numbers 0 to 2 are of the input and 3 to 5 of the recurrence.
    Source: caffe2 ``operators/rnn/recurrent_op_cudnn.cc``, ``RecurrentParamAccessOp``.
    """
    source, parameter = arguments.text("input_type", ""), arguments.text("param_type", "")
    gate, _, kind = parameter.rpartition("_")
    if gate not in GATES["lstm"] or kind not in ("w", "b") or source not in ("input", "recurrent"):
        raise WeightsError(
            f'input_type is "{source}" and param_type "{parameter}", expected input or recurrent, and one of'
            f" {', '.join(GATES['lstm'])} with _w or _b",
            fix=GIVE_INIT_NET,
        )
    gates, number = GATES[mode], GATES["lstm"].index(gate) + 4 * (source == "recurrent")
    if number >= 2 * len(gates):
        raise WeightsError(
            f"the {source} {parameter} has the number {number}, expected less than {2 * len(gates)}",
            because=f"a {mode} has {len(gates)} gates of the input and {len(gates)} of the recurrence",
            fix=GIVE_INIT_NET,
        )
    return ("input", "recurrent")[number // len(gates)], f"{gates[number % len(gates)]}_{kind}"


def _begin(origin: Origin, arguments: Arguments, before: StoredBlob) -> PackedBlob:
    mode, hidden = arguments.text("rnn_mode", ""), arguments.integer("hidden_size", 0)
    if mode not in GATES or hidden < 1:
        raise UnsupportedLayerError(
            f'rnn_mode is "{mode}" and hidden_size {hidden}, expected lstm or gru and at least 1',
            fix=CUT_BEFORE,
        )
    directions = 2 if arguments.flag("bidirectional") else 1
    return PackedBlob(origin, before, mode, hidden, arguments.integer("num_layers", 1), directions)
