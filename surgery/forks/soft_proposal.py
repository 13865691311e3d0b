"""Maps weighted by where their objects are likely. From SPN."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from prototrt.surgery.rules import (
    Array,
    Builder,
    Layer,
    LayerBuilder,
    Step,
    Value,
    computable,
    exact,
    expect_axes,
    fixed,
    layer_rule,
    misfit,
    ops,
    refuse_large,
    scan,
)

_MOST_STEPS = 100
_MOST_PLACES = 4096
_USUAL_STEPS, _USUAL_TOLERANCE, _USUAL_FACTOR = 20, 1e-4, 0.15


@layer_rule("SoftProposal")
def soft_proposal(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Each place times its share in a random walk between places that differ, or are near. From SPN, SRN.

    Becomes: Scan, MatMul, Select and arithmetic.
    A walk from place n to m is as likely as ``|x_m - x_n| + exp(-d^2 / (2 factor^2))``, where d is how far they are
    apart; the shares are those after up to ``maxiteration`` steps, 20 unless stated, and no more once the change is
    shorter than ``tolerance``, 1e-4 unless stated. ``factor`` is 0.15 of the width unless stated.
    Bottoms: (N, C, H, W). Tops: one, of the same shape.
    Source: KevinKecc/caffe-spn ``src/caffe/layers/soft_proposal_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param, batch = layer.param, computable(x.shape[0], "the batch")
    channels, height, width = (fixed(size, "a size of the map") for size in x.shape[1:])
    count = height * width
    if count > _MOST_PLACES:
        because = "a matrix has a number for each two places"
        raise misfit(layer, 0, x, f"at most {_MOST_PLACES} places", "use smaller images", because)
    steps = param.maxiteration if param.HasField("maxiteration") else _USUAL_STEPS
    tolerance = param.tolerance if param.HasField("tolerance") else _USUAL_TOLERANCE
    refuse_large("maxiteration", steps, _MOST_STEPS)
    ways = _differences(build, exact(x).reshape(batch, channels, count)).sqrt() + build.constant(
        _nearness(height, width, param.factor if param.HasField("factor") else width * _USUAL_FACTOR), "near"
    )
    ways = (ways / ways.sum(1)).named("ways")
    even = build.constant(np.full((1, count, 1), 1 / count, np.float32), "even")
    shares = before = build.broadcast(even, (batch, count, 1))
    is_done: Value | None = None
    for _ in range(ceil(steps)):
        change = ways.apply(ops.MatMul(), shares) - before
        is_small = (change * change).sum(1).sqrt() < tolerance
        is_done = is_small if is_done is None else is_done | is_small
        before = shares + change
        shares = is_done.chosen(shares, before / before.sum(1)).named("shares")
    return [x * shares.reshape(batch, 1, height, width)]


def _differences(build: LayerBuilder, places: Value) -> Value:
    """The squared distance of the numbers at each two of the places (N, C, P): (N, P, P)."""
    batch, _, count = (computable(size) for size in places.shape)

    def step(body: Builder, here: Sequence[Value], states: Sequence[Value]) -> Step:
        difference = here[0].reshape(batch, count, 1) - here[0].reshape(batch, 1, count)
        return Step([states[0] + difference * difference], [])

    none = build.constant(np.zeros((1, 1, 1), np.float32), "none")
    pairs = build.broadcast(none, (batch, count, count))
    return scan(build, step, [places.transpose(1, 0, 2)], [pairs], over_places=True).states[0]


def _nearness(height: int, width: int, factor: float) -> Array:
    rows, columns = (places.reshape(-1, 1) for places in np.indices((height, width)))
    squares = (rows - rows.T) ** 2 + (columns - columns.T) ** 2
    return np.asarray(np.exp(-squares / (2 * factor**2)), np.float32)[None]
