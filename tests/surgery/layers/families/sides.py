"""What is told about pads of single sides and other fields that forks add to layers of Caffe."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.tests.layer_cases import Case, Message

IMAGE = [(1, 4, 6, 6)]
LINE = [(1, 4, 6)]
OP = 'net.prototxt:2: layer "op" '
CASES: list[Case] = []
VARYING: list[Case] = []


def convolution(fields: str, text: str, shapes: Sequence[Sequence[int]] = IMAGE) -> Message:
    fields = f"convolution_param {{ num_output: 2 kernel_size: 3 {fields} }}"
    return Message("Convolution", fields, shapes, f"{OP}(Convolution): {text}")


REFUSALS = [
    Message(
        "Local",
        "local_param { num_output: 2 kernel_size: 9 pad: 1 }",
        IMAGE,
        f"{OP}(Local): kernel_size is 9, but the padded image has 8 x 8 pixels\n"
        "  fix: use a kernel_size of at most 8, or a larger image",
    ),
    Message(
        "Local",
        "local_param { num_output: 2 }",
        IMAGE,
        f"{OP}(Local): num_output is 2 and kernel_size 0 and stride 1, expected at least 1\n"
        "  fix: state each as 1 or more in local_param",
    ),
    convolution("pad_l: 1 pad: 1", "states both pad_l and pad\n  fix: remove pad, or pad_l"),
    convolution("pad_b: 1 pad_w: 2", "states both pad_b and pad_w\n  fix: remove pad_w, or pad_b"),
    convolution(
        "pad_t: 1",
        "pad_t is for 2 spatial axes, the bottom has 1\n  fix: state pad, once or once per axis",
        LINE,
    ),
    convolution(
        "hole_h: 2 dilation: 2",
        "states both dilation and hole_h\n  fix: remove dilation if height and width differ, else the others",
    ),
    convolution(
        "hole_w: 2",
        "hole_w is for 2 spatial axes, the bottom has 1\n  fix: state dilation, once or once per axis",
        LINE,
    ),
    Message(
        "Im2col",
        "convolution_param { kernel_size: 3 pad_l: 1 }",
        IMAGE,
        f"{OP}(Im2col): states pad_l, which this type does not read\n"
        "  fix: use the type Convolution, or remove pad_l",
    ),
    Message(
        "Pooling",
        "pooling_param { kernel_size: 3 pad_l: 1 pool: STOCHASTIC }",
        IMAGE,
        f"{OP}(Pooling): pad is (0, 1), but pool is STOCHASTIC\n"
        "  because Caffe pads for MAX and AVE only\n  fix: use MAX or AVE, or remove pad",
    ),
    Message(
        "Pooling",
        "pooling_param { global_pooling: true pad_l: 1 }",
        IMAGE,
        f"{OP}(Pooling): with global_pooling, pad must be 0 and stride 1\n  fix: remove pad and stride",
    ),
    Message(
        "Pooling3D",
        "pooling3d_param { kernel_size: 2 kernel_depth: 2 pool: AVE_EXC_PAD }",
        [(1, 2, 4, 4, 4)],
        f"{OP}(Pooling3D): pool is AVE_EXC_PAD, expected MAX or AVE\n  fix: remove pool to use MAX",
    ),
    Message(
        "Interp",
        "interp_param { use_blob_size: true }",
        IMAGE,
        f"{OP}(Interp): use_blob_size is true, but there is one bottom\n"
        "  fix: add the blob whose size is meant",
    ),
    Message(
        "Eltwise",
        "eltwise_param { coeff_blob: true }",
        [(2, 3), (2, 3), (2, 1)],
        'net.prototxt:4: layer "op" (Eltwise), bottom "b2": shape is (2, 1), expected (2, 2)\n'
        "  because coeff_blob is true: it holds a factor for each item of each other bottom\n"
        "  fix: give it such a shape, or remove coeff_blob",
    ),
]
