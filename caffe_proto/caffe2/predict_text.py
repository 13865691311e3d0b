"""A part of a Caffe2 net as a predict net of its own."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.caffe2.init_net import InitNet
from prototrt.caffe_proto.caffe2.operators import Operator
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import NetError, raise_all
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.model import Model
from prototrt.caffe_proto.text.message_text import message_lines


def predict_text(
    name: str, operators: Sequence[Operator], inputs: Sequence[str], outputs: Sequence[str]
) -> str:
    """The operators in their order, with the names of their values. ``inputs`` may be among the weights.

    Raises ``ConversionError`` where a step net has other names for the values.
    """
    raise_all([_renaming_error(operator) for operator in operators if _is_renamed_inside(operator)])
    net = message_class("NetDef")(name=name, external_input=inputs, external_output=outputs)
    for operator in operators:
        message = net.op.add()
        message.CopyFrom(operator.message)
        message.input[:] = operator.bottoms[: len(message.input)]
        message.output[:] = operator.tops
    return "".join(f"{line}\n" for line in message_lines(net))


def filled_blobs(model: Model) -> set[str]:
    """The blobs that the init net of a model fills or computes, without those that its user feeds."""
    computing = model.weights.operators if isinstance(model.weights, InitNet) else ()
    return {*model.stored, *(blob for fill in computing for blob in fill.message.output)}


def _is_renamed_inside(operator: Operator) -> bool:
    """Whether blobs are named in its step net, and some are not the last with their names."""
    return operator.recurrence is not None and (operator.reads, tuple(operator.message.output)) != (
        operator.bottoms,
        operator.tops,
    )


def _renaming_error(operator: Operator) -> NetError:
    pairs = zip((*operator.reads, *operator.message.output), (*operator.bottoms, *operator.tops), strict=True)
    blob = next(blob for blob, value in pairs if blob != value)
    return NetError(
        f'its step net names "{blob}", which another operator writes again',
        origin=operator.origin,
        because="the remainder has another name for it",
        fix=Worded("leave out {}", Option("remainder")),
    )
