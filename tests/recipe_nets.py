"""What the tests of recipes begin with: a small net's files, a photo, and what to expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import prototrt
from prototrt.surgery.ir import Array
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.small_nets import op
from prototrt.tests.tools.caffemodel_writer import write as write_caffemodel
from prototrt.tests.tools.random_caffemodel import write_random

RECIPES = ROOT / "docs" / "recipes"
PROGRAMS = ROOT / "samples" / "recipes"
RANDOM = np.random.default_rng(7)


def layers(*rows: tuple[str, str, Sequence[str], str]) -> str:
    """Layers of a type with fields, bottoms, and one top, which is also their name."""
    return "\n".join(
        op(kind, fields, bottoms, (top,)).replace('"op"', f'"{top}"') for kind, fields, bottoms, top in rows
    )


def convolution(outputs: int, side: int = 3, stride: int = 1) -> str:
    return (
        f"convolution_param {{ num_output: {outputs} kernel_size: {side} pad: {side // 2} stride: {stride} }}"
    )


def write_net(text: str) -> prototrt.Model:
    """Write the files that a recipe begins with."""
    Path("deploy.prototxt").write_text(text)
    assert write_random(Path("net.caffemodel"), Path("deploy.prototxt"))
    return prototrt.load("deploy.prototxt", "net.caffemodel")


def scaled(model: prototrt.Model, gains: Mapping[str, float]) -> prototrt.Model:
    """The same net with the weights of some layers made larger or smaller, also in its file."""
    blobs = {
        layer.name: [blob.array * np.float32(gains.get(layer.name, 1)) for blob in layer.blobs or ()]
        for layer in model.layers
    }
    write_caffemodel(Path("net.caffemodel"), blobs)
    return prototrt.load("deploy.prototxt", "net.caffemodel")


def write_photo(name: str, width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Smooth noise, which a net answers with more than one class."""
    small = RANDOM.integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).convert(mode)
    image.save(name)
    return image


def reference(model: prototrt.Model, feeds: dict[str, Array], **options: Any) -> dict[str, Array]:
    """What the primitives compute of inputs of these shapes."""
    graph = prototrt.rewrite(model, shapes={name: array.shape for name, array in feeds.items()}, **options)
    return prototrt.Session(graph).run(feeds)
