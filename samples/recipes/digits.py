"""Writes the nets of DIGITS's archives for jetson-inference: see docs/recipes/digits.md."""

import shutil
from pathlib import Path

ARCHIVES = {
    "imagenet": "20170406-161015-35c6_epoch_30.0.tar.gz",
    "segnet": "20170421-122956-f7c0_epoch_5.0.tar.gz",
    "detectnet": "20170504-190602-879f_epoch_100.0.tar.gz",
}
for program, file in ARCHIVES.items():
    shutil.unpack_archive(file, program)


def pixels(fields):
    return f'layer {{ name: "pixels" type: "JetsonPixels" bottom: "data" top: "data" jetson_param {{ {fields} }} }}\n'


ENDS = {
    "imagenet": "",
    "segnet": "",
    "detectnet": """
layer {
  name: "grid" type: "JetsonGrid"
  bottom: "coverage" bottom: "bboxes" bottom: "data" top: "scores" top: "corners"
}
layer {
  name: "clusters" type: "JetsonClusters"
  bottom: "data" bottom: "bbox-list" top: "cluster_scores" top: "cluster_corners"
}
""",
}
FIELDS = {
    "imagenet": 'program: "imagenet" mean_file: "imagenet/mean.binaryproto" mean: "image"',
    "segnet": 'program: "segnet" mean_file: "segnet/mean.binaryproto" mean: "pixel"',
    "detectnet": 'program: "detectnet"',
}
for program in ARCHIVES:
    deploy = Path(program, "deploy.prototxt").read_text()
    Path(f"{program}.prototxt").write_text(pixels(FIELDS[program]) + deploy + ENDS[program])
