"""The work of commands that takes several rooms: a net and options in, a result out.

A public function (``public.py``) and its command both call one step; the command loads, words and prints. The steps of
the other commands are in the rooms of their subjects: ``conversion.py``, ``survey/``, ``views/``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prototrt.caffe_proto import load
from prototrt.caffe_proto.common.errors import ConversionError, OptionsError
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.model import Model
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.conversion import GraphListener, truth_of
from prototrt.converter.options import (
    BuildOptions,
    CalibrateOptions,
    DeepStreamOptions,
    TritonOptions,
    VerifyOptions,
    without_progress,
)
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite

if TYPE_CHECKING:
    from prototrt.converter.checking.calibration.calibration import Calibration
    from prototrt.converter.checking.verification.verification import Verification
    from prototrt.converter.serving.deepstream.folder import WrittenFolder
    from prototrt.converter.serving.triton.repository import WrittenModel
    from prototrt.converter.showing.glance.facts import FileFacts
    from prototrt.surgery.views.inspection import Inspection
    from prototrt.surgery.views.new_rule import NewRule


def inspect(
    subject: Model | PathLike, loading: LoadOptions, rewriting: RewriteOptions
) -> Inspection | FileFacts:
    """The layers of a net; or what a file is, if it is not a net and no option says that it is one."""
    from prototrt.surgery.views.inspection import inspect

    if isinstance(subject, Model):
        return inspect(subject, options=rewriting)
    if loading == LoadOptions() and rewriting == RewriteOptions():
        from prototrt.converter.showing.glance.look import look_at

        facts = look_at(subject)
        if facts is not None:
            return facts
    return inspect(load(subject, options=loading), options=rewriting)


@dataclass(frozen=True, slots=True)
class DeployNet:
    """The text of a prototxt, and what its user should know."""

    text: str
    warnings: Sequence[str]


def deploy(model: Model, shapes: Mapping[str, Sequence[int]]) -> DeployNet:
    """The net of a model as a deploy net. ``shapes`` are those of inputs that the file does not state.

    A blob that no layer makes becomes an input if it has a shape.
    """
    from prototrt.caffe_proto.net.deploy_text import deploy_text, transformations
    from prototrt.surgery.expansion.expand import advise_other_shapes
    from prototrt.surgery.expansion.frameworks import framework_by_name

    model = framework_by_name(model.framework).with_inputs(model, shapes)
    try:
        text = deploy_text(model, shapes)
    except ConversionError as error:
        advise_other_shapes(model, shapes, error)
        raise
    return DeployNet(text, (*model.warnings, *transformations(model)))


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """The beginning of a rule, and the files that hold it and its test."""

    rule: NewRule
    file: str
    test: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.rule.as_dict(), "file": self.file, "test": self.test}


def new_rule(model: Model, layer: str, file: PathLike, options: RewriteOptions) -> WrittenRule:
    """Begin a rule for a layer in a new file, with a test of it beside it. Raises ``ConversionError``."""
    from prototrt.converter.files.writing.ownership import DerivedPath
    from prototrt.converter.files.writing.publication import publication
    from prototrt.converter.files.writing.texts import python, write_text
    from prototrt.surgery.views.new_rule import new_rule

    rule, path = new_rule(model, layer, options), Path(os.fspath(file))
    written, test = str(path), DerivedPath(path.with_name(f"test_{path.name}"))
    for each in (written, test):
        if os.path.lexists(each):
            raise OptionsError(f"{each} is there already", fix="name another file, or remove this one")
    with publication(written) as files:
        for each, text in (
            (written, rule.rule_text()),
            (test, rule.test_text(path.name, str(path.parent))),
        ):
            write_text(files, each, text, python)
    return WrittenRule(rule, written, test)


def verify(
    model: Model, options: VerifyOptions, listener: GraphListener = lambda graph: graph
) -> Verification:
    """Rewrite a net, compute it in several ways, and measure what 8 bits cost."""
    from prototrt.converter.checking.machines.memory import refuse_large_values
    from prototrt.converter.checking.verification.quantization import quantization_cost
    from prototrt.converter.checking.verification.verify import data_of_calls, verify_files

    is_for_operators = {*options.ways} - {"reference"} == {"onnx-lstm"}
    rewriting = replace(options.rewriting or RewriteOptions(), for_operators=is_for_operators)
    graph = listener(rewrite(model, options=rewriting))
    refuse_large_values(graph, rewriting)
    if options.auto_keep is not None and not rewriting.is_quantized:
        raise OptionsError(
            Worded("{} is for int8 and fp8", Option("auto_keep")),
            fix=Worded("leave it out, or use {}", Option("precision", "int8")),
        )
    truth = truth_of(model, rewriting)
    data = data_of_calls(truth or graph, options)
    verification = verify_files(graph, options, truth, data)
    if not rewriting.is_quantized:
        return verification
    as_in_caffe = replace(rewriting, layout="caffe")
    progress = options.progress or without_progress
    cost = quantization_cost(model, as_in_caffe, [*data.calls()], options.auto_keep, progress)
    return replace(verification, cost=cost)


def calibrate(model: Model, options: CalibrateOptions, *, every_blob: bool = False) -> Calibration:
    """Measure the scales of a net, and choose the layers that 8 bits cost too much."""
    from prototrt.converter.checking.calibration.calibration import calibrate
    from prototrt.converter.checking.verification.keeping import with_layers_in_float

    return with_layers_in_float(model, options, calibrate(model, options, every_blob=every_blob))


def triton(
    model: Model,
    repository: PathLike,
    options: TritonOptions,
    rewriting: RewriteOptions,
    building: BuildOptions,
    listener: GraphListener = lambda graph: graph,
) -> WrittenModel:
    """Rewrite a net for a server, and write it into a model repository."""
    from prototrt.converter.serving.triton.repository import (
        name_of_model,
        refuse_useless_backend,
        write_repository,
    )
    from prototrt.converter.serving.triton.served import serve

    refuse_useless_backend(options.platform, building.backend)
    name = name_of_model(options.name, model.name, model.file)
    served = serve(model, rewriting, options)
    served = replace(served, graph=listener(served.graph))
    return write_repository(os.fspath(repository), name, served, options, building)


def deepstream(
    model: Model,
    folder: PathLike,
    options: DeepStreamOptions,
    rewriting: RewriteOptions,
    listener: GraphListener = lambda graph: graph,
) -> WrittenFolder:
    """Rewrite a net for frames of videos, and write it into a folder for Gst-nvinfer."""
    from prototrt.converter.running.data.labels import read_labels
    from prototrt.converter.serving.deepstream.folder import labels_for, pixel_keys, write_folder
    from prototrt.converter.serving.deepstream.networks import network_of
    from prototrt.converter.serving.deepstream.old_config import read_config
    from prototrt.converter.serving.triton.repository import name_of_model

    name = name_of_model(options.name, model.name, model.file)
    lines = None if options.labels is None else read_labels(options.labels)
    old = None if options.old_config is None else read_config(options.old_config)
    if old is not None and old.outputs and not rewriting.outputs:
        rewriting = replace(rewriting, outputs=tuple(old.outputs))
    graph = listener(rewrite(model, options=rewriting))
    network = network_of(model, graph)
    pixels = pixel_keys(model, network, options, rewriting.preprocess)
    labels = None if lines is None else labels_for(network, lines)
    return write_folder(Path(folder), name, graph, network, pixels, labels, options.target, old)
