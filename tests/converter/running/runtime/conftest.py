"""What the tests of running engines are given."""

from __future__ import annotations

import pytest

from prototrt.surgery.ir import Graph
from prototrt.tests.digit_strips import digits


@pytest.fixture(scope="package")
def stream_graph() -> Graph:
    """The sample, window by window."""
    return digits("deploy_stream.prototxt")
