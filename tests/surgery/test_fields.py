"""What a layer says of itself, and which of it stands in its box; layers that work in place share a box."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototrt import load
from prototrt.caffe_proto import Layer
from prototrt.converter.showing.page.facts import BINS, Distribution, statistics_of, statistics_of_counts
from prototrt.surgery.views.dot import boxes_of, drawing_of_model
from prototrt.surgery.views.drawing import DrawnNode, wrap
from prototrt.surgery.views.fields import LayerField, fields_of, settings_of

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }\n'


def layers_of(folder: Path, text: str) -> tuple[Layer, ...]:
    file = folder / "net.prototxt"
    file.write_text(INPUT + text)
    return load(str(file)).layers


def layer_of(folder: Path, text: str) -> Layer:
    return layers_of(folder, f'layer {{ name: "y" bottom: "x" top: "y" {text} }}')[1]


CONVOLUTION = (
    'type: "Convolution" param { lr_mult: 2 } convolution_param { num_output: 4 kernel_size: 3 stride: 2 stride: 1'
    ' engine: CUDNN weight_filler { type: "xavier" std: 0.01 } }'
)


def test_fields(tmp_path: Path) -> None:
    found = fields_of(layer_of(tmp_path, CONVOLUTION))
    stated = [(field.name, field.text) for field in found if field.is_explicit]
    assert stated == [
        ("num_output", "4"),
        ("kernel_size", "3"),
        ("stride", "[2, 1]"),
        ("weight_filler.type", "xavier"),
        ("weight_filler.std", "0.01"),
        ("engine", "CUDNN"),
        ("param[0].lr_mult", "2"),
    ]
    assert LayerField("bias_term", "true", False) in found
    assert LayerField("group", "1", False) in found
    assert LayerField("kernel_h", "", False) in found
    assert LayerField("bias_filler", "", False) in found


def test_defaults_of_a_layer_without_its_message(tmp_path: Path) -> None:
    assert fields_of(layer_of(tmp_path, 'type: "ReLU"')) == [
        LayerField("negative_slope", "0", False),
        LayerField("engine", "DEFAULT", False),
        LayerField("relu6", "false", False),
    ]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (CONVOLUTION, ["num_output 4", "kernel_size 3", "stride [2, 1]"]),
        ('type: "ReLU"', []),
        ('type: "ReLU" relu_param { negative_slope: 0.1 }', ["negative_slope 0.1"]),
        ('type: "Pooling" pooling_param { pool: AVE kernel_size: 2 }', ["pool AVE", "kernel_size 2"]),
        ('type: "Reshape" reshape_param { shape { dim: 0 dim: -1 } }', ["shape [0, -1]"]),
        ('type: "Slice" slice_param { slice_point: 1 slice_point: 2 }', ["slice_point [1, 2]"]),
        (
            f'type: "Slice" slice_param {{ {"slice_point: 1 " * 20} }}',
            [f"slice_point [{'1, ' * 16}... (20 in all)]"],
        ),
        (
            'type: "Python" python_param { param_str: "' + "a" * 200 + '" }',
            [f"param_str {'a' * 160}... (200 characters)"],
        ),
    ],
)
def test_settings_in_the_box(tmp_path: Path, text: str, settings: list[str]) -> None:
    assert settings_of(layer_of(tmp_path, text)) == settings


def test_arguments_of_caffe2() -> None:
    folder = Path(__file__).parents[1] / "goldens" / "caffe2" / "lstm_multi2"
    model = load(str(folder / "predict_net.pb"), str(folder / "init_net.pb"))
    (layer,) = (layer for layer in model.layers if layer.type == "RecurrentNetwork")
    fields = {field.name: field for field in fields_of(layer)}
    assert fields["step_net"].text == "a NetDef"
    assert fields["alias_src"].text.startswith("[lstm/")
    assert all(field.is_explicit for field in fields.values())
    shown = [setting.partition(" ")[0] for setting in settings_of(layer)]
    assert "alias_offset" in shown
    assert not {"step_net", "alias_src"} & {*shown}


def test_layers_in_place_share_the_box_of_what_they_write_over(tmp_path: Path) -> None:
    relu = 'layer { name: "%s" type: "ReLU" bottom: "%s" top: "%s" }\n'
    text = (
        'layer { name: "conv" type: "Convolution" bottom: "x" top: "a"'
        " convolution_param { num_output: 2 kernel_size: 1 } }\n"
        'layer { name: "scale" type: "Scale" bottom: "a" top: "a" scale_param { bias_term: true } }\n'
        + relu % ("relu", "a", "a")
        + relu % ("apart", "a", "b")
        + 'layer { name: "slice" type: "Slice" bottom: "b" top: "c" top: "d" }\n'
        + relu % ("one of two", "c", "c")
        + 'layer { name: "sum" type: "Eltwise" bottom: "c" bottom: "d" top: "e" }\n'
        + relu % ("over the input", "x", "x")
    )
    file = tmp_path / "net.prototxt"
    file.write_text(INPUT + text)
    model = load(str(file))
    names = [[layer.name for layer in box] for box in boxes_of(model)]
    assert names == [
        ["x"],
        ["conv", "scale", "relu"],
        ["apart"],
        ["slice"],
        ["one of two"],
        ["sum"],
        ["over the input"],
    ]
    drawing = drawing_of_model(model, {})
    conv = drawing.items[1]
    assert isinstance(conv, DrawnNode)
    assert [(part.origin and part.origin.layer, part.lines) for part in conv.parts] == [
        ("conv", ("conv", "Convolution", "num_output 2, kernel_size 1")),
        ("scale", ("scale (Scale)", "bias_term true")),
        ("relu", ("relu (ReLU)",)),
    ]
    assert [(edge.source, edge.label) for edge in drawing.edges if edge.target == "apart"] == [("conv", "a")]


@given(st.lists(st.text("abc", min_size=1, max_size=30)))
def test_wrapped_lines_hold_everything_in_order(items: list[str]) -> None:
    lines = list(wrap(items, 20))
    assert ", ".join(items) == " ".join(lines)
    assert all(len(line) <= 20 + len(", ,") or ", " not in line.rstrip(",") for line in lines)


# ---------------------------------------------------------------- statistics


@given(st.lists(st.floats(width=32), max_size=50))
def test_every_finite_number_is_counted_between_the_smallest_and_the_largest(numbers: list[float]) -> None:
    found = statistics_of(np.array(numbers, np.float32))
    finite = [number for number in numbers if np.isfinite(number)]
    if not finite:
        assert found is None
        return
    assert found is not None
    assert (found.low, found.high, found.step) == (min(finite), max(finite), 1)
    assert (len(found.counts), sum(found.counts)) == (BINS, len(finite))


def test_bins_divide_the_range_equally() -> None:
    assert statistics_of(np.arange(2 * BINS)) == Distribution(0, 2 * BINS - 1, (2,) * BINS, 1)
    assert statistics_of(np.full((2, 3), 4.0)) == Distribution(4, 4, (6, *(0,) * (BINS - 1)), 1)


def test_large_arrays_are_sampled_and_their_range_is_exact() -> None:
    array = np.zeros(1 << 20, np.float32)
    array[[1, 2]] = -5, 7  # between the numbers that are counted
    found = statistics_of(array)
    assert found is not None
    assert (found.low, found.high, found.step, sum(found.counts)) == (-5, 7, 4, 1 << 18)


@given(st.lists(st.integers(0, 9), max_size=60), st.floats(0.1, 2))
def test_a_histogram_keeps_what_it_counts(counts: list[int], width: float) -> None:
    found = statistics_of_counts(counts, width)
    if not any(counts):
        assert found is None
        return
    assert found is not None
    last = max(place for place, count in enumerate(counts) if count)
    assert (found.low, found.high, sum(found.counts)) == (0, (last + 1) * width, sum(counts))
    assert found.counts[-1] > 0 or last < BINS


def test_arrays_of_mapped_files_may_be_unaligned() -> None:
    numbers = np.arange(10, dtype=np.float32)
    unaligned = np.frombuffer(b"x" + numbers.tobytes(), np.float32, offset=1)
    found = statistics_of(unaligned)
    assert found is not None
    assert (found.low, found.high) == (0, 9)
