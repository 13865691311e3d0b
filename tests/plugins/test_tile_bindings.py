"""The plugin on the Python side of real TensorRT: registration, fields, shapes and the kernel's launch.

Not that TensorRT builds with it: that takes a GPU.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prototrt.tests.converter.backends.tensorrt.names_in_use import names_in_use
from prototrt.tests.converter.backends.tensorrt.test_api import LISTINGS, Listing, missing
from prototrt.tests.fresh_python import ROOT, run_python

WHEELS = ROOT / "build" / "wheels"
ENTERPRISE = [listing for listing in LISTINGS if listing.flavour == "enterprise"]


@pytest.mark.parametrize("listing", ENTERPRISE, ids=str)
def test_names_of_the_class_exist(listing: Listing) -> None:
    uses = names_in_use(ROOT / "plugins" / "tile" / "plugin_v3.py")
    assert {"IPluginV3OneRuntime", "PluginField"} <= uses.module
    assert sorted(missing(uses, listing)) == []


RELEASES = [
    "cu12==10.0.1",
    pytest.param("cu12==10.16.1.11", marks=pytest.mark.exhaustive),
    "cu13==11.4.0.106",
]


@pytest.fixture(scope="module", params=RELEASES)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the plugin became on the bindings of a release."""
    flavour, version = request.param.split("==")
    wheel = _wheel(flavour, version, tmp_path_factory.mktemp("wheels"))
    script = Path(__file__).with_name("with_bindings.py")
    result = run_python(script, wheel, check=False)
    assert result.returncode == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    assert facts["version"] == version
    return facts


def _wheel(flavour: str, version: str, folder: Path) -> Path:
    if shutil.which("cc") is None or shutil.which("readelf") is None:
        pytest.skip("needs cc and readelf, to stand in for NVIDIA's libraries")
    name = f"tensorrt_{flavour}_bindings-{version}-cp{sys.version_info.major}{sys.version_info.minor}-*.whl"
    if not list(WHEELS.glob(name)):
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
        package = f"tensorrt-{flavour}-bindings=={version}"
        result = subprocess.run([*download, package], capture_output=True, text=True)
        if result.returncode != 0:
            pytest.skip(f"cannot fetch {package}: {result.stderr.strip().splitlines()[-1:]}")
        WHEELS.mkdir(parents=True, exist_ok=True)
        (fetched,) = folder.glob(name)
        hidden = WHEELS / f".{folder.name}-{fetched.name}"
        shutil.move(fetched, hidden)
        hidden.replace(WHEELS / fetched.name)  # another worker never sees half of it
    return next(WHEELS.glob(name))


@pytest.mark.slow
def test_compiled_ahead(told: dict[str, Any]) -> None:
    """The Tile of (2, 3, 100) along axis 1, 7 times, in float16: 8 elements a thread, 2048 a block."""
    if told["version"] == "10.0.1":
        assert "ahead" not in told
        return
    assert told["ahead"] == {
        "creator": ["Tile", "1", "prototrt"],
        "definition": [1, ["x"], ["tiling"]],
        "attributes": [1, 7],
        "types": ["HALF"],
        "shape": [2, 21, 100],
        "kernel": "prototrt_tile_16",
        "is_ptx": True,
        "grid": 3,
        "block": 256,
        "scalars": [300, 7, 4200],
    }


@pytest.mark.slow
def test_as_a_class(told: dict[str, Any]) -> None:
    assert told["class"] == {
        "creator": ["Tile", "1", "prototrt"],
        "interfaces": True,
        "capabilities": True,
        "stored": {"axis": 1, "copies": 7},
        "outputs": 1,
        "types": ["INT32"],
        "shape": [2, 21, 100],
        "takes": ["FLOAT", "HALF", "INT32"],
    }
