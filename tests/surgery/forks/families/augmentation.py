"""Corners of DataAugmentation, against numbers worked by hand."""

from __future__ import annotations

import numpy as np

from prototrt.tests.layer_cases import Case, Message

X = np.arange(8.0).reshape(1, 1, 2, 4)
CALLS, MEANS = np.full((1, 1, 1, 1), 3), [np.full((1, 1, 2, 4), 2), np.full((1, 1, 1, 1), 5)]
CROP = "crop_width: 2 crop_height: 1"
OP = 'net.prototxt:2: layer "op" (DataAugmentation): '


def param(fields: str) -> str:
    return f"augmentation_param {{ {fields} }}"


CASES = [
    Case("as it is", "DataAugmentation", param("crop_width: 2"), [X], X, [CALLS]),
    Case("between two rows", "DataAugmentation", param(CROP), [X], [[[[3, 4]]]], [CALLS]),
    Case("nothing cut off", "DataAugmentation", param("crop_width: 4 crop_height: 2"), [X],
         [[[[0, 1, 2, 2.95], [3.8, 4.8, 5.8, 6.75]]]], [CALLS]),
    Case("means of pixels", "DataAugmentation", param("recompute_mean: 3"), [X], X - 2, [CALLS, *MEANS]),
    Case("means of channels", "DataAugmentation", param("recompute_mean: 3 mean_per_pixel: false"), [X], X - 5,
         [CALLS, *MEANS]),
]  # fmt: skip
VARYING = [CASES[0]]
REFUSALS = [
    Message("DataAugmentation", param(f"{CROP} augment_during_test: true rotate {{ spread: 0.4 }}"), [X.shape],
            f"{OP}augment_during_test is true: rotate is drawn at random\n"
            "  fix: leave images as they are: "
            'overrides={"op.augmentation_param.augment_during_test": "false"}'),
    Message("DataAugmentation", param("recompute_mean: 9"), [X.shape],
            f"{OP}the mean is of 3 calls, but recompute_mean is 9\n"
            "  because FlowNet changes the mean with each call before\n"
            '  fix: keep the mean: overrides={"op.augmentation_param.recompute_mean": "3"}', [CALLS, *MEANS]),
    Message("DataAugmentation", param("crop_width: 5 crop_height: 2"), [X.shape],
            f"{OP}crop_width is 5, expected 1 to 4\n"
            "  fix: set crop_width to at most the size of the image, or feed a larger image"),
    Message("DataAugmentation", param("mean: 1 mean_per_pixel: false"), [X.shape],
            f"{OP}mean has 1 number, and axis 1 a size of 1, expected 3 and 3\n"
            "  fix: state a number for each of three channels"),
]  # fmt: skip
WARNINGS = [
    Message("DataAugmentation", param("mean: 1"), [X.shape],
            f"{OP}mean is ignored, as in FlowNet: mean_per_pixel is true", [CALLS]),
]  # fmt: skip
