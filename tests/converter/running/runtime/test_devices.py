"""What is said where no GPU can be used."""

from __future__ import annotations

import sys

import pytest

from prototrt import DeviceName
from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.running.runtime.cuda_python import find_device


@pytest.mark.parametrize("name", [None, "cuda-python"])
def test_a_package_that_is_missing(name: DeviceName | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", None)
    with pytest.raises(EngineError) as caught:
        find_device(name)
    assert str(caught.value) == (
        "the package cuda-python cannot be imported: import of cuda.bindings.runtime halted;"
        " None in sys.modules\n  fix: pip install cuda-python"
    )


def test_a_device_that_is_none() -> None:
    with pytest.raises(ValueError, match="device is 'pycuda', expected one of cuda-python"):
        find_device("pycuda")
