"""What all tests share: rewriting expected texts, and a quick collection."""

from __future__ import annotations

import gc
import importlib.util
import logging
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from prototrt.caffe_proto.common.memory import without_collector
from prototrt.converter.showing.page import writing

# Nothing depends on the clock: a busy machine may take as long as it likes to draw an example.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time: a test that fails does so because of a change. `make test-exhaustive` tries more.
# `pytest --hypothesis-profile thorough` looks for others, and longer.
settings.register_profile("quick", settings.get_profile("busy"), max_examples=15, derandomize=True)
settings.register_profile("exhaustive", settings.get_profile("quick"), max_examples=60)
settings.register_profile("thorough", settings.get_profile("busy"), max_examples=1000)
settings.load_profile("quick")


collect_ignore = ["goldens", "fuzz/corpus"]
"""Hundreds of folders without a test, each of which pytest would look into."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens", action="store_true", help="rewrite the expected texts; review their diff"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All tests stay, so there is no garbage to look for: that would take a third of the time."""
    with without_collector():
        result = yield
    _let_loggers_propagate()
    gc.freeze()  # a test that looks for garbage searches what it has made
    return result


def _let_loggers_propagate() -> None:
    """PyTorch has 40 loggers that do not: pytest would attach its handlers to each of them, six times a test."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and not logger.name.startswith("prototrt"):
            logger.propagate = True


@pytest.fixture(scope="session", autouse=True)
def threads_of_onnxruntime() -> None:
    """One for each session: further ones wait for work in a loop, and take time from the tests beside these."""
    if not importlib.util.find_spec("onnxruntime"):
        return
    onnxruntime: Any = importlib.import_module("onnxruntime")

    class OneThread(onnxruntime.SessionOptions):  # type: ignore[misc]  # onnxruntime carries no types
        def __init__(self) -> None:
            super().__init__()
            self.intra_op_num_threads = 1

    onnxruntime.SessionOptions = OneThread


@pytest.fixture(scope="session", autouse=True)
def graphviz_of_pages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where Graphviz for browsers could not be fetched, pages have a stand-in: most tests open none."""
    if not writing.GRAPHVIZ.exists():
        writing.GRAPHVIZ = tmp_path_factory.mktemp("vendor") / "graphviz.js"
        writing.GRAPHVIZ.write_text("export const instance = 0;\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own, and the working directory: messages name the files in it by their names alone."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder in memory, if possible: for tests that would mostly wait for a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def check_text(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """``check_text(path, found)``: what was found is what the file holds."""

    def check(path: Path, found: str) -> None:
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found)
        assert path.exists(), f"no expected text yet: {path}; run pytest --update-goldens"
        assert found == path.read_text()

    return check
