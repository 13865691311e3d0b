"""The cache of timings: read, grown, and refused where it is another GPU's."""

from __future__ import annotations

from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.tensorrt import configuration
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.backends.tensorrt.configuration import configure
from prototrt.converter.backends.tensorrt.network import Network
from prototrt.converter.options import BuildOptions


class FakeCache:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def serialize(self) -> bytes:
        return self.content + b" and this build"


class FakeConfig:
    """The part of a configuration that keeps times; ``refuses`` what another GPU measured."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses, self.cache = refuses, FakeCache(b"")

    def clear_flag(self, flag: object) -> None: ...

    def create_timing_cache(self, content: bytes) -> FakeCache:
        return FakeCache(content)

    def set_timing_cache(self, cache: FakeCache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        self.cache = cache
        return not self.refuses

    def get_timing_cache(self) -> FakeCache:
        return self.cache


@pytest.mark.trt
def test_a_timing_cache_is_read_and_grows(tmp_path: Path) -> None:
    network, config, file = Network(find_backend("rtx")), FakeConfig(), tmp_path / "times"
    asked = BuildOptions(timing_cache_file=str(file))
    configure(config, network, asked)
    assert config.cache.content == b""
    file.write_bytes(b"old times")
    configure(config, network, asked)
    assert configuration.timing_cache_of(config) == b"old times and this build"


@pytest.mark.trt
def test_a_timing_cache_of_another_gpu_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "times"
    network = Network(find_backend("rtx"))
    network.logger.last.clear()
    with pytest.raises(BuildError) as caught:
        configure(FakeConfig(refuses=True), network, BuildOptions(timing_cache_file=str(file)))
    assert str(caught.value) == (
        f'TensorRT does not take the timing cache "{file}"\n'
        "  because it gave no reason\n"
        "  fix: give another file as timing_cache_file, or remove this one"
    )


@pytest.mark.trt
def test_what_a_release_lacks_is_told() -> None:
    network = Network(find_backend("rtx"))
    config = network.builder.create_builder_config()
    with pytest.raises(BuildError, match=r"^tensorrt_rtx [\d.]+ has no ComputeCapability\.SM90\n"):
        configuration._set_capabilities(config, network.trt, ["9.0"])
