"""Types of layers that mean one thing in one fork of Caffe, and another in another. Light to import."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "BN": {
        "pspnet": "blobs are slope, bias, mean and variance",
        "segnet": "blobs are scale and shift",
    },
    "Normalize": {
        "happynear": "there is no learned scale",
        "ssd": "the result is multiplied by a learned scale",
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
"""By type and by the name of a fork, what tells its meaning from the others'.

They count where the fields, bottoms or blobs of a layer say nothing. Types that these always tell apart are not here.
"""

FORKS = tuple(sorted({fork for meanings in MEANINGS.values() for fork in meanings}))
"""The names that the option ``fork`` takes."""
