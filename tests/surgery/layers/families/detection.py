"""Detectors: corners that no golden reaches, and what is told of bottoms and fields that do not fit."""

from __future__ import annotations

import numpy as np

from prototrt.tests.layer_cases import Case, Message

MAP, IMAGE = np.zeros((1, 2, 1, 2), np.float32), np.zeros((1, 3, 8, 16), np.float32)
PRIORS = np.array([[[0, 0, 0.5, 1, 0.5, 0, 1, 1], [0.1] * 8]], np.float32)


def boxes(*corners: float) -> np.ndarray:
    return np.array([[corners, [0.1] * len(corners)]], np.float32)


CASES = [
    Case(
        "an image of a stated size",
        "PriorBox",
        "prior_box_param { min_size: 4 img_size: 20 }",
        [MAP, IMAGE],
        boxes(0.15, 0.4, 0.35, 0.6, 0.65, 0.4, 0.85, 0.6),
    ),
    Case(
        "one variance for all",
        "PriorBox",
        "prior_box_param { min_size: 4 variance: 0.5 }",
        [MAP, IMAGE],
        np.array([[[0.125, 0.25, 0.375, 0.75, 0.625, 0.25, 0.875, 0.75], [0.5] * 8]], np.float32),
    ),
]

VARYING: list[Case] = []


def message(kind: str, fields: str, shapes: list[tuple[int, ...]], text: str) -> Message:
    line = len(shapes) + 1
    return Message(kind, fields, shapes, f'net.prototxt:{line}: layer "op" ({kind}){text}')


def prior_box(fields: str, text: str) -> Message:
    return message("PriorBox", f"prior_box_param {{ {fields} }}", [MAP.shape, IMAGE.shape], text)


def detection(fields: str, text: str, *shapes: tuple[int, ...]) -> Message:
    """Of three priors and four classes, unless the shapes say otherwise."""
    usual = [(1, 12), (1, 12), (1, 2, 12)]
    return message(
        "DetectionOutput",
        f"detection_output_param {{ num_classes: 4 {fields} }}",
        [*shapes, *usual[len(shapes) :]],
        text,
    )


def yolo(kind: str, fields: str, text: str, *shapes: tuple[int, ...]) -> Message:
    name = "yolo_detection_output_param" if kind == "YoloDetectionOutput" else "yolov3_detection_output_param"
    return message(kind, f"{name} {{ {fields} }}", list(shapes), text)


def proposal(fields: str, text: str, *shapes: tuple[int, ...]) -> Message:
    """Of two anchors on a map of 3 x 4, unless the shapes say otherwise."""
    usual = [(1, 4, 3, 4), (1, 8, 3, 4), (1, 4)]
    return message(
        "Proposal",
        f"proposal_param {{ {fields} }}",
        [*shapes, *usual[len(shapes) :]],
        text,
    )


TRAINED = (
    "  fix: use the PriorBox layers and the num_classes that the net was trained with; for a net of TextBoxes or"
    ' FaceBoxes, name the fork, whose PriorBox makes more boxes: fork="textboxes" or fork="faceboxes"'
)
ANCHORS = "ratio: 1 scale: 2 scale: 4"
CLUSTER_FIX = (
    "\n  fix: write it as '1248, 352, 16, 0.6, 3, 0.02, 22, 1': width, height, stride, three thresholds, height,"
    " classes"
)


def clusters(param_str: str, shapes: list[tuple[int, ...]], message: str) -> Message:
    """DetectNet's clusters."""
    module = 'module: "caffe.layers.detectnet.clustering" layer: "ClusterDetections"'
    fields = f'python_param {{ {module} param_str: "{param_str}" }}'
    return Message("Python", fields, shapes, f'net.prototxt:3: layer "op" (Python){message}')


GRIDS: list[tuple[int, ...]] = [(1, 1, 2, 4), (1, 4, 2, 4)]
REFUSALS = [
    message(
        "PriorBoxClustered",
        "prior_box_param { width: 4 }",
        [MAP.shape, IMAGE.shape],
        ": width is 4 and height not stated, expected as many\n  fix: give each box both sides",
    ),
    prior_box(
        "min_size: 4 offset_w: 0.5 aspect_ratio: 2",
        ": offset_w is 0.5 and offset_h is not stated, expected numbers from 0 to 1\n"
        "  fix: state both: where the places are in their cell",
    ),
    prior_box(
        "min_size: 4 offset_w: 0.5 offset_h: 0.5 aspect_ratio: 1",
        ": aspect_ratio is 1, expected ratios other than 1 beside offset_w\n"
        "  because the fork makes no box of ratio 1, but counts it\n"
        "  fix: remove the ratio 1, and state the others",
    ),
    clusters(
        "64, 32, 16, 0.6, 3, 0.02",
        GRIDS,
        f": param_str is '64, 32, 16, 0.6, 3, 0.02', expected 7 to 9 numbers with commas{CLUSTER_FIX}",
    ),
    clusters(
        "64, 32, 48, 0.6, 3, 0.02, 22",
        GRIDS,
        ": param_str is '64, 32, 48, 0.6, 3, 0.02, 22', expected positive sizes, a stride that fits into them,"
        f" and at least one class and box{CLUSTER_FIX}",
    ),
    clusters(
        "64, 32, 16, nan, 3, 0.02, 22",
        GRIDS,
        ": param_str is '64, 32, 16, nan, 3, 0.02, 22', expected thresholds that are finite, and an eps of 0 or"
        f" more{CLUSTER_FIX}",
    ),
    clusters(
        "20000, 32, 16, 0.6, 3, 0.02, 22",
        GRIDS,
        ": the image has 20000 x 32 pixels, expected at most 16384 along an axis\n"
        "  fix: state the size of the images that the net takes",
    ),
    clusters(
        "64, 32, 16, 0.6, 3, 0.02, 22, 2",
        GRIDS,
        ', bottom "b0": shape is (1, 1, 2, 4), expected 2 channels\n'
        f"  because param_str states this number of classes{CLUSTER_FIX}",
    ),
    clusters(
        "64, 32, 16, 0.6, 3, 0.02, 22, 2",
        [(1, 2, 2, 4), (1, 4, 2, 4)],
        ": has 1 tops, expected 2, one for each class\n  fix: name a top for each class",
    ),
    clusters(
        "64, 32, 16, 0.6, 3, 0.02, 22",
        [(1, 1, 2, 4), (1, 4, 4, 2)],
        ', bottom "b1": shape is (1, 4, 4, 2), expected (1, 4, 2, 4)\n'
        "  because each place has a box\n"
        "  fix: give it the corners of the same grid",
    ),
    Message(
        "Python",
        'python_param { module: "SSH.layers.proposal_layer" layer: "ProposalLayer"'
        " param_str: \"{'feat_stride': 8, 'base_size': 8}\" }",
        [(1, 18, 2, 2), (1, 36, 2, 2), (1, 3)],
        'net.prototxt:4: layer "op" (Python): ANCHOR_MIN_SIZE and base_size are supported only as 0 and 16\n'
        "  because SSH's configuration for tests has these numbers\n"
        "  fix: leave them out, if the net was tested with that configuration",
    ),
    prior_box(
        "",
        ": min_size must be stated, and be positive\n"
        "  fix: state a positive min_size, in pixels of the image",
    ),
    prior_box(
        "min_size: 4 max_size: 3",
        ": max_size is 3, expected one for each min_size (4), and larger\n"
        "  fix: state one max_size for each min_size, or none",
    ),
    prior_box(
        "min_size: 4 aspect_ratio: 0",
        ": aspect_ratio is 0, expected a positive number\n  fix: state width divided by height",
    ),
    prior_box(
        "min_size: 4 variance: 0.1 variance: 0.2",
        ": variance is 0.1, 0.2, expected 1 or 4 positive numbers\n"
        "  fix: state one for all coordinates, or one for each",
    ),
    prior_box(
        "min_size: 4 img_size: 8 img_h: 8 img_w: 8",
        ": img_size is stated beside img_h and img_w\n  fix: remove img_size, or the other two",
    ),
    prior_box(
        "min_size: 4 step_h: 8",
        ": step_w is 0, expected a positive number\n  fix: state step_w in pixels",
    ),
    message(
        "PriorBox",
        "prior_box_param { min_size: 4 }",
        [(1, 2), IMAGE.shape],
        ', bottom "b0": shape is (1, 2), expected (N, C, H, W)\n  fix: give it four axes',
    ),
    message(
        "DetectionOutput",
        "detection_output_param { keep_top_k: 3 }",
        [(1, 12), (1, 12), (1, 2, 12)],
        ": num_classes is missing\n  fix: state num_classes, counting the background",
    ),
    detection(
        "use_polygon: true",
        ": use_polygon is true, but code_type is not CENTER_SIZE, or variance_encoded_in_target is true\n"
        "  because the fork does not decode corners then\n"
        "  fix: state CENTER_SIZE, if the net was trained with it",
    ),
    detection(
        "use_polygon: true code_type: CENTER_SIZE",
        ', bottom "b0": shape is (1, 12), expected (1, 36)\n'
        f"  because there are 3 priors, and 12 numbers for each\n{TRAINED}",
    ),
    detection(
        "",
        ', bottom "b0": shape is (1, 16), expected (1, 12)\n'
        f"  because there are 3 priors, and 4 numbers for each\n{TRAINED}",
        (1, 16),
    ),
    detection(
        "share_location: false",
        ', bottom "b0": shape is (1, 12), expected (1, 48)\n'
        "  because there are 3 priors, and 4 numbers for each and each of 4 classes, as share_location is false\n"
        f"{TRAINED}",
    ),
    detection(
        "",
        ', bottom "b1": shape is (1, 14), expected (1, 12)\n'
        f"  because there are 3 priors, and num_classes is 4\n{TRAINED}",
        (1, 12),
        (1, 14),
    ),
    detection(
        "",
        ', bottom "b1": shape is (1, 15), expected (1, 12)\n'
        "  because there are 3 priors, and num_classes is 4\n  fix: state the number that the net was trained with:"
        ' overrides={"op.detection_output_param.num_classes": "5"}',
        (1, 12),
        (1, 15),
    ),
    detection(
        "",
        ', bottom "b2": shape is (1, 2, 10), expected (1, 2, 4 P)\n'
        "  because it holds the corners and the variances of P priors\n"
        "  fix: give it the priors, from a PriorBox or several PriorBoxes and a Concat of axis 2",
        (1, 12),
        (1, 12),
        (1, 2, 10),
    ),
    detection(
        "nms_param { nms_threshold: 1.5 }",
        ": nms_threshold is 1.5, expected 0 to 1\n"
        "  because it is a ratio: intersection over union\n"
        "  fix: set nms_threshold to 1 to keep boxes that overlap",
    ),
    detection(
        "nms_param { nms_threshold: -1 }",
        ": nms_threshold is -1, expected 0 to 1\n"
        "  because it is a ratio: intersection over union\n"
        "  fix: set nms_threshold to 0 or more",
    ),
    detection(
        "nms_param { soft_nms: true theta: 0.5 }",
        ": soft_nms lowers the scores of boxes that overlap\n"
        "  because only the suppression that drops them is supported\n"
        '  fix: cut the net before this layer with outputs=["BLOB"]',
    ),
    detection(
        "nms_param { eta: 0 }",
        ": eta is 0, expected a number above 0, and at most 1\n"
        "  because the threshold is multiplied by it\n"
        "  fix: set eta to 1 to leave the threshold as it is",
    ),
    detection(
        "",
        ', bottom "b3": shape is (1, 3), expected (1, 6)\n'
        f"  because there are 3 priors, and 2 numbers of the first stage for each\n{TRAINED}",
        (1, 12),
        (1, 12),
        (1, 2, 12),
        (1, 3),
    ),
    detection(
        "share_location: false",
        ": share_location is false, but the first stage moves the priors of all classes alike\n"
        '  fix: remove bottom "b4", or set share_location to true',
        (1, 48),
        (1, 12),
        (1, 2, 12),
        (1, 6),
        (1, 12),
    ),
    message(
        "DetectionOutput",
        "detection_output_param { num_classes: 1 }",
        [(1, 12), (1, 3), (1, 2, 12)],
        ": num_classes is 1, but class 0 is the background: no class is left to detect\n"
        "  fix: set num_classes to the number of classes, counting the background",
    ),
    yolo(
        "YoloDetectionOutput",
        "num_box: 1 biases: 1 biases: 1 num_classes: 0",
        ": num_classes is missing\n  fix: state num_classes, not counting the background",
        (1, 7, 3, 3),
    ),
    yolo(
        "YoloDetectionOutput",
        "num_classes: 2 num_box: 2 biases: 1 biases: 1",
        ": biases is stated 2 times, expected at least 4\n"
        "  because there must be two for each box of a place\n"
        "  fix: state biases as in the training net",
        (1, 14, 3, 3),
    ),
    yolo(
        "YoloDetectionOutput",
        "num_classes: 2 num_box: 1 biases: 1 biases: 1",
        ', bottom "b0": shape is (1, 8, 3, 3), expected (N, 7, H, W)\n'
        "  because num_box is 1, and a box has 5 numbers and 2 classes\n"
        "  fix: state the num_box and the num_classes that the net was trained with",
        (1, 8, 3, 3),
    ),
    yolo(
        "YoloDetectionOutput",
        "num_classes: 2 num_box: 1 biases: 1 biases: 1",
        ', bottom "b0": shape is (1, 7, 3, 4), expected a square map\n'
        "  because the fork takes the width for both sides, and reads past the end of a wider map\n"
        "  fix: use a square image",
        (1, 7, 3, 4),
    ),
    yolo(
        "YoloDetectionOutput",
        "num_classes: 2 num_box: 1 biases: 1 biases: 1 nms_threshold: 2",
        ": nms_threshold is 2, expected 0 to 1\n"
        "  because it is a ratio: intersection over union\n"
        "  fix: set nms_threshold to 1 to keep boxes that overlap",
        (1, 7, 3, 3),
    ),
    yolo(
        "Yolov3DetectionOutput",
        "num_classes: 2 num_box: 1",
        ": has 1 bottom, but mask_group_num is 2\n  fix: set mask_group_num to the number of bottoms",
        (1, 7, 3, 3),
    ),
    yolo(
        "Yolov3DetectionOutput",
        "num_classes: 2 num_box: 1 mask_group_num: 1 anchors_scale: 32 mask: 1 biases: 1 biases: 1",
        ": biases is stated 2 times, expected at least 4\n"
        "  because there must be two for each number of mask\n"
        "  fix: state biases as in the training net",
        (1, 7, 3, 3),
    ),
    yolo(
        "Yolov3DetectionOutput",
        "num_classes: 2 mask_group_num: 1 gaussian_box: true",
        ": gaussian_box is true\n"
        "  because the fork reads memory that it never fills, so its results are undefined\n"
        '  fix: cut the net before this layer with outputs=["BLOB"]',
        (1, 7, 3, 3),
    ),
    proposal(
        "ratio: 1",
        ": ratio and scale must be stated, and be positive\n"
        "  because anchors are made of them\n"
        "  fix: state the ratios and scales that the net was trained with",
    ),
    proposal(
        ANCHORS,
        ', bottom "b0": shape is (1, 6, 3, 4), expected (N, 4, H, W)\n'
        "  because there are 2 anchors at each place, with a score for background and one for object\n"
        "  fix: state the ratios and scales that the net was trained with",
        (1, 6, 3, 4),
    ),
    proposal(
        ANCHORS,
        ', bottom "b1": shape is (1, 8, 4, 3), expected (1, 8, 3, 4)\n'
        "  because there are 2 anchors at each place, each with four numbers\n"
        "  fix: state the ratios and scales that the net was trained with",
        (1, 4, 3, 4),
        (1, 8, 4, 3),
    ),
    proposal(
        ANCHORS,
        ', bottom "b2": shape is (1, 2), expected at least 3 numbers\n'
        "  because it holds height, width and scale of the image\n"
        "  fix: feed 3 numbers",
        (1, 4, 3, 4),
        (1, 8, 3, 4),
        (1, 2),
    ),
    proposal(
        ANCHORS,
        ', bottom "b0": shape is (2, 4, 3, 4), expected a batch of 1\n'
        "  because the fork takes a single image\n"
        "  fix: give the net one image per call",
        (2, 4, 3, 4),
        (2, 8, 3, 4),
    ),
    proposal(
        f"{ANCHORS} nms_thresh: 1.2",
        ": nms_thresh is 1.2, expected 0 to 1\n"
        "  because it is a ratio: intersection over union\n"
        "  fix: set nms_thresh to 1 to keep boxes that overlap",
    ),
    proposal(
        f"{ANCHORS} post_nms_topn: 0",
        ": post_nms_topn is 0, expected 1 or more\n  fix: state post_nms_topn as in the training net",
    ),
    message(
        "RPN",
        f"rpn_param {{ {ANCHORS} feat_stride: 16 nms_thresh: 0.7 }}",
        [(1, 4, 3, 4), (1, 8, 3, 4), (1, 3)],
        ": basesize is 0, expected 1 or more\n  fix: state basesize as in the training net",
    ),
    message(
        "FrcnnProposal",
        "",
        [(1, 4, 3, 4), (1, 8, 3, 4), (1, 3)],
        ": needs settings that the model does not contain: anchors, feat_stride, test_rpn_nms_thresh,"
        " test_rpn_min_size, test_rpn_pre_nms_top_n, test_rpn_post_nms_top_n\n"
        "  because the program reads them from a JSON file\n"
        '  fix: give that file with settings="config.json"',
    ),
    message(
        "BoxOutput",
        "box_output_param { field_w: 8 field_h: 8 }",
        [(1, 6, 3, 4)],
        ": downsample_rate is stated 0 times, expected once for each of 1 bottom\n"
        "  fix: state downsample_rate for each map that the net was trained with",
    ),
    message(
        "BoxOutput",
        "box_output_param { field_w: 8 field_h: 8 downsample_rate: 8 }",
        [(1, 5, 3, 4)],
        ', bottom "b0": shape is (1, 5, 3, 4), expected (N, C + 4, H, W), with C at least 2\n'
        "  because a place has scores, the background's first, and four coordinates\n"
        "  fix: give it the maps that the net was trained with",
    ),
    message(
        "BoxOutput",
        "box_output_param { field_w: 8 field_h: 8 downsample_rate: 8 iou_thr: 3 }",
        [(1, 6, 3, 4)],
        ": iou_thr is 3, expected 0 to 1\n"
        "  because it is a ratio: intersection over union\n"
        "  fix: set iou_thr to 1 to keep boxes that overlap",
    ),
    message(
        "DecodeBBox",
        "",
        [(3, 4), (3, 5)],
        ', bottom "b0": shape is (3, 4), expected (R, 8)\n'
        "  because a region has 8 numbers: four codes of the background and of the object\n"
        "  fix: give it the blob that the net was trained with",
    ),
    message(
        "DecodeBBox",
        "",
        [(3, 8), (2, 5)],
        ', bottom "b0": shape is (3, 8), expected (2, 8)\n'
        '  because bottom "b1" has 2 regions\n'
        "  fix: give it the codes of these regions",
    ),
    message(
        "DecodeBBox",
        "bbox_reg_param { bbox_mean: 0 bbox_std: 1 }",
        [(3, 8), (3, 5)],
        ": bbox_reg_param states 1 means and 1 standard deviations, expected 4 of each\n"
        "  fix: state bbox_mean and bbox_std for x, y, w and h",
    ),
    message(
        "BoxGroupOutput",
        "box_group_output_param { }",
        [(2, 2, 3, 4), (2, 4, 3, 4)],
        ": has 2 bottoms, but states box_group_param 0 times\n"
        "  fix: state box_group_param for each pair of scores and codes",
    ),
    message(
        "BoxGroupOutput",
        "box_group_output_param { box_group_param { field_w: 8 field_w: 9 field_h: 8 } }",
        [(2, 2, 3, 4), (2, 4, 3, 4)],
        ": box_group_param states 2 widths and 1 heights of anchors\n"
        "  fix: state field_w and field_h for each anchor",
    ),
    message(
        "BoxGroupOutput",
        "box_group_output_param { box_group_param { field_w: 8 field_w: 9 field_h: 8 field_h: 9 stride: 8 } }",
        [(3, 2, 3, 4), (3, 4, 3, 4)],
        ', bottom "b0": shape is (3, 2, 3, 4), expected (2 N, C, H, W)\n'
        "  because there are 2 anchors at each place\n"
        "  fix: put a Reshape in front of it",
    ),
    message(
        "BoxGroupOutput",
        "box_group_output_param { box_group_param { field_w: 8 field_h: 8 stride: 8 } }",
        [(2, 2, 3, 4), (2, 4, 4, 4)],
        ', bottom "b1": shape is (2, 4, 4, 4), expected (2, 4, 3, 4)\n'
        '  because bottom "b0" has the shape (2, 2, 3, 4)\n'
        "  fix: give it the codes of these scores",
    ),
]
