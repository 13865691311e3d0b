"""The machines that a net is converted for: what a target decides, and what comes next. Light to import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast, get_args

from prototrt.caffe_proto.common.errors import OptionsError, ShapeError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.builder_options import STRONGLY_TYPED_SINCE, Release, refuse_dla, refuse_for
from prototrt.converter.files.machine_types import refuse_types
from prototrt.converter.files.machines import Machine, find_machine, releases_of, version_text
from prototrt.converter.files.readers.names import ReaderName
from prototrt.converter.options import BackendName, BuildOptions, TargetName
from prototrt.surgery.options import NmsForm, Precision

if TYPE_CHECKING:
    from prototrt.surgery.ir import Graph, Value


PROGRAM: Final = "tensorrt-python"


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine.

    ``backend`` builds its engine here. Where that is None the machine gets a file with another ``suffix``: an ONNX
    model, or a program. ``uses_trtexec``: it builds an engine from an ONNX model, with NVIDIA's program. ``because``
    says why it takes no other ``precisions``. ``batches``: it joins requests to batches, and so needs the batch first.
    ``readers`` are the programs that must read the model: see ``converter/files/readers/``. ``release`` is that of its
    TensorRT. ``first_look`` is Python that opens a model, ``nms`` the only form of suppression that its program
    computes, ``remark`` what a user of the program should know. ``word`` is what a user called it by, and ``model`` the
    machine, if that is one machine.
    """

    name: TargetName
    machine: str
    runs_on: str
    backend: BackendName | None = None
    uses_trtexec: bool = False
    precisions: tuple[Precision, ...] = get_args(Precision)
    because: str = ""
    batches: bool = False
    readers: tuple[ReaderName, ...] = ()
    release: Release = (10, 0)
    nms: NmsForm | None = None
    remark: str = ""
    word: str = ""
    model: Machine | None = None
    suffix: str = ".onnx"
    first_look: str = (
        "import onnxruntime; print([each.name for each in onnxruntime.InferenceSession({}).get_inputs()])"
    )

    @property
    def choice(self) -> Option:
        """The option that asks for it."""
        return Option("target", self.word or self.name)

    @property
    def is_strongly_typed(self) -> bool:
        """Whether its trtexec takes the types of numbers from the model, rather than choosing them."""
        return self.release >= STRONGLY_TYPED_SINCE

    def refuse_file(self, file: str) -> None:
        """Raise ``OptionsError`` for a file with the suffix of something else."""
        suffix_of_file = next(
            (suffix for suffix in (".onnx", ".py") if file.lower().endswith(suffix)), ".plan"
        )
        if suffix_of_file != self.suffix and self.backend is not None:
            other = Worded(", or use {}", Option("target", "onnx" if suffix_of_file == ".onnx" else PROGRAM))
            raise OptionsError(
                Worded("{} writes an engine, but FILE ends in {}", self.choice, suffix_of_file),
                fix=Worded("choose a FILE that ends in .plan{}", other),
            )
        if suffix_of_file != self.suffix:
            backend = Option("backend", "enterprise")
            there = Worded(", or build on {} with {} instead of {}", self.machine, backend, self.choice)
            what = "an ONNX model" if self.suffix == ".onnx" else "a program"
            raise OptionsError(
                Worded("{} writes {}, but FILE does not end in {}", self.choice, what, self.suffix),
                because=self._why_no_backend,
                fix=Worded(
                    "choose a FILE that ends in {}{}", self.suffix, there if self.uses_trtexec else ""
                ),
            )

    def refuse_backend(self, backend: BackendName) -> None:
        """Raise ``OptionsError`` for a backend that is not its own."""
        if backend not in ("auto", self.backend):
            raise OptionsError(
                Worded("{} and {} contradict each other", self.choice, Option("backend", backend)),
                because=self._why_no_backend if self.backend is None else f"it builds for {self.runs_on}",
                fix=Worded("leave out one of them"),
            )

    @property
    def _why_no_backend(self) -> str:
        if self.uses_trtexec:
            return f"trtexec builds the engine from an ONNX model, on {self.machine}"
        if self.name == PROGRAM:
            return "the program builds the engine with the TensorRT that it finds"
        return f"{self.runs_on} needs no engine"

    def refuse_options(self, precision: Precision, building: BuildOptions) -> None:
        """Raise ``OptionsError`` for what its GPUs or its TensorRT lack."""
        if precision not in self.precisions:
            best = self.precisions[-1 if len(self.precisions) == 1 else 1]
            raise OptionsError(
                Worded("{} does not take {}", self.choice, Option("precision", precision)),
                because=self.because,
                fix=Worded("use {}", Option("precision", best)),
            )
        if self.model is not None:
            refuse_types(self.choice, self.model.name, self.model.capability.version, precision)
        refuse_for(self.choice, self.name, building, self.release if self.uses_trtexec else None)
        if building.use_dla_core is not None and self.model is not None and not self.model.dla:
            raise OptionsError(
                Worded("{} is not for {}", Option("use_dla_core"), self.choice),
                because=f"{self.model.name} has no DLA",
                fix="leave it out",
            )
        if self.is_strongly_typed:
            refuse_dla(precision, building)

    def refuse_sizes(self, graph: Graph) -> None:
        """Raise ``ShapeError`` for sizes of which a server that joins requests to batches can make nothing."""
        if not self.batches:
            return
        from prototrt.surgery.ir import symbols_of  # with NumPy, which help does not need
        from prototrt.surgery.ir.range_words import one_size

        for value in graph.inputs:
            if graph.recurrences and any("T" in symbols_of(dim) for dim in value.shape):
                raise self._open_steps(value, one_size({"T": graph.symbols["T"]}))
            if any("N" in symbols_of(dim) for dim in value.shape[1:]):
                raise self._batch_inside(value)

    def _open_steps(self, value: Value, fix: str) -> ShapeError:
        return ShapeError(
            Worded('input "{}": the number of steps T varies, which is not for {}', value.name, self.choice),
            because="a server joins requests of many sequences, and all have the same number of steps",
            fix=Worded("{}; with T = 1 each step has its answer at once", fix),
        )

    def _batch_inside(self, value: Value) -> ShapeError:
        return ShapeError(
            Worded('input "{}": the batch N is not its first axis, which {} needs', value.name, self.choice),
            because="a server joins requests on the first axis",
            fix=Worded("use {}", Option("layout", "batch-first")),
        )


_READERS: Mapping[Release, ReaderName] = {
    (8, 2): "tensorrt-8.2",
    (8, 5): "tensorrt-8.5",
    (8, 6): "tensorrt-8.6",
}
_JETPACKS: Sequence[tuple[TargetName, str, tuple[ReaderName, ...], Release]] = (
    ("jetpack4", "TensorRT 8.2 on a Jetson, as in JetPack 4.6.1 and newer", ("tensorrt-8.2",), (8, 2)),
    ("jetpack5", "TensorRT 8.5 on a Jetson, as in JetPack 5.1", ("tensorrt-8.5",), (8, 5)),
    (
        "jetpack6",
        "TensorRT 8.6 or 10.3 on a Jetson, as in JetPack 6",
        ("tensorrt-8.6", "tensorrt-10.1"),
        (8, 6),
    ),
)
_CHOOSES_TYPES = "its trtexec chooses the types itself"
_WITH_FP16 = f"{_CHOOSES_TYPES}: write float32, and build with sh FILE.sh --fp16"

TARGETS: Mapping[TargetName, Target] = {
    target.name: target
    for target in (
        Target("rtx", "a PC", "a GeForce or RTX GPU", backend="rtx", suffix=".plan"),
        Target(
            "datacenter",
            "the machine with the GPU",
            "TensorRT 10 or newer on a data centre GPU",
            uses_trtexec=True,
        ),
        Target(
            "jetson",
            "the Jetson",
            "TensorRT 10 on a Jetson Orin, as in JetPack 6.1 and newer",
            uses_trtexec=True,
            precisions=("fp32", "fp16", "int8"),
            because="a Jetson Orin has no float8, and the parser of its TensorRT 10.3 reads ONNX up to opset 20,"
            " which has no bfloat16",
        ),
        *(
            Target(
                name,
                "the Jetson",
                runs_on,
                uses_trtexec=True,
                precisions=("fp32",),
                because=_WITH_FP16,
                readers=readers,
                release=release,
            )
            for name, runs_on, readers, release in _JETPACKS
        ),
        Target(
            "jetpack7",
            "the Jetson",
            "TensorRT 10.13 or newer on a Jetson Thor or Orin, as in JetPack 7",
            uses_trtexec=True,
            release=(10, 13),
        ),
        Target(
            "triton",
            "the machine with Triton",
            "Triton's ONNX Runtime backend, or its TensorRT backend after trtexec",
            uses_trtexec=True,
            batches=True,
        ),
        Target("onnx", "any machine", "onnxruntime"),
        Target(
            "opencv",
            "any machine",
            "OpenCV 5",
            precisions=("fp32",),
            because="OpenCV reads float32, and converts it by itself where a target of cv::dnn asks for that",
            readers=("opencv",),
            nms="native",
            first_look="import cv2; print(cv2.dnn.readNet({}).getUnconnectedOutLayersNames())",
        ),
        Target(
            "openvino",
            "any machine",
            "OpenVINO",
            precisions=("fp32", "fp16"),
            because="the tests compare float32 and float16",
            readers=("openvino",),
            remark="OpenVINO computes in bfloat16 by itself on processors that have it; in float32 with"
            ' compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})',
            first_look="import openvino; print(openvino.Core().read_model({}).inputs)",
        ),
        Target(
            PROGRAM,
            "the machine with the GPU",
            "Python with NumPy and TensorRT 10 or newer, or TensorRT for RTX: it builds the engine",
            suffix=".py",
        ),
    )
}


def find_target(word: str) -> Target:
    """The target of this name, or that of a machine of this name, with what the machine can do.

    Raises ``OptionsError`` for a machine that no release of TensorRT serves for which models are written.
    """
    machine = None if word in TARGETS else find_machine(word)
    if machine is None:
        return TARGETS[cast("TargetName", word)]
    if not machine.target:
        raise OptionsError(
            Worded("no engine can be built for {}", Option("target", word)),
            because=f"{machine.name} has compute capability {version_text(machine.capability.version)},"
            " which no TensorRT from 8.2 on supports",
            fix=Worded("use {}", Option("target", "onnx")),
        )
    target = replace(TARGETS[cast("TargetName", machine.target)], word=word, model=machine)
    if target.name == "datacenter":
        return _with_its_releases(target, machine)
    system = next((each for each in machine.systems if each.target == target.name), None)
    if system is None:
        return target
    its_release = "TensorRT" if system.tensorrt is None else f"TensorRT {version_text(system.tensorrt)}"
    runs_on = f"{its_release} on a {machine.name}, as in {system.name}"
    others = {each.target: each.name for each in machine.systems[::-1] if each.target != target.name}
    remark = Worded.joined(
        ", ", [Worded("{} with {}", Option("target", to), of) for to, of in others.items()]
    )
    return replace(target, runs_on=runs_on, remark=Worded("use {}", remark) if others else "")


def _with_its_releases(target: Target, machine: Machine) -> Target:
    row = machine.releases
    assert row is not None, machine.name  # tests hold the table to that
    since = max(row.since, machine.capability.since or row.since)
    if since >= STRONGLY_TYPED_SINCE:
        first = releases_of(machine.capability.version)[0].since
        begin = max(STRONGLY_TYPED_SINCE, machine.capability.since or first)
        end = "or newer" if row.last is None else f"to {version_text(row.last)}"
        return replace(
            target, runs_on=f"TensorRT {version_text(begin)} {end} on {machine.name}", release=begin
        )
    has_half = "fp16" in machine.capability.types
    capability = version_text(machine.capability.version)
    return replace(
        target,
        runs_on=f"TensorRT {version_text(since)} on {machine.name}",
        release=since,
        readers=(_READERS[since],),
        precisions=("fp32",),
        because=_WITH_FP16
        if has_half
        else f"{_CHOOSES_TYPES}, and compute capability {capability} has no float16: write float32",
    )
