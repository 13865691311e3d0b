"""The networks that are measured: their topologies are stored, their weights are drawn here."""

from __future__ import annotations

from pathlib import Path

from prototrt.tests.tools.random_caffemodel import write_random

MODELS = Path(__file__).parent / "models"


SAMPLE = "digits"
_SAMPLE = Path(__file__).parents[2] / "samples" / SAMPLE


def prototxt(name: str) -> Path:
    return _SAMPLE / "deploy.prototxt" if name == SAMPLE else MODELS / f"{name}.prototxt"


def caffemodel(name: str, folder: Path) -> Path:
    """The weights file of a network, drawn and written when there is none yet."""
    if name == SAMPLE:
        return _SAMPLE / f"{SAMPLE}.caffemodel"
    path = folder / f"{name}.caffemodel"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_random(path, prototxt(name))
    return path
