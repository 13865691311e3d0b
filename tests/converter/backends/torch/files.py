"""The files of the documentation, written from nets that Caffe or a fork computed."""

from __future__ import annotations

from pathlib import Path

import prototrt
from prototrt.tests.golden_cases import GOLDENS, case_called

FOLDER = GOLDENS / "torch"
OUTPUTS = {
    "net_lenet": None,
    "net_lrcn": None,
    "net_crnn": ["prob"],
    "net_ssd": ["mbox_loc", "mbox_conf_flatten", "mbox_priorbox"],
    "net_resnet_block": None,
}
"""By case: the outputs, where they are not those of the net."""


def written(name: str, folder: Path) -> Path:
    """The file for a case."""
    graph = prototrt.rewrite(case_called(name).load(), outputs=OUTPUTS[name])
    prototrt.export_torch(graph, folder / f"{name}.py")
    return folder / f"{name}.py"
