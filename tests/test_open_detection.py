"""Detectors for images of any size and batches of any number, against the forks' numbers and against fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.surgery.detection import suppression
from prototrt.surgery.ir import Array, Graph, Range, size_at, size_from_text
from prototrt.surgery.ops import NonMaxSuppression
from prototrt.tests.golden_cases import Case, case_called
from prototrt.tests.small_nets import WAYS, has_engine

Span = tuple[int, int, int]


@dataclass(frozen=True)
class Opened:
    """What varies in a golden: the shapes with the names of sizes, and their ranges. The middle one is the golden's.

    ``spread`` is the standard deviation of the numbers that other sizes are fed.
    """

    shapes: Mapping[str, tuple[int | str, ...]]
    sizes: Mapping[str, Span]
    spread: float = 0.4

    def places(self) -> list[dict[str, int]]:
        """Four calls: all sizes at their smallest and largest, and two mixed ones between."""
        ends = [dict(zip(self.sizes, each, strict=True)) for each in zip(*self.sizes.values(), strict=True)]
        mixed = [
            {
                name: (2 * low + high) // 3 if turn % 2 else (low + 2 * high) // 3
                for turn, (name, (low, _, high)) in enumerate(self.sizes.items(), start)
            }
            for start in range(2)
        ]
        return [ends[0], ends[2], *mixed]

    def shapes_at(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        spans = {name: Range(*span) for name, span in self.sizes.items()}
        return {
            blob: tuple(
                dim if isinstance(dim, int) else size_at(size_from_text(dim, spans), sizes) for dim in shape
            )
            for blob, shape in self.shapes.items()
        }


MAP = {"H": (2, 5, 9), "W": (1, 6, 8)}
LARGER = {"H": (2, 8, 20), "W": (3, 10, 17)}
FEATURES = {"H": (1, 3, 7), "W": (2, 3, 6)}


def priors(of_place: int, classes: int, locations: int = 1, batch: int | str = 1) -> dict[str, Any]:
    """The bottoms of a detector whose map has priors at each place."""
    return {
        "feat": (batch, 3, "H", "W"),
        "data": (batch, 3, 200, 200),
        "loc": (batch, f"{4 * of_place * locations}*H*W"),
        "conf": (batch, f"{of_place * classes}*H*W"),
    }


OPEN: Mapping[str, Opened] = {
    "priorbox_max_ar_flip": Opened(
        {"feat": (1, 3, "H", "W"), "data": (1, 3, "30*H", "30*W")}, {"H": (1, 3, 9), "W": (2, 3, 6)}
    ),
    "priorbox_min_only": Opened({"feat": (1, 3, "H", 4), "data": (1, 3, "20*H", 80)}, {"H": (1, 3, 9)}),
    "priorbox_several_sizes_clip": Opened(
        {"feat": (1, 3, "H", "W"), "data": (1, 3, "h", "w")},
        {"H": (1, 2, 9), "W": (2, 4, 6), "h": (30, 64, 100), "w": (40, 128, 150)},
    ),
    "priorbox_step_offset": Opened(
        {"feat": (1, 3, "H", 5), "data": (1, 3, 50, "w")}, {"H": (1, 3, 4), "w": (30, 70, 90)}
    ),
    "det_background_2": Opened(priors(6, 4), FEATURES),
    "det_center_size_ssd": Opened(priors(6, 4), {"H": (2, 4, 7), "W": (1, 4, 9)}),
    "det_corner_default": Opened(priors(6, 4), FEATURES),
    "det_eta": Opened(priors(6, 3), {"H": (2, 4, 7), "W": (1, 4, 5)}),
    "det_keep_top_k_1": Opened(priors(6, 4, batch="N"), {"N": (1, 2, 4), **FEATURES}),
    "det_not_shared": Opened(priors(6, 4, locations=4, batch="N"), {"N": (1, 2, 4), **FEATURES}),
    "det_nothing_found": Opened(priors(6, 4, batch="N"), {"N": (1, 2, 3), "H": (1, 2, 4), "W": (1, 2, 3)}),
    "det_one_image_empty": Opened(priors(6, 3, batch="N"), {"N": (1, 3, 5), "H": (1, 2, 4), "W": (1, 2, 3)}),
    "refinedet_cascade": Opened(
        {**priors(6, 4, batch="N"), "arm_conf": ("N", "12*H*W"), "arm_loc": ("N", "24*H*W")},
        {"N": (1, 2, 4), **FEATURES},
    ),
    "det_prior_input": Opened(
        {"prior": (1, 2, "4*P"), "loc": (2, "4*P"), "conf": (2, "4*P")}, {"P": (7, 60, 80)}
    ),
    "proposal_python": Opened(
        {"score": (1, 18, "H", "W"), "delta": (1, 36, "H", "W"), "im_info": (1, 3)}, MAP
    ),
    "proposal_happynear": Opened(
        {"score": ("N", 12, "H", "W"), "delta": ("N", 24, "H", "W"), "im_info": (1, 4)},
        {"N": (1, 1, 3), **MAP},
    ),
    "proposal_frcnn_cpp": Opened(
        {"score": (1, 12, "H", "W"), "delta": (1, 24, "H", "W"), "im_info": (1, 3)},
        {"H": (1, 4, 9), "W": (2, 5, 7)},
    ),
    "roi_pooling": Opened(
        {"data": ("N", 3, "H", "W"), "rois": ("R", 5)},
        {"N": (1, 2, 4), "R": (1, 7, 20), "H": (1, 8, 20), "W": (3, 10, 17)},
    ),
    "roi_align_cascade": Opened({"data": (1, 3, "H", "W"), "rois": ("R", 5)}, {"R": (1, 6, 20), **LARGER}),
    "roi_align_makefile": Opened(
        {"data": ("N", 3, "H", "W"), "rois": ("R", 5)}, {"N": (1, 2, 4), "R": (1, 6, 20), **LARGER}
    ),
    "psroi_pooling": Opened(
        {"data": ("N", 18, "H", "W"), "rois": ("R", 5)}, {"N": (1, 2, 4), "R": (1, 6, 20), **LARGER}
    ),
    "psroi_align": Opened({"data": (1, 18, "H", "W"), "rois": ("R", 5)}, {"R": (1, 6, 20), **LARGER}),
    "net_faster_rcnn": Opened(
        {"data": (1, 3, "H", "W"), "im_info": (1, 3)}, {"H": (80, 96, 120), "W": (80, 112, 130)}
    ),
    "net_rfcn": Opened(
        {"data": (1, 3, "H", "W"), "im_info": (1, 3)}, {"H": (80, 96, 120), "W": (80, 112, 130)}
    ),
    "net_ssd": Opened({"data": ("N", 3, "H", "W")}, {"N": (1, 1, 3), "H": (40, 48, 77), "W": (33, 48, 90)}),
    "net_refinedet": Opened({"data": (1, 3, "16*H", "16*W")}, {"H": (2, 3, 5), "W": (3, 3, 4)}),
    "yolov2_output": Opened({"data": ("N", 24, "S", "S")}, {"N": (1, 1, 3), "S": (1, 5, 9)}, spread=1.5),
    "yolov3_output": Opened(
        {"a": ("N", 14, "H", "W"), "b": ("N", 14, "2*H", "2*W")},
        {"N": (1, 1, 3), "H": (1, 3, 7), "W": (2, 3, 6)},
        spread=1.5,
    ),
    "net_yolov2": Opened({"data": ("N", 3, "16*S", "16*S")}, {"N": (1, 1, 3), "S": (1, 2, 5)}, spread=1.5),
    "net_yolov3": Opened(
        {"data": ("N", 3, "16*H", "16*W")}, {"N": (1, 1, 2), "H": (2, 4, 6), "W": (3, 4, 5)}, spread=1.5
    ),
}


def opened(name: str, **options: Any) -> Graph:
    case, how = case_called(name), OPEN[name]
    outputs = list(case.arrays("outputs")[0])
    given = {"shapes": how.shapes, "sizes": how.sizes, **settings_of(case), **options}
    return prototrt.rewrite(case.load(), outputs=outputs, **given)


@cache
def opened_as_usual(name: str) -> Graph:
    return opened(name)


def settings_of(case: Case) -> dict[str, Any]:
    return {"settings": case.facts.get("settings", {}).get("json", {})}


def _fed(
    blob: str, shapes: Mapping[str, tuple[int, ...]], spread: float, random: np.random.Generator
) -> Array:
    """Numbers around 0.3; the sides of the image for im_info; regions on the map and beyond for rois."""
    shape = shapes[blob]
    if blob == "im_info":
        name, stride = ("data", 1) if "data" in shapes else ("score", 16)
        height, width = shapes[name][2:]
        return np.array([[height * stride, width * stride, 1, 1][: shape[1]]], np.float32)
    if blob == "rois":
        images, _, height, width = shapes["data"]
        places = random.uniform(-20, 20 * max(height, width), (2, shape[0], 2))
        image = random.integers(0, images, (shape[0], 1))
        return np.concatenate([image, places.min(0), places.max(0)], 1).astype(np.float32)
    return random.normal(0.3, spread, shape).astype(np.float32)


@cache
def fixed_runs(name: str) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Inputs of four other sizes, and what nets of these shapes make of them."""
    case, how = case_called(name), OPEN[name]
    outputs = list(case.arrays("outputs")[0])
    runs = []
    for seed, sizes in enumerate(how.places()):
        shapes = how.shapes_at(sizes)
        random = np.random.default_rng(seed)
        feeds = {blob: _fed(blob, shapes, how.spread, random) for blob in shapes}
        graph = prototrt.rewrite(case.load(), outputs=outputs, shapes=shapes, **settings_of(case))
        found = prototrt.Session(graph, cut=True).run(feeds)
        runs.append((feeds, {blob: found[blob] for blob in outputs}))
    return runs


def check(name: str, graph: Graph, on: Way) -> None:
    """The fork's numbers at the golden's size; at four others, those of the net with fixed shapes."""
    case = case_called(name)
    session = prototrt.Session(graph, on=on, cut=True)
    golden = case.arrays("inputs")[0], case.arrays("outputs")[0]
    for feeds, wanted in (golden, *fixed_runs(name)):
        found = session.run(feeds)
        shapes = {blob: array.shape for blob, array in feeds.items()}
        for blob, array in wanted.items():
            assert found[blob].shape == array.shape, (blob, shapes)
            np.testing.assert_allclose(found[blob], array, 1e-5, 1e-5, err_msg=f"{blob} {shapes}")


QUICK = (
    "priorbox_several_sizes_clip",
    "det_prior_input",
    "det_not_shared",
    "proposal_python",
    "roi_pooling",
    "yolov2_output",
    "yolov3_output",
)


SLOW = (
    "net_faster_rcnn",
    "proposal_frcnn_cpp",
    "proposal_happynear",
    "psroi_align",
    "psroi_pooling",
    "refinedet_cascade",
    "roi_align_makefile",
)
"""With the quick ones, one of each family of layers for objects; the others are exhaustive."""


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in QUICK else [pytest.mark.slow if name in SLOW else pytest.mark.exhaustive]


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in OPEN])
def test_five_sizes(name: str, on: Way) -> None:
    check(name, opened_as_usual(name), on)


@pytest.mark.slow
@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize(
    "name",
    [
        "det_eta",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("det_corner_default", "refinedet_cascade", "yolov3_output")
        ),
    ],
)
def test_boxes_in_blocks(name: str, on: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for lists of many boxes."""
    monkeypatch.setattr(suppression, "MOST_IN_GROUPS", 0)
    check(name, opened(name), on)


@pytest.mark.parametrize("name", ["det_center_size_ssd", "det_not_shared"])
def test_native_suppression(name: str) -> None:
    """A layer of the backend takes lists of one number alone: with an open N, primitives decide."""
    graph = opened(name, nms="native")
    is_native = any(isinstance(node.op, NonMaxSuppression) for node in graph.nodes)
    assert is_native == ("N" not in OPEN[name].sizes)
    check(name, graph, "onnx")


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((1, 24, "H", "W"), "(1, 24, H, W)"),
        ((1, 24, 5, "W"), "(1, 24, 5, W)"),
        ((1, 24, "W-1", "W"), "(1, 24, W-1, W)"),
    ],
)
def test_maps_that_may_be_wider_than_high(shape: tuple[int | str, ...], told: str) -> None:
    sizes: dict[str, Span] = {name: (3, 5, 9) for name in ("H", "W") if name in shape}
    with pytest.raises(ShapeError) as caught:
        prototrt.rewrite(case_called("yolov2_output").load(), shapes={"data": shape}, sizes=sizes)
    assert str(caught.value).partition(": ")[2] == (
        f'layer "op" (YoloDetectionOutput), bottom "data": shape is {told}, expected a square map\n'
        "  because the fork takes the width for both sides, and reads past the end of a wider map\n"
        "  fix: name the same size for the image's height and width"
    )


@pytest.mark.trt
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "priorbox_max_ar_flip",
        "det_not_shared",
        "proposal_python",
        "roi_pooling",
        "roi_align_makefile",
        "psroi_pooling",
        "psroi_align",
        "yolov2_output",
        "yolov3_output",
    ],
)
def test_plans_build(name: str) -> None:
    assert has_engine(opened_as_usual(name))
