"""What a net is told of that Caffe would compute wrongly without a word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.tests.small_nets import inputs_of, op, rewritten, stored

Shapes = list[tuple[int, ...]]

X = (2, 3, 4, 5)
WRONG: dict[tuple[str, str], Shapes] = {
    ("ArgMax", ""): [X],
    ("BatchReindex", ""): [X, (2,)],
    ("Convolution", "convolution_param { num_output: 3 kernel_size: 1 }"): [X],
    ("Crop", "crop_param { axis: 0 }"): [X, (1, 3, 4, 5)],
    ("Eltwise", ""): [X, X],
    ("LRN", ""): [X],
    ("Reduction", ""): [X],
    ("SPP", "spp_param { pyramid_height: 1 }"): [(2, 3, 1, 1)],
    ("Tile", "tile_param { tiles: 2 }"): [X],
}
RIGHT: dict[tuple[str, str], Shapes] = {
    ("Eltwise", "eltwise_param { operation: PROD }"): [X, X],
    ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL }"): [X],
    ("MVN", ""): [(2, 3)],
    ("ReLU", ""): [X],
    ("Tile", "tile_param { tiles: 1 }"): [X],
    ("Filter", ""): [X, (2,)],
}


def warnings(kind: str, param: str, shapes: Shapes) -> tuple[str, ...]:
    inputs = {f"b{index}": shape for index, shape in enumerate(shapes)}
    blobs = stored("op", [np.zeros((3, 3, 1, 1)), np.zeros(3)]) if kind == "Convolution" else {}
    return rewritten(op(kind, param, inputs, tops=["b0"]), inputs, blobs).warnings


@pytest.mark.parametrize(("kind", "param"), WRONG)
def test_layer_in_place_that_cannot_be(kind: str, param: str) -> None:
    (warning,) = warnings(kind, param, WRONG[kind, param])
    assert warning.endswith(
        f'layer "op" ({kind}): works in place, where Caffe overwrites elements before it reads'
        " them: prototrt reads a copy instead"
    )


def test_words_that_a_layer_in_python_does_not_read() -> None:
    words = "'feat_stride': 8, 'scales': [1], 'ratios': [1], 'has_extra': true"
    param = f'python_param {{ module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "{words}" }}'
    told = warnings("Python", param, [(1, 2, 3, 3), (1, 4, 3, 3), (1, 3)])
    assert told[0].endswith(
        "layer \"op\" (Python): param_str states 'has_extra', which is not read:"
        " compare boxes with those of the net's program"
    )


CONSTANT = 'layer { name: "d" type: "DummyData" top: "a" dummy_data_param { shape { dim: 2 } FILLER } }\n'
RESHAPED = 'layer { name: "f" type: "Reshape" bottom: "a" top: "b" reshape_param { shape { dim: -1 } } }\n'
IN_PLACE = 'layer { name: "op" type: "TYPE" bottom: "a" top: "a" }\n'


def without_constancy(warnings: Sequence[str]) -> list[str]:
    """The warnings but one: these nets have no inputs, which is not the subject here."""
    kept = [warning for warning in warnings if "depends on no input" not in warning]
    assert len(kept) == len(warnings) - 1
    return kept


@pytest.mark.parametrize(
    ("layers", "is_told"),
    [
        (CONSTANT.replace("FILLER", "") + IN_PLACE.replace("TYPE", "Exp"), True),
        (CONSTANT.replace("FILLER", "data_filler { value: 2 }") + IN_PLACE.replace("TYPE", "Exp"), True),
        (CONSTANT.replace("FILLER", "") + RESHAPED + IN_PLACE.replace("TYPE", "Exp").replace('"a"', '"b"'), True),
        (CONSTANT.replace("FILLER", "") + IN_PLACE.replace("TYPE", "Dropout"), False),
        (CONSTANT.replace("FILLER", "") + IN_PLACE.replace("TYPE", "Exp").replace('top: "a"', 'top: "y"'), False),
    ],
)  # fmt: skip
def test_layer_in_place_on_what_is_made_once(layers: str, is_told: bool) -> None:
    """Caffe's DummyData fills its tops once: what is written over them is still there at the next call."""
    told = [
        'layer "op" (Exp): works in place on what DummyData "d" made: in Caffe the next call finds'
        " what this one left there, here every call begins with the same numbers"
    ]
    warnings = without_constancy(rewritten(layers, {}, keep_constant=("a",)).warnings)
    assert [warning.split(": ", 1)[1] for warning in warnings] == (told if is_told else [])


def test_layer_in_place_on_a_parameter() -> None:
    parameter = 'layer { name: "p" type: "Parameter" top: "a" parameter_param { shape { dim: 2 } } }\n'
    graph = rewritten(
        parameter + IN_PLACE.replace("TYPE", "Exp"), {}, stored("p", [[1, 2]]), keep_constant=("a",)
    )
    (warning,) = without_constancy(graph.warnings)
    assert 'works in place on what Parameter "p" made: in Caffe the next call' in warning


@pytest.mark.parametrize(("kind", "param"), RIGHT)
def test_layer_in_place_that_can_be(kind: str, param: str) -> None:
    assert warnings(kind, param, RIGHT[kind, param]) == ()


@pytest.mark.parametrize(("tops", "unread"), [((), ()), (("a",), ("a",)), (("a", "b"), ("a", "b"))])
def test_inputs_that_nobody_reads(tops: tuple[str, ...], unread: tuple[str, ...], tmp_path: Path) -> None:
    """All tops of an Input layer, which need not have any."""
    blobs = "".join(f'top: "{top}" ' for top in tops)
    net = f"layer {{ name: 'n' type: 'Input' {blobs} input_param {{ shape {{ dim: 1 }} }} }}"
    path = tmp_path / "net.prototxt"
    path.write_text(inputs_of({"x": (2,)}) + net + op("ReLU"))
    found = prototrt.rewrite(prototrt.load(path)).warnings
    assert found == tuple(f'{path}: input "{top}" is not needed for the outputs' for top in unread)
