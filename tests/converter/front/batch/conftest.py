"""A cache, and an entry to keep in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry
from prototrt.tests.converter.front.batch.cached import VERSIONS
from prototrt.tests.converter.front.batch.support import entry


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"), VERSIONS)


@pytest.fixture
def small(tmp_path: Path) -> Entry:
    return entry(tmp_path)
