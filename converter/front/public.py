"""The functions that the package offers beside ``load``, ``rewrite`` and ``build``: one for each command."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import OptionsError, silent, tell
from prototrt.caffe_proto.common.memory import bytes_from_text
from prototrt.caffe_proto.common.options import PathLike, narrow, refuse_no_file, refuse_other, takes_options
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front import steps
from prototrt.converter.options import (
    PARAMETER_NAMES,
    UPGRADE_STAGES,
    BatchOptions,
    BuildOptions,
    CalibrateOptions,
    ConversionOptions,
    DeepStreamOptions,
    ParameterNames,
    SectionName,
    TritonOptions,
    UpgradeStage,
    VerifyOptions,
)
from prototrt.converter.showing.views.notebook import notebook_progress
from prototrt.converter.showing.views.stages import READERS, STAGES, Reader, ShownStage, StageName
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.views.inspection import Inspection

if TYPE_CHECKING:
    from prototrt.converter.backends.caffe.upgrading import UpgradedNet
    from prototrt.converter.checking.calibration.calibration import Calibration
    from prototrt.converter.checking.machines.benchmark import Benchmark
    from prototrt.converter.checking.machines.doctor import Diagnosis
    from prototrt.converter.checking.selftest.results import SelfTest
    from prototrt.converter.checking.verification.verification import Verification
    from prototrt.converter.conversion import Converted
    from prototrt.converter.front.batch.prune import PrunedCache
    from prototrt.converter.front.batch.reports import BatchResult
    from prototrt.converter.front.parameters.editing import EditedWeights, ParameterList
    from prototrt.converter.running.sessions.session import Session
    from prototrt.converter.serving.deepstream.folder import WrittenFolder
    from prototrt.converter.serving.triton.repository import WrittenModel
    from prototrt.converter.showing.glance.facts import FileFacts
    from prototrt.converter.showing.survey.survey import Survey
    from prototrt.surgery.views.support import LayerSupport

W = TypeVar("W", VerifyOptions, CalibrateOptions)


class StepResult(Protocol):
    """What a step returns has warnings."""

    @property
    def warnings(self) -> Sequence[str]: ...


P = ParamSpec("P")
R = TypeVar("R", bound=StepResult)


def _result_of(
    function: str,
    model: Model,
    step: Callable[Concatenate[Model, P], R],
    *arguments: P.args,
    **options: P.kwargs,
) -> R:
    """What the step of a function makes of a model; its warnings are given as Python's, once."""
    refuse_other(function, model, Model)
    with silent():
        result = step(model, *arguments, **options)
    tell(result.warnings, but=model.warnings)
    return result


@takes_options(RewriteOptions)
def inspect(subject: Model | PathLike, options: RewriteOptions) -> Inspection | FileFacts:
    """The layers of a net: shapes, parameters, multiply-adds; or what any file is and holds.

    A model, or a prototxt, gives an ``Inspection``. Any other file gives ``FileFacts``: weights alone, an engine, an
    ONNX model, a Caffe2 net, arrays, a mean file, scales. Raises ``ConversionError``.
    """
    with silent():
        result = steps.inspect(subject, LoadOptions(), options)
    tell(result.warnings, but=subject.warnings if isinstance(subject, Model) else ())
    return result


@dataclass(frozen=True)
class Picture:
    """A net, or a graph, in Graphviz's language: ``str(picture)``. A notebook shows it, if Graphviz is installed."""

    dot: str

    def __str__(self) -> str:
        return self.dot

    def _repr_svg_(self) -> str | None:
        import shutil

        from prototrt.converter.showing.views.pictures import render

        return render(self.dot, ".svg", "picture").decode() if shutil.which("dot") else None

    def _repr_html_(self) -> str:
        from prototrt.caffe_proto.common.notebook_html import preformatted

        return preformatted(self.dot)


def draw(
    subject: Model | Graph,
    file: PathLike | None = None,
    *,
    stage: StageName = "parsed",
    reader: Reader = "tensorrt",
    verification: PathLike | None = None,
    options: RewriteOptions | None = None,
) -> Picture | None:
    """Draw a net or a graph into a file; without ``file``, return the picture.

    The suffix of the file chooses the format: .dot, .svg, .png, .pdf, or .html for a page. ``stage`` is ``"parsed"``
    for the net as it is written, ``"rewritten"`` for its graph, and ``"lowered"`` for what the backend ``reader``
    (``"tensorrt"``, ``"onnx"``) receives. ``verification`` is a file with the JSON of ``prototrt verify``, for a page.
    A graph is drawn as it is, and only without a file. Raises ``ConversionError``.
    """
    from prototrt.converter.showing.views import pictures
    from prototrt.surgery.views.dot import dot_from_graph

    if isinstance(subject, Graph):
        if file is not None:
            raise TypeError(
                'a file is drawn from a model: prototrt.draw(model, "net.html", stage="rewritten")'
            )
        return Picture(dot_from_graph(subject))
    refuse_other("draw", subject, Model)
    shown = ShownStage(narrow("stage", stage, STAGES), narrow("reader", reader, [*READERS]))
    target, checks = (None if each is None else os.fspath(each) for each in (file, verification))
    with silent():
        drawing = pictures.draw(subject, target, options or RewriteOptions(), shown, checks)
    tell(drawing.warnings, but=subject.warnings)
    return None if drawing.dot is None else Picture(drawing.dot)


@takes_options(VerifyOptions)
def verify(model: Model, options: VerifyOptions) -> Verification:
    """Compute a net in several ways, and compare them, blob by blob.

    ``verification.verdict`` is one line that begins with PASS or FAIL; ``verification.refuse()`` raises
    ``VerificationError`` if a tolerance is broken. Raises ``ConversionError`` for a net or inputs that cannot be used.
    """
    refuse_other("verify", model, Model)
    warnings: list[str] = []

    def listener(graph: Graph) -> Graph:
        warnings.extend(graph.warnings)
        return graph

    with silent():
        verification = steps.verify(model, _watched(options, "nets of 8 bits computed"), listener)
    tell([*warnings, *verification.warnings], but=model.warnings)
    return verification


@takes_options(CalibrateOptions)
def calibrate(model: Model, options: CalibrateOptions) -> Calibration:
    """Run a net on data, and measure the scale of each value that int8 or fp8 quantizes.

    ``rewrite(model, precision="int8", scales=calibration)`` uses them; ``calibration.save("scales.json")`` writes the
    file that it reads, too. Layers that 8 bits cost too much stay in 16: see ``auto_keep``.
    Raises ``ConversionError``.
    """
    return _result_of("calibrate", model, steps.calibrate, _watched(options, "parts of the data"))


def _watched(options: W, what: str) -> W:
    """The options with a bar in a notebook, unless the caller watches the progress."""
    return options if options.progress else replace(options, progress=notebook_progress(what))


def deploy(model: Model, *, shapes: Mapping[str, Sequence[int]] | None = None) -> str:
    """The deploy net of a training net, as the text of a prototxt, which Caffe reads with the same weights.

    ``shapes`` are those of inputs that the file does not state. Raises ``ConversionError``.
    """
    return _result_of("deploy", model, steps.deploy, shapes or {}).text


def upgrade(
    model: Model,
    file: PathLike | None = None,
    weights_file: PathLike | None = None,
    *,
    stage: UpgradeStage = "parsed",
    rewriting: RewriteOptions | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> UpgradedNet:
    """Write a net of any age as a prototxt of today's form, and its weights as a caffemodel, which Caffe loads.

    ``net.text`` is the prototxt; without ``file``, nothing is written. ``weights_file`` is by default the name of
    ``file`` with ``.caffemodel``. ``stage="rewritten"`` writes recurrent layers out in plain ones, step by step, with
    states as inputs and outputs; ``rewriting`` says what becomes of cont and states then. ``shapes`` are those of
    inputs that the file does not state. Raises ``ConversionError``.
    """
    from prototrt.converter.backends.caffe.upgrading import upgrade

    chosen, asked = narrow("stage", stage, UPGRADE_STAGES), rewriting or RewriteOptions()
    return _result_of("upgrade", model, upgrade, file, weights_file, chosen, asked, shapes or {})


def list_weights(model: Model) -> ParameterList:
    """The matrices and biases of a model: layer, name, shape, and the gate where each gate has rows of its own.

    ``each.address`` is ``LAYER/PARAMETER/GATE``, and ``each.array`` the numbers. Raises ``ConversionError``.
    """
    from prototrt.converter.front.parameters.editing import list_parameters

    refuse_other("list_weights", model, Model)
    return list_parameters(model)


def get_weights(
    model: Model,
    names: Sequence[str] = (),
    file: PathLike | None = None,
    *,
    naming: ParameterNames = "prototrt",
) -> Mapping[str, Array]:
    """The arrays of some parameters, by default of all recurrent layers; ``file`` is .npz, .safetensors or .pt.

    ``names`` are addresses such as ``lstm1/W_hc`` or ``lstm1/W_hc/f``, in which ``*`` and ``?`` stand for anything.
    ``naming="pytorch"`` gives one layer under the names of PyTorch's module; ``names`` has the layer's name, if there
    are several. Raises ``ConversionError``.
    """
    from prototrt.converter.front.parameters.editing import get_parameters

    refuse_other("get_weights", model, Model)
    chosen = narrow("naming", naming, PARAMETER_NAMES)
    return get_parameters(model, tuple(names), chosen, file).arrays


def set_weights(
    model: Model, source: Mapping[str, Array] | PathLike, file: PathLike, *, layer: str | None = None
) -> EditedWeights:
    """Write the weights of a model into a new file, with parameters from ``source``, arrays or a file of them.

    ``file`` is a caffemodel; of a Caffe2 net, an init net. The names in ``source`` are addresses as in
    ``get_weights``, or those of PyTorch's module; then ``layer`` says which layer it is, if there are several.
    Raises ``ConversionError``; then nothing is written.
    """
    from prototrt.converter.front.parameters.editing import set_parameters

    return _result_of("set_weights", model, set_parameters, source, file, layer)


def new_rule(
    model: Model, layer: str, file: PathLike, *, options: RewriteOptions | None = None
) -> steps.WrittenRule:
    """Begin a rule for one layer in a new Python file: its fields, bottoms and blobs, and a test beside it.

    ``written.rule`` has the same as data. Raises ``ConversionError``, and ``OptionsError`` if there is such a file.
    """
    refuse_other("new_rule", model, Model)
    with silent():
        return steps.new_rule(model, layer, file, options or RewriteOptions())


def triton(
    model: Model,
    repository: PathLike,
    *,
    options: TritonOptions | None = None,
    rewriting: RewriteOptions | None = None,
    building: BuildOptions | None = None,
) -> WrittenModel:
    """Write a net into a model repository of Triton Inference Server; ``written.folder`` is the folder of the model.

    Raises ``ConversionError``, and ``OptionsError`` if there is a model of this name already.
    """
    asked, engine = rewriting or RewriteOptions(), building or BuildOptions()
    return _result_of("triton", model, steps.triton, repository, options or TritonOptions(), asked, engine)


def deepstream(
    model: Model,
    folder: PathLike,
    *,
    options: DeepStreamOptions | None = None,
    rewriting: RewriteOptions | None = None,
) -> WrittenFolder:
    """Write a net into a new folder for Gst-nvinfer of DeepStream: model, config, labels, parser.

    ``written.notes`` say what became of an old config. Raises ``ConversionError``, and ``OptionsError`` if there is
    such a folder.
    """
    streaming, asked = options or DeepStreamOptions(), rewriting or RewriteOptions()
    return _result_of("deepstream", model, steps.deepstream, folder, streaming, asked)


@takes_options(ConversionOptions)
def convert(model: PathLike, options: ConversionOptions) -> Converted:
    """Convert the files of a net to an engine, a model or a program, as the command does.

    ``converted.files`` are the files that were written, ``converted.manifest`` is the content of the manifest. Raises
    ``ConversionError``.
    """
    from prototrt.converter.conversion import convert_files

    refuse_no_file("convert", model)
    with silent():
        converted = convert_files(os.fspath(model), options)
    tell(converted.warnings)
    return converted


def survey(*paths: PathLike) -> Survey:
    """Try each net, and each net below a folder, without building anything: which convert, and what stops the rest."""
    from prototrt.converter.showing.survey.survey import survey

    with silent():
        return survey(paths, notebook_progress("nets"))


@takes_options(BatchOptions)
def convert_batch(models: PathLike, options: BatchOptions) -> BatchResult:
    """Convert all models of a list in YAML, each in a process of its own; see docs/batch.md.

    ``result.outcomes`` says what became of each, ``result.exit_code`` is 0 if all are converted. Raises
    ``ConversionError`` for a list that cannot be used, not for models that fail.
    """
    from prototrt.converter.front.batch.conversion import convert_models

    with silent():
        result = convert_models(os.fspath(models), options, options.progress or _notebook_batch)
    tell(result.warnings)
    return result


@takes_options(BatchOptions)
def survey_batch(models: PathLike, options: BatchOptions) -> Survey:
    """Which models of a list ``convert_batch`` would convert with these options, and what stops the others.

    Nothing is written, and no engine is built. Raises ``ConversionError`` for a list that cannot be used.
    """
    from prototrt.converter.front.batch.conversion import survey_models

    with silent():
        return survey_models(os.fspath(models), options)


def _notebook_batch(total: int) -> Callable[[object], object]:
    advance = notebook_progress("models")(total)
    return lambda outcome: advance()


def prune_cache(
    folder: PathLike, *, older_than: float | None = None, max_size: int | str | None = None
) -> PrunedCache:
    """Remove conversions from the cache of a batch: all, or those not used for ``older_than`` days, and then the
    least recently used ones above ``max_size``: bytes, or a text with a unit, such as ``"10GB"``.

    Batches may run at the same time. Raises ``ConversionError`` if the folder is not a cache.
    """
    from prototrt.converter.front.batch.prune import prune

    return prune(os.fspath(folder), older_than, _bytes("max_size", max_size))


def _bytes(name: str, size: int | str | None) -> int | None:
    """Raises ``OptionsError`` for a text that is not a size."""
    if not isinstance(size, str):
        return size
    count = bytes_from_text(size)
    if count is None:
        raise OptionsError(
            Worded("{} is {}, expected a size", Option(name), repr(size)),
            fix=Worded("write it as in {}", Option(name, "10GB")),
        )
    return count


def bench(source: Graph | Session, calls: int = 100, *, profile: bool = False) -> Benchmark:
    """Time the calls of a graph, or of a session on an engine. Without a GPU, time each way to compute on the CPU.

    ``profile`` also times each layer of TensorRT. Raises ``ConversionError``.
    """
    from prototrt.converter.checking.machines.benchmark import bench

    result = bench(source, calls, profile=profile)
    tell(result.notes)
    return result


def layers(*words: str) -> list[LayerSupport]:
    """The supported layer types, and the primitives that each becomes; with words, those whose names have one.

    Raises ``OptionsError``.
    """
    from prototrt.surgery.views.support import supported_layers

    return supported_layers(*words)


def selftest(only: Sequence[SectionName] = (), budget: float | None = None) -> SelfTest:
    """Try on this machine what prototrt does: engines on its GPU if there is one, and what needs none.

    ``only`` names sections. ``budget`` are the seconds for all of it, by default 280. ``result.summary`` says in ten
    lines what works, ``result.save(file)`` writes all of it, without anything that names the machine or its user.
    Raises ``ConversionError``.
    """
    from prototrt.converter.checking.selftest.selftest import selftest

    return selftest(only, budget)


def doctor() -> Diagnosis:
    """The versions of what is installed, and what this machine can build and run."""
    from prototrt.converter.checking.machines.doctor import diagnose

    return diagnose()
