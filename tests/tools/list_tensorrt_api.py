#!/usr/bin/env python3
"""List the names of a TensorRT's Python interface: ``tests/goldens/tensorrt_api/VERSION.json``.

    pip download --no-deps tensorrt-cu12-bindings==10.16.1.11
    python tests/tools/list_tensorrt_api.py tensorrt_cu12_bindings-10.16.1.11-*.whl
    python tests/tools/list_tensorrt_api.py tensorrt_rtx

A wheel of bindings is listed without NVIDIA's libraries and without a GPU: libraries that
hold nothing but the functions which the bindings call stand in for them. The wheel must be
for the Python that runs this.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

LISTINGS = Path(__file__).parents[1] / "goldens" / "tensorrt_api"

FUNCTIONS = (
    "createInferBuilder_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "getBuilderPluginRegistry",
    "getNvOnnxParserVersion",
    "getPluginRegistry",
    "initLibNvInferPlugins",
)


def main(argument: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        is_wheel = argument.endswith(".whl")
        module = _from_wheel(Path(argument), Path(folder)) if is_wheel else importlib.import_module(argument)
    flavour = "enterprise" if is_wheel else "rtx"
    listing = {"flavour": flavour, "version": module.__version__, "names": names_of(module)}
    LISTINGS.mkdir(parents=True, exist_ok=True)
    target = LISTINGS / f"{flavour}-{module.__version__}.json"
    target.write_text(_one_line_per_name(listing))
    print(f"{target}: {len(names_of(module))} names")


def names_of(module: ModuleType) -> dict[str, Any]:
    """The public names of a module; of a class also its bases, its own names, and its members if it is an enum."""
    public = {name: item for name, item in vars(module).items() if not name.startswith("_")}
    return {
        name: _class(item) if inspect.isclass(item) else {}
        for name, item in sorted(public.items())
        if not inspect.ismodule(item)
    }


def _class(item: type) -> dict[str, Any]:
    members = sorted(getattr(item, "__members__", ()))
    own = sorted(name for name in vars(item) if not name.startswith("_") and name not in members)
    bases = [base.__name__ for base in item.__bases__ if base.__module__ != "builtins"]
    facts = {"bases": [base for base in bases if base != "pybind11_object"], "names": own, "members": members}
    return {key: value for key, value in facts.items() if value}


def _one_line_per_name(listing: dict[str, Any]) -> str:
    lines = [f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in listing["names"].items()]
    head = [f"{json.dumps(key)}: {json.dumps(listing[key])}," for key in ("flavour", "version")]
    return "\n".join(["{", *head, '"names": {', ",\n".join(lines), "}", "}"]) + "\n"


def _from_wheel(wheel: Path, folder: Path) -> ModuleType:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (library,) = folder.glob("tensorrt_bindings/tensorrt*.so")
    for needed in _needed(library):
        _load_stand_in(needed, folder)
    sys.path.insert(0, str(folder))
    return importlib.import_module("tensorrt_bindings")


def _needed(library: Path) -> list[str]:
    """The libraries of NVIDIA that the bindings are linked to, by the names in their ELF header."""
    text = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.findall(r"NEEDED.*\[(libnv[^]]*)\]", text)


def _load_stand_in(name: str, folder: Path) -> None:
    """A library of this name is loaded: the linker looks for no other."""
    source = folder / "stand_in.c"
    source.write_text("".join(f"void *{function}(void) {{ return 0; }}\n" for function in FUNCTIONS))
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(source)]
    subprocess.run(command, check=True)
    ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
