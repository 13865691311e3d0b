"""Fuzzing guided by coverage: ``python tests/fuzz/fuzz.py text|wire CORPUS [options of libFuzzer]``.

``text`` takes bytes for a prototxt and looks at the net, ``wire`` takes them for weights and for a mean
file. The corpus begins as the goldens. Whatever leaves but a ConversionError is a crash, and libFuzzer
keeps the bytes that made it.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["prototrt"]):
    import prototrt
    from prototrt.caffe_proto.weights.binaryproto import read_binaryproto
    from prototrt.surgery.expansion.expand import expand

GOLDENS = Path(__file__).parents[1] / "goldens" / "caffe"
# Layers that share and layers that do not, under names that the goldens store weights for.
NET = "".join(
    f"layer {{ name: '{name}' type: 'InnerProduct' top: '{name}' param {{ name: '{name[0]}' }} }}\n"
    for name in ("conv1", "conv2", "ip1", "ip2", "fc", "fc2", "lstm1", "bn1", "scale1")
)
SEEDS = {"text": "*/*.prototxt", "wire": "*/model.caffemodel"}
LARGEST = 1 << 14  # bytes: larger goldens slow the search down and teach it nothing


def text(folder: Path, data: bytes) -> None:
    """Read a net and find the shapes of its blobs."""
    (folder / "net.prototxt").write_bytes(data)
    with contextlib.suppress(prototrt.ConversionError):
        expand(
            prototrt.load(folder / "net.prototxt", allow_unknown=len(data) % 2 == 0), require_weights=False
        )


def wire(folder: Path, data: bytes) -> None:
    """Read weights and all of their numbers, and a mean file."""
    (folder / "weights").write_bytes(data)
    with contextlib.suppress(prototrt.ConversionError):
        for layer in prototrt.load(folder / "net.prototxt", folder / "weights").layers:
            for blob in layer.blobs or ():
                assert blob.array.shape == blob.shape
    with contextlib.suppress(prototrt.ConversionError):
        read_binaryproto(folder / "weights")


def seed(target: str, corpus: Path) -> None:
    """Put the goldens into a new corpus."""
    corpus.mkdir(parents=True, exist_ok=True)
    for path in sorted(GOLDENS.glob(SEEDS[target])):
        if path.stat().st_size <= LARGEST:
            shutil.copyfile(path, corpus / f"{path.parent.name}-{path.name}")


def main(target: str, corpus: str, *options: str) -> None:
    """Run libFuzzer, which ends the process."""
    targets: dict[str, Callable[[Path, bytes], None]] = {"text": text, "wire": wire}
    seed(target, Path(corpus))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "net.prototxt").write_text(NET)
        arguments = [sys.argv[0], corpus, "-rss_limit_mb=1500", "-malloc_limit_mb=64", *options]
        atheris.Setup(arguments, lambda data: targets[target](Path(folder), data))
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
