"""How a net is rewritten. Light to import: the command line reads it for its help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import (
    ONLY_IN_PYTHON,
    Names,
    OpenShapes,
    Options,
    Shapes,
    SizeRanges,
    one_of,
    only_in_python,
)
from prototrt.caffe_proto.common.sizes import bytes_from_text
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.forks import Fork

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

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

    Sizes of the inputs:

    - ``shapes``: shapes by input; they override the shapes in the file. A shape may name sizes that vary, or state
      formulas of names, as in ``("T*N", 3, 224, 224)``.
    - ``sizes``: the smallest, usual and largest size for each of these names.
    - ``min_shapes``, ``opt_shapes``, ``max_shapes``: whole shapes instead of names. If one of them lacks an input,
      the shape in the file is used.
    - ``dynamic``: lets the ``"batch"`` N, the steps T (``"time"``), or height and width (``"size"``) of all inputs
      vary. A warning states the ranges.

    The net:

    - ``outputs``: blobs at which the net is cut; by default, the blobs that no layer reads. ``["all"]`` is every
      blob, ``["auto"]`` the last ones that can be computed.
    - ``preprocess``: mean and scale of the data layers become the first nodes of the graph.
    - ``fork``: the fork of Caffe that the model comes from, where forks disagree on a type of layer.
    - ``settings``: numbers that the program kept outside the model, by name or in a JSON file.
    - ``rules``: a Python file with rules for further layers. See docs/forks.md for these three.
    - ``nms``: ``"native"`` leaves suppression to a layer of the backend where that decides as the fork does.
    - ``tile``: ``"broadcast"`` leaves out every Tile whose reader broadcasts. The others keep them; give ``"native"``
      and ``"plugin"`` to ``build``, too.
    - ``max_memory``: the limit for constants that the net itself makes, as in ``"4GB"``; by default 80 % of the
      memory of the machine or the container.
    - ``strict``: refuses weights that are NaN or infinite, and nets that would end before a layer unless
      ``outputs`` says where.
    - ``require_weights``: if false, a net without weights gets zeros.

    Recurrent layers:

    - ``cont``: ``"drop"`` assumes that every step continues, and drops the cont input.
    - ``sequence``: ``"loop"``, ``"unroll"`` (at most 64 steps unless ``force``), ``"step"`` (T must be 1), or
      ``"auto"``: step where T is 1, else loop.
    - ``state``: ``"bind"`` (inputs and outputs, fed back by the caller), ``"zero"`` at every call, or arrays by the
      names of these inputs.
    - ``layout``: ``"batch-first"`` makes the streams N the first axis of recurrent inputs, outputs and states: (N,
      T, ...), and (N, ...) where T is 1.

    Precision:

    - ``precision``: ``"fp16"`` and ``"bf16"`` compute products in 16 bits; inputs, outputs and state stay float32.
      ``"int8"`` and ``"fp8"`` quantize the factors of products, with float16 around them, or with bfloat16:
      ``"int8,bf16"``. They need one of the next three; see docs/calibration.md.
    - ``scales``: a file that calibration wrote.
    - ``calibration_cache``: a table of TensorRT, ncnn or another program.
    - ``ranges``: the largest magnitudes of values, by name.
    - ``quantize_all``: also quantizes the first convolution, the last product and depthwise convolutions.
    - ``keep_float``: names of layers that are not quantized.
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
