"""Templates: what is filled in, and the messages if something is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt.caffe_proto import ConversionError, load
from prototrt.caffe_proto.text.templates import fill_template

FORMS = ("${N}", "${ N }", "$N", "{N}")

FILLED: dict[str, tuple[str, Mapping[str, str], str]] = {
    **{form: (f"num_output: {form}\n", {"N": "3"}, "num_output: 3\n") for form in FORMS},
    "in a string": ("name: 'fc_${N}'", {"N": "3"}, "name: 'fc_3'"),
    "twice": ("a: $N b: '$N'", {"N": "3"}, "a: 3 b: '3'"),
    "a word that stands for itself": ("num_output: cls3x", {"cls3x": "63"}, "num_output: 63"),
    "no word in a string": ("top: 'z' dim: z", {"z": "4"}, "top: 'z' dim: 4"),
    "no part of a word": ("zz: z", {"z": "4"}, "zz: 4"),
    "longer names": ("a: $NET_ID", {"NET_ID": "4"}, "a: 4"),
    "a name with underscores": (
        "batch_size: $EXP_DEVICE_BATCH",
        {"EXP_DEVICE_BATCH": "4"},
        "batch_size: 4",
    ),
    "Python's format, which doubles other braces": (
        "shape {{ dim: {N} }} a: 'fc{N}' {{}}",
        {"N": "3"},
        "shape { dim: 3 } a: 'fc3' {}",
    ),
    "replaced names among single braces": ("shape { a { dim: {N} }}", {"N": "3"}, "shape { a { dim: 3 }}"),
    "in a comment": ("# $N\na: 1", {}, "# $N\na: 1"),
    "other signs": (
        "a: 'conv1__bn__' b: '@N@ %(N)s $(N)' c: '__N__'",
        {},
        "a: 'conv1__bn__' b: '@N@ %(N)s $(N)' c: '__N__'",
    ),
    "left in a string": ("source: '${DATA}/$x'", {}, "source: '${DATA}/$x'"),
    "quotes in strings": (r"name: 'a\'$N' b: $N", {"N": "3"}, r"name: 'a\'3' b: 3"),
}


@pytest.mark.parametrize("case", FILLED)
def test_filled(case: str) -> None:
    text, definitions, expected = FILLED[case]
    assert fill_template(text, definitions, "net.prototxt") == expected


REFUSED: dict[str, tuple[str, Mapping[str, str], str]] = {
    "nothing is given": (
        "a: 1\nb: ${N} c: {M} d: ${N}",
        {},
        "net.prototxt:2: this is a template: there are no values for N, M\n"
        '  fix: give values: define={"N": "VALUE", "M": "VALUE"}',
    ),
    "a name in braces": (
        "input_dim: {height}",
        {},
        "net.prototxt:1: this is a template: there are no values for height\n"
        '  fix: give values: define={"height": "VALUE"}',
    ),
    "one is missing": (
        "b: ${N} c: $M",
        {"N": "1"},
        'net.prototxt:1: this is a template: there are no values for M\n  fix: give values: define={"M": "VALUE"}',
    ),
    "a name that the file lacks": (
        "b: ${BATCH}",
        {"BACH": "2"},
        'net.prototxt: a value is given for "BACH", which is not in the file\n'
        "  fix: the placeholders are BATCH",
    ),
    "no template": (
        "b: 1",
        {"N": "1"},
        'net.prototxt: a value is given for "N", which is not in the file\n'
        "  fix: leave it out: the net is not a template",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    text, definitions, message = REFUSED[case]
    with pytest.raises(ConversionError) as caught:
        fill_template(text, definitions, "net.prototxt")
    assert str(caught.value) == message


@given(st.text(alphabet="ab1_: {}[]<>\"'\\.,-\n\t"))
def test_a_text_without_placeholders_stays_as_it_is(text: str) -> None:
    if re.search(r"\{[A-Za-z_]\w*\}", text) is None:
        assert fill_template(text, {}, "net.prototxt") == text


def test_a_net_is_filled_in(write: Callable[..., str]) -> None:
    text = "layer { name: 'fc_${N}' type: 'InnerProduct' top: 'y' inner_product_param { num_output: ${N} } }"
    (layer,) = load(write(text), define={"N": "3"}).layers
    assert (layer.name, layer.param.num_output) == ("fc_3", 3)
