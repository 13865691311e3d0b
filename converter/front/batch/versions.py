"""Everything except the model that decides the bytes of a conversion."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import prototrt
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.driver import find_driver
from prototrt.converter.backends.tensorrt.api import find_backend
from prototrt.converter.options import BackendName

_SOURCES = (".binpb", ".ptx", ".py")


def versions(backends: Iterable[BackendName]) -> dict[str, str]:
    """Of prototrt, of each TensorRT, of ONNX, and of the GPU where a plan depends on it."""
    result = {"prototrt": f"{prototrt.__version__} {_sources()}", "onnx": _installed("onnx")}
    for name in sorted(set(backends)):
        result[name] = _backend(name)
    return result


def _backend(name: BackendName) -> str:
    try:
        backend = find_backend(name)
    except BuildError:
        return "none"  # an entry that needs it fails with an error
    gpu = f" for {_gpu()}" if backend.name == "enterprise" else ""
    return f"{backend.name} {backend.version}{gpu}"


def _sources() -> str:
    """A digest of our own code: the version stays the same during development."""
    root = Path(prototrt.__file__).parent
    digest = hashlib.sha256()
    for part in ("caffe_proto", "converter", "plugins", "surgery"):
        for path in sorted((root / part).rglob("*")):
            if path.suffix in _SOURCES:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _gpu() -> str:
    """Name of the first GPU, by CUDA's driver."""
    driver = find_driver()
    return driver.gpus[0].name if driver and driver.gpus else "no GPU"
