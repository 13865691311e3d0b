"""PriorBox of forks that place further boxes, against their sources' loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.forks import Fork
from prototrt.tests.small_nets import failure, op, rewritten, told

Box = tuple[float, float, float, float]
SHAPES = {"map": (1, 2, 3, 2), "image": (1, 3, 90, 80)}


def net(fields: str) -> str:
    """A PriorBox, and a sum that keeps it from being a net of constants alone."""
    reduction = 'layer { name: "sum" type: "Reduction" bottom: "map" top: "sum" }'
    return f"{op('PriorBox', f'prior_box_param {{ {fields} }}', SHAPES)}\n{reduction}"


def of_textboxes(step_x: float, step_y: float, h: int, w: int) -> Iterator[Box]:
    """min_size 30, aspect_ratio 2 without flip: each box, then the same with its middle at the end of the cell."""
    for width, height in ((30, 30), (30 * 2**0.5, 30 / 2**0.5)):
        for y in ((h + 0.5) * step_y, (h + 1) * step_y):
            x = (w + 0.5) * step_x
            yield x - width / 2, y - height / 2, x + width / 2, y + height / 2


def of_faceboxes(step_x: float, step_y: float, h: int, w: int) -> Iterator[Box]:
    """min_size 32, 64 and 128: 16, 4 and 1 squares, each a pixel smaller."""
    x, y = (w + 0.5) * step_x, (h + 0.5) * step_y
    for size, apart, first, last in ((32, 8, -2, 2), (64, 16, -1, 1), (128, 0, 0, 1)):
        half = (size - 1) / 2
        for i in range(first, last):
            for j in range(first, last):
                left, top = x + j * apart, y + i * apart
                yield left - half, top - half, left + half, top + half


CASES: dict[Fork, tuple[str, Callable[[float, float, int, int], Iterator[Box]]]] = {
    "textboxes": ("min_size: 30 aspect_ratio: 2 flip: false", of_textboxes),
    "faceboxes": ("min_size: 32 min_size: 64 min_size: 128", of_faceboxes),
}


@pytest.mark.parametrize("fork", CASES)
def test_corners(fork: Fork) -> None:
    fields, boxes = CASES[fork]
    graph = rewritten(net(fields), SHAPES, fork=fork)
    found = prototrt.Session(graph).run({name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()})
    expected = [box for h in range(3) for w in range(2) for box in boxes(40, 30, h, w)]
    np.testing.assert_allclose(
        found["y"][0, 0].reshape(-1, 4), np.array(expected) / (80, 90, 80, 90), atol=1e-6
    )


VARYING: dict[str, tuple[str, Fork | None]] = {
    **{fork: (fields, fork) for fork, (fields, _) in CASES.items()},
    "density": ("fixed_size: 20 density: 2 aspect_ratio: 2", None),
}


@pytest.mark.parametrize("case", VARYING)
def test_sizes_that_vary_have_the_boxes_of_fixed_sizes(case: str) -> None:
    fields, fork = VARYING[case]
    inputs = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    fixed = prototrt.Session(rewritten(net(fields), SHAPES, fork=fork)).run(inputs)
    least = {"map": (1, 2, 1, 1), "image": (1, 3, 60, 60)}
    most = {"map": (1, 2, 5, 5), "image": (1, 3, 99, 99)}
    open_net = rewritten(net(fields), SHAPES, fork=fork, min_shapes=least, max_shapes=most)
    np.testing.assert_allclose(prototrt.Session(open_net).run(inputs)["y"], fixed["y"], atol=1e-6)


WHERE = 'net.prototxt:3: layer "op" (PriorBox): '
REFUSED: dict[str, tuple[Fork | None, str]] = {
    "fixed_size: 20 density: 2 min_size: 30": (
        None,
        "fixed_size is stated beside min_size or max_size\n"
        "  because the fork then counts fewer boxes than it writes\n"
        "  fix: use one PriorBox layer for each, and join them by a Concat along axis 2",
    ),
    "density: 2": (
        None,
        "fixed_size must be stated, and be positive\n"
        "  fix: state a positive fixed_size, in pixels of the image",
    ),
    "fixed_size: 20 density: 1.5": (
        None,
        "density is 1.5, expected a whole number for each fixed_size (20)\n"
        "  fix: state how many boxes of each size stand side by side",
    ),
    "fixed_size: 20 density: 1e6": (
        None,
        "asks for about 1e+12 boxes at each place, expected at most 10000\n"
        "  fix: state fewer sizes and ratios, or a smaller density",
    ),
    "fixed_size: 20 density: inf": (
        None,
        "asks for about inf boxes at each place, expected at most 10000\n"
        "  fix: state fewer sizes and ratios, or a smaller density",
    ),
    "fixed_size: 20 density: 1 fixed_ratio: 1 fixed_ratio: 2": (
        None,
        "fixed_ratio is 1, 2, expected one positive number, and no aspect_ratio beside it\n"
        "  fix: state width divided by height, or use aspect_ratio, which may have several",
    ),
    "min_size: 32 min_size: 64": (
        "faceboxes",
        "min_size is 32, 64 and max_size is not stated\n"
        "  because FaceBoxes expects the sizes 32, 64 and 128, or one larger size, and no max_size\n"
        '  fix: leave fork="faceboxes" out, if the net is not FaceBoxes',
    ),
}


@pytest.mark.parametrize("fields", REFUSED)
def test_refused(fields: str) -> None:
    fork, text = REFUSED[fields]
    assert told(failure(lambda: rewritten(net(fields), SHAPES, fork=fork))) == WHERE + text
