"""How a net is rewritten. Light to import: the command line reads it for its help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.memory import bytes_from_text
from prototrt.caffe_proto.common.options import (
    Names,
    OpenShapes,
    Options,
    Shapes,
    SizeRanges,
    at_least,
    one_of,
    only_in_python,
    option,
)
from prototrt.caffe_proto.common.records import dataclass, fields
from prototrt.caffe_proto.common.wording import Command, Option, SizeSymbol, Worded
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
STATE_FILE = "const:"
"""Begins a text that names a file of states."""
Recurrences: TypeAlias = Mapping[str, str]
"""Inputs by the names of the outputs that feed them in the next call."""
Replacements: TypeAlias = Mapping[str, str]
"""``FILE.py:FUNCTION`` by the names of layers."""
Plugins: TypeAlias = Mapping[str, str]
"""Plugins as ``NAME:VERSION:NAMESPACE`` by types of layers."""
States: TypeAlias = "StateSource | Mapping[str, Array]"
TileForm: TypeAlias = Literal["broadcast", "keep", "native", "plugin"]
VaryingSize: TypeAlias = Literal["batch", "time", "size"]
LETTERS: Mapping[VaryingSize, str] = {"batch": "N", "time": "T", "size": "HW"}
"""The names of the sizes that vary."""
OF_THE_NET = (
    "shapes",
    "sizes",
    "dynamic",
    "outputs",
    "cont",
    "fork",
    "settings",
    "rules",
    "replace",
    "plugin",
    "layout",
    "keep_constant",
    "recurrences",
    "stream",
)
"""Options that decide the layers of a net and the shapes of its blobs and bindings, whatever it is rewritten to."""


def _whole_shapes(which: str, name: str, size: int) -> Worded:
    example = Option(name, {"data": (1, 3, size, size)})
    return Worded("The {} shapes of inputs that vary, as in {}.", which, example)


class HasScales(Protocol):
    """What ``calibrate`` returns: its ``scales`` are a ``Scales``."""

    @property
    def scales(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class RewriteOptions(Options):
    """How a net is rewritten as a graph of primitives."""

    shapes: OpenShapes | None = option(
        Worded(
            "The shapes of inputs, as in {}, or with sizes that vary: {}.",
            Option("shapes", {"data": (1, 3, 224, 224)}),
            Option("shapes", {"data": (SizeSymbol("N"), 3, SizeSymbol("16*H"), 224)}),
        ),
        called="shape",
    )
    sizes: SizeRanges | None = option(
        Worded(
            "The smallest, usual and largest value of a size that varies, as in {}.",
            Option("sizes", {"N": (1, 8, 64)}),
        ),
        called="size",
    )
    min_shapes: Shapes | None = option(_whole_shapes("smallest", "min_shapes", 32))
    opt_shapes: Shapes | None = option(_whole_shapes("usual", "opt_shapes", 224))
    max_shapes: Shapes | None = option(_whole_shapes("largest", "max_shapes", 512))
    dynamic: Sequence[VaryingSize] = one_of(
        VaryingSize,
        "Let the batch N, time T or size (height and width) of all inputs vary; a warning states the ranges.",
        default=(),
        shown="WAY,...",
    )
    outputs: Names | None = option(
        "Cut the net at these blobs; auto: before layers that cannot be converted; all: every blob is"
        " an output.",
        shown="BLOB",
        called="output",
        once="outputs",
    )
    keep_constant: Names = option(
        "Blobs that DummyData or an init net fills, to be kept constant where no output depends on an input.",
        (),
        shown="BLOB",
    )
    cont: Cont = one_of(
        Cont,
        "drop: leave out the cont input, so that every step continues; zero the state to start a sequence.",
    )
    sequence: Form = one_of(
        Form,
        "How recurrent layers run: as a loop, unrolled (at most 64 steps), or as one step. auto: step"
        " if T is 1 (loop for PyTorch), else loop.",
    )
    state: States = option(
        "Recurrent state. bind: inputs and outputs to feed back; zero: zero at each call; or arrays by"
        " the names of those inputs.",
        "bind",
        reads=True,
    )
    recurrences: Recurrences | None = option(
        Worded(
            "Outputs that are fed back, each with the input that it feeds in the next call, as in {}.",
            Option("recurrences", {"h": "h_prev"}),
        ),
        called="recurrence",
    )
    stream: int | None = at_least(
        1,
        "Take a stream in pieces of this many steps: layers that mix steps keep the last rows as states. Pieces give"
        " what one long call gives, after a delay that is stated.",
    )
    layout: LayoutName = one_of(
        LayoutName,
        "batch-first: blobs and states of recurrent nets begin with the batch: (N, T, ...), or (N,"
        " ...) if T is 1.",
    )
    tile: TileForm = one_of(
        TileForm,
        "broadcast: leave out each Tile whose reader broadcasts; keep, and the others, leave it in the graph.",
        only_in_python=True,
    )
    precision: Precision = one_of(
        Precision,
        "The precision of products (convolutions, InnerProduct, LSTM). Inputs, outputs and state stay"
        " float32. int8 and fp8 need scales.",
    )
    scales: str | HasScales | None = option(
        Worded("Scales for int8 and fp8, from {}.", Command("calibrate")), shown="FILE.json", reads=True
    )
    calibration_cache: str | None = option(
        "Scales from another program: a calibration cache of TensorRT, or a table of ncnn,"
        " caffe-int8-convert-tools or NVDLA.",
        shown="FILE",
        reads=True,
    )
    ranges: Mapping[str, float] | None = only_in_python(
        "The largest magnitudes of values, by name: scales without a file.", compare=True
    )
    quantize_all: bool = option(
        "Also quantize the first convolution, the last product, depthwise convolutions, and recurrent layers of"
        " one step with few weights.",
        False,
    )
    keep_float: Names = option("Layers that are not quantized.", (), shown="LAYER")
    force: bool = option("Unroll more than 64 steps.", False)
    preprocess: bool = option("Subtract the mean and scale, as the training net's data layers did.", False)
    strict: bool = option("Refuse weights that are NaN or infinite, and nets that would be cut.", False)
    fork: Fork | None = one_of(
        Fork, "The fork of Caffe that the model comes from, if its layers do not show it.", default=None
    )
    settings: Mapping[str, Any] | str | None = option(
        "Settings that the model's program kept elsewhere, such as the number of proposals.",
        shown="FILE.json",
        reads=True,
    )
    rules: str | None = option(
        "A file with rules for further layers. It is run.", shown="FILE.py", reads=True
    )
    replace: Replacements | None = option(
        Worded(
            "Rules for single layers: functions in Python files, as in {}. The files are run.",
            Option("replace", {"roi_pool": "my_rules.py:my_pool"}),
        ),
        shown="LAYER=FILE.py:FUNCTION",
        reads=True,
    )
    plugin: Plugins | None = option(
        Worded(
            "Let TensorRT plugins compute the layers of a type: NAME:VERSION, or"
            " NAME:VERSION:NAMESPACE, as in {}.",
            Option("plugin", {"RoiAlign": "RoiAlign:1:acme"}),
        )
    )
    nms: NmsForm = one_of(
        NmsForm,
        "native: suppress boxes with the NMS layer of ONNX or TensorRT where it decides as the fork"
        " does; OpenCV always gets that. TensorRT for RTX has no such layer.",
    )
    max_memory: str | None = option(
        "Memory limit for constants that the net itself makes; by default 80 % of the memory.", shown="SIZE"
    )
    implied: Names = only_in_python(
        "Options that another one, or a step, chooses: nobody is told where these have no effect.", ()
    )
    require_weights: bool = only_in_python("If false, a net without weights gets zeros.", True)
    for_operators: bool = only_in_python(
        "Keep a recurrence of one step, so that the LSTM, GRU or RNN of ONNX or PyTorch can be written for it.",
        False,
        compare=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.state, str) and self.state.startswith(STATE_FILE):
            from prototrt.caffe_proto.weights.named_arrays import ArraysOfFile

            object.__setattr__(self, "state", ArraysOfFile(self.state.removeprefix(STATE_FILE)))
        elif isinstance(self.state, str) and self.state not in ("bind", "zero"):
            problem = Worded(
                "{} is {}, expected bind, zero, or arrays by name", Option("state"), repr(self.state)
            )
            fix = Worded("use {} or {}", Option("state", "bind"), Option("state", "zero"))
            raise OptionsError(problem, fix=fix)
        if self.stream is not None and self.state != "bind":
            raise OptionsError(
                Worded(
                    "{} keeps states from call to call, but {} begins each call anew",
                    Option("stream", self.stream),
                    Option("state", "zero" if self.state == "zero" else "const"),
                ),
                fix=Worded("leave out {}", Option("state")),
            )
        size = self.max_memory
        if size is not None and not (isinstance(size, str) and bytes_from_text(size)):
            raise OptionsError(
                Worded("{} is {}, expected a size", Option("max_memory"), repr(self.max_memory)),
                fix=Worded("write it as in {}", Option("max_memory", "4GB")),
            )
        if self.scales is not None and self.calibration_cache is not None:
            raise OptionsError(
                Worded("{} and {} are both given", Option("scales"), Option("calibration_cache")),
                fix=Worded("leave out {}", Option("calibration_cache")),
            )

    def chosen_options(self, *names: str) -> list[Option]:
        """Those of the options that the user chose: not their defaults, and not what follows from others."""
        usual = {each.name: each.default for each in fields(self)}
        chosen = [name for name in names if getattr(self, name) != usual[name] and name not in self.implied]
        return [Option(name) for name in chosen]

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
