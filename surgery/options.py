"""How a net is rewritten. Light to import: the command line reads it for its help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from prototrt.caffe_proto.errors import OptionsError
from prototrt.caffe_proto.options import (
    ONLY_IN_PYTHON,
    Names,
    OpenShapes,
    Options,
    Shapes,
    SizeRanges,
    one_of,
    only_in_python,
)
from prototrt.caffe_proto.sizes import bytes_from_text
from prototrt.caffe_proto.wording import Option, Worded
from prototrt.surgery.forks import Fork

if TYPE_CHECKING:
    from prototrt.surgery.ir import Array

Cont: TypeAlias = Literal["keep", "drop"]
Form: TypeAlias = Literal["auto", "loop", "unroll", "step"]
"""How a recurrence is written."""
LayoutName: TypeAlias = Literal["caffe", "batch-first"]
NmsForm: TypeAlias = Literal["primitives", "native"]
Precision: TypeAlias = Literal["fp32", "fp16", "bf16", "int8", "fp8", "int8,bf16", "fp8,bf16"]
"""The types that products compute in."""
StateSource: TypeAlias = Literal["bind", "zero"]
States: TypeAlias = "StateSource | Mapping[str, Array]"
TileForm: TypeAlias = Literal["broadcast", "keep", "native", "plugin"]
VaryingSize: TypeAlias = Literal["batch", "time", "size"]
OF_THE_NET = ("shapes", "sizes", "dynamic", "outputs", "cont", "fork", "settings", "rules", "layout")
"""Options that decide the layers of a net and the shapes of its blobs and bindings, whatever it is rewritten to."""


@dataclass(frozen=True, kw_only=True)
class RewriteOptions(Options):
    """How a net is rewritten as a graph of primitives.

    ``shapes`` override those of the file, by input. ``min_shapes``, ``opt_shapes`` and
    ``max_shapes`` let sizes vary when an engine runs; if one of them lacks an input, the shape in the file
    is used. Instead, ``shapes`` may name sizes, or state formulas of names, as in ``("T*N", 3, 224, 224)``;
    ``sizes`` then holds the smallest, usual and largest size for each name. ``dynamic`` lets the ``"batch"`` N,
    the steps T (``"time"``), or height and width (``"size"``) of all inputs vary. A warning tells the ranges.
    ``outputs`` are blobs at which the net is cut, by default those that no layer reads, ``["all"]`` all
    of them, and ``["auto"]`` the last ones that can be computed. ``cont`` ``"drop"`` assumes that
    every step continues: cont is not an input any more. ``sequence`` says how recurrences are written:
    ``"loop"``, ``"unroll"`` (at most 64 steps unless ``force``), ``"step"`` (one step: T must be
    1), or ``"auto"``: step where T is 1, else loop. ``state`` says where recurrent state comes
    from: ``"bind"`` (inputs and outputs, fed back by the caller), ``"zero"`` at every call, or
    arrays by the names of these inputs. ``layout`` ``"batch-first"`` makes the streams N the first axis of recurrent
    inputs, outputs and states: (N, T, ...), and (N, ...) where T is 1. ``tile`` ``"broadcast"`` leaves out every Tile
    whose reader broadcasts; the others keep them, as ``"native"`` layers or as a ``"plugin"`` if ``build`` gets
    the same option. ``precision`` ``"fp16"`` lets products compute in float16; inputs, outputs and
    state stay float32. ``"bf16"`` is the same with bfloat16. ``"int8"`` and ``"fp8"`` quantize the
    factors of products, with float16 around them, or bfloat16: ``"int8,bf16"``. They need ``scales``, a file
    that calibration wrote, or ``calibration_cache``, a table of TensorRT, ncnn or another program, or
    ``ranges``, the largest magnitudes of values by name; see docs/calibration.md. ``quantize_all`` also quantizes the
    first convolution, the last product and depthwise convolutions, and ``keep_float`` names layers that are not
    quantized.
    ``preprocess`` makes mean and scale of the data layers the first nodes of the graph. ``fork`` names
    the fork of Caffe that the model is from, where a type of layer means different things in different
    forks. ``settings`` are numbers that the program kept outside of the model, by name or in a JSON
    file; ``rules`` is a Python file with rules
    for further layers: see docs/forks.md. ``nms`` ``"native"`` leaves suppression to a layer of the backend where that
    decides as the fork does.
    ``max_memory`` is how much the constants may take that the net makes itself, as in ``"4GB"``; by default
    80 % of the memory of the machine or the container.
    ``strict`` refuses weights that are NaN or infinite, and nets that would end before a layer unless
    ``outputs`` says where. Without ``require_weights`` a net without
    weights gets zeros.
    """

    shapes: OpenShapes | None = None
    sizes: SizeRanges | None = None
    min_shapes: Shapes | None = None
    opt_shapes: Shapes | None = None
    max_shapes: Shapes | None = None
    dynamic: Sequence[VaryingSize] = one_of(VaryingSize, default=())
    outputs: Names | None = None
    cont: Cont = one_of(Cont)
    sequence: Form = one_of(Form)
    state: States = "bind"
    layout: LayoutName = one_of(LayoutName)
    tile: TileForm = one_of(TileForm)
    precision: Precision = one_of(Precision)
    scales: str | None = None
    calibration_cache: str | None = None
    ranges: Mapping[str, float] | None = field(default=None, metadata=ONLY_IN_PYTHON)
    quantize_all: bool = False
    keep_float: Names = ()
    force: bool = False
    preprocess: bool = False
    strict: bool = False
    fork: Fork | None = one_of(Fork, default=None)
    settings: Mapping[str, Any] | str | None = None
    rules: str | None = None
    nms: NmsForm = one_of(NmsForm)
    max_memory: str | None = None
    require_weights: bool = only_in_python(True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.state, str) and self.state not in ("bind", "zero"):
            problem = Worded(
                "{} is {}, expected bind, zero, or arrays by name", Option("state"), repr(self.state)
            )
            fix = Worded("use {} or {}", Option("state", "bind"), Option("state", "zero"))
            raise OptionsError(problem, fix=fix)
        if self.max_memory is not None and not bytes_from_text(self.max_memory):
            raise OptionsError(
                Worded("{} is {}, expected a size", Option("max_memory"), repr(self.max_memory)),
                fix=Worded("write it as in {}", Option("max_memory", "4GB")),
            )
        if self.scales is not None and self.calibration_cache is not None:
            raise OptionsError(
                Worded("{} and {} are both given", Option("scales"), Option("calibration_cache")),
                fix=Worded("leave out {}", Option("calibration_cache")),
            )

    @property
    def is_quantized(self) -> bool:
        """Whether products read 8 bits."""
        return self.precision.startswith(("int8", "fp8"))

    @property
    def topology(self) -> RewriteOptions:
        """The options that decide the layers of a net and the shapes of its blobs, with or without weights."""
        return RewriteOptions(**{name: getattr(self, name) for name in OF_THE_NET}, require_weights=False)

    @property
    def state_arrays(self) -> Mapping[str, Array]:
        """The states that the user gives; empty where they are bound or zero."""
        return {} if isinstance(self.state, str) else self.state
