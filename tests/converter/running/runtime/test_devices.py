"""Which adapter is taken, and what is said where none can be."""

from __future__ import annotations

import importlib
import sys

import pytest

from prototrt import DeviceName
from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.backends.driver import Driver
from prototrt.converter.running.runtime import devices, pycuda
from prototrt.converter.running.runtime.devices import find_device


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            None,
            "running an engine needs the package cuda-python or pycuda, and neither is installed\n"
            "  fix: pip install cuda-python",
        ),
        (
            "cuda-python",
            "the package cuda-python cannot be imported: import of cuda.bindings.runtime halted;"
            " None in sys.modules\n  fix: pip install cuda-python",
        ),
        (
            "pycuda",
            "the package pycuda cannot be imported: import of pycuda.driver halted; None in sys.modules\n"
            "  fix: pip install pycuda, which needs the CUDA toolkit; cuda-python does not",
        ),
    ],
)
def test_packages_that_are_missing(
    name: DeviceName | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "find_driver", lambda: Driver("13.0", ()))
    with pytest.raises(EngineError) as caught:
        find_device(name)
    assert str(caught.value) == message


@pytest.mark.usefixtures("nothing_installed")
def test_no_package_is_asked_for_where_there_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "find_driver", lambda: None)
    with pytest.raises(EngineError, match=r"there is no NVIDIA driver\n.* run the net instead of the engine"):
        find_device()


@pytest.mark.parametrize("name", ["pycuda", None])
def test_pycuda_without_a_driver(name: DeviceName | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is linked with the driver's library, which does not mean that it must be installed again."""
    told = "libcuda.so.1: cannot open shared object file: No such file or directory"

    def refused(module: str) -> None:
        if module == "pycuda.driver":
            raise ImportError(told)
        raise ModuleNotFoundError(f"No module named '{module}'")

    monkeypatch.setattr(importlib, "import_module", refused)
    monkeypatch.setattr(pycuda, "find_driver", lambda: None)
    with pytest.raises(EngineError) as caught:
        find_device(name)
    assert str(caught.value) == (
        f"there is no NVIDIA driver\n  because PyCUDA says: {told}\n"
        "  fix: install one: https://www.nvidia.com/drivers;"
        " on a machine without a GPU, run the net instead of the engine"
    )


def test_pycuda_without_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(module: str) -> None:
        raise ImportError("libcurand.so.10: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", refused)
    monkeypatch.setattr(pycuda, "find_driver", lambda: Driver("13.0", ()))
    with pytest.raises(EngineError) as caught:
        find_device("pycuda")
    assert str(caught.value) == (
        "the package pycuda cannot be imported: libcurand.so.10: cannot open shared object file\n"
        "  fix: pip install pycuda, which needs the CUDA toolkit; cuda-python does not"
    )


def test_a_device_that_is_none() -> None:
    with pytest.raises(ValueError, match="device is 'opencl', expected one of cuda-python, pycuda"):
        find_device("opencl")
