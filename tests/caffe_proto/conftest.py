"""What the tests of reading share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parents[1] / "goldens"


@pytest.fixture
def in_golden(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Go into a golden's folder, so that messages name its files as they would for a user there."""
    return lambda case: monkeypatch.chdir(GOLDENS / case)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write a file into an empty working directory; its name is what the messages show."""
    monkeypatch.chdir(tmp_path)

    def write(content: str | bytes, name: str = "net.prototxt") -> str:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write
