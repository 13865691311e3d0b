"""Text of nets: what is accepted, the lines, and the words about what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from prototrt.caffe_proto.common.errors import ConversionError, UnreadableFileError, raise_all
from prototrt.caffe_proto.schema import Message, is_repeated, message_class
from prototrt.caffe_proto.text.prototxt import parse_net

GOLDENS = Path(__file__).parents[1] / "goldens"
NETS = sorted(GOLDENS.glob("caffe/*/*.prototxt"))


@pytest.mark.parametrize("path", NETS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_reads_what_protobuf_reads(path: Path) -> None:
    text = path.read_text()
    expected = message_class("NetParameter")()
    text_format.Parse(text, expected)
    assert parse_net(text, path.name).message == expected


def messages(descriptor: Any, depth: int) -> st.SearchStrategy[Message]:
    """Any message of a type, down to a depth."""
    fields = [f for f in descriptor.fields if depth or f.message_type is None]
    chosen = {f.name: st.lists(value_of(f, depth - 1), max_size=3 if is_repeated(f) else 1) for f in fields}
    some = st.lists(st.sampled_from(sorted(chosen)), max_size=4, unique=True)
    return some.flatmap(lambda names: st.fixed_dictionaries({name: chosen[name] for name in names})).map(
        lambda values: filled(descriptor.name, values)
    )


def value_of(field: Any, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return st.deferred(lambda: messages(field.message_type, depth))
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    integers = {
        1: st.integers(-(2**31), 2**31 - 1),
        2: st.integers(-(2**63), 2**63 - 1),
        3: st.integers(0, 2**32 - 1),
        4: st.integers(0, 2**64 - 1),
    }
    if field.cpp_type in integers:
        return integers[field.cpp_type]
    if field.cpp_type in (5, 6):
        return st.floats(width=32, allow_nan=False)
    if field.cpp_type == 7:
        return st.booleans()
    return st.binary(max_size=9) if field.type == field.TYPE_BYTES else st.text(max_size=9)


def filled(name: str, values: dict[str, list[Any]]) -> Message:
    message = message_class(name)()
    for field, items in values.items():
        if is_repeated(message.DESCRIPTOR.fields_by_name[field]):
            getattr(message, field).extend(items)
        elif items and hasattr(items[0], "CopyFrom"):
            getattr(message, field).CopyFrom(items[0])
        elif items:
            setattr(message, field, items[0])
    return message


# A layer with a required field left out is refused, as by Caffe; the generator does not know about that.
LAYERS = messages(message_class("LayerParameter").DESCRIPTOR, 2).filter(lambda layer: layer.IsInitialized())


@given(st.lists(LAYERS, min_size=1, max_size=3), st.booleans())
def test_reads_whatever_protobuf_writes(layers: list[Message], on_one_line: bool) -> None:
    net = message_class("NetParameter")(layer=layers)
    text = text_format.MessageToString(net, as_one_line=on_one_line, pointy_brackets=not on_one_line)
    assert parse_net(text, "net.prototxt").message == net


# Fields as people write them, and some that are nearly so. A ~ is a place for blanks.
_FIELDS = r"""
    name~:~"a" type~:~"ReLU" type~:~TANH bottom~:~"b" bottom~:~"" top~:~"ä" top~:~'c' top~:~"d"~"e" top~:~"\x41"
    phase~:~TEST phase~:~1 loss_weight~:~0.5 loss_weight~:~-1e-05 loss_weight~:~[1,~2] propagate_down~:~true
    propagate_down~:~007 convolution_param~{~hole~:~2~bias_term~:~0~} relu_param~<~engine~:~CUDNN~> param~{~}
    convolution_param~:~{~num_output~:~1~;~axis~:~-1~,~pad~:~0x1F~pad~:~2~} foo~:~1 foo~{~bar~:~"}"~}
"""
_NEARLY_FIELDS = """
    } { " @ :: : type~:~MAX phase~:~TEST1 phase~:~1.2.3 phase~:~1-2 loss_weight~:~1a loss_weight~:~+1 name "a"
    convolution_param~{~num_output~:~2147483648 convolution_param~{~kernel_size~:~-1~} layer~{ top~:~"a phase~"TEST"
"""
_BLANKS = st.sampled_from([" ", "", "  ", "\n", "\t", "# a: 1\n", " # }\n\n", ",", ";"])


@st.composite
def fields_of_layers(draw: st.DrawFn) -> str:
    """Fields with any blanks, or none, where there may be some."""
    fields = draw(st.lists(st.sampled_from(_FIELDS.split()), max_size=8))
    if draw(st.booleans()):
        fields.insert(draw(st.integers(0, len(fields))), draw(st.sampled_from(_NEARLY_FIELDS.split())))
    # Most fields are written with a single space.
    return re.sub("~", lambda _: draw(_BLANKS) if draw(st.integers(0, 9)) == 9 else " ", "~".join(fields))


@settings(max_examples=8 * settings().max_examples)
@given(fields_of_layers())
def test_reads_what_people_write_as_protobuf_does(fields: str) -> None:
    """Protobuf stops at the first mistake: texts without one mean the same to both."""
    text = f'layer {{ name: "a"\n{fields} }}\nlayer {{ name: "b" }}'
    expected = message_class("NetParameter")()
    try:
        text_format.Parse(text, expected)
    except text_format.ParseError:
        return
    try:
        net = parse_net(text, "net.prototxt")
    except UnreadableFileError:
        assert "+" in text  # Python's reader takes it, Caffe's does not
        return
    assert (net.message, net.findings) == (expected, ())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('layer { name: "a" }\nlayer { name: "b" }', {"layer": [1, 2]}),
        ('layer { name: "a" } layer { name: "b" }', {"layer": [1, 1]}),
        ('# layer {\n\nlayer <\n name: "layer {" >', {"layer": [3]}),
        ('layer: [\n { name: "a" },\n { name: "b" } ]\nlayer {}', {"layer": [2, 3, 4]}),
        ('input: "a"\ninput:\n"b" input: ["c",\n"d"]', {"input": [1, 2, 3, 4]}),
        ("layers {}\r\nlayers {}\r\n", {"layers": [1, 2]}),
        ("\tlayer\n: {}\n", {"layer": [1]}),
    ],
)
def test_lines(text: str, lines: dict[str, list[int]]) -> None:
    assert parse_net(text, "net.prototxt").lines == lines


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("pad: 0x1f", [31]),
        ("pad: 017", [15]),
        ("pad: [1, 2,\n 3]", [1, 2, 3]),
        ("pad: []", []),
        ("pad: 1; pad: 2, pad: 3", [1, 2, 3]),
        ("pad:4294967295", [4294967295]),
    ],
)
def test_integers(value: str, expected: list[int]) -> None:
    net = parse_net(f"layer {{ convolution_param {{ {value} }} }}", "net.prototxt").message
    assert list(net.layer[0].convolution_param.pad) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", 1.0),
        ("1.", 1.0),
        ("1.f", 1.0),
        (".5F", 0.5),
        ("- 2e2", -200.0),
        ("1E-1", 0.1),
        ("inf", float("inf")),
        ("-Infinity", float("-inf")),
    ],
)
def test_floats(value: str, expected: float) -> None:
    net = parse_net(f"layer {{ power_param {{ shift: {value} }} }}", "net.prototxt").message
    assert net.layer[0].power_param.shift == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (r'"a\n\t\"\'\\"', "a\n\t\"'\\"),
        (r"'a\101\x42\u00e9'", "aABé"),
        (r'"\303\251"', "é"),
        (r'"\351"', "é"),  # a Latin-1 byte, which is not UTF-8
        ("'a' \"b\"\n'c'", "abc"),
        ('"# no comment"', "# no comment"),
        ('"层"', "层"),
    ],
)
def test_strings(value: str, expected: str) -> None:
    assert parse_net(f"name: {value}", "net.prototxt").message.name == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *((word, True) for word in ("True", "t", "1", "01", "0x1")),
        *((word, False) for word in ("False", "0", "00")),
    ],
)
def test_booleans(word: str, expected: bool) -> None:
    net = parse_net(f"force_backward: {word}", "net.prototxt").message
    assert net.force_backward is expected


@pytest.mark.parametrize("number", ["1", "01", "0x1"])
def test_enum_by_number(number: str) -> None:
    net = parse_net(f"layer {{ pooling_param {{ pool: {number} }} }}", "net.prototxt").message
    assert net.layer[0].pooling_param.pool == 1


MISTAKES = {
    "unknown field, layer named after it": (
        'layer {\n  relu_parm { negative_slope: 1 }\n  name: "r"\n  type: "ReLU"\n}',
        'net.prototxt:2: layer "r" (ReLU): there is no field "relu_parm"\n  fix: write relu_param',
    ),
    "unknown fields, all at once": (
        'layer { name: "a" type: "ReLU" foo: 1 }\nbar: [1, 2]\nbaz < a { } b: "}" >',
        'net.prototxt:1: layer "a" (ReLU): there is no field "foo"\n'
        "  fix: remove it if it does not change what the layer computes\n"
        'net.prototxt:2: there is no field "bar"\n'
        "  fix: go on without it with allow_unknown=True; the fields here are debug_info, "
        "force_backward, input, input_dim, input_shape, layer, layers, name or state\n"
        'net.prototxt:3: there is no field "baz"\n'
        "  fix: go on without it with allow_unknown=True; the fields here are debug_info, "
        "force_backward, input, input_dim, input_shape, layer, layers, name or state\n"
        "3 problems",
    ),
    "the beginning of a field": (
        'layer { name: "a" type: "Convolution" convolution_param { kernel: 3 } }',
        'net.prototxt:1: layer "a" (Convolution), convolution_param: there is no field "kernel"\n'
        "  fix: write kernel_depth, kernel_h, kernel_shape, kernel_size or kernel_w, if you mean that",
    ),
    "the beginning of a message": (
        'layer { name: "a" type: "InnerProduct" inner_param { num_output: 3 } }',
        'net.prototxt:1: layer "a" (InnerProduct): there is no field "inner_param"\n'
        "  fix: write inner_product_param, if you mean that",
    ),
    "a field that looks like one of another type": (
        'layer { name: "a" type: "Pooling" pooling_param { strid: "x" } }',
        'net.prototxt:1: layer "a" (Pooling), pooling_param: there is no field "strid"\n'
        "  fix: remove it if it does not change what the layer computes",
    ),
    "unknown field in a V1 layer": (
        'layers { name: "a" type: RELU strid: 1 }',
        'net.prototxt:1: layer "a" (RELU): there is no field "strid"\n'
        "  fix: remove it if it does not change what the layer computes",
    ),
    "a number in quotes": (
        'layer { name: "a" type: "Input" top: "x" input_param { shape { dim: "3" } } }',
        'net.prototxt:1: layer "a" (Input), input_param.shape: dim is "3", expected a whole number from'
        " -9223372036854775808 to 9223372036854775807\n  fix: remove the quotes: dim: 3",
    ),
    "no bool": (
        "force_backward: 2",
        "net.prototxt:1: force_backward is 2, expected true or false\n"
        "  fix: write such a value, or leave force_backward out",
    ),
    "a number for a name": (
        'layer { name: "a" type: "ReLU" top: 1 }',
        'net.prototxt:1: layer "a" (ReLU): top is 1, expected a string in quotes\n  fix: put it in quotes: "1"',
    ),
    "no number": (
        'layer { name: "a" type: "ReLU" relu_param { negative_slope: true } }',
        'net.prototxt:1: layer "a" (ReLU), relu_param: negative_slope is true, expected a decimal number\n'
        "  fix: write a number",
    ),
    "half a character": (
        'name: "\\ud83d"',
        "net.prototxt:1: name is \\ud83d, which is not a character, expected a string\n"
        "  fix: write such a value, or leave name out",
    ),
    "a block given twice": (
        'layer { name: "a" type: "ReLU"\n relu_param { }\n relu_param { } }',
        'net.prototxt:3: layer "a" (ReLU): relu_param is given a second time\n'
        "  because line 2 gives it first\n"
        "  fix: remove one of the two",
    ),
    "given twice": (
        'layer { name: "a" type: "ReLU"\n relu_param { negative_slope: 1\n negative_slope: 2 } }',
        'net.prototxt:3: layer "a" (ReLU), relu_param: negative_slope is given a second time\n'
        "  because line 2 gives it first\n"
        "  fix: remove one of the two",
    ),
    "enum": (
        'layer { name: "p" type: "Pooling" pooling_param { pool: AVG } }',
        'net.prototxt:1: layer "p" (Pooling), pooling_param: pool is AVG, expected AVE\n'
        "  fix: write one of these names",
    ),
    "quoted enum": (
        'layer { name: "p" type: "Pooling" pooling_param { pool: "MAX" } }',
        'net.prototxt:1: layer "p" (Pooling), pooling_param: pool is "MAX", expected MAX without quotes\n'
        "  fix: remove the quotes",
    ),
    "enum number beyond 32 bits": (
        'layer { name: "p" type: "Pooling" pooling_param { pool: 4294967296 } }',
        'net.prototxt:1: layer "p" (Pooling), pooling_param: pool is 4294967296,'
        " expected AVE, AVE_EXC_PAD, MAX or STOCHASTIC\n"
        "  fix: write one of these names",
    ),
    "enum number": (
        'layer { name: "p" type: "Pooling" pooling_param { pool: 5 } }',
        'net.prototxt:1: layer "p" (Pooling), pooling_param: pool is 5,'
        " expected AVE, AVE_EXC_PAD, MAX or STOCHASTIC\n"
        "  fix: write one of these names",
    ),
    "float for integer": (
        'layer { name: "c" type: "Convolution" convolution_param { pad: 1.5 } }',
        'net.prototxt:1: layer "c" (Convolution), convolution_param: pad is 1.5, '
        "expected a whole number from 0 to 4294967295\n"
        "  fix: write such a value, or leave pad out",
    ),
    "no octal digit": (
        'layer { name: "c" type: "Convolution" convolution_param { pad: 08 } }',
        'net.prototxt:1: layer "c" (Convolution), convolution_param: pad is 08 '
        "(octal, since it begins with 0), expected a whole number from 0 to 4294967295\n"
        "  fix: write such a value, or leave pad out",
    ),
    "type of the old form in the new": (
        'layer { name: "c" type: CONVOLUTION }',
        'net.prototxt:1: layer "c" (no type): type is CONVOLUTION, expected a string in quotes\n'
        '  fix: write "Convolution", its name in layer',
    ),
    "type without quotes": (
        'layer { name: "c" type: LSTM }',
        'net.prototxt:1: layer "c" (no type): type is LSTM, expected a string in quotes\n'
        '  fix: put it in quotes: "LSTM"',
    ),
    "type of the new form in the old": (
        'layers { name: "c" type: "Convolution" }',
        'net.prototxt:1: layer "c" (NONE): type is "Convolution", expected CONVOLUTION\n'
        '  fix: write layer instead of layers, the form whose type is "Convolution"',
    ),
    "missing brace before a layer": (
        'layer {\n name: "a"\n type: "ReLU"\nlayer {\n name: "b" }',
        'net.prototxt:4: layer "a" (ReLU): a new layer begins here, expected }\n'
        "  because layer was opened at line 1\n"
        "  fix: add the missing }",
    ),
    "brace too much": (
        'layer { name: "a" } }',
        "net.prototxt:1: } closes nothing\n  fix: remove it, or add what it should close",
    ),
    "missing colon": (
        'layer { name "a" }',
        'net.prototxt:1, name: found "a", expected : after name\n'
        "  fix: correct the text here or just before, or get the file again if it is damaged",
    ),
    "missing value": (
        'layer { name: "a" type: }',
        'net.prototxt:1: layer "a" (no type): found }, expected a value for type\n'
        "  fix: correct the text here or just before, or get the file again if it is damaged",
    ),
    "message without brace": (
        'layer { name: "a" relu_param: 1 }',
        'net.prototxt:1: layer "a" (no type), relu_param: found 1, expected { after relu_param\n'
        "  fix: correct the text here or just before, or get the file again if it is damaged",
    ),
    "end within a block that is dropped": (
        'layer { name: "a" foo {',
        'net.prototxt:1: layer "a" (no type): there is no field "foo"\n'
        "  fix: remove it if it does not change what the layer computes\n"
        'net.prototxt:1: layer "a" (no type), foo: the file ends here, expected }\n'
        "  because foo was opened at line 1\n"
        "  fix: add the missing }, or get the file again if it was cut short\n"
        "2 problems",
    ),
    "no name": (
        "layer { 5 }",
        "net.prototxt:1: found 5, expected the name of a field\n"
        "  fix: correct the text here or just before, or get the file again if it is damaged",
    ),
    "bad list": (
        "input: ['a' }",
        "net.prototxt:1, input: found }, expected , or ] in the list\n"
        "  fix: correct the text here or just before, or get the file again if it is damaged",
    ),
    "open string": (
        'name: "abc\nlayer {}',
        'net.prototxt:1: a string begins here and does not end on this line: "abc\n'
        '  fix: close the string with "',
    ),
    "number with letters": (
        "input_dim: 3x",
        "net.prototxt:1: 3x is neither a number nor a name\n  fix: write a number, or put quotes around text",
    ),
    "strange character": (
        "// a comment",
        "net.prototxt:1: found /, expected the name of a field\n"
        "  fix: correct the text here or just before, or get the file again if it is damaged",
    ),
    "stranger character": (
        "name = 'a'",
        "net.prototxt:1: the character '=' has no meaning here\n"
        '  fix: remove it, start a comment with "#", or put quotes around a text',
    ),
    "required field": (
        'layer { name: "c" type: "Clip" clip_param { max: 1 } }',
        'net.prototxt:1: layer "c" (Clip), clip_param: min is missing\n  fix: add min: and its value',
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    text, message = MISTAKES[case]
    with pytest.raises(ConversionError) as caught:
        raise_all([finding.error() for finding in parse_net(text, "net.prototxt").findings])
    assert str(caught.value) == message


def test_a_field_may_repeat_its_value() -> None:
    net = parse_net(
        'layer { name: "p" pooling_param { pool: AVE global_pooling: true\n pool: AVE global_pooling: true } }',
        "net.prototxt",
    )
    param = net.message.layer[0].pooling_param
    assert (param.pool, param.global_pooling) == (1, True)
    assert net.findings == ()


def test_unknown_fields_are_passed_over() -> None:
    text = 'layer { name: "a" type: "ReLU" foo: 1 relu_param { bar { baz: [1, "}"] } negative_slope: 2 } }'
    net = parse_net(text, "net.prototxt")
    assert net.message.layer[0].relu_param.negative_slope == 2
    assert tuple(finding.drop_warning() for finding in net.findings) == (
        'net.prototxt:1: layer "a" (ReLU): dropped the unknown field "foo"',
        'net.prototxt:1: layer "a" (ReLU), relu_param: dropped the unknown field "bar"',
    )


def test_fields_of_forks_that_have_another_name_or_no_effect() -> None:
    text = (
        "layers { strict_dim: false forward_type: FLOAT16 cudnn_math_override: -1"
        " convolution_param { hole: 2 engine: MKLDNN conv_algos_override: '1,-1,-1' conv_algorithm: 'winograd' }"
        " engine: 'x' }"
    )
    net = parse_net(text, "net.prototxt")
    assert list(net.message.layers[0].convolution_param.dilation) == [2]
    assert net.findings == ()
