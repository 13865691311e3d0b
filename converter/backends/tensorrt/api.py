"""The one module that imports TensorRT: two backends under one set of names.

``tensorrt_rtx`` builds without a GPU; ``tensorrt`` (10 and later) needs one. What both have
is used, and what differs is decided here (flags, tensor types).
"""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType
from typing import Any, get_args

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.memory import without_collector
from prototrt.caffe_proto.common.options import narrow
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.options import BackendName
from prototrt.surgery.ir import DType

log = logging.getLogger(__name__)

_MODULES = {"rtx": "tensorrt_rtx", "enterprise": "tensorrt"}
_PACKAGES = {"rtx": "tensorrt-rtx", "enterprise": "tensorrt"}
_SYSTEMS = ("linux", "win32")
"""Those that TensorRT has packages for."""
_OWN_NAMES = {DType.FLOAT8: "fp8"}
"""Element types that TensorRT does not call as NumPy does."""
_OLDEST_ENTERPRISE = 10
_OLDEST_AHEAD = (10, 9)


@dataclass(frozen=True, slots=True)
class Backend:
    """A TensorRT that can be imported here: ``"rtx"`` or ``"enterprise"``."""

    name: BackendName
    trt: ModuleType

    @property
    def version(self) -> str:
        return str(self.trt.__version__)

    @property
    def plugins(self) -> str:
        """How an engine gets our plugins.

        ``"ahead"``: compiled, so that the engine has all it needs. ``"class"``: it calls back
        into Python. ``"none"``: not at all.
        """
        if self.name == "rtx":
            return "none"
        release = tuple(map(int, self.version.split(".")[:2]))
        return "class" if release < _OLDEST_AHEAD else "ahead"

    def quick_plugins(self) -> ModuleType:
        """The module ``tensorrt.plugin``, which compiles plugins ahead."""
        return importlib.import_module(f"{self.trt.__name__}.plugin")

    def dtype(self, dtype: DType) -> Any:
        """TensorRT's name of an element type."""
        return getattr(self.trt, _OWN_NAMES.get(dtype, dtype.value))

    def network_flags(self) -> int:
        """Strong typing where it is a choice: in ``tensorrt`` 10."""
        flags = getattr(self.trt, "NetworkDefinitionCreationFlag", None)
        strong = getattr(flags, "STRONGLY_TYPED", None)
        return 0 if strong is None else 1 << int(strong)

    def builder(self, logger: Any) -> Any:
        """A builder. Raises ``BuildError`` with what is missing."""
        try:
            # TensorRT holds a lock while it makes a builder and calls the logger. Were an older builder
            # collected in that call, its end would wait for the same lock for ever.
            with without_collector():
                return self.trt.Builder(logger)
        except TypeError as error:  # what the bindings make of a null builder
            raise BuildError(
                f"{self.trt.__name__} {self.version} cannot build on this machine",
                because="it found no GPU" if self.name == "enterprise" else "its library gave no builder",
                fix=Worded("use {}, which builds without a GPU", Option("backend", "rtx"))
                if self.name == "enterprise"
                else None,
            ) from error


def find_backend(name: BackendName = "auto") -> Backend:
    """The requested backend; ``"auto"`` is ``tensorrt`` if it can build, otherwise RTX.

    Raises ``BuildError`` if it is not installed.
    """
    if narrow("backend", name, get_args(BackendName)) != "auto":
        return _import(name)
    try:
        enterprise = _import("enterprise")
        enterprise.builder(enterprise.trt.Logger(enterprise.trt.Logger.INTERNAL_ERROR))
    except BuildError as error:
        log.debug("backend enterprise is not used: %s", error)
        return _import("rtx")
    return enterprise


def _import(name: BackendName) -> Backend:
    try:
        module = importlib.import_module(_MODULES[name])
    except (ImportError, OSError) as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == _MODULES[name]
        why = "is not installed" if is_missing else f"cannot be imported: {error}"
        raise BuildError(
            f"backend {name} needs the package {_MODULES[name]}, which {why}",
            fix=_install_command(name, "" if is_missing else "--force-reinstall "),
        ) from error
    backend = Backend(name, module)
    if name == "enterprise" and int(backend.version.split(".")[0]) < _OLDEST_ENTERPRISE:
        raise BuildError(
            f"tensorrt {backend.version} is too old, expected {_OLDEST_ENTERPRISE} or later",
            fix=_install_command(name, "--upgrade "),
        )
    return backend


def _install_command(name: str, how: str) -> str:
    """The command for pip; ``how`` is an option of it, with a blank, or empty."""
    if sys.platform in _SYSTEMS:
        return f"pip install {how}{_PACKAGES[name]}"
    return "TensorRT runs on Linux and Windows: write an ONNX model here, and build the engine there"
