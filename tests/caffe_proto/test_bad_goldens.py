"""Broken models that Caffe also refuses: the messages for those whose mistakes are found when they are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prototrt.caffe_proto import ConversionError, load

BAD = Path(__file__).parents[1] / "goldens" / "bad"
CASES = [case["case"] for case in json.loads((BAD / "index.json").read_text())]

MESSAGES = {
    "syntax_missing_brace": (
        'model.prototxt:38: layer "fc" (InnerProduct): the file ends here, expected }\n'
        "  because layer was opened at line 31\n"
        "  fix: add the missing }, or get the file again if it was cut short"
    ),
    "weights_not_protobuf": (
        "model.caffemodel: this is a Git LFS pointer, expected a caffemodel\n"
        "  because the repository it comes from was cloned without Git LFS\n"
        '  fix: run "git lfs pull" in that repository'
    ),
    "weights_truncated": (
        "model.caffemodel: the file is cut short: the field at byte 594 needs 1186 bytes more\n"
        "  because the file has 2370 bytes\n"
        "  fix: get the file again"
    ),
}
# These can be read: a mistake in one layer is reported only if the layer is needed.
READABLE = {
    "bottom_count",
    "cycle",
    "duplicate_top",
    "eltwise_shape_mismatch",
    "lstm_without_cont",
    "missing_bottom",
    "negative_pad",
    "unknown_field",
    "unknown_layer_type",
    "weights_shape_mismatch",
    "zero_stride",
}


@pytest.mark.parametrize("case", CASES)
def test_bad(case: str, in_golden: Callable[[str], None]) -> None:
    in_golden(f"bad/{case}")
    if case in READABLE:
        assert load("model.prototxt", "model.caffemodel").layers
        return
    with pytest.raises(ConversionError) as caught:
        load("model.prototxt", "model.caffemodel")
    assert str(caught.value) == MESSAGES[case]
