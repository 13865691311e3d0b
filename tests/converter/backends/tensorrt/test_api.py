"""Every name of TensorRT that we use exists wherever we promise to work.

The listings in goldens/tensorrt_api are made by tests/tools/list_tensorrt_api.py.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prototrt import BackendName
from prototrt.caffe_proto.common.errors import BuildError
from prototrt.converter.backends.tensorrt.api import Backend, find_backend
from prototrt.surgery.ir import DType
from prototrt.tests.converter.backends.tensorrt.names_in_use import Uses, names_in_use
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.tools.list_tensorrt_api import names_of

ROOT = Path(__file__).parents[4]
SOURCES = sorted((ROOT / "converter" / "backends" / "tensorrt").glob("*.py"))

OPTIONAL = {
    "IStreamWriter": "the other half of build_serialized_network_to_stream",
    "NetworkDefinitionCreationFlag": "RTX has it without any flag that we need; asked for with a default",
    "STRONGLY_TYPED": "always on in 11 and RTX, a flag in 10: network_flags() asks for it",
    "build_serialized_network_to_stream": "not yet in 10.0, where a plan is built in memory before it is written",
}
"""Names that may be missing, and why that does no harm."""


@dataclass(frozen=True)
class Listing:
    """The names of one release."""

    version: str
    flavour: BackendName
    names: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.flavour}-{self.version}"

    def has(self, owner: str, name: str) -> bool:
        """Whether a class has the name, itself or by a base, as a member or as an attribute."""
        facts = self.names.get(owner, {})
        own = {*facts.get("names", ()), *facts.get("members", ())}
        return name in own or any(self.has(base, name) for base in facts.get("bases", ()))

    def layers(self, method: str) -> list[str]:
        """The kinds of layers that ``add_METHOD`` makes; all of them where the method is not known."""
        wanted = f"i{method.removesuffix('_nd').replace('_', '')}layer" if method else ""
        kinds = [name for name in self.names if name.startswith("I") and name.endswith("Layer")]
        return [name for name in kinds if wanted in ("", name.lower())]


LISTINGS = [
    Listing(**json.loads(path.read_text())) for path in sorted((GOLDENS / "tensorrt_api").glob("*.json"))
]
RTX = next(listing for listing in LISTINGS if listing.flavour == "rtx")


def missing(uses: Uses, listing: Listing) -> Iterator[str]:
    """What a file uses and a release lacks."""
    yield from (name for name in uses.module if name not in listing.names)
    yield from (f"{owner}.{name}" for owner, name in uses.members if not listing.has(owner, name))
    for word in uses.loose_words:
        yield from (f"{kind}.{word}" for kind in kinds_of(word) if not listing.has(kind, word))
    for method, setting in uses.settings:
        if not any(listing.has(layer, setting) for layer in listing.layers(method)):
            yield f"{method or 'any'} layer's {setting}"


@cache
def all_uses() -> dict[str, Uses]:
    """By module of ours."""
    return {source.stem: names_in_use(source) for source in SOURCES}


def kinds_of(word: str) -> set[str]:
    """The enumerations which a word may be a member of, by what RTX says.

    A member written in one module may be handed to a function of another.
    """
    open_enums = {kind for uses in all_uses().values() for kind in uses.open_enums}
    return {kind for kind in open_enums if RTX.has(kind, word)}


@pytest.mark.parametrize("listing", LISTINGS, ids=str)
@pytest.mark.parametrize("module", [source.stem for source in SOURCES])
def test_names_in_use_exist(module: str, listing: Listing) -> None:
    assert sorted(missing(all_uses()[module], listing)) == []


def test_words_for_open_enumerations_are_members() -> None:
    with_enums = {module: uses for module, uses in all_uses().items() if uses.open_enums}
    assert with_enums
    for module, uses in with_enums.items():
        assert [word for word in sorted(uses.loose_words) if not kinds_of(word)] == [], module


def test_releases_we_promise_are_listed() -> None:
    assert [str(listing) for listing in LISTINGS] == [
        "enterprise-10.0.1",
        "enterprise-10.16.1.11",
        "enterprise-11.4.0.106",
        "rtx-1.7.1.116",
    ]


def test_names_asked_for_with_a_default_are_known() -> None:
    asked = {name for uses in all_uses().values() for name in uses.optional}
    assert asked == set(OPTIONAL)


def test_reader_of_sources_finds_every_form(tmp_path: Path) -> None:
    source = tmp_path / "lowering.py"
    source.write_text(
        'KINDS = {1: "SUM"}\n'
        "def lowering(network, kind, loop):\n"
        '    layer = network.add("nonsense", network.trt.Nothing(1))\n'
        "    layer.no_such_setting, layer.axes = 1, 2\n"
        '    network.add("never", owner=loop)\n'
        '    network.enum("PoolingType", "MEDIAN" if kind else "MAX")\n'
        '    network.enum("ElementWiseOperation", kind)\n'
        "    config.clear_flag(trt.BuilderFlag.FP16)\n"
    )
    uses = names_in_use(source)
    assert sorted(missing(uses, RTX)) == [
        "BuilderFlag.FP16",
        "ILoop.add_never",
        "INetworkDefinition.add_nonsense",
        "Nothing",
        "PoolingType.MEDIAN",
        "nonsense layer's axes",
        "nonsense layer's no_such_setting",
    ]
    assert uses.loose_words == {"SUM"}
    assert uses.open_enums == {"ElementWiseOperation"}


@pytest.mark.parametrize("listing", LISTINGS, ids=str)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_every_element_type_has_a_name(listing: Listing, dtype: DType) -> None:
    module = SimpleNamespace(**{name: name for name in listing.names})
    assert Backend(listing.flavour, cast(Any, module)).dtype(dtype) in listing.names


@pytest.mark.trt
def test_listing_of_rtx_is_that_of_the_installed_one() -> None:
    trt = importlib.import_module("tensorrt_rtx")
    if trt.__version__ != RTX.version:
        pytest.skip(f"tensorrt_rtx {trt.__version__} is installed, {RTX.version} is listed")
    assert json.loads(json.dumps(names_of(trt))) == RTX.names


COLLECTED = """
import gc
from prototrt.converter.backends.tensorrt.api import find_backend

backend = find_backend("rtx")

class Logger(backend.trt.ILogger):
    def __init__(self):
        backend.trt.ILogger.__init__(self)

    def log(self, severity, text):
        gc.set_threshold(1)
        [[] for _ in range(9)]

gc.disable()
garbage = [backend.builder(Logger())]
garbage.append(garbage)
del garbage
gc.set_threshold(1 << 30)
gc.enable()
backend.builder(Logger())  # TensorRT warns that it is another one
assert gc.isenabled()
print("made")
"""


@pytest.mark.trt
def test_no_old_builder_is_collected_while_a_new_one_is_made() -> None:
    """Its end would wait for the lock that TensorRT holds while it calls the logger."""
    pytest.importorskip("tensorrt_rtx", reason="needs TensorRT for RTX")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev")}
    command = [sys.executable, "-c", COLLECTED]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout == "made\n", done.stderr


@pytest.mark.parametrize(
    ("source", "system", "message"),
    [
        (
            None,
            "linux",
            "backend enterprise needs the package tensorrt, which is not installed\n  fix: pip install tensorrt",
        ),
        (
            None,
            "darwin",
            "backend enterprise needs the package tensorrt, which is not installed\n"
            "  fix: TensorRT runs on Linux and Windows: write an ONNX model here, and build the engine there",
        ),
        (
            "import a_library_of_tensorrt",
            "win32",
            "backend enterprise needs the package tensorrt, which cannot be imported: No module named"
            " 'a_library_of_tensorrt'\n  fix: pip install --force-reinstall tensorrt",
        ),
        (
            "raise OSError('libnvinfer.so.10: cut short')",
            "linux",
            "backend enterprise needs the package tensorrt, which cannot be imported: libnvinfer.so.10: cut short\n"
            "  fix: pip install --force-reinstall tensorrt",
        ),
        (
            "__version__ = '8.6.1'",
            "linux",
            "tensorrt 8.6.1 is too old, expected 10 or later\n  fix: pip install --upgrade tensorrt",
        ),
    ],
)
def test_what_to_install(
    source: str | None, system: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source is None:
        monkeypatch.setitem(sys.modules, "tensorrt", None)
    else:
        monkeypatch.delitem(sys.modules, "tensorrt", raising=False)
        (tmp_path / "tensorrt.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(BuildError) as caught:
        find_backend("enterprise")
    sys.modules.pop("tensorrt", None)
    assert str(caught.value) == message
