"""Reports about this machine, and about machines that we do not have."""

from __future__ import annotations

import ctypes
import json
import re
from configparser import ConfigParser
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
from click.testing import CliRunner

from prototrt import BackendName
from prototrt.caffe_proto.common.errors import BuildError, EngineError
from prototrt.cli import main
from prototrt.converter.backends import driver
from prototrt.converter.backends.driver import Driver, Gpu
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.checking.machines import doctor, gpu_support
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.fresh_python import ROOT


class Machine:
    """What the doctor finds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver: Driver | None = None
        self.installed: set[str] = set()
        self.releases = {"rtx": "1.7.1", "enterprise": "10.13.0"}
        self.can_build: set[str] = set()
        self.has_bindings = True
        monkeypatch.setattr(doctor, "find_driver", lambda: self.driver)
        monkeypatch.setattr(doctor, "find_backend", self.backend)
        monkeypatch.setattr(doctor, "find_device", self.device)
        monkeypatch.setattr(gpu_support, "_is_installed", lambda package: False)
        versions = {"numpy": "2.4.0", "protobuf": "7.0", "tensorrt-rtx": "1.7.1"}
        monkeypatch.setattr(doctor, "_version", versions.get)
        monkeypatch.setattr(doctor, "__version__", "0.1.0")
        monkeypatch.setattr("platform.python_version", lambda: "3.12.1")
        monkeypatch.setattr("platform.system", lambda: "Linux")
        monkeypatch.setattr("platform.machine", lambda: "x86_64")

    def backend(self, name: BackendName) -> Any:
        if name not in self.installed:
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
        module.__version__ = self.releases[name]
        return Found(name, module)

    def device(self) -> FakeDevice:
        if not self.has_bindings:
            raise EngineError("neither is installed", fix="pip install cuda-python")
        return FakeDevice()


NEEDS_NO_GPU = (
    "`prototrt convert` with --backend rtx needs none; `prototrt convert --target tensorrt-python` writes a program"
    " that builds elsewhere"
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def told(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def abilities() -> list[str]:
    return told().split("\n\n")[1].splitlines()


def test_a_module_that_another_package_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"cuda-bindings": "13.0.3", "onnxruntime": "1.30.0", "onnxruntime-gpu": "1.31.1"}

    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    found = doctor.diagnose().packages
    assert found["cuda-python"] == "13.0.3 (cuda-bindings)"
    assert found["onnxruntime"] == "1.30.0"
    assert found["onnx"] is None


def test_each_package_is_in_the_extra_that_it_names() -> None:
    extras = ConfigParser()
    extras.read(ROOT / "setup.cfg", encoding="utf-8")
    for package, purpose in doctor.PACKAGES.items():
        if ": extra " in purpose:
            listed = extras["options.extras_require"][purpose.rpartition(" ")[2]]
            assert re.search(rf"^{package}\b", listed, re.MULTILINE), package


def test_a_machine_without_gpu(machine: Machine) -> None:
    machine.installed = machine.can_build = {"rtx"}
    assert (
        told()
        == f"""\
python          3.12.1, Linux x86_64
prototrt        0.1.0
numpy           2.4.0
protobuf        7.0
tensorrt-rtx    1.7.1           engines for GeForce and RTX GPUs
tensorrt        not installed   engines for data centre GPUs: extra enterprise
cuda-python     not installed   running engines: extra gpu
pycuda          not installed   running engines, instead of cuda-python: extra pycuda
onnx            not installed   ONNX models: extra onnx
onnxruntime     not installed   running and checking ONNX models: extra onnx
h5py            not installed   weights in HDF5: extra hdf5
Jinja2          not installed   pages that show a net: extra html
Pillow          not installed   images as inputs, and drawing boxes: extra samples
PyYAML          not installed   lists of models: extra batch
torch           not installed   running PyTorch modules: extra torch
safetensors     not installed   running PyTorch modules: extra torch
Graphviz        not installed   pictures in SVG, PNG and PDF: a program of the system
driver          none

yes       build with TensorRT for RTX
no        build with TensorRT: it builds only where it finds a GPU, and there is no NVIDIA driver
          fix: {NEEDS_NO_GPU}
no        run plans of TensorRT for RTX: there is no NVIDIA driver
          fix: install one: https://www.nvidia.com/drivers
no        run plans of TensorRT: there is no NVIDIA driver
          fix: install one: https://www.nvidia.com/drivers
"""
    )


def test_a_driver_without_gpu(machine: Machine) -> None:
    machine.installed = {"rtx", "enterprise"}
    machine.can_build = {"rtx"}
    machine.driver = Driver("13.0", ())
    assert abilities()[1:3] == [
        "no        build with TensorRT: it builds only where it finds a GPU, and the driver finds no GPU",
        f"          fix: {NEEDS_NO_GPU}",
    ]


def test_what_a_machine_with_a_gpu_may_install(machine: Machine) -> None:
    machine.driver = Driver("13.0", (Gpu("RTX 4090", "8.9", 24 << 30),))
    machine.installed = machine.can_build = {"rtx"}
    assert abilities()[1:3] == [
        "no        build with TensorRT: backend enterprise is not installed",
        "          fix: install enterprise",
    ]


def test_a_machine_with_everything(machine: Machine) -> None:
    machine.installed = machine.can_build = {"rtx", "enterprise"}
    machine.driver = Driver("13.0", (Gpu("RTX 4090", "8.9", 24 << 30),))
    assert (
        "driver          CUDA 13.0\n"
        "GPU             RTX 4090, compute capability 8.9, 24 GiB; float32, float16, bfloat16, int8, float8\n"
    ) in told()
    assert abilities() == [
        "yes       build with TensorRT for RTX",
        "yes       build with TensorRT",
        "yes       run plans of TensorRT for RTX on GPU 0, RTX 4090",
        "yes       run plans of TensorRT on GPU 0, RTX 4090",
    ]


RTX, ENTERPRISE = "TensorRT for RTX", "TensorRT"


@pytest.mark.parametrize(
    ("backend", "release", "capability", "told"),
    [
        ("rtx", "1.7.1", "8.6", "yes       run plans of {} on GPU 0, card"),
        ("rtx", "1.7.1", "12.1", "yes       run plans of {} on GPU 0, card"),
        (
            "rtx",
            "1.4.0",
            "12.1",
            "untried   run plans of {} on GPU 0, card: NVIDIA's support matrix does not list GPUs of compute"
            " capability 12.1",
        ),
        (
            "rtx",
            "1.7.1",
            "9.0",
            "no        run plans of {} on GPU 0, card: its plans run on compute capability 8.0, 8.6, 8.9, 12.0 and"
            " newer, this GPU has 9.0\n          fix: use TensorRT itself: --backend enterprise",
        ),
        (
            "rtx",
            "1.7.1",
            "7.5",
            "no        run plans of {} on GPU 0, card: its plans need compute capability 8.0 or newer,"
            " this GPU has 7.5\n          fix: use TensorRT itself: --backend enterprise",
        ),
        (
            "rtx",
            "1.7.1",
            "6.1",
            "no        run plans of {} on GPU 0, card: its plans need compute capability 8.0 or newer,"
            " this GPU has 6.1\n          fix: use a newer GPU",
        ),
        ("enterprise", "10.13.0", "7.5", "yes       run plans of {} on GPU 0, card"),
        ("enterprise", "11.4.0", "12.0", "yes       run plans of {} on GPU 0, card"),
        ("enterprise", "10.4.0", "7.0", "yes       run plans of {} on GPU 0, card"),
        (
            "enterprise",
            "10.5.0",
            "7.0",
            "no        run plans of {} on GPU 0, card: its plans need compute capability 7.5 or newer,"
            " this GPU has 7.0\n          fix: use a newer GPU, or TensorRT up to 10.4",
        ),
        (
            "enterprise",
            "10.12.0",
            "11.0",
            "no        run plans of {} on GPU 0, card: GPUs of compute capability 11.0 need TensorRT 10.13 or newer\n"
            "          fix: install a newer TensorRT: pip install --upgrade tensorrt",
        ),
        ("enterprise", "8.6.1", "6.1", "yes       run plans of {} on GPU 0, card"),
        (
            "enterprise",
            "8.6.1",
            "3.7",
            "no        run plans of {} on GPU 0, card: its plans need compute capability 5.0 or newer,"
            " this GPU has 3.7\n          fix: use a newer GPU",
        ),
        (
            "enterprise",
            "10.7.0",
            "12.0",
            "no        run plans of {} on GPU 0, card: release 10.7.0 supports up to compute capability 9.0,"
            " this GPU has 12.0\n          fix: install a newer TensorRT: pip install --upgrade tensorrt",
        ),
    ],
)
def test_each_gpu_and_release(
    backend: str, release: str, capability: str, told: str, machine: Machine
) -> None:
    machine.installed, machine.releases = {backend}, {backend: release}
    machine.driver = Driver("13.0", (Gpu("card", capability, 8 << 30),))
    name = {"rtx": RTX, "enterprise": ENTERPRISE}[backend]
    assert told.format(name) in "\n".join(abilities())


def test_each_gpu_of_a_machine(machine: Machine) -> None:
    machine.installed = {"rtx"}
    machine.driver = Driver("13.0", (Gpu("RTX 2080 Ti", "7.5", 11 << 30), Gpu("RTX 4090", "8.9", 24 << 30)))
    rows = [row for row in abilities() if "on GPU" in row]
    assert [row.split(":")[0] for row in rows] == [
        "no        run plans of TensorRT for RTX on GPU 0, RTX 2080 Ti",
        "yes       run plans of TensorRT for RTX on GPU 1, RTX 4090",
    ]


@pytest.mark.parametrize(
    ("knows", "is_old"), [("11.8", True), ("12.9", True), ("13.0", False), ("14.1", False)]
)
def test_drivers_that_are_too_old(
    knows: str, is_old: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package for CUDA 13 needs a driver that knows CUDA 13."""
    monkeypatch.setattr(gpu_support, "_is_installed", lambda package: package == "tensorrt-rtx-cu13")
    machine.installed = {"rtx"}
    machine.driver = Driver(knows, (Gpu("RTX 4090", "8.9", 24 << 30),))
    refusal = (
        "no        run plans of TensorRT for RTX: it is built with CUDA 13, and the driver supports CUDA "
        f"{knows}\n          fix: install a driver for CUDA 13: https://www.nvidia.com/drivers"
    )
    assert (refusal in "\n".join(abilities())) == is_old


def test_a_driver_without_gpu_and_a_gpu_without_bindings(machine: Machine) -> None:
    machine.installed = machine.can_build = {"rtx"}
    machine.driver = Driver("12.4", ())
    assert abilities()[-2:] == [
        "no        run plans of TensorRT: the driver finds no GPU",
        "          fix: check whether nvidia-smi lists one",
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
