"""Optimization profiles: the sizes for which TensorRT chooses kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.tensorrt.network import Network
from prototrt.surgery.ir import Graph, Range, size_at
from prototrt.surgery.ir.range_words import another_range


def profiles_of(
    graph: Graph, network: Network, asked: Sequence[Mapping[str, Sequence[int]]]
) -> Iterator[Any]:
    """The profiles of a graph: one for all sizes, or those that were asked for; none where no size varies.

    Raises ``OptionsError`` for profiles that do not fit the sizes.
    """
    varying = [value for value in graph.inputs if any(not isinstance(dim, int) for dim in value.shape)]
    chosen = [_ranges(graph.symbols, each) for each in asked] or [dict(graph.symbols)]
    if asked:
        _refuse_gaps(graph.symbols, chosen)
    for ranges in chosen if varying else ():
        profile = network.builder.create_optimization_profile()
        sizes = [
            dict(zip(ranges, each, strict=True))
            for each in zip(*((span.min, span.opt, span.max) for span in ranges.values()), strict=True)
        ]
        for value in varying:
            profile.set_shape(value.name, *([size_at(dim, each) for dim in value.shape] for each in sizes))
        yield profile


def _ranges(ranges: Mapping[str, Range], asked: Mapping[str, Sequence[int]]) -> dict[str, Range]:
    """The range of every size in a profile; a size that it does not name keeps its whole range."""
    for name, sizes in asked.items():
        if name not in ranges:
            raise OptionsError(
                Worded("{} names the size {}, which does not vary", Option("profiles"), name),
                because=f"those that vary are {', '.join(ranges)}" if ranges else "all sizes are fixed",
                fix=Worded("let it vary with {} and {}", Option("min_shapes"), Option("max_shapes")),
            )
        whole = ranges[name]
        if len(sizes) != 3 or not whole.min <= sizes[0] <= sizes[1] <= sizes[2] <= whole.max:
            raise OptionsError(
                Worded("{} has {}={}", Option("profiles"), name, "..".join(map(str, sizes))),
                because=f"the sizes must not decrease, and must lie in {whole.min} to {whole.max}",
                fix=Worded("change it, or {}", another_range({name: whole})),
            )
    return {name: Range(*asked[name]) if name in asked else span for name, span in ranges.items()}


def _refuse_gaps(ranges: Mapping[str, Range], profiles: Sequence[Mapping[str, Range]]) -> None:
    """The smallest and the largest size must each be in a profile: a manifest promises that they run."""
    for name, whole in ranges.items():
        least, most = min(each[name].min for each in profiles), max(each[name].max for each in profiles)
        if (least, most) != (whole.min, whole.max):
            raise OptionsError(
                Worded("{} covers {} from {} to {}", Option("profiles"), name, least, most),
                because=f"the net was rewritten for {name} from {whole.min} to {whole.max}",
                fix=Worded("add a profile, or {}", another_range({name: whole})),
            )
