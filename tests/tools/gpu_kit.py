"""Pack what a CUDA machine without internet needs to run tests/gpu/check.py: the tree and packages installed here.

    python tests/tools/gpu_kit.py build/gpu-kit

writes ``kit.tar.xz.00``, ``.01`` and so on, of at most 60 MiB each, and ``run.py``, which unpacks them beside itself
and runs the check. That machine needs the same version of Python, and NVIDIA's driver. Of a package that it has
already, its own is used; PyTorch is not packed.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ROOTS = ("click", "cuda-python", "numpy", "protobuf", "rich", "tensorrt-rtx")
PART_SIZE = 60 << 20
PRESET = 9 | lzma.PRESET_EXTREME
_DICTIONARY = 256 << 20
"""Bytes: larger than TensorRT's library, which holds the same things again and again."""


class Parts:
    """A file in parts, each of at most so many bytes."""

    def __init__(self, stem: Path, size: int) -> None:
        self._stem, self._size = stem, size
        self._left, self.paths = 0, list[Path]()

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            if not self._left:
                self.paths.append(self._stem.with_name(f"{self._stem.name}.{len(self.paths):02}"))
                self._left = self._size
            piece, rest = rest[: self._left], rest[self._left :]
            with self.paths[-1].open("ab") as stream:
                stream.write(piece)
            self._left -= len(piece)
        return len(data)


class Compressed:
    """Compresses what is written, as machine code of x86 compresses best."""

    def __init__(self, parts: Parts, preset: int) -> None:
        filters = [
            {"id": lzma.FILTER_X86},
            {
                "id": lzma.FILTER_LZMA2,
                "preset": preset,
                "dict_size": _DICTIONARY if preset == PRESET else 1 << 20,
            },
        ]
        self._compressor = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=filters)
        self._parts = parts

    def write(self, data: bytes) -> int:
        self._parts.write(self._compressor.compress(data))
        return len(data)

    def close(self) -> None:
        self._parts.write(self._compressor.flush())


def pack(
    target: Path, roots: Sequence[str] = ROOTS, part_size: int = PART_SIZE, preset: int = PRESET
) -> list[Path]:
    """Write the kit into a folder, which is emptied first. The parts."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    parts = Parts(target / "kit.tar.xz", part_size)
    compressed: Any = Compressed(parts, preset)  # tarfile asks for no more than write and close
    with tarfile.open(fileobj=compressed, mode="w|") as archive:
        for path in tracked():
            archive.add(ROOT / path, f"tree/{path}", recursive=False)
        for name in closure(roots):
            for file in metadata.distribution(name).files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    archive.add(str(file.locate()), f"packages/{name}/{file}", recursive=False)
    compressed.close()
    shutil.copy(Path(__file__).with_name("gpu_kit_run.py"), target / "run.py")
    return parts.paths


def tracked() -> Iterator[str]:
    """The files that git knows, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return (path for path in listed.stdout.split("\0") if path and (ROOT / path).exists())


def closure(roots: Iterable[str]) -> list[str]:
    """The packages, and what they need of what is installed here."""
    found: dict[str, None] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform, or an extra
        found[name] = None
        waiting += [re.split(r"[^\w.-]", each)[0] for each in needed if "extra ==" not in each]
    return sorted(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pack what a CUDA machine needs for tests/gpu/check.py.")
    parser.add_argument("target", type=Path, help="A folder, which is emptied first.")
    target = parser.parse_args(arguments).target
    parts = pack(target)
    for path in (*parts, target / "run.py"):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")
    print(
        f"there, with Python {sys.version_info[0]}.{sys.version_info[1]}: python3 run.py --budget 540 > results.md"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
