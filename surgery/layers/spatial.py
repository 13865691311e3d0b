"""Sizes along the axes after the channels, as a message states them."""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import NetError


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
