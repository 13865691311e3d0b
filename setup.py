"""The step of a build that setup.cfg cannot state: Graphviz for browsers is fetched, if it is not there."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

GRAPHVIZ = Path(__file__).parent / "converter" / "showing" / "page" / "graphviz_js.py"


class BuildPy(build_py):
    """Copies the package, with Graphviz for browsers among its data."""

    def run(self) -> None:
        runpy.run_path(str(GRAPHVIZ))["provide"](self.warn)
        super().run()

    def find_package_modules(self, package: str, package_dir: str) -> list[Any]:
        """Without this file: it is in the folder of the package, but not a part of it."""
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if module[:2] != ("prototrt", "setup")]


setup(cmdclass={"build_py": BuildPy})
