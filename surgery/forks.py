"""Types of layers that mean one thing in one fork of Caffe, and another in another. Light to import."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "Proposal": {
        "happynear": "scale is the side of an anchor in pixels",
        "pvanet": "scale multiplies base_size",
    },
}
"""By type and by the name of a fork, what tells its meaning from the others'.

Types that the fields, bottoms or blobs of a layer tell apart are not here.
"""

FORKS = tuple(sorted({fork for meanings in MEANINGS.values() for fork in meanings}))
"""The names that the option ``fork`` takes."""
