"""Nets of the usual kinds whose sizes vary, and five sizes at which each of them is tried."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import prototrt
from prototrt.surgery.ir import Array, Graph, Range, size_at, size_from_text
from prototrt.tests.digit_strips import DIGITS
from prototrt.tests.golden_cases import case_called
from prototrt.tests.small_nets import inputs_of, numbers, op

Sizes = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class OpenNet:
    """A net, the sizes that vary in it, and five calls. Without a file of ``weights`` they are random.

    ``stated`` are fields in which the net states sizes of the call: ``{T}`` is the number of steps.
    """

    text: str
    weights: Path | None
    outputs: Sequence[str]
    shapes: Mapping[str, Sequence[int | str]]
    sizes: Mapping[str, tuple[int, int, int]]
    calls: Sequence[Sizes]
    stated: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def graph(self) -> Graph:
        """The one graph for all sizes."""
        usual = {name: opt for name, (_, opt, _) in self.sizes.items()}
        return self._rewritten(usual, shapes=self.shapes, sizes=self.sizes)

    def fixed(self, sizes: Sizes) -> Graph:
        """The graph for these sizes alone, of a net that states them."""
        return self._rewritten(sizes, shapes=self._numbers(sizes))

    def feeds(self, sizes: Sizes) -> dict[str, Array]:
        """Small random numbers; cont is 0 in the first step and 1 in all others."""
        feeds = {name: numbers(*shape, seed=sum(shape)) for name, shape in self._numbers(sizes).items()}
        if "cont" in feeds:
            feeds["cont"][:] = 1
            feeds["cont"][0] = 0
        return feeds

    @functools.cached_property
    def answers(self) -> list[tuple[dict[str, Array], dict[str, Array]]]:
        """The inputs of each call, and what the net for its sizes alone computes."""
        feeds = [self.feeds(sizes) for sizes in self.calls]
        return [
            (feed, prototrt.Session(self.fixed(sizes)).run(feed))
            for feed, sizes in zip(feeds, self.calls, strict=True)
        ]

    def _rewritten(self, stated: Sizes, **options: Any) -> Graph:
        with tempfile.TemporaryDirectory() as folder:
            prototxt = Path(folder) / "net.prototxt"
            prototxt.write_text(self.text)
            model = prototrt.load(
                prototxt,
                self.weights,
                overrides={key: text.format(**stated) for key, text in self.stated.items()},
                random_weights=None if self.weights else 0,
            )
            graph = prototrt.rewrite(model, outputs=self.outputs, **options, **self.options)
        return replace(graph, sources=())  # the file is gone when a plan would be told its digest

    def _numbers(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        spans = {name: Range(size, size, size) for name, size in sizes.items()}
        return {
            name: tuple(size_at(size_from_text(str(dim), spans), sizes) for dim in shape)
            for name, shape in self.shapes.items()
        }


def _of_golden(name: str) -> tuple[str, Path]:
    folder = case_called(name).folder
    return (folder / "model.prototxt").read_text(), folder / "model.caffemodel"


def _columns() -> tuple[str, Path]:
    """CRNN with the columns of its map as steps, as Permute and Reshape bring them forward, and its weights.

    In the golden they are cut and joined one by one, which is the same for its width alone.
    """
    text, weights = _of_golden("net_crnn")
    begin, end = text.index('layer {\n  name: "cols"'), text.index('layer {\n  name: "const_c_first"')
    columns = op("Permute", "permute_param { order: 3 order: 0 order: 1 order: 2 }", ("p2",), ("columns",))
    steps = op("Reshape", "reshape_param { shape { dim: 0 dim: 0 dim: -1 } }", ("columns",), ("tn",))
    return text[:begin] + columns + steps.replace('"op"', '"steps"') + text[end:], weights


def _waifu2x() -> str:
    """Convolutions without padding, each with a leaky ReLU in place."""
    text, bottom = inputs_of({"data": (1, 1, 40, 40)}), "data"
    for place, outputs in enumerate((4, 4, 8, 8, 12, 12, 1), 1):
        top = f"conv{place}"
        convolution = f"convolution_param {{ num_output: {outputs} kernel_size: 3 }}"
        text += op("Convolution", convolution, (bottom,), (top,)).replace('"op"', f'"{top}"')
        if place < 7:
            leaky = op("ReLU", "relu_param { negative_slope: 0.1 }", (top,), (top,))
            text += leaky.replace('"op"', f'"relu{place}"')
        bottom = top
    return text


def _images(*calls: tuple[int, int, int]) -> list[Sizes]:
    return [dict(zip("NHW", call, strict=True)) for call in calls]


OPEN_NETS = {
    "LRCN": OpenNet(
        # a frame for each step of each stream
        *_of_golden("net_lrcn"),
        outputs=["prob"],
        shapes={"frames": ("T*N", 3, 12, 12), "cont": ("T", "N")},
        sizes={"T": (1, 5, 12), "N": (1, 2, 4)},
        calls=[{"T": t, "N": n} for t, n in ((5, 2), (1, 1), (12, 1), (3, 4), (7, 3))],
        stated={"seq.reshape_param.shape.dim": "{T},{N},12"},
    ),
    "digits": OpenNet(
        # the sample of this project, several strips at once
        (DIGITS / "deploy.prototxt").read_text(),
        DIGITS / "digits.caffemodel",
        outputs=["prob"],
        shapes={"data": ("T*N", 1, 32, 16), "cont": ("T", "N")},
        sizes={"T": (1, 40, 80), "N": (1, 1, 4)},
        calls=[{"T": t, "N": n} for t, n in ((40, 1), (1, 1), (80, 1), (5, 4), (13, 3))],
        stated={"steps.reshape_param.shape.dim": "{T},{N},64"},
    ),
    "CRNN": OpenNet(
        # lines of text, whose columns are the steps
        *_columns(),
        outputs=["prob"],
        shapes={"data": ("N", 1, 8, "W")},
        sizes={"W": (4, 24, 100), "N": (1, 2, 4)},
        calls=[{"W": w, "N": n} for w, n in ((24, 2), (4, 1), (31, 4), (97, 1), (50, 3))],
        options={"cont": "drop", "state": "zero"},
    ),
    "FCN": OpenNet(
        # segmentation, a class for each pixel
        *_of_golden("net_fcn"),
        outputs=["prob"],
        shapes={"data": ("N", 3, "H", "W")},
        sizes={"N": (1, 1, 4), "H": (14, 17, 40), "W": (13, 15, 40)},
        calls=_images((1, 17, 15), (2, 14, 13), (1, 31, 18), (4, 40, 29), (3, 23, 40)),
    ),
    "SSD": OpenNet(
        # the backbone and both heads of a detector
        *_of_golden("net_ssd"),
        outputs=["mbox_loc", "mbox_conf_flatten"],
        shapes={"data": ("N", 3, "H", "W")},
        sizes={"N": (1, 1, 4), "H": (32, 48, 96), "W": (32, 48, 96)},
        calls=_images((1, 48, 48), (2, 32, 64), (1, 49, 33), (3, 95, 40), (4, 64, 96)),
    ),
    "waifu2x": OpenNet(
        # super-resolution by convolutions without padding
        _waifu2x(),
        None,
        outputs=["conv7"],
        shapes={"data": ("N", 1, "H", "W")},
        sizes={"N": (1, 1, 4), "H": (15, 40, 64), "W": (15, 40, 64)},
        calls=_images((1, 15, 15), (2, 16, 40), (1, 64, 48), (4, 33, 17), (3, 40, 40)),
    ),
}
"""The middle of three sizes is the usual one, as in ``--size T=1..5..12``."""
