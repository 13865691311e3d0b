"""Shapes that messages propose are shapes with which the layers of the net fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import prototrt
from prototrt.surgery.expansion.fitting import usual_shapes
from prototrt.tests.small_nets import failure, loaded

DATA = 'input: "data"\n'
HALVES = """
layer { name: "cut" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { slice_point: 3 } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
"""
POOLED = """
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { kernel_size: 64 stride: 64 } }
layer { name: "up" type: "Deconvolution" bottom: "pool" top: "up"
  convolution_param { num_output: 3 kernel_size: 64 stride: 64 } }
layer { name: "join" type: "Concat" bottom: "data" bottom: "up" top: "join" }
"""
FIXED = """
layer { name: "mask" type: "Input" top: "mask" input_param { shape { dim: [1, 3, 72, 48] } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "join" type: "Eltwise" bottom: "pool" bottom: "mask" top: "join" }
"""
MAPS = """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 9 kernel_size: 1 } }
layer { name: "sum" type: "Eltwise" bottom: "data" bottom: "conv" top: "sum" }
"""
CODE = 'python_param { module: "l2norm_layer" layer: "L2NormLayer" }'
NORM = 'layer { name: "n" type: "Python" bottom: "data" top: "n" PYTHON }'.replace("PYTHON", CODE)
NEVER = """
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { kernel_size: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "pool" bottom: "data" top: "sum" }
"""
PLAIN = 'layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { kernel_size: 2 } }'


def image(*dims: int) -> str:
    sizes = ", ".join(map(str, dims))
    return f'layer {{ name: "in" type: "Input" top: "data" input_param {{ shape {{ dim: [{sizes}] }} }} }}\n'


ASKED = 'give its shape: shapes={"data": (N, C, H, W)}'
CASES = {
    "usual sizes fit": (DATA + PLAIN, ASKED),
    "strides": (DATA + POOLED, f'{ASKED}; the layers fit with shapes={{"data": (1, 3, 256, 256)}}'),
    "a stated size": (DATA + FIXED, f'{ASKED}; the layers fit with shapes={{"data": (1, 3, 144, 96)}}'),
    "slices": (DATA + HALVES, f'{ASKED}; the layers fit with shapes={{"data": (1, 6, 224, 224)}}'),
    "channels": (DATA + MAPS, f'{ASKED}; the layers fit with shapes={{"data": (1, 9, 224, 224)}}'),
    "other axes": (
        DATA + NORM,
        'give its shape: shapes={"data": (1, 256)}; the layers fit with shapes={"data": (1, 256)}',
    ),
    "none": (
        DATA + NEVER,
        f'{ASKED}; no usual sizes fit: with shapes={{"data": (1, 3, 224, 224)}}, net.prototxt:4: layer "sum" (Eltwise),'
        ' bottom "data": shape is (1, 3, 224, 224), expected (1, 3, 223, 223)',
    ),
    "near a stated image": (
        image(1, 3, 200, 300) + POOLED,
        "give the bottoms sizes that differ only in this axis, or use another axis;"
        ' or use sizes that fit, as in shapes={"data": (1, 3, 256, 320)}',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_proposed_fits(case: str, tmp_path: Path) -> None:
    net, fix = CASES[case]
    model = loaded(tmp_path, net, random_weights=1)
    message = failure(lambda: prototrt.rewrite(model))
    assert message.rpartition("\n  fix: ")[2] == fix
    if proposed := re.search(r"(?:fit with|as in) shapes=(.*)$", fix):
        assert prototrt.rewrite(model, shapes=eval(proposed[1])).inputs


def test_a_size_of_the_user_is_not_changed_by_much(tmp_path: Path) -> None:
    model = loaded(tmp_path, DATA + POOLED, random_weights=1)
    message = failure(lambda: prototrt.rewrite(model, shapes={"data": (1, 3, 440, 576)}))
    assert message.endswith('; or use sizes that fit, as in shapes={"data": (1, 3, 448, 576)}')


def test_numbers_in_a_shape_are_kept() -> None:
    """What a bottom needs is told with letters and numbers, as 1x4 for the fourth number of im_info."""
    assert usual_shapes({"im_info": ["1", "4"], "x": [2, "C", "K"]}) == {"im_info": (1, 4), "x": (2, 3, 1)}
