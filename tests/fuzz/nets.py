"""Nets of Caffe and Caffe2 by a grammar: types, fields and forms of bottoms come from the tables of prototrt.

A net is the text or the bytes of a file, so that a corpus can be read, and stays what it is when a
table changes. ``mutated`` changes a net as a whole: it adds a layer that reads what is there, rewires,
and changes single fields.
"""

from __future__ import annotations

import inspect
from random import Random

from google.protobuf import text_format

from prototrt.caffe_proto import ConversionError
from prototrt.caffe_proto.caffe2.files import parse_binary
from prototrt.caffe_proto.caffe2.schema import message_class as caffe2_class
from prototrt.caffe_proto.layer_types import layer_type
from prototrt.caffe_proto.schema import Message, message_class, parameter_fields
from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.tests.fuzz.messages import fill, mutate

SIZES = {"N": 2, "T": 3, "C": 4, "H": 6, "W": 5, "L": 3, "I": 4, "R": 3, "E": 4, "K": 18, "P": 4}
"""What the letters in the forms of shapes stand for, so that most bottoms agree."""
_LAYERS = 6


def caffe_net(text: bytes) -> Message:
    """The net in a prototxt; an empty one where it is none."""
    net = message_class("NetParameter")()
    try:
        text_format.Parse(text.decode(), net)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError):
        net.Clear()
    return net


def mutated_caffe(text: bytes, random: Random) -> bytes:
    """A prototxt, one or a few changes away."""
    net = caffe_net(text)
    for _ in range(random.randint(1, 3)):
        if len(net.layer) < 2 or (len(net.layer) < _LAYERS and random.random() < 0.4):
            add_layer(net, random)
        elif random.random() < 0.3:
            rewire(random.choice(net.layer), [top for layer in net.layer for top in layer.top], random)
        else:
            mutate(random.choice(net.layer), random)
    return text_format.MessageToString(net).encode()


def add_layer(net: Message, random: Random) -> None:
    """A layer of any type behind those that there are, with inputs of the usual shapes of such a layer."""
    types = sorted(framework_by_name("caffe").rules.rules)
    kind = random.choice(types)
    forms = layer_type(kind).example
    count = _bottoms(kind, len(forms), random)
    tops = [top for layer in net.layer for top in layer.top]
    name = f"l{len(net.layer)}"
    bottoms = []
    for index in range(count):
        if tops and random.random() < (0.8 if index == 0 else 0.4):
            bottoms.append(random.choice(tops[-3:]))
        else:
            bottoms.append(_input(net, forms[min(index, len(forms) - 1)], f"{name}_x{index}", random))
    layer = net.layer.add(name=name, type=kind, bottom=bottoms)
    layer.top.extend(f"{name}_y{index}" for index in range(random.choice((1, 1, 1, 2))))
    for field in parameter_fields(kind)[:1]:
        message = getattr(layer, field)
        message.SetInParent()
        if "num_output" in message.DESCRIPTOR.fields_by_name:
            message.num_output = random.randint(1, 6)
        if hasattr(message, "kernel_size") and random.random() < 0.9:
            _set_kernel(message, random)
        if random.random() < 0.6:
            fill(message, random, most=2)


def _set_kernel(message: Message, random: Random) -> None:
    size = random.randint(1, 3)
    if isinstance(message.kernel_size, int):
        message.kernel_size = size
    else:
        message.kernel_size.append(size)


def _input(net: Message, form: str, name: str, random: Random) -> str:
    """An Input layer with a shape such as NxCxHxW; returns its top."""
    layer = net.layer.add(name=name, type="Input", top=[name])
    sizes = [SIZES.get(letter) or int(letter) for letter in form.split("x")]
    if random.random() < 0.1:
        sizes[random.randrange(len(sizes))] = random.randint(1, 9)
    layer.input_param.shape.add().dim.extend(sizes)
    return name


def _bottoms(kind: str, usual: int, random: Random) -> int:
    """How many bottoms the rule of the type takes; now and then one that it does not take."""
    parameters = list(inspect.signature(framework_by_name("caffe").rules.rules[kind]).parameters.values())[2:]
    named = [item for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
    least = sum(item.default is item.empty for item in named)
    most = len(named) if len(named) == len(parameters) else max(least + 2, usual)
    return random.randint(least, most) if random.random() < 0.95 else random.randint(0, 4)


def rewire(layer: Message, tops: list[str], random: Random) -> None:
    """Let a layer, or an operator, read something else."""
    bottoms = layer.bottom if hasattr(layer, "bottom") else layer.input
    if bottoms and tops:
        bottoms[random.randrange(len(bottoms))] = random.choice(tops)


def joined(predict: bytes, init: bytes) -> bytes:
    """A predict net and an init net in one: the size of the first in four bytes, and both."""
    return len(predict).to_bytes(4, "little") + predict + init


def parted(data: bytes) -> tuple[bytes, bytes]:
    """The two again; whatever the bytes, there are two."""
    end = 4 + int.from_bytes(data[:4], "little")
    return data[4:end], data[end:]


def mutated_caffe2(data: bytes, random: Random) -> bytes:
    """A predict net and its init net, one or a few changes away."""
    nets = [_netdef(part) for part in parted(data)]
    predict, init = nets
    for _ in range(random.randint(1, 3)):
        written = [blob for net in nets for operator in net.op for blob in operator.output]
        if not predict.op or (len(predict.op) < _LAYERS and random.random() < 0.3):
            _add_operator(predict, written, random)
        elif random.random() < 0.3:
            rewire(random.choice(predict.op), [*written, *predict.external_input], random)
        else:
            mutate(random.choice([predict, *predict.op, *predict.op, *init.op]), random)
    return joined(*(net.SerializeToString() for net in nets))


def _netdef(data: bytes) -> Message:
    net = caffe2_class("NetDef")()
    try:
        parse_binary(net, data, "")
    except ConversionError:
        net.Clear()
    return net


def _add_operator(net: Message, written: list[str], random: Random) -> None:
    kind = random.choice(sorted(framework_by_name("caffe2").rules.rules))
    known = [*written, *net.external_input, "x", "w", "b"]
    operator = net.op.add(type=kind, output=[f"y{len(net.op)}"])
    operator.input.extend(random.choice(known) for _ in range(random.randint(0, 3)))
    arguments = sorted({item.name for other in net.op for item in other.arg} | {"axis", "order", "kernel"})
    for _ in range(random.randint(0, 2)):
        argument = operator.arg.add(name=random.choice(arguments))
        fill(argument, random, most=1)
