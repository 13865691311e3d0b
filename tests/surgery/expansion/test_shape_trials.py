"""Shapes that messages propose are shapes with which the layers of the net fit."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
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
FREE = "(C is a guess, smaller images fit down to {})"
CONV = """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 5 } }
"""
READING = """layer { name: "turned" type: "Permute" bottom: "conv" top: "turned" permute_param { order: [3, 0, 1, 2] } }
layer { name: "rnn" type: "RNN" bottom: "turned" bottom: "cont" top: "rnn" recurrent_param { num_output: 2 } }"""
OPEN, FIXED_CONT = (
    f'layer {{ name: "cont" type: "ContinuationIndicator" top: "cont" continuation_indicator_param {{ {sizes} }} }}'
    for sizes in ("time_step: 96 batch_size: 1", "time_step: 30 batch_size: 4")
)
PAIRS = """
layer { name: "pairs" type: "PairData" top: "data" top: "other"
  pair_data_param { batch_size: 4 crop_size: 20 } }
layer { name: "join" type: "Concat" bottom: "data" bottom: "other" top: "join" }
"""
ROWS = 'layer { name: "rows" type: "Reshape" bottom: "conv" top: "rows" reshape_param { shape { dim: [5, -1] } } }'

STEPS_OF_ROWS = """
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "steps" type: "Reshape" bottom: "fc" top: "steps" reshape_param { shape { dim: [4, 3, 5] } } }
layer { name: "table" type: "Reshape" bottom: "begins" top: "cont" reshape_param { shape { dim: [4, 3] } } }
layer { name: "rnn" type: "RNN" bottom: "steps" bottom: "cont" top: "rnn" recurrent_param { num_output: 2 } }
"""
WORDS = """input: "words" input: "cont"
layer { name: "embed" type: "Embed" bottom: "words" top: "embed" embed_param { num_output: 4 input_dim: 9 } }
"""
STATIC = """
layer { name: "static" type: "Input" top: "static" input_param { shape { dim: [5, 3] } } }
layer { name: "rnn" type: "RNN" bottom: "embed" bottom: "cont" bottom: "static" top: "rnn"
  recurrent_param { num_output: 2 } }
"""
ADDED = """
layer { name: "rnn" type: "RNN" bottom: "embed" bottom: "cont" top: "rnn" recurrent_param { num_output: 2 } }
layer { name: "other" type: "Input" top: "other" input_param { shape { dim: [20, 6, 2] } } }
layer { name: "sum" type: "Eltwise" bottom: "rnn" bottom: "other" top: "sum" }
"""
CUT, STATED = (
    f'layer {{ name: "s" type: "Reshape" bottom: "data" top: "s" reshape_param {{ shape {{ dim: [{dims}] }} }} }}'
    for dims in ("1, -1, 11", "2, 3, 11")
)
WEIGHED = """
layer { name: "cut" type: "Slice" bottom: "weights" top: "rest" top: "mask" slice_param { slice_point: 3 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 3 kernel_size: 16 stride: 16 } }
layer { name: "masked" type: "Eltwise" bottom: "conv" bottom: "mask" top: "masked" eltwise_param { operation: PROD } }
"""


def fits(sizes: str, remarks: str) -> str:
    return f'{ASKED}; the layers fit with shapes={{"data": ({sizes})}} {remarks}'


CASES = {
    "usual sizes fit": (DATA + PLAIN, fits("1, 3, 224, 224", FREE.format("2x2"))),
    "strides": (DATA + POOLED, fits("1, 3, 256, 256", FREE.format("64x64 in steps of 64"))),
    "a stated size": (DATA + FIXED, fits("1, 3, 144, 96", "(smaller images fit down to 143x95)")),
    "slices": (DATA + HALVES, fits("1, 6, 224, 224", "(smaller images fit down to 1x1)")),
    "channels": (DATA + MAPS, fits("1, 9, 224, 224", "(smaller images fit down to 1x1)")),
    "other axes": (
        DATA + NORM,
        'give its shape: shapes={"data": (1, 256)}; the layers fit with shapes={"data": (1, 256)}',
    ),
    "a comment": (
        DATA + "# 1 x 30x40" + CONV,
        fits("1, 1, 30, 40", '("1 x 30x40" is in the file or its name, smaller images fit down to 5x15)'),
    ),
    "a comment with a batch": (
        DATA + "# 10 x 3 x 30 x 40" + CONV,
        fits(
            "10, 3, 30, 40",
            '("10 x 3 x 30 x 40" is in the file or its name, smaller images fit down to 5x15)',
        ),
    ),
    "a comment with the name of the blob": (
        "#  data:  (9, 8, 30, 40)\n#  data   (4, 2, 30, 40) images\n#  label (4, 1)\n" + DATA + CONV,
        fits(
            "4, 2, 30, 40",
            '("data (4, 2, 30, 40)" is in the file or its name, smaller images fit down to 5x15)',
        ),
    ),
    "a crop": (
        "# crop_size: 56\n" + DATA + CONV,
        fits(
            "1, 3, 56, 56",
            '("crop_size: 56" is in the file or its name, C is a guess, smaller images fit down to 5x5)',
        ),
    ),
    "a comment that does not fit": (
        DATA + "# 4x20x20" + MAPS,
        fits("1, 9, 224, 224", "(smaller images fit down to 1x1)"),
    ),
    "CRNN": (DATA + CONV + OPEN + READING, fits("1, 3, 32, 100", "(C is a guess)")),
    "steps and streams": (DATA + CONV + FIXED_CONT + READING, fits("4, 3, 32, 34", "(C is a guess)")),
    "rows of a Reshape": (
        DATA + CONV.replace("5 } }", "224 } }") + ROWS,
        fits("5, 3, 224, 224", "(C is a guess)"),
    ),
    "steps and streams of Reshapes": (
        DATA + 'input: "begins"' + STEPS_OF_ROWS,
        'give the shapes: shapes={"data": (N, I), "begins": (4, 3)}; the layers fit with'
        ' shapes={"data": (12, 256), "begins": (4, 3)} (I is a guess)',
    ),
    "streams of a static bottom": (
        WORDS + STATIC,
        'give the shapes: shapes={"words": (T, N), "cont": (T, N)}; the layers fit with'
        ' shapes={"words": (8, 5), "cont": (8, 5)}',
    ),
    "steps and streams of a sum": (
        WORDS + ADDED,
        'give the shapes: shapes={"words": (T, N), "cont": (T, N)}; the layers fit with'
        ' shapes={"words": (20, 6), "cont": (20, 6)}',
    ),
    "parts that a Reshape cuts": (
        DATA + CUT,
        'give its shape: shapes={"data": (1, 11)}; the layers fit with shapes={"data": (1, 11)}',
    ),
    "the shape that a Reshape makes": (
        DATA + STATED,
        'give its shape: shapes={"data": (2, 3, 11)}; the layers fit with shapes={"data": (2, 3, 11)}',
    ),
    "a map of labels": (
        DATA + 'input: "weights"' + WEIGHED,
        'give the shapes: shapes={"data": (N, C, H, W), "weights": (N, C, H, W)}; the layers fit with'
        ' shapes={"data": (1, 3, 224, 224), "weights": (1, 6, 14, 14)}',
    ),
    "the other image of a pair": (
        PAIRS,
        'give the shapes: shapes={"data": (4, C, 20, 20), "other": (N, C, H, W)}; the layers fit with'
        ' shapes={"data": (4, 3, 20, 20), "other": (4, 3, 20, 20)} (C is a guess)',
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
    if proposed := re.search(r"(?:fit with|as in) shapes=([^}]*})", fix):
        assert prototrt.rewrite(model, shapes=eval(proposed[1])).inputs


BESIDE = {
    "what the net leaves open": (
        'layer { name: "in" type: "Data" top: "data" data_param { batch_size: 7 } }' + CONV,
        {"deploy.prototxt": image(1, 1, 28, 24)},
        "(7, 1, 28, 24)} (as in deploy.prototxt, smaller images fit down to 9x5)",
    ),
    "the most similar name": (
        DATA + CONV,
        {"a.prototxt": image(1, 2, 9, 9), "net_deploy.prototxt": image(1, 1, 28, 28)},
        "(1, 1, 28, 28)} (as in net_deploy.prototxt, smaller images fit down to 5x5)",
    ),
    "only what fits": (
        DATA + MAPS,
        {"deploy.prototxt": image(1, 3, 28, 28)},
        "(1, 9, 224, 224)} (smaller images fit down to 1x1)",
    ),
    "other axes": (
        DATA + 'layer { name: "t" type: "TanH" bottom: "data" top: "t" }',
        {"x.pt": image(5, 6, 7)},
        "(5, 6, 7)} (as in x.pt)",
    ),
    "nothing": (
        "# 1x1x30x40\n" + DATA + CONV,
        {
            "a.prototxt": "layer {",
            "b.prototxt": image(1, 0, 9, 9),
            "c.txt": image(1, 1, 9, 9),
            "d.pt": "\0input",
        },
        '(1, 1, 30, 40)} ("1x1x30x40" is in the file or its name, smaller images fit down to 5x15)',
    ),
}


@pytest.mark.parametrize("case", BESIDE)
def test_shapes_of_other_files_in_the_folder_are_proposed(case: str, tmp_path: Path) -> None:
    net, others, proposed = BESIDE[case]
    for name, text in others.items():
        (tmp_path / name).write_text(text)
    model = loaded(tmp_path, net, random_weights=1)
    message = failure(lambda: prototrt.rewrite(model))
    assert message.endswith(f'the layers fit with shapes={{"data": {proposed}')


def test_images_are_as_large_as_the_weights_of_an_inner_product(tmp_path: Path) -> None:
    """No usual size: a square first, else what is nearest to one."""
    net = (
        DATA
        + CONV
        + 'layer { name: "fc" type: "InnerProduct" bottom: "conv" top: "fc" inner_product_param { num_output: 2 } }'
    )
    zeros = {"conv/0": (2, 1, 5, 5), "conv/1": (2,), "fc/1": (2,)}
    for count, sizes in ((2 * 35 * 35, "1, 1, 39, 39"), (2 * 3 * 7, "1, 1, 7, 11")):
        blobs = {name: np.zeros(shape, np.float32) for name, shape in {**zeros, "fc/0": (2, count)}.items()}
        model = loaded(tmp_path, net, blobs)
        with pytest.raises(prototrt.ConversionError) as error:
            prototrt.rewrite(model)
        assert f'the layers fit with shapes={{"data": ({sizes})}}' in str(error.value)


def test_a_size_of_the_user_is_not_changed_by_much(tmp_path: Path) -> None:
    model = loaded(tmp_path, DATA + POOLED, random_weights=1)
    message = failure(lambda: prototrt.rewrite(model, shapes={"data": (1, 3, 440, 576)}))
    assert message.endswith('; or use sizes that fit, as in shapes={"data": (1, 3, 448, 576)}')


def test_numbers_in_a_shape_are_kept() -> None:
    """What a bottom needs is told with letters and numbers, as 1x4 for the fourth number of im_info."""
    assert usual_shapes({"im_info": [1, 4], "x": [2, "C", "K"]}) == {"im_info": (1, 4), "x": (2, 3, 1)}
