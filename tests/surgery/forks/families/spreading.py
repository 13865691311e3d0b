"""Layers that spread one number per channel over a map, or multiply all channels by one number at each place."""

from __future__ import annotations

from prototrt.tests.layer_cases import Case, Message

LIKE = 'python_param { module: "caffe_traininglayers" layer: "SpatialRepLayer" }'


def sized(param: str) -> str:
    return f'python_param {{ module: "cmap_layer" layer: "CmapLayer" param_str: "{param}" }}'


CASES = [
    Case("an empty place", "Norm", "", [[[[3, 0], [4, 0]]]], [[[3 / (5 + 1e-6), 0], [4 / (5 + 1e-6), 0]]]),
    Case(
        "a map of two axes of size 1",
        "Python",
        sized("{'height': 1, 'width': 2}"),
        [[[[[3]], [[4]]]]],
        [[[[3, 3]], [[4, 4]]]],
    ),
]
VARYING = [
    Case("a batch that varies", "Python", LIKE, [[[[[5]]]], [[[[0, 0], [0, 0]]]]], [[[[5, 5], [5, 5]]]]),
]
REFUSALS = [
    Message(
        "SpatialProduct",
        "",
        [(2, 3, 4, 5), (2, 3, 4, 5)],
        'net.prototxt:3: layer "op" (SpatialProduct), bottom "b1": shape is (2, 3, 4, 5), expected (2, 1, 4, 5)\n'
        "  fix: give it one channel, and the other sizes of the first bottom",
    ),
    Message(
        "ChannelScale",
        "",
        [(2, 3, 4, 5), (2, 3)],
        'net.prototxt:3: layer "op" (ChannelScale), bottom "b1": shape is (2, 3), expected (2, 1, 4, 5)\n'
        "  fix: give it one channel, and the other sizes of the first bottom",
    ),
    Message(
        "ChannelScale",
        "channel_scale_param { global_scale: true }",
        [(2, 3, 4, 5), (2, 1, 4, 5)],
        'net.prototxt:3: layer "op" (ChannelScale): global_scale is true, expected false\n'
        "  because a learned number then multiplies the whole blob\n"
        "  fix: use a Scale with that number, with num_axes: 0",
    ),
    Message(
        "Python",
        LIKE,
        [(1, 3, 1, 1), (1, 3)],
        'net.prototxt:3: layer "op" (Python), bottom "b1": shape is (1, 3), expected (N, C, H, W)\n'
        "  fix: give it a map with four axes",
    ),
    Message(
        "Python",
        LIKE,
        [(1, 3, 2, 1), (1, 3, 4, 4)],
        'net.prototxt:3: layer "op" (Python), bottom "b0": shape is (1, 3, 2, 1), expected (N, C, 1, 1)\n'
        "  fix: give it one number per channel",
    ),
    Message(
        "Python",
        sized("{'height': 1, 'width': 2}"),
        [(2, 3)],
        'net.prototxt:2: layer "op" (Python), bottom "b0": shape is (2, 3), expected a batch of 1\n'
        "  fix: give the net one image per call",
    ),
    Message(
        "Python",
        sized("{'height': 2}"),
        [(1, 3)],
        'net.prototxt:2: layer "op" (Python): param_str states no width\n'
        "  because it is the size of the top\n"
        "  fix: state both sizes, as in {'height': 60, 'width': 40}",
    ),
    Message(
        "Python",
        sized("{'height': 0, 'width': 2}"),
        [(1, 3)],
        'net.prototxt:2: layer "op" (Python): param_str states height as 0\n'
        "  because it is the size of the top\n"
        "  fix: state both sizes, as in {'height': 60, 'width': 40}",
    ),
]
