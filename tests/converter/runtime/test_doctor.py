"""What is told of this machine, and of machines that we have not."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import pytest
from click.testing import CliRunner

from prototrt.caffe_proto.errors import BuildError, EngineError
from prototrt.cli import main
from prototrt.converter import doctor
from prototrt.converter.runtime import driver
from prototrt.converter.runtime.driver import Driver, Gpu
from prototrt.converter.tensorrt.api import Backend
from prototrt.tests.converter.runtime.fake_gpu import FakeDevice


class Machine:
    """What the doctor finds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver: Driver | None = None
        self.flavours: set[str] = set()
        self.can_build: set[str] = set()
        self.has_bindings = True
        monkeypatch.setattr(doctor, "find_driver", lambda: self.driver)
        monkeypatch.setattr(doctor, "find_backend", self.backend)
        monkeypatch.setattr(doctor, "find_device", self.device)
        versions = {"numpy": "2.4.0", "protobuf": "7.0", "tensorrt-rtx": "1.7.1"}
        monkeypatch.setattr(doctor, "_version", versions.get)
        monkeypatch.setattr(doctor, "__version__", "0.1.0")
        monkeypatch.setattr("platform.python_version", lambda: "3.12.1")
        monkeypatch.setattr("platform.system", lambda: "Linux")
        monkeypatch.setattr("platform.machine", lambda: "x86_64")

    def backend(self, name: str) -> Any:
        if name not in self.flavours:
            raise BuildError(f"backend {name} is not installed", fix=f"install {name}")
        machine = self

        class Found(Backend):
            def builder(self, logger: Any) -> Any:
                if self.name not in machine.can_build:
                    raise BuildError(f"{self.name} cannot build", because="it found no GPU")

        class TensorRT:
            class Logger:
                INTERNAL_ERROR = 0

                def __init__(self, level: int) -> None: ...

        module: Any = TensorRT
        return Found(name, module)

    def device(self) -> FakeDevice:
        if not self.has_bindings:
            raise EngineError("neither is installed", fix="pip install cuda-python")
        return FakeDevice()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def told(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def abilities() -> list[str]:
    return told().split("\n\n")[1].splitlines()


def test_a_machine_without_gpu(machine: Machine) -> None:
    machine.flavours = machine.can_build = {"rtx"}
    assert (
        told()
        == """\
python          3.12.1, Linux x86_64
prototrt        0.1.0
numpy           2.4.0
protobuf        7.0
tensorrt-rtx    1.7.1
tensorrt        not installed
cuda-python     not installed
pycuda          not installed
onnx            not installed
onnxruntime     not installed
h5py            not installed
driver          none

yes       build with TensorRT for RTX
no        build with TensorRT: backend enterprise is not installed
          fix: install enterprise
no        run plans of TensorRT for RTX: there is no NVIDIA driver
          fix: install one: https://www.nvidia.com/drivers
no        run plans of TensorRT: there is no NVIDIA driver
          fix: install one: https://www.nvidia.com/drivers
"""
    )


def test_a_machine_with_everything(machine: Machine) -> None:
    machine.flavours = machine.can_build = {"rtx", "enterprise"}
    machine.driver = Driver("13.0", (Gpu("RTX 4090", "8.9", 24 << 30),))
    assert "driver          CUDA 13.0\nGPU             RTX 4090, compute capability 8.9, 24 GiB\n" in told()
    assert abilities() == [
        "yes       build with TensorRT for RTX",
        "yes       build with TensorRT",
        "yes       run plans of TensorRT for RTX",
        "yes       run plans of TensorRT",
    ]


def test_a_gpu_that_rtx_does_not_name(machine: Machine) -> None:
    machine.flavours = {"rtx", "enterprise"}
    machine.driver = Driver("13.0", (Gpu("H100", "9.0", 80 << 30),))
    assert abilities() == [
        "no        build with TensorRT for RTX: rtx cannot build",
        "no        build with TensorRT: enterprise cannot build",
        "untried   run plans of TensorRT for RTX: it does not name GPUs of compute capability 9.0",
        "yes       run plans of TensorRT",
    ]


def test_a_driver_without_gpu_and_a_gpu_without_bindings(machine: Machine) -> None:
    machine.flavours = machine.can_build = {"rtx"}
    machine.driver = Driver("12.4", ())
    assert abilities()[-2:] == [
        "no        run plans of TensorRT: the driver sees no GPU",
        "          fix: see whether nvidia-smi lists one",
    ]
    machine.driver = Driver("12.4", (Gpu("RTX 4090", "8.9", 24 << 30),))
    machine.has_bindings = False
    assert abilities()[3:5] == [
        "no        run plans of TensorRT for RTX: neither is installed",
        "          fix: pip install cuda-python",
    ]


def test_json_says_the_same(machine: Machine) -> None:
    machine.driver = Driver("13.0", (Gpu("H100", "9.0", 80 << 30),))
    facts = json.loads(told("--json"))
    assert facts["gpus"] == [{"name": "H100", "capability": "9.0", "memory": 80 << 30}]
    assert facts["packages"]["numpy"] == "2.4.0"
    assert facts["packages"]["pycuda"] is None
    assert [ability["verdict"] for ability in facts["abilities"]] == ["no", "no", "no", "no"]


def test_this_machine() -> None:
    """Whatever it is: the doctor answers, and knows the Python it runs on."""
    facts = json.loads(told("--json"))
    assert facts["packages"]["numpy"]
    assert len(facts["abilities"]) == 4


# ---------------------------------------------------------------- the driver


class FakeDriverLibrary:
    """``libcuda`` with two GPUs."""

    def __init__(self, init: int = 0) -> None:
        self.init = init

    def cuDriverGetVersion(self, number: Any) -> int:  # noqa: N802  CUDA's name
        number._obj.value = 12040
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.init

    def cuDeviceGetCount(self, number: Any) -> int:  # noqa: N802
        number._obj.value = 2
        return 0

    def cuDeviceGet(self, number: Any, index: int) -> int:  # noqa: N802
        number._obj.value = 40 + index
        return 0

    def cuDeviceGetName(self, name: Any, size: int, device: int) -> int:  # noqa: N802
        name.value = f"GPU {device}".encode()
        return 0

    def cuDeviceTotalMem_v2(self, number: Any, device: int) -> int:  # noqa: N802
        number._obj.value = device << 30
        return 0

    def cuDeviceGetAttribute(self, number: Any, attribute: int, device: int) -> int:  # noqa: N802
        number._obj.value = {75: 8, 76: device % 40}[attribute]
        return 0


def test_the_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeDriverLibrary())
    assert driver.find_driver() == Driver(
        "12.4", (Gpu("GPU 40", "8.0", 40 << 30), Gpu("GPU 41", "8.1", 41 << 30))
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeDriverLibrary(init=100))
    assert driver.find_driver() == Driver("12.4", ())


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert driver.find_driver() is None
