"""Whatever a prototxt holds, the work for it is bounded."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, NetError, Problems, UnreadableFileError
from prototrt.caffe_proto.schema import message_class
from prototrt.caffe_proto.text import prototxt, templates
from prototrt.caffe_proto.text.prototxt import parse_net
from prototrt.caffe_proto.text.scalars import BadValueError, scalar
from prototrt.caffe_proto.text.templates import fill_template
from prototrt.surgery.expansion import refusals

_MEND = "  fix: correct the text here or just before, or get the file again if it is damaged"
_SPLIT = "  fix: split the net, or get the file again if it is damaged"
_INPUT = 'layer { name: "data" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }\n'
_REFUSED = {
    "layers": ("layer{}" * 40_001, "n.prototxt:1: the file states layer more than 40,000 times\n" + _SPLIT),
    "layers of the old form": (
        "layers{}" * 4_001,
        "n.prototxt:1: the file states layers more than 4,000 times\n" + _SPLIT,
    ),
    "tops": (
        'layer {\n name: "s" type: "Split" ' + 'top: "t" ' * 1_001 + "}",
        'n.prototxt:2: layer "s" (Split): the file states top more than 1,000 times\n' + _SPLIT,
    ),
    "tops in a list": (
        'layer {\n name: "s" type: "Split" top: [' + '"t",' * 1_001 + '"t"] }',
        'n.prototxt:2: layer "s" (Split): the file states top more than 1,000 times\n' + _SPLIT,
    ),
    "blocks": (
        'layer { name: "c" type: "ReLU" relu_param {\n' + "negative_slope: 1 foo { " * 3 + "a { " * 97,
        'n.prototxt:2: layer "c" (ReLU): there are more than 100 blocks within each other\n' + _MEND,
    ),
    "a name": (
        f'name: "n"\nlayer {{ name: "{"a" * ((1 << 20) + 1)}" }}',
        'n.prototxt:2: "aaaaaaaaaaaaaaaaaaa... has 1,048,579 characters, expected at most 1,048,576\n'
        "  fix: shorten it, or get the file again if it is damaged",
    ),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_too_much_of_something_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for field, most in {"layers": 4_000, "top": 1_000}.items():
        monkeypatch.setitem(prototxt._MOST, field, most)
    text, message = _REFUSED[name]
    with pytest.raises(ConversionError) as info:
        parse_net(text, "n.prototxt")
    error = info.value.errors[-1] if isinstance(info.value, Problems) else info.value
    assert isinstance(error, UnreadableFileError)
    assert str(error) == message


def test_mistakes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their texts are not worked out for a file with more of them than anybody reads."""
    monkeypatch.setattr(prototxt, "_MOST_FINDINGS", 1_000)
    with pytest.raises(Problems) as info:
        parse_net("layer { " + "".join(f"foo{number}: 1\n" for number in range(2_000)) + "}", "n.prototxt")
    assert len(info.value.errors) == 1_001
    problem = 'there is no field "foo1000"; it is one of more than 1,000 mistakes in the file'
    assert str(info.value.errors[-1]) == f"n.prototxt:1001: {problem}\n{_MEND}"
    assert str(info.value).endswith("\nand 981 more\n1,001 problems")


def test_comments_of_any_number_are_read() -> None:
    net = parse_net("#\n" * 50_000 + 'name: "n"' + " # end\n" * 5000 + _INPUT, "n.prototxt")
    assert net.message.name == "n"
    assert net.lines["layer"] == [55_001]


@pytest.mark.parametrize("kind", ["bottoms", "types"])
def test_advice_is_worked_out_for_the_first_hundred(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    advising = "shape_option" if kind == "bottoms" else "close_names"
    original = getattr(refusals, advising)

    def counted(*args: object) -> object:
        calls.append(args)
        return original(*args)

    monkeypatch.setattr(refusals, advising, counted)
    layers = [
        f'layer {{ name: "l{i}" type: "ReLU" bottom: "unknown{i}" top: "t{i}" }}\n'
        if kind == "bottoms"
        else f'layer {{ name: "l{i}" type: "Unknown{i}" bottom: "x" top: "t{i}" }}\n'
        for i in range(300)
    ]
    net = tmp_path / "n.prototxt"
    net.write_text(_INPUT + "".join(layers))
    with pytest.raises(Problems) as info:
        prototrt.rewrite(prototrt.load(net))
    assert len(info.value.errors) == 300
    assert len(calls) == 100


def test_a_template_lists_the_first_names() -> None:
    with pytest.raises(NetError) as info:
        fill_template("".join(f"${{a{number}}}\n" for number in range(3000)), {}, "n.prototxt")
    first = ", ".join(f"a{number}" for number in range(50))
    assert info.value.problem == f"this is a template: there are no values for {first} and 2,950 others"
    assert info.value.where == "n.prototxt:1"


@pytest.mark.parametrize("definitions", [{"a": "1"}, {}])
def test_placeholders_are_counted(definitions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_MOST_PLACEHOLDERS", 3)
    assert fill_template("${a}\n" * 3, {"a": "1"}, "n.prototxt") == "1\n" * 3
    with pytest.raises(NetError) as info:
        fill_template("${a}\n" * 5, definitions, "n.prototxt")
    assert str(info.value) == f"n.prototxt:4: this is a template with more than 3 placeholders\n{_SPLIT}"


_FIELDS = message_class("BlobProto").DESCRIPTOR.fields_by_name
_WORD = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(str),
    st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{0,3})?([eE][-+]?[0-9]{1,3})?f?", fullmatch=True),
    st.sampled_from(["0x1F", "010", "09", "-0", "inf", "-nan", ".5", "1.", "1e", "--1", "- 1", "1 2", ""]),
)


@given(word=_WORD, name=st.sampled_from(["data", "num"]))
def test_numbers_are_what_protobuf_reads(word: str, name: str) -> None:
    """Python's reader takes a little less than that of C++."""
    expected, read = message_class("BlobProto")(), message_class("BlobProto")()
    try:
        value = scalar(_FIELDS[name], word)
        text_format.Parse(f"{name}: {word}", expected)
    except (BadValueError, text_format.ParseError):
        return
    (read.data.append if name == "data" else partial(setattr, read, name))(value)
    assert repr(read) == repr(expected)


@given(
    words=st.lists(_WORD.filter(bool), min_size=1, max_size=5),
    blank=st.sampled_from(["", " ", "\n", " # 1 ]\n"]),
)
def test_lists_of_numbers_are_what_single_numbers_are(words: list[str], blank: str) -> None:
    separator = f"{blank},{blank}"
    try:
        listed = parse_net(f"layer {{ blobs {{ data: [{blank}{separator.join(words)}{blank}] }} }}", "n")
    except ConversionError:  # no value, or two
        return
    single = parse_net(f"layer {{ blobs {{ {' '.join(f'data: {word}' for word in words)} }} }}", "n")
    assert repr(listed.message) == repr(single.message)
    assert len(listed.findings) == len(single.findings)
