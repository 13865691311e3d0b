"""What a user's file of rules imports, and all that the rules of single forks are written with: see docs/forks.md."""

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.advice import CUT_BEFORE_LAYER
from prototrt.caffe_proto.common.errors import NetError, ShapeError, UnsupportedLayerError
from prototrt.caffe_proto.common.memory import text_of_bytes
from prototrt.caffe_proto.common.wording import Option, Worded, plural, shortened
from prototrt.caffe_proto.model import one_layer
from prototrt.caffe_proto.weights import Purpose
from prototrt.surgery import ops
from prototrt.surgery.building.bottoms import exact, flattened_size, numbers_of
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Value, as_number, concatenate
from prototrt.surgery.building.layer_builder import (
    GIVE_THEIR_NET,
    LayerBuilder,
    canonical_axis,
    expect_axes,
    field_if_set,
    layer_rule,
    misfit,
    positive_sizes,
)
from prototrt.surgery.building.layer_rules import python_parameters, python_rule
from prototrt.surgery.building.limits import refuse_large, refuse_too_many
from prototrt.surgery.building.plugin_rules import plugin_rule
from prototrt.surgery.detection.anchors import (
    expect_positive,
    numbers_or_usual,
    of_pvanet,
    of_py_faster_rcnn,
    parameters_of_anchors,
    ratios_and_scales,
)
from prototrt.surgery.detection.lists import LOWEST, best_of_rows, lengthened, picked
from prototrt.surgery.detection.overlaps import (
    Boxes,
    Suppression,
    of_centres,
    of_corner_and_sides,
    of_pixel_corners,
    of_pixel_corners_in,
    overlap_threshold,
)
from prototrt.surgery.detection.proposals import Proposals, Proposing, best_boxes, one_image, proposed
from prototrt.surgery.detection.rows import (
    DetectionRows,
    beside,
    chosen_rows,
    counted_tops,
    detections,
    rows_of_images,
)
from prototrt.surgery.detection.suppression import suppressed
from prototrt.surgery.images.kernels import Geometry
from prototrt.surgery.images.resizing import (
    blocks_of_channels,
    fixed_sizes,
    means_of_two,
    meant_size,
    refuse_length,
    repeated,
    resampled,
    size_of_bottom,
    weighted_axis,
)
from prototrt.surgery.images.rois import (
    LEAST_SIDE,
    Rois,
    counted_from,
    edges_of_bins,
    pooled_size,
    read_rois,
    read_sensitive,
    rounded,
    sampled_regions,
    sums_of_bins,
)
from prototrt.surgery.images.sampling import (
    across,
    linear_taps,
    pixel_rows,
    sampled,
    sampled_images,
    taps_inside,
)
from prototrt.surgery.ir import (
    Array,
    DType,
    OpenSize,
    Size,
    computable,
    divide,
    element_count,
    fixed,
    range_of,
)
from prototrt.surgery.ir.made_arrays import unit_matrix
from prototrt.surgery.ir.uniform_constants import is_broadcast, map_elements
from prototrt.surgery.ops.windows import ranges_clause, ranges_text
from prototrt.surgery.recurrent.cells import Step, lstm_unit, scan
from prototrt.surgery.settings import Settings

__all__ = [
    "CUT_BEFORE_LAYER",
    "GIVE_THEIR_NET",
    "LEAST_SIDE",
    "LOWEST",
    "Array",
    "Boxes",
    "Builder",
    "DType",
    "DetectionRows",
    "Expression",
    "Geometry",
    "Layer",
    "LayerBuilder",
    "NetError",
    "OpenSize",
    "Option",
    "Proposals",
    "Proposing",
    "Purpose",
    "Rois",
    "Settings",
    "ShapeError",
    "Size",
    "Step",
    "Suppression",
    "UnsupportedLayerError",
    "Value",
    "Worded",
    "across",
    "as_number",
    "beside",
    "best_boxes",
    "best_of_rows",
    "blocks_of_channels",
    "canonical_axis",
    "chosen_rows",
    "computable",
    "concatenate",
    "counted_from",
    "counted_tops",
    "detections",
    "divide",
    "edges_of_bins",
    "element_count",
    "exact",
    "expect_axes",
    "expect_positive",
    "field_if_set",
    "fixed",
    "fixed_sizes",
    "flattened_size",
    "is_broadcast",
    "layer_rule",
    "lengthened",
    "linear_taps",
    "lstm_unit",
    "map_elements",
    "means_of_two",
    "meant_size",
    "misfit",
    "numbers_of",
    "numbers_or_usual",
    "of_centres",
    "of_corner_and_sides",
    "of_pixel_corners",
    "of_pixel_corners_in",
    "of_pvanet",
    "of_py_faster_rcnn",
    "one_image",
    "one_layer",
    "ops",
    "overlap_threshold",
    "parameters_of_anchors",
    "picked",
    "pixel_rows",
    "plugin_rule",
    "plural",
    "pooled_size",
    "positive_sizes",
    "proposed",
    "python_parameters",
    "python_rule",
    "range_of",
    "ranges_clause",
    "ranges_text",
    "ratios_and_scales",
    "read_rois",
    "read_sensitive",
    "refuse_large",
    "refuse_length",
    "refuse_too_many",
    "repeated",
    "resampled",
    "rounded",
    "rows_of_images",
    "sampled",
    "sampled_images",
    "sampled_regions",
    "scan",
    "shortened",
    "size_of_bottom",
    "sums_of_bins",
    "suppressed",
    "taps_inside",
    "text_of_bytes",
    "unit_matrix",
    "weighted_axis",
]


class _Itself(Value):
    """``Expression(build, x)`` is ``x``, for rules from when values had no operators."""

    def __new__(cls, build: Builder, value: Value) -> Value:  # type: ignore[misc]  # no instance of its own
        return value


Expression = _Itself
