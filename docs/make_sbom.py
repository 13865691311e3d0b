"""Writes what a wheel consists of beside it, in CycloneDX: ``make wheel``.

``python docs/make_sbom.py FOLDER``: the wheel in the folder, with the packages of locks/run.txt that are
installed with it, and Graphviz for browsers, which is inside of it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import prototrt
from prototrt.converter.showing.page import graphviz_js

ROOT = Path(__file__).parents[1]


def write(folder: str) -> Path:
    """``FOLDER/prototrt-VERSION.cdx.json``; the same bytes for the same wheel."""
    (wheel,) = Path(folder).glob(f"prototrt-{prototrt.__version__}-*.whl")
    bill = installed_with_it()
    ours = component("application", "pypi", "prototrt", prototrt.__version__, wheel)
    bill["metadata"]["component"] = {**ours, "bom-ref": ours["purl"]}
    graphviz = graphviz_js.FOLDER / "graphviz.js"
    bill["components"].append(component("library", "npm", graphviz_js.PACKAGE, graphviz_js.VERSION, graphviz))
    path = Path(folder) / f"prototrt-{prototrt.__version__}.cdx.json"
    path.write_text(json.dumps(bill, indent=2) + "\n")
    return path


def installed_with_it() -> dict[str, Any]:
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--of", "JSON"]
    done = subprocess.run([*command, str(ROOT / "locks" / "run.txt")], check=True, capture_output=True)
    bill: dict[str, Any] = json.loads(done.stdout)
    return bill


def component(kind: str, registry: str, name: str, version: str, file: Path) -> dict[str, Any]:
    """Both that are not in the lock file are under the Apache licence."""
    return {
        "type": kind,
        "name": name,
        "version": version,
        "purl": f"pkg:{registry}/{quote(name)}@{version}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
    }


if __name__ == "__main__":
    write(*sys.argv[1:])
