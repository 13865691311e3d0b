"""What helps where the range of a size is in the way, in words of the option that states the range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.ir.dimensions import Range, RangeSource

_RANGES = Option("min_shapes"), Option("max_shapes")
_NAMED = Option("shapes"), Option("sizes")


def larger_smallest(symbols: Mapping[str, Range]) -> Worded:
    """To give these symbols larger smallest sizes."""
    return Worded.joined(
        ", and ",
        (
            Worded(
                "use {} and {} instead of {}, and give {} a larger smallest size", *_NAMED, _DYNAMIC, names
            )
            if source == "dynamic"
            else Worded(
                "give {} a larger smallest size in {}",
                names,
                Option("sizes" if source == "sizes" else "min_shapes"),
            )
            for source, names in _by_source(symbols)
        ),
    )


def one_size(symbols: Mapping[str, Range]) -> Worded:
    """To give each of these symbols one size."""
    return Worded.joined(
        ", and ",
        (
            Worded("use {} and {} instead of {}, and write a number for {}", *_NAMED, _DYNAMIC, names)
            if source == "dynamic"
            else Worded("write a number for {} in {}", names, Option("shapes"))
            if source == "sizes"
            else Worded("give {} one size in {} and {}", names, *_RANGES)
            for source, names in _by_source(symbols)
        ),
    )


def another_range(symbols: Mapping[str, Range]) -> Worded:
    """To give these symbols other ranges, whatever made the graph: an engine's does not tell."""
    return Worded.joined(
        ", and ",
        (
            Worded("give the net another range with {} and {} instead of {}", *_NAMED, _DYNAMIC)
            if source == "dynamic"
            else Worded("give the net another range with {}", Option("sizes"))
            if source == "sizes"
            else Worded("give the net another range with {} and {}", *_RANGES)
            if source == "ranges"
            else Worded(
                "convert the net again, with another range in {} and {}, or {}", *_RANGES, Option("sizes")
            )
            for source, _ in _by_source(symbols)
        ),
    )


_DYNAMIC = Option("dynamic")


def _by_source(symbols: Mapping[str, Range]) -> Iterator[tuple[RangeSource | None, str]]:
    """The names of the symbols, by what states their ranges."""
    for source in dict.fromkeys(span.source for span in symbols.values()):
        yield source, " and ".join(name for name, span in symbols.items() if span.source == source)
