"""How much memory a test may take, and which errors may leave it."""

from __future__ import annotations

import contextlib
import resource
import tracemalloc
import warnings
from collections.abc import Iterator

from prototrt.caffe_proto import ConversionError
from prototrt.caffe_proto.common.errors import ConversionWarning

MOST = 64 << 20


@contextlib.contextmanager
def address_space(more: int) -> Iterator[None]:
    """Let a mistake that asks for all memory end in a MemoryError, and not with the machine."""
    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextlib.contextmanager
def only_conversion_errors() -> Iterator[None]:
    with address_space(1 << 30), warnings.catch_warnings(), contextlib.suppress(ConversionError):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConversionWarning)
        yield


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
