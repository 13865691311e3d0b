"""Puts together the pages that Sphinx makes a site of, in the folder given.

    python docs/make_site.py build/docs/pages

README.md, docs and samples keep their places, so that the links between them lead where they lead in the
repository. Added are the contents, in `index.md`, and a page of the public names, from their docstrings.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import prototrt

ROOT = Path(__file__).parents[1]
SUFFIXES = frozenset((".cpp", ".h", ".ipynb", ".json", ".md", ".png", ".py", ".svg", ".txt", ".yaml", ".yml"))
"""Of pages, and of what they show or link to."""
CONTENTS = {
    "Start": [
        "docs/tutorial",
        "docs/commands",
        "docs/python",
        "docs/api",
        "docs/troubleshooting",
    ],
    "Targets": [
        "docs/deploy",
        "docs/building",
        "docs/tensorrt-python",
        "docs/onnx",
        "docs/pytorch",
        "docs/opencv",
        "docs/other-tools",
        "docs/manifest",
    ],
    "Recurrent nets": [
        "docs/recurrent",
        "docs/how-it-works",
        "samples/digits/README",
    ],
    "Sizes and images": [
        "docs/sizes",
        "docs/preprocessing",
    ],
    "Checking": [
        "docs/pictures",
        "docs/testing",
        "docs/gpu-results",
    ],
    "Precision": [
        "docs/precision",
        "docs/calibration",
    ],
    "Running": [
        "docs/running",
        "samples/cpp/README",
    ],
    "Serving and CI": [
        "docs/triton",
        "docs/deepstream",
        "docs/batch",
        "samples/ci/README",
        "docs/json",
        "docs/signing",
    ],
    "Layers, forks and plugins": [
        "docs/layers",
        "docs/forks",
        "docs/caffe2",
        "docs/plugins",
        "docs/tile",
    ],
    "Old files and weights": [
        "docs/coming-from-nvidias-caffe-parser",
        "docs/upgrade",
        "docs/weights",
    ],
    "Recipes": [
        "docs/recipes/README",
        "docs/recipes/crnn",
        "docs/recipes/lrcn",
        "docs/recipes/ssd",
        "docs/recipes/fcn",
        "docs/recipes/openpose",
        "docs/recipes/faster-rcnn",
        "docs/recipes/speech",
        "docs/recipes/waifu2x",
        "docs/recipes/classify",
        "docs/recipes/digits",
        "docs/recipes/mtcnn",
        "docs/recipes/odd-layer",
    ],
    "Contributing": [
        "CONTRIBUTING",
        "docs/design",
        "docs/glossary",
        "docs/decisions",
        "docs/releases",
        "CHANGELOG",
        "SECURITY",
    ],
}
"""The pages by section; Sphinx refuses a page that is not here."""

KINDS = {"class": type, "module": ModuleType, "function": FunctionType}
"""What Sphinx documents, and what that is in Python; all else are data."""


MARK = "written-by-prototrt"
"""In the folder: an empty file, without which a folder that is there is not removed."""


def make_site(target: Path) -> None:
    """Copy all pages, and write those that are made here. Only a folder that this program has made is replaced."""
    if (target / MARK).is_file():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    (target / MARK).touch()
    found = [*ROOT.glob("*.md"), ROOT / "LICENSE"]
    found += [
        path for part in ("docs", "samples") for path in (ROOT / part).rglob("*") if path.suffix in SUFFIXES
    ]
    for path in found:
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            copy.write_text(path.read_text().replace("/README.md#", "/index.md#"))
        else:
            shutil.copyfile(path, copy)
    with (target / "README.md").rename(target / "index.md").open("a") as page:
        page.write(contents())
    (target / "docs" / "api.md").write_text(reference())


def contents() -> str:
    return "".join(tree(pages, section) for section, pages in CONTENTS.items())


def tree(pages: list[str], caption: str) -> str:
    """A table of contents beside the pages; the text of the page has its own links."""
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n" + "\n".join(["", *pages]) + "\n```\n"


def reference() -> str:
    """All public names, under the names that callers use."""
    parts = [
        "# Python API",
        "Every name is imported when it is first used: `import prototrt` alone costs nothing.",
    ]
    for name in sorted(prototrt.__all__, key=str.lower):
        thing = getattr(prototrt, name)
        kind = next((kind for kind, type_ in KINDS.items() if isinstance(thing, type_)), "data")
        members = "\n   :members:" if kind in ("class", "module") else ""
        parts.append(f"## {name}\n\n```{{eval-rst}}\n.. auto{kind}:: prototrt.{name}{members}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    make_site(Path(sys.argv[1]))
