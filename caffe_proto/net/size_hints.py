"""Sizes of images that people write beside a net: 3x32x32 in a comment, 40x40 in the name of a file."""

from __future__ import annotations

import os
import re

_SIZES = re.compile(r"(?<!\d)\d{1,4}(?: ?[xX*] ?\d{1,4}){1,3}(?!\d)")
_CROP = re.compile(r"crop_size\W{1,5}(\d{1,4})(?!\d)")
_BODY = re.compile(r"num_output|pooling_param")
_SMALLEST, _MOST = 8, 6


def size_hints(text: str, file: str) -> dict[str, tuple[int, ...]]:
    """By their words: (H, W), (C, H, W) or (N, C, H, W). The file's name comes before what is above the first windows.

    Sizes of kernels are too small to be meant.
    """
    begin = _BODY.search(text)
    before = text[: begin.start()] if begin else text
    names = os.sep.join(os.path.abspath(file).split(os.sep)[-2:])
    words = [found[0] for part in (names, before) for found in _SIZES.finditer(part)]
    hints = {each: tuple(map(int, re.findall(r"\d+", each))) for each in words}
    hints |= {" ".join(found[0].split()): (int(found[1]),) * 2 for found in _CROP.finditer(before)}
    large = {each: sizes for each, sizes in hints.items() if min(sizes[-2:]) >= _SMALLEST and min(sizes) > 0}
    return dict(list(large.items())[:_MOST])
