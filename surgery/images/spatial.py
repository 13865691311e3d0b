"""Sizes along the axes after the channels, as a message states them."""

from __future__ import annotations

from typing import Any

from prototrt.caffe_proto.common.errors import NetError

Ends = tuple[tuple[int, ...], tuple[int, ...]]
"""What stands before and after each axis."""


def per_axis(values: list[int], name: str, spatial: int, default: int | None = None) -> tuple[int, ...]:
    """A repeated field, stated once for all axes or once per axis. Raises ``NetError``."""
    if not values and default is not None:
        return (default,) * spatial
    if len(values) not in (1, spatial):
        raise NetError(
            f"{name} is stated {len(values)} times, expected once or {spatial} times",
            because=f"the bottom has {spatial} spatial axes",
            fix=f"state {name} once for all axes, or once per axis",
        )
    return tuple(values * spatial if len(values) == 1 else values)


def pads_of_sides(param: Any, spatial: int) -> Ends | None:
    """The pads of each side, of Synopsys' fork; None if the fields state none, or only zeros.

    Raises ``NetError`` if other fields pad, too.
    Source: synopsys-caffe ``base_conv_layer.cpp``, ``pooling_layer.cpp``.
    """
    sides = [name for name in ("pad_t", "pad_b", "pad_l", "pad_r") if getattr(param, name)]
    if not sides:
        return None
    others = [*(name for name in ("pad_h", "pad_w") if getattr(param, name)), *["pad"] * any(param.pad)]
    if others:
        raise NetError(f"states both {sides[0]} and {others[0]}", fix=f"remove {others[0]}, or {sides[0]}")
    if spatial != 2:
        raise NetError(
            f"{sides[0]} is for 2 spatial axes, the bottom has {spatial}",
            fix="state pad, once or once per axis",
        )
    return (param.pad_t, param.pad_l), (param.pad_b, param.pad_r)
