"""The table of supported layers says what the rules say."""

from __future__ import annotations

import pytest

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.surgery.building.layer_builder import layer_rule
from prototrt.surgery.building.layer_rules import python_rule
from prototrt.surgery.views.support import LayerSupport, markdown_table, supported_layers
from prototrt.tests.tools.support_lists import page_list


def test_every_rule_says_what_its_layer_is_and_becomes() -> None:
    rows = supported_layers()
    python = [f"Python: {name}" for name in python_rule.rules]
    assert [row.type for row in rows] == sorted([*layer_rule.rules, *python])
    assert [row.type for row in rows if not (row.becomes and row.notes)] == []


def test_words_choose_types() -> None:
    assert [row.type for row in supported_layers("dropout", "LRN")] == ["Dropout", "LRN"]
    with pytest.raises(OptionsError) as error:
        supported_layers("LSTM", "Convlution")
    assert str(error.value) == ('no layer type has "Convlution" in its name\n  fix: write Convolution')


def test_markdown_escapes_the_bar() -> None:
    assert markdown_table([LayerSupport("AbsVal", "Abs", "`|x|`")]) == (
        "| layer | becomes | notes |\n| --- | --- | --- |\n| AbsVal | Abs | `\\|x\\|` |"
    )


def test_the_page_names_the_fork_of_a_type() -> None:
    rows = [
        LayerSupport("Axpy", "Add", "`x + y`. From SENet; AxpyFast, from others, is the same."),
        LayerSupport("Bias", "Add", "`x + bias`. Unlike those from SENet."),
        LayerSupport("Python: l2.L2", "Div", "Rows of length 1. From colorization."),
    ]
    assert page_list(rows) == "Axpy (SENet), Bias\n\nWritten in Python: `l2.L2` (colorization)"
