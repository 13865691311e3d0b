"""docs/recipes: what the pages type converts the nets as they were published. They are not part of the repository."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from prototrt.tests.command_line import done
from prototrt.tests.recipe_nets import RECIPES
from prototrt.tests.test_wild import INDEX, WILD

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INDEX.exists(), reason="published nets are not part of the repository"),
]
NETS = WILD / "nets"
CRNN = NETS / "rodney-wang+crnn.caffe" / "examples__crnn__deploy.prototxt"
PUBLISHED: dict[str, tuple[Path, dict[str, list[int | str]]]] = {
    "crnn": (CRNN, {"probs": ["2*((W+7)//8)", 1, 74]}),
    "lrcn": (
        NETS / "Evolving-AI-Lab+ppgn" / "nets__lrcn__lrcn_word_to_preds.deploy.prototxt",
        {"probs": [1, 1, 8801]},
    ),
    "ssd": (
        NETS / "chuanqi305+MobileNet-SSD" / "voc__MobileNetSSD_deploy.prototxt",
        {"detection_out": [1, 1, 100, 7]},
    ),
    "openpose": (
        NETS / "CMU-Perceptual-Computing-Lab+openpose" / "models__pose__body_25__pose_deploy.prototxt",
        {"net_output": [1, 78, "2*H", "2*W"]},
    ),
    "fcn": (
        NETS / "HyeonwooNoh+DeconvNet" / "model__FCN__fcn-8s-pascal-deploy.prototxt",
        {"upscore": [1, 21, "H", "W"]},
    ),
    "faster-rcnn": (
        NETS / "daijifeng001+MNC" / "models__VGG16__faster_rcnn_end2end__test.prototxt",
        {"rois": [300, 5], "cls_prob": [300, 21], "bbox_pred": [300, 84]},
    ),
}
"""By page: the net that people have, and its outputs, by the names and sizes that the page's program reads."""


CHANGES = {
    "crnn": (("1x3x32", "1x1x32"), ("W=32..128", "W=32..96")),
    "fcn": (("--output score", "--output upscore"),),
    "lrcn": (("-o caption.onnx", "--output probs -o caption.onnx"),),
}
"""What the pages say of these nets: grey lines of 96 pixels, other names, a layer behind the probabilities."""


def first_conversion(page: str) -> list[str]:
    """The page's first conversion, with random weights instead of trained ones."""
    line = re.search(r"^\$ prototrt -q (convert .*)$", (RECIPES / f"{page}.md").read_text(), re.MULTILINE)
    assert line is not None
    command = line[1]
    for shown, changed in CHANGES.get(page, ()):
        assert shown in command
        command = command.replace(shown, changed)
    words = shlex.split(command)
    assert words[1:3] == ["deploy.prototxt", "net.caffemodel"]
    return [*words[:2], "--random-weights", "1", *words[3:]]


@pytest.mark.parametrize("page", PUBLISHED)
def test_a_published_net_converts(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net, outputs = PUBLISHED[page]
    shutil.copy(net, "deploy.prototxt")
    command = first_conversion(page)
    try:
        done(*command)
        manifest = json.loads(Path(f"{command[-1]}.json").read_text())
        shapes = {each["name"]: each["shape"] for each in manifest["outputs"]}
        assert {name: shapes.get(name) for name in outputs} == outputs
    finally:
        for file in tmp_path.glob("*.onnx*"):  # half a gigabyte, of some
            file.unlink()
