"""Layer types with different meanings in different forks of Caffe. Light to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Fork: TypeAlias = Literal[
    "bottom-up-attention",
    "bvlc",
    "cascade-rcnn",
    "faceboxes",
    "happynear",
    "makefile",
    "pspnet",
    "pvanet",
    "segnet",
    "ssd",
    "textboxes",
]

MEANINGS: Mapping[str, Mapping[Fork, str]] = {
    "BN": {
        "pspnet": "blobs are slope, bias, mean and variance",
        "segnet": "blobs are scale and shift",
    },
    "Embed": {
        "bottom-up-attention": "a last axis of size 1 becomes num_output",
        "bvlc": "num_output is one more axis",
    },
    "Normalize": {
        "happynear": "there is no learned scale",
        "ssd": "the result is multiplied by a learned scale",
    },
    "PriorBox": {
        "faceboxes": "squares of 32 and 64 pixels stand side by side",
        "ssd": "each box is around its place",
        "textboxes": "each box is followed by the same box half a step below",
    },
    "Proposal": {
        "happynear": "scale is the side of an anchor in pixels",
        "pvanet": "scale multiplies base_size",
    },
    "ROIAlign": {
        "cascade-rcnn": "the corners of bins are read, pooled_h + 1 by pooled_w + 1",
        "makefile": "the middles of pooled_h by pooled_w bins are read",
    },
}
"""By type and by the name of a fork, the difference from the other forks.

They decide only if the fields, bottoms or blobs of a layer do not show the fork. Other types are not listed.
"""
