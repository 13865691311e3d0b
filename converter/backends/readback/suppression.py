"""What drops boxes that overlap better ones: NMS."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto.common.errors import UnsupportedLayerError
from prototrt.converter.backends.readback.registry import Array, Evaluate, Layer, evaluates


@evaluates("NMS")
def nms(layer: Layer) -> Evaluate:
    """Rows of batch, class and box, in each class by falling score; and the number of rows.

    Corners come in pairs, in any order. A box is dropped if its overlap with a better one of its class is
    above the threshold, or if its score is not above the score threshold.
    """
    if layer.bounding_box_format.name != "CORNER_PAIRS":
        raise UnsupportedLayerError(
            f"boxes of the format {layer.bounding_box_format.name} have no rule here",
            fix="give the layer pairs of corners",
        )
    limit = int(layer.topk_box_limit)

    def evaluate(
        boxes: Array, scores: Array, most: Array, overlap: Array | None = None, score: Array | None = None
    ) -> tuple[Array, Array]:
        least_overlap = 0.0 if overlap is None else float(overlap)
        least_score = 0.0 if score is None else float(score)
        rows = []
        for batch, corners in enumerate(boxes):
            for label in range(scores.shape[2]):
                own = corners if corners.ndim == 2 else corners[:, label]
                order = np.argsort(-scores[batch, :, label], kind="stable")[:limit]
                order = order[scores[batch, order, label] > least_score]
                rows += [[batch, label, box] for box in _suppress(own, order, least_overlap)[: int(most)]]
        triples = np.array(rows, np.int32).reshape(-1, 3)
        return triples, np.array(len(triples), np.int32)

    return evaluate


def _suppress(corners: Array, order: Array, threshold: float) -> list[int]:
    low = np.minimum(corners[:, :2], corners[:, 2:])
    high = np.maximum(corners[:, :2], corners[:, 2:])
    areas = (high - low).prod(1)
    kept: list[int] = []
    for box in order:
        sides = np.minimum(high[box], high[kept]) - np.maximum(low[box], low[kept])
        common = sides.clip(0).prod(1)
        whole = areas[box] + areas[kept] - common
        overlaps = np.divide(common, whole, out=np.zeros_like(common), where=common > 0)
        if not (overlaps > threshold).any():
            kept.append(int(box))
    return kept
