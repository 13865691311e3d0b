"""docs/recipes: what the pages type converts the nets as they were published, and their programs run these.

The nets are not part of the repository, and their weights are random.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from prototrt.tests.command_line import done
from prototrt.tests.recipe_nets import PROGRAMS, RECIPES, write_photo
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
PROGRAM_CHANGES = {
    "crnn": (
        ('"0123456789', f'"{"".join(map(chr, range(0x4E00, 0x4E25)))}0123456789'),
        ('.convert("RGB")', '.convert("L")'),
        ("[:, :, ::-1]", "[:, :, None]"),
        ("400)", "96)"),
    ),
    "fcn": (('["score"]', '["upscore"]'),),
}
"""The same in the programs."""
READ: dict[str, Callable[[dict[str, Any]], object]] = {
    "crnn": lambda names: names["prob"].shape == (24, 74),
    "lrcn": lambda names: {*names["caption"](names["features"]).split()} <= {*names["words"][1:8801]},
    "ssd": lambda names: all(0 < kind < 21 for kind, *_ in names["found"]) and _size("boxes.png"),
    "openpose": lambda names: _size("pose.png"),
    "fcn": lambda names: len(np.unique(np.asarray(Image.open("mask.png")))) > 1 and _size("mask.png"),
    "faster-rcnn": lambda names: (
        names["regions_of"](names["image"])[2].shape[1:] == (21, 4) and _size("boxes.png")
    ),
}
"""Whether a program has read the outputs: numbers of random weights mean nothing."""


def _size(picture: str) -> bool:
    return Image.open(picture).size == (320, 240)


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


def run_program(page: str) -> dict[str, Any]:
    """The names that the page's program has defined."""
    text = (PROGRAMS / f"{page.replace('-', '_')}.py").read_text()
    for shown, changed in PROGRAM_CHANGES.get(page, ()):
        assert shown in text
        text = text.replace(shown, changed)
    names: dict[str, Any] = {}
    exec(compile(text, page, "exec"), names)
    return names


LARGE = ("faster-rcnn", "fcn")
"""Take longer than all others together."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.exhaustive if page in LARGE else ()) for page in PUBLISHED],
)
def test_a_published_net_converts_and_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    net, outputs = PUBLISHED[page]
    shutil.copy(net, "deploy.prototxt")
    command = first_conversion(page)
    try:
        done(*command)
        manifest = json.loads(Path(f"{command[-1]}.json").read_text())
        shapes = {each["name"]: each["shape"] for each in manifest["outputs"]}
        assert {name: shapes.get(name) for name in outputs} == outputs
        write_photo("photo.png", 320, 240)
        write_photo("line.png", 96, 32)
        np.save("features.npy", np.random.default_rng(0).standard_normal((1, 1000)).astype(np.float32))
        Path("vocabulary.txt").write_text("\n".join(f"word{number}" for number in range(1, 8801)))
        assert READ[page](run_program(page))
    finally:
        for file in tmp_path.glob("*.onnx*"):  # half a gigabyte, of some
            file.unlink()
