"""Which detectors leave suppression to a layer of the backend, and who has none."""

from __future__ import annotations

import pytest

import prototrt
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.surgery.ir import Graph
from prototrt.surgery.ops import NonMaxSuppression, While
from prototrt.tests.small_nets import failure, op, rewritten

SHAPES = {"location": (1, 12), "confidence": (1, 12), "prior": (1, 2, 12)}


def detector(fields: str) -> Graph:
    layer = op("DetectionOutput", f"detection_output_param {{ num_classes: 4 {fields} }}", SHAPES)
    return rewritten(layer, SHAPES, nms="native")


@pytest.mark.parametrize(
    ("fields", "is_native"),
    [
        ("code_type: CENTER_SIZE", True),
        ("code_type: CORNER", False),
        ("code_type: CENTER_SIZE nms_param { eta: 0.9 }", False),
    ],
)
def test_only_where_it_decides_alike(fields: str, is_native: bool) -> None:
    """A corner code may turn a box inside out, and no backend shrinks its threshold."""
    kinds = {type(node.op) for node in detector(fields).nodes}
    assert (NonMaxSuppression in kinds, While in kinds) == (is_native, not is_native)


@pytest.mark.trt
def test_rtx_has_none() -> None:
    graph = detector("code_type: CENTER_SIZE")
    assert failure(lambda: prototrt.build(graph, backend="rtx"), BuildError) == (
        'net.prototxt:4: layer "op" (DetectionOutput): TensorRT for RTX cannot run NMS layers\n'
        '  fix: compute it with other layers: nms="primitives"'
    )
