"""What to do about a field that a message lacks, and about a value that a field does not take."""

from __future__ import annotations

import re
from contextlib import suppress

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.caffe_proto.common.suggestions import MOST_NAMES, choices, close_names
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.forks import FIELDS
from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.text.findings import Finding
from prototrt.caffe_proto.text.scalars import RANGES, BadValueError, scalar
from prototrt.caffe_proto.text.tokens import tokens
from prototrt.caffe_proto.v1_types import type_of_v1


def explain_unknown(finding: Finding, name: str, descriptor: Descriptor) -> None:
    """Name the message that has the field, or the field that it misspells."""
    names = [field.name for field in descriptor.fields]
    likely = close_names(name, [field.name for field in descriptor.fields if _takes(field, finding.value)], 1)
    fork = FIELDS.get((str(descriptor.name), name))
    is_of_net = len(finding.path) == 0
    finding.is_misspelt = fork is None and bool(likely)
    if not is_of_net and not finding.is_misspelt:
        finding.family = UnsupportedLayerError
    if fork is not None:
        finding.because = f"in {fork[0]}, {fork[1]}"
    else:
        can_be_dropped = finding.can_be_dropped
        fix = _fix_of_unknown(name, names, is_of_net=is_of_net, can_be_dropped=can_be_dropped)
        finding.fix = f"write {choices(name, likely)}" if likely else fix


def _takes(field: FieldDescriptor, value: str) -> bool:
    """Whether a field can have the value that stands behind an unknown name."""
    if field.message_type is not None or value[:1] in ("{", "<"):
        return field.message_type is not None and value[:1] in ("{", "<")
    with suppress(BadValueError):
        return value[:1] == "[" or scalar(field, value) is not None
    return False


def _fix_of_unknown(name: str, names: list[str], *, is_of_net: bool, can_be_dropped: bool) -> str:
    longer = [each for each in names if _is_longer(each, name)]
    if longer and not (is_of_net or can_be_dropped):
        return f"write {choices(name, longer)}, if you mean that"
    fix = (
        Worded("go on without it with {}", Option("allow_unknown", True))
        if can_be_dropped or is_of_net
        else "remove it if it does not change what the layer computes"
    )
    return Worded("{}; the fields here are {}", fix, choices("", names)) if len(names) <= MOST_NAMES else fix


def _is_longer(name: str, short: str) -> bool:
    """Whether one name says more: ``kernel_size`` than ``kernel``, ``convolution_param`` than ``conv_param``."""
    stem = short.removesuffix("_param")
    is_param = stem != short and len(stem) > _SHORTEST and name.endswith("_param")
    return name.startswith(f"{short}_") or (is_param and name.startswith(stem))


ANY_VALUE = "VALUE"
"""What stands for a value in a fix. Whoever fills it in as it stands has no placeholder of this name."""
_SHORTEST = 2
"""Letters that do not yet tell one message from others."""
_NUMBERS = (*RANGES, FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_NEEDED = ("dim", "input_dim", "kernel_h", "kernel_size", "kernel_w", "num_output")
"""Numbers without which a net means nothing, or another thing."""
_QUOTED_NUMBER = re.compile(r"""(["'])[-+.0-9eE]+\1""")
_QUOTED_BOOL = re.compile(r"""(["'])(true|false)\1""")
_OF_OTHER_TYPES = ("true", "false", "inf", "infinity", "nan")
"""Words that are values, and not placeholders of a template."""


def fix_of_value(field: FieldDescriptor, value: str, usual: str | None) -> str:
    """What to write instead of a value that the field does not take; ``usual`` is the fix for its kind of value."""
    fix = _fix_of_mixed_forms(field, value) or usual
    if fix is not None:
        return fix
    if field.cpp_type in _NUMBERS and value.lower() in _OF_OTHER_TYPES:
        return "write a number"
    if value.isidentifier() and field.cpp_type in _NUMBERS and value != ANY_VALUE:
        define = Option("define", {value: ANY_VALUE})
        return Worded("write a number; or fill it in, if this is a template: {}", define)
    if field.enum_type is not None:
        return "write one of these names"
    quoted = _QUOTED_NUMBER if field.cpp_type in _NUMBERS else _QUOTED_BOOL
    if quoted.fullmatch(value):
        return f"remove the quotes: {field.name}: {value[1:-1]}"
    way = f"as in {field.name}: 1" if field.name in _NEEDED else f"or leave {field.name} out"
    return f"write such a value, {way}"


def _fix_of_mixed_forms(field: FieldDescriptor, value: str) -> str | None:
    """A fix for a type in the notation of the other form: ``RELU`` in ``layers``, ``"ReLU"`` in ``layer``."""
    if field.full_name == "caffe.V1LayerParameter.type" and value[0] in "\"'":
        return f"write layer instead of layers, the form whose type is {next(tokens(value))}"
    if field.full_name != "caffe.LayerParameter.type":
        return None
    old = message_class("V1LayerParameter").DESCRIPTOR.enum_values_by_name.get(value)
    return f'write "{type_of_v1(old.number)}", its name in layer' if old else None
