#!/usr/bin/env python3
"""Read the strips of this folder on the CPU, with the network that TensorRT receives.

Prints, for each strip, the text that was read beside the text that is printed on it.
"""

from __future__ import annotations

import sys

import numpy as np
from PIL import Image
from train_digits import HERE, STEPS, decode, windows

import prototrt

READ_WRONG_BY_CAFFE = {"12.png": "72076185"}


def main() -> int:
    model = prototrt.load(HERE / "deploy.prototxt", HERE / "digits.caffemodel")
    session = prototrt.Session(prototrt.rewrite(model), on="network")
    cont = np.ones((STEPS, 1), np.float32)
    cont[0] = 0  # a new strip begins: forget the last one
    as_by_caffe = True
    print("strip   read        printed")
    for line in (HERE / "strips" / "labels.txt").read_text().splitlines():
        name, printed = line.split()
        strip = np.asarray(Image.open(HERE / "strips" / name))
        read = decode(session.run({"data": windows(strip), "cont": cont})["prob"])
        print(f"{name}  {read:10}  {printed:10}{remark(name, read, printed)}".rstrip())
        as_by_caffe &= read == READ_WRONG_BY_CAFFE.get(name, printed)
    return 0 if as_by_caffe else 1


def remark(name: str, read: str, printed: str) -> str:
    if read == printed:
        return ""
    return "  wrong; Caffe reads the same" if read == READ_WRONG_BY_CAFFE.get(name) else "  wrong"


if __name__ == "__main__":
    sys.exit(main())
