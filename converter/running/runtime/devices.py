"""The adapters to a GPU, and which of them is there."""

from __future__ import annotations

from collections.abc import Callable

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.caffe_proto.common.options import narrow
from prototrt.converter.backends.driver import INSTALL_OR_USE_CPU, NO_DRIVER, find_driver
from prototrt.converter.running.runtime.cuda_python import CudaPythonDevice
from prototrt.converter.running.runtime.device import Device, DeviceName, MissingPackageError
from prototrt.converter.running.runtime.pycuda import PyCudaDevice


def find_device(name: str | None = None) -> Device:
    """The adapter of this name; without a name, that of an installed package, cuda-python first.

    Raises ``EngineError`` with the package to install; without a driver, none would help.
    """
    makers: dict[DeviceName, Callable[[], Device]] = {"cuda-python": CudaPythonDevice, "pycuda": PyCudaDevice}
    for maker in makers.values() if name is None else [makers[narrow("device", name, [*makers])]]:
        try:
            return maker()
        except MissingPackageError:
            if name is not None:
                raise
    if find_driver() is None:
        raise EngineError(NO_DRIVER, fix=INSTALL_OR_USE_CPU)
    raise MissingPackageError(
        "running an engine needs the package cuda-python or pycuda, and neither is installed",
        fix="pip install cuda-python",
    )
