"""How a user gives a bottom another shape, in words that name options."""

from __future__ import annotations

from collections.abc import Sequence

from prototrt.caffe_proto.common.errors import Origin
from prototrt.caffe_proto.common.wording import Option, SizeSymbol, Together, Worded
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import Dim, OpenSize, Shape, Value, computable, measure, range_of


def resize_advice(build: LayerBuilder, value: Value, shape: Shape) -> str | None:
    """Advice for an input, for what a Reshape makes of one, and for a ContinuationIndicator; None for other values.

    Sizes that vary must have names of the user's.
    """
    sizes, node = _sizes(shape), build.writer(value)
    if node is None and not value.is_constant and _has_ranges(shape):
        return Worded('give "{}" these ranges: {}', value.name, _ranges(build, value.name, shape))
    if sizes is None or value.is_constant:
        return None
    if node is None:
        return Worded('give "{}" this shape: {}', value.name, Option("shapes", {value.name: sizes}))
    fields = _fields(node.origin, value.shape, shape) if all(isinstance(size, int) for size in shape) else {}
    if fields:
        return Worded('state this shape in "{}": {}', node.origin.layer, Option("overrides", fields))
    if node.origin.type != "Reshape":
        return None
    source = node.inputs[0]
    if build.writer(source) is not None or source.is_constant or any(size != 1 for size in source.shape[1:]):
        return None
    rows = _sizes(measure(shape)[:1])
    if rows is None:
        return None
    return Worded(
        'give "{}", of which it is made, as many elements: {}',
        source.name,
        Option("shapes", {source.name: [*rows, *[1] * (len(source.shape) - 1)]}),
    )


def _fields(origin: Origin, actual: Shape, shape: Shape) -> dict[str, str]:
    """The fields in which a layer states the shape of its top."""
    if origin.type == "ContinuationIndicator" and len(shape) == 2:
        names = (
            f"{origin.layer}.continuation_indicator_param.{name}" for name in ("time_step", "batch_size")
        )
        return dict(zip(names, map(str, shape), strict=True))
    if origin.type == "Reshape" and measure(actual) == measure(shape):
        return {f"{origin.layer}.reshape_param.shape.dim": ",".join(map(str, shape))}
    return {}


def dims(shape: Sequence[Dim]) -> str:
    """As a prototxt states it: ``{ dim: 4 dim: 1 }``."""
    return f"{{ {' '.join(f'dim: {size}' for size in shape)} }}"


def _has_ranges(shape: Shape) -> bool:
    """Whether sizes vary, by the smallest and largest shapes that the user gave."""
    spans = [span for dim in shape if isinstance(dim, OpenSize) for span in dim.symbols.values()]
    return bool(spans) and all(span.source == "ranges" for span in spans)


def _ranges(build: LayerBuilder, name: str, shape: Shape) -> Together:
    """The options with the ranges of all inputs: each of them is given once."""
    spans, profile = [range_of(computable(dim)) for dim in shape], build.sizes_of_inputs.profile
    return Together(
        [
            Option("min_shapes", {**profile.min, name: [span.min for span in spans]}),
            Option("opt_shapes", {**profile.opt, name: [span.opt for span in spans]}),
            Option("max_shapes", {**profile.max, name: [span.max for span in spans]}),
        ]
    )


def _sizes(shape: Sequence[Dim]) -> list[int | str] | None:
    """The sizes as an option states them: those that vary must have names that the user gave."""
    sizes: list[int | str] = []
    for size in shape:
        if isinstance(size, int):
            sizes.append(size)
        elif isinstance(size, OpenSize) and all(span.source == "sizes" for span in size.symbols.values()):
            sizes.append(SizeSymbol(size))
        else:
            return None
    return sizes
