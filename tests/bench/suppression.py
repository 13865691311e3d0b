"""What a detector's suppression launches, and the bytes of its plan, by the plan of TensorRT for RTX."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import prototrt
from prototrt.tests.bench.in_onnxruntime import NETS
from prototrt.tests.bench.kernels import launched
from prototrt.tests.bench.measuring import report

_PROPOSAL = """
layer { name: "in" type: "Input" top: "scores" top: "codes" top: "im_info" input_param {
  shape { dim: 1 dim: 18 dim: 38 dim: 63 } shape { dim: 1 dim: 36 dim: 38 dim: 63 } shape { dim: 1 dim: 3 } } }
layer { name: "rois" type: "Python" bottom: "scores" bottom: "codes" bottom: "im_info" top: "rois"
  python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "'feat_stride': 16" } }
"""


def _proposal(before: int, most: int) -> tuple[str, dict[str, str]]:
    return _PROPOSAL, {"RPN_PRE_NMS_TOP_N": str(before), "RPN_POST_NMS_TOP_N": str(most)}


DETECTORS: dict[str, tuple[str, dict[str, str]]] = {
    "SSD-300 with 81 classes": (NETS["SSD-300 with 81 classes"], {}),
    "Proposal, 6000 to 300": _proposal(6000, 300),
    "Proposal, 12000 to 2000": _proposal(12000, 2000),
}


def main(detector: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.prototxt"
        net, settings = DETECTORS[detector]
        file.write_text(net)
        graph = prototrt.rewrite(prototrt.load(file), settings=settings or None)
        plan = bytes(prototrt.build(graph, "rtx").plan)
    report({"kernels": len(launched(plan)), "bytes": len(plan)})


if __name__ == "__main__":
    main(*sys.argv[2:])
