"""A net of any age, and its weights, in the form that Caffe has today: a prototxt and a caffemodel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import ConversionError, OptionsError
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.common.wording import Option, Together, Worded, no_effect
from prototrt.caffe_proto.net.bvlc import doubts, respell
from prototrt.caffe_proto.net.deploy_text import deploy_layers, net_text, transformations
from prototrt.caffe_proto.recognition import open_input, text_of_prototxt
from prototrt.caffe_proto.schema import Message
from prototrt.caffe_proto.text.comments import LayerComments, NetComments, comments_of
from prototrt.caffe_proto.text.marks import MarkedRecurrence
from prototrt.caffe_proto.weights import Array, NoWeights, RandomWeights, StoredBlob
from prototrt.caffe_proto.weights.caffemodel_writer import LayerBlobs, write_caffemodel
from prototrt.converter.files.writing.files import HashedStream, refuse_overwriting, size_lines
from prototrt.converter.files.writing.ownership import DerivedPath, caffemodel_mark
from prototrt.converter.files.writing.publication import publication
from prototrt.converter.files.writing.side_files import refuse_foreign_file
from prototrt.converter.files.writing.texts import prototxt, write_text
from prototrt.converter.options import UpgradeStage
from prototrt.surgery.options import RewriteOptions

_AXES_OF_WEIGHTS = {"InnerProduct": 2, "Embed": 2}
"""Of stored blobs whose shapes have the four sizes of old: axes of the weights of a type, which has four by default."""
_FOUR_AXES = ("Convolution", "Deconvolution", "ConvolutionDepthwise", "DepthwiseConvolution")


@dataclass(frozen=True, slots=True)
class CaffeLayer:
    """A layer of the upgraded net: its message, its blobs, and its comments."""

    message: Message
    arrays: Sequence[Callable[[], Array]] = ()
    comments: LayerComments | None = None


@dataclass(frozen=True)
class UpgradedNet:
    """A net in Caffe's current form.

    ``marks`` are the pairs of blobs that a caller feeds back, of recurrent layers that were written out.
    ``files`` are those that were written.
    """

    name: str
    layers: Sequence[CaffeLayer]
    comments: NetComments
    warnings: Sequence[str]
    marks: Sequence[MarkedRecurrence] = ()
    files: Sequence[str] = field(default=())

    @property
    def recurrences(self) -> list[tuple[str, str]]:
        """The inputs and the outputs that a caller feeds back."""
        return [(pair.input, pair.output) for pair in self.marks]

    @property
    def text(self) -> str:
        """The prototxt."""
        layers = [(layer.message, layer.comments) for layer in self.layers]
        marks = [pair.comment for pair in self.marks]
        return net_text(self.name, layers, [*marks, *self.comments.head], self.comments.tail)

    def blobs(self) -> Iterator[LayerBlobs]:
        """The layers of the caffemodel, each read when it is asked for.

        Inputs are among them, as in Caffe's files; a layer without blobs that the net wants some for may not be.
        """
        for layer in self.layers:
            if not (layer.arrays or layer.message.type == "Input"):
                continue
            yield LayerBlobs(layer.message.name, layer.message.type, [read() for read in layer.arrays])

    @property
    def summary(self) -> list[str]:
        """What was written, and which blobs a caller feeds back."""
        fed_back = [f"recurrent {output} -> {name}" for name, output in self.recurrences]
        return [*fed_back, *size_lines(self.files)]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "layers": len(self.layers),
            "recurrent": [{"input": name, "output": output} for name, output in self.recurrences],
            "files": {file: os.path.getsize(file) for file in self.files if os.path.isfile(file)},
            "warnings": [*self.warnings],
        }


def upgrade(
    model: Model,
    file: PathLike | None,
    weights_file: PathLike | None,
    stage: UpgradeStage,
    rewriting: RewriteOptions,
    shapes: Mapping[str, Sequence[int]],
) -> UpgradedNet:
    """The upgraded net, written unless ``file`` is None. ``weights_file`` has the stem of ``file`` by default.

    ``shapes`` are those of inputs that the file does not state; a blob that no layer makes becomes an input if it has
    one. Raises ``ConversionError``; then nothing is written.
    """
    if shapes:
        from prototrt.surgery.expansion.frameworks import framework_by_name  # few nets need it

        model = framework_by_name(model.framework).with_inputs(model, shapes)
    if isinstance(model.weights, RandomWeights):
        from prototrt.converter.backends.caffe.drawn import with_drawn_blobs

        model = with_drawn_blobs(model, model.weights, replace(rewriting, shapes=shapes or rewriting.shapes))
    net = _upgrade(model, stage, rewriting, shapes)
    if file is None:
        return net
    has_weights = not isinstance(model.weights, NoWeights)
    if weights_file is not None and not has_weights:
        raise OptionsError(
            Worded("{} names a caffemodel, but no weights are given", Option("weights_file")),
            fix=Worded("give the weights of the net, or leave out {}", Option("weights_file")),
        )
    target = os.fspath(file)
    beside = DerivedPath(Path(target).with_suffix(".caffemodel"))
    weights = (beside if weights_file is None else os.fspath(weights_file)) if has_weights else None
    written = [(Option("file"), target), *([(Option("weights_file"), weights)] if weights else [])]
    refuse_overwriting(written, [name for name in (model.file, model.weights.file) if name])
    if weights is beside:
        both = Together([Option("file", target), Option("weights_file", "FILE.caffemodel")])
        fix = Worded("move that file, or name both: {}", both)
        refuse_foreign_file(Option("file"), beside, fix)
    with publication(target) as files:
        write_text(files, target, net.text, prototxt)
        with files.create(weights) if weights else nullcontext() as stream:
            if stream is not None:
                _write_weights(stream, net)
    return replace(net, files=[name for _, name in written])


def _write_weights(stream: BinaryIO, net: UpgradedNet) -> None:
    """The caffemodel, with a mark at its end by which the next run knows it."""
    with ThreadPoolExecutor(2) as threads:
        hashed = HashedStream(stream, threads)
        write_caffemodel(hashed, net.blobs(), net.name)
        stream.write(caffemodel_mark(hashed.sha256))


def _upgrade(
    model: Model, stage: UpgradeStage, rewriting: RewriteOptions, shapes: Mapping[str, Sequence[int]]
) -> UpgradedNet:
    try:
        messages = deploy_layers(model, shapes)
    except ConversionError as error:
        from prototrt.surgery.expansion.expand import advise_other_shapes  # which imports all layers

        advise_other_shapes(model, shapes, error)
        raise
    comments = comments_of(text_of_prototxt(open_input(model.file, "a prototxt")))
    placed = dict(comments.layers)
    warnings = [*model.warnings, *transformations(model)]
    steps, marks = {}, list[MarkedRecurrence]()
    idle = rewriting.chosen_options("cont", "force", "dynamic")
    if stage == "rewritten":
        from prototrt.converter.backends.caffe.plain import UnrolledLayers

        unrolled = UnrolledLayers(model, rewriting)
        steps, marks = unrolled.steps, unrolled.recurrences
        if not steps:
            warnings.append(no_effect([Option("stage"), *idle], "the net has no recurrent layer"))
    elif idle:
        warnings.append(
            no_effect(idle, Worded("the net is not written with {}", Option("stage", "rewritten")))
        )
    inputs: list[CaffeLayer] = []
    layers: list[CaffeLayer] = []
    for layer, message in zip(model.layers, messages, strict=True):
        beside = placed.pop(layer.origin.line, None)
        if layer in steps:
            plain = steps[layer]
            inputs += [CaffeLayer(each.message) for each in plain.inputs]
            first, *others = [CaffeLayer(each.message, _read(each.arrays)) for each in plain.layers]
            layers += [replace(first, comments=beside), *others]
            continue
        respell(layer, message)
        warnings += doubts(layer, message)
        layers.append(CaffeLayer(message, _blobs_of(layer), beside))
    return UpgradedNet(model.name, [*inputs, *layers], comments, warnings, marks)


def _read(arrays: Sequence[Array]) -> Sequence[Callable[[], Array]]:
    return [lambda array=array: array for array in arrays]  # type: ignore[misc]


def _blobs_of(layer: Layer) -> Sequence[Callable[[], Array]]:
    """The blobs of a layer in the shapes that they have today."""

    def reader(blob: StoredBlob, index: int) -> Callable[[], Array]:
        return lambda: blob.array.reshape(_shape(layer.type, index, blob))

    return [reader(blob, index) for index, blob in enumerate(layer.blobs or ())]


def _shape(kind: str, index: int, blob: StoredBlob) -> tuple[int, ...]:
    """The shape of a blob without the leading ones that it has only because it once had four sizes."""
    if not blob.legacy:
        return blob.shape
    axes = 1 if index else 4 if kind in _FOUR_AXES else _AXES_OF_WEIGHTS.get(kind, 1)
    leading, own = blob.shape[:-axes], blob.shape[-axes:]
    return own if all(size == 1 for size in leading) else blob.shape
