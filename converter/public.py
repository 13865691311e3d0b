"""The functions that the package offers beside ``load``, ``rewrite`` and ``build``: one for each command."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prototrt.caffe_proto import Model, load
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.options import PathLike, narrowed, takes_options
from prototrt.caffe_proto.common.sizes import bytes_from_text
from prototrt.caffe_proto.common.subjects import refuse_no_file, refuse_other
from prototrt.caffe_proto.common.warned import silent, tell
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.converter.options import (
    BatchOptions,
    BuildOptions,
    CalibrateOptions,
    ConversionOptions,
    TritonOptions,
    VerifyOptions,
)
from prototrt.converter.views.notebook import notebook_progress
from prototrt.converter.views.stages import READERS, STAGES, Reader, Stage, StageName
from prototrt.surgery.ir import Graph
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite
from prototrt.surgery.views.inspection import Inspection

if TYPE_CHECKING:
    from prototrt.converter.batch.prune import Pruned
    from prototrt.converter.batch.reports import BatchResult
    from prototrt.converter.calibration.calibration import Calibration
    from prototrt.converter.conversion import Converted
    from prototrt.converter.glance.facts import FileFacts
    from prototrt.converter.machines.benchmark import Benchmark
    from prototrt.converter.machines.doctor import Diagnosis
    from prototrt.converter.sessions.session import Session
    from prototrt.converter.survey.survey import Survey
    from prototrt.converter.triton.repository import WrittenModel
    from prototrt.converter.verification.verification import Verification
    from prototrt.surgery.views.support import LayerSupport


@takes_options(RewriteOptions)
def inspect(subject: Model | PathLike, options: RewriteOptions) -> Inspection | FileFacts:
    """The layers of a net: shapes, parameters, multiply-adds; or what any file is and holds.

    A model, or a prototxt, gives an ``Inspection``. Any other file gives ``FileFacts``: weights alone, an engine, an
    ONNX model, a Caffe2 net, arrays, a mean file, scales. Raises ``ConversionError``.
    """
    from prototrt.surgery.views.inspection import inspect

    if not isinstance(subject, Model):
        from prototrt.converter.glance.look import look_at

        facts = look_at(subject)
        if facts is not None:
            tell(facts.warnings)
            return facts
        subject = load(subject)
    found = inspect(subject, options=options)
    tell(found.warnings, but=subject.warnings)
    return found


@dataclass(frozen=True)
class Picture:
    """A net, or a graph, in Graphviz's language: ``str(picture)``. A notebook shows it, if Graphviz is installed."""

    dot: str

    def __str__(self) -> str:
        return self.dot

    def _repr_svg_(self) -> str | None:
        import shutil

        from prototrt.converter.views.pictures import rendered

        return rendered(self.dot, ".svg", "picture").decode() if shutil.which("dot") else None

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
    from prototrt.converter.views.pictures import dot_text, write_picture
    from prototrt.surgery.views.dot import dot_from_graph

    if isinstance(subject, Graph):
        if file is not None:
            raise TypeError(
                'a file is drawn from a model: prototrt.draw(model, "net.html", stage="rewritten")'
            )
        return Picture(dot_from_graph(subject))
    refuse_other("draw", subject, Model)
    chosen = options or RewriteOptions()
    shown = Stage(narrowed("stage", stage, STAGES), narrowed("reader", reader, [*READERS]))
    with silent():
        if file is None:
            text, warnings = dot_text(subject, chosen, shown)
            drawn = Picture(text)
        else:
            checks = None if verification is None else os.fspath(verification)
            warnings = write_picture(os.fspath(file), subject, chosen, shown, checks)
            drawn = None
    tell(warnings, but=subject.warnings)
    return drawn


@takes_options(VerifyOptions)
def verify(model: Model, options: VerifyOptions) -> Verification:
    """Compute a net in several ways, and compare them, blob by blob.

    ``found.verdict`` is one line that begins with PASS or FAIL; ``found.refuse()`` raises ``VerificationError`` if a
    tolerance is broken. Raises ``ConversionError`` for a net or inputs that cannot be used.
    """
    from prototrt.converter.conversion import verify_model
    from prototrt.converter.machines.memory import refuse_large_values

    refuse_other("verify", model, Model)
    rewriting = options.rewriting or RewriteOptions()
    with silent():
        graph = rewrite(model, options=rewriting)
        refuse_large_values(graph, rewriting)
        started = options.progress or notebook_progress("nets of 8 bits computed")
        found = verify_model(model, graph, rewriting, options, started)
    tell([*graph.warnings, *found.warnings], but=model.warnings)
    return found


@takes_options(CalibrateOptions)
def calibrate(model: Model, options: CalibrateOptions) -> Calibration:
    """Run a net on data, and measure the scale of each value that int8 or fp8 quantizes.

    ``found.save("scales.json")`` writes the file that ``rewrite(model, precision="int8", scales=...)`` reads.
    Raises ``ConversionError``.
    """
    from prototrt.converter.calibration.calibration import calibrate

    refuse_other("calibrate", model, Model)
    with silent():
        started = options.progress or notebook_progress("parts of the data")
        found = calibrate(model, options, options.rewriting, started=started)
    tell(found.warnings, but=model.warnings)
    return found


def deploy(model: Model, *, shapes: Mapping[str, Sequence[int]] | None = None) -> str:
    """The deploy net of a training net, as the text of a prototxt, which Caffe reads with the same weights.

    ``shapes`` are those of inputs that the file does not state. Raises ``ConversionError``.
    """
    from prototrt.caffe_proto.net.deploy_text import deploy_text, transformations

    refuse_other("deploy", model, Model)
    text = deploy_text(model, shapes or {})
    tell(transformations(model))
    return text


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
    from prototrt.converter.triton.repository import name_of_model, refuse_useless_backend, write_repository
    from prototrt.converter.triton.served import serve

    refuse_other("triton", model, Model)
    asked, built = options or TritonOptions(), building or BuildOptions()
    refuse_useless_backend(asked.platform, built.backend)
    name = name_of_model(asked.name, model.name, model.file)
    with silent():
        served = serve(model, rewriting or RewriteOptions(), asked)
        written = write_repository(repository, name, served, asked, built)
    tell(served.graph.warnings, but=model.warnings)
    return written


@takes_options(ConversionOptions)
def convert(model: PathLike, options: ConversionOptions) -> Converted:
    """Convert the files of a net to an engine or an ONNX model, as the command does.

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
    from prototrt.converter.survey.survey import nets_below, survey

    files = nets_below(os.fsdecode(path) for path in paths)
    with silent():
        advance = notebook_progress("nets")(len(files))
        return survey(files, lambda net: advance())


@takes_options(BatchOptions)
def convert_batch(models: PathLike, options: BatchOptions) -> BatchResult:
    """Convert all models of a list in YAML, each in a process of its own; see docs/batch.md.

    ``found.outcomes`` says what became of each, ``found.exit_code`` is 0 if all are converted. Raises
    ``ConversionError`` for a list that cannot be used, not for models that fail.
    """
    from prototrt.converter.batch.conversion import convert_models

    with silent():
        found = convert_models(os.fspath(models), options, options.progress or _notebook_batch)
    tell(found.warnings)
    return found


@takes_options(BatchOptions)
def survey_batch(models: PathLike, options: BatchOptions) -> Survey:
    """Which models of a list ``convert_batch`` would convert with these options, and what stops the others.

    Nothing is written, and no engine is built. Raises ``ConversionError`` for a list that cannot be used.
    """
    from prototrt.converter.batch.conversion import survey_models

    with silent():
        return survey_models(os.fspath(models), options)


def _notebook_batch(total: int) -> Callable[[object], object]:
    advance = notebook_progress("models")(total)
    return lambda outcome: advance()


def prune_cache(
    folder: PathLike, *, older_than: float | None = None, max_size: int | str | None = None
) -> Pruned:
    """Remove conversions from the cache of a batch: all, or those not used for ``older_than`` days, and then the
    least recently used ones above ``max_size``: bytes, or a text with a unit, such as ``"10GB"``.

    Batches may run at the same time. Raises ``ConversionError`` if the folder is not a cache.
    """
    from prototrt.converter.batch.prune import prune

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
    from prototrt.converter.machines.benchmark import bench_engine, bench_graph

    if isinstance(source, Graph):
        found = bench_graph(source, calls, profile=profile)
    else:
        found = bench_engine(source, calls, profile=profile)
    tell(found.notes)
    return found


def layers() -> list[LayerSupport]:
    """The supported layer types, and the primitives that each becomes."""
    from prototrt.surgery.views.support import supported_layers

    return supported_layers()


def doctor() -> Diagnosis:
    """The versions of what is installed, and what this machine can build and run."""
    from prototrt.converter.machines.doctor import diagnose

    return diagnose()
