"""Random weights suit the purpose of each array: statistics, slopes and scales are never negative."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.weights import Purpose, RandomWeights

INPUT = 'layer { name: "data" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 } } }'
NORMS = {
    "Caffe": 'type: "BatchNorm"',
    "NVIDIA": 'type: "BatchNorm" batch_norm_param { scale_bias: true }',
    "PSPNet": 'type: "BN" bn_param { slope_filler { value: 1 } }',
    "SegNet": 'type: "BN" bn_param { bn_mode: INFERENCE }',
}


@pytest.mark.parametrize("norm", NORMS)
def test_norms_of_many_seeds_are_finite(norm: str, tmp_path: Path) -> None:
    file = tmp_path / "net.prototxt"
    file.write_text(f'{INPUT} layer {{ name: "norm" bottom: "x" top: "y" {NORMS[norm]} }}')
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5), np.float32)
    for seed in range(50):
        (y,) = (
            prototrt.Session(prototrt.rewrite(prototrt.load(file, random_weights=seed)))
            .run({"x": x})
            .values()
        )
        assert np.isfinite(y).all()
        assert np.ptp(y) > 0.5


@pytest.mark.parametrize("purpose", get_args(Purpose))
def test_purposes(purpose: Purpose) -> None:
    numbers = RandomWeights(seed=1).draw("layer", 0, (64, 64), purpose)
    is_positive = purpose in ("variance", "scale", "slope")
    assert (numbers.min() >= 0) == is_positive
    assert np.abs(numbers).max() < 2
