"""The steps of a conversion, as commands and batches take them: a net with weights, its graph, a file.

What only one of them needs is imported when it is made: imports are most of what a small
conversion costs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from prototrt.caffe_proto import load
from prototrt.caffe_proto.common.errors import (
    ConversionError,
    MissingShapesError,
    OptionsError,
    Origin,
    UnsupportedLayerError,
    WeightsError,
    distinct,
    silent,
)
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded, no_effect
from prototrt.caffe_proto.layer_types import layer_type
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.files.companions.manifest import content_of, digest_of
from prototrt.converter.files.writing.side_files import (
    product_files,
    refuse_foreign,
)
from prototrt.converter.options import (
    ConversionOptions,
    Progress,
)
from prototrt.converter.product import Product
from prototrt.surgery.expansion.needed_layers import is_cut
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model
    from prototrt.surgery.ir import Graph

GraphListener: TypeAlias = "Callable[[Graph], Graph]"
"""Hears of the rewritten graph before it is used, and may give it other words."""


def load_with_weights(file: str, options: LoadOptions, rewriting: RewriteOptions) -> Model:
    """The net with weights, which must be given or drawn at random, unless no layer has any.

    Raises ``ConversionError``.
    """
    model = load(file, options=options)
    if options.random_weights is None and model.weights.file is None:
        _expect_no_weights(file, model, rewriting)
    return model


def _expect_no_weights(file: str, model: Model, rewriting: RewriteOptions) -> None:
    """Raise ``ConversionError`` unless the net becomes a graph without weights, as only its rules know.

    A net that fails for another reason is told that reason. Which shapes fit is better told with the weights at hand.
    """
    is_of_caffe = model.framework == "caffe"
    learns = any(layer_type(layer.type).learns for layer in model.layers)
    waiting = (WeightsError, MissingShapesError) if learns else (WeightsError,)
    try:
        with silent():
            rewrite(model, options=rewriting)
    except ConversionError as error:
        if is_of_caffe and not any(isinstance(each, waiting) for each in distinct([error])):
            raise
        from prototrt.caffe_proto.weights_choice import no_weights_error

        raise no_weights_error(file) from None


def truth_of(model: Model, options: RewriteOptions) -> Graph | None:
    """The graph in float32 and in Caffe's layout that a graph is compared with. None if that is the graph itself.

    A quantized graph is compared with one of 8 bits: their cost is measured, and is not an error.
    """
    precision = options.precision if options.is_quantized else "fp32"
    exact = replace(options, precision=precision, layout="caffe")
    return None if exact == options else rewrite(model, options=exact)


def doubts_of(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """What the writing of a product showed: where its verification proves little, and operators asked for in vain.

    Why a loop did not become an operator is told where it stays one.
    """
    doubts = tuple(manifest.get("verification", {}).get("warnings", ()))
    counts = manifest.get("onnx", {})
    if not counts.get("recurrent_operators") == counts.get("scans") == 0:
        return doubts
    return (*doubts, no_effect([Option("onnx_lstm")], "no recurrent layer of the net is a loop"))


@dataclass(frozen=True)
class Converted:
    """A conversion that succeeded: the net, its graph, and what was written.

    ``manifest`` is the content of ``FILE.json``, which docs/manifest.md describes. ``seconds`` are those of all steps.
    """

    model: Model
    graph: Graph
    product: Product
    manifest: Mapping[str, Any]
    seconds: float

    def __repr__(self) -> str:
        return f"<Converted {self.model.name or self.model.file}: {', '.join(self.files)}>"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know of the net, and of its verification."""
        return (*self.graph.warnings, *self.doubts)

    @property
    def digest(self) -> str:
        """The digest of the manifest, which ``Session(file, trust=digest)`` demands."""
        return digest_of(content_of(self.manifest))

    @property
    def doubts(self) -> tuple[str, ...]:
        """What only its writing showed."""
        return doubts_of(self.manifest)

    @property
    def files(self) -> list[str]:
        """The files that were written, the engine or ONNX model first."""
        file, building = self.product.file, self.product.building
        beside = product_files(file)[1:]
        converting = self.product.converting
        asked = [
            converting.emit_header,
            converting.remainder,
            building.timing_cache_file,
            building.export_layer_info,
        ]
        return [file, *filter(os.path.isfile, [*beside, *filter(None, asked)])]


@dataclass(frozen=True)
class PreparedConversion:
    """A conversion up to what it writes: what is asked for, the net, and the graph that becomes of it."""

    product: Product
    rewriting: RewriteOptions
    model: Model
    graph: Graph
    remainder: str = ""
    """The text of the net after the cut, if that is asked for."""

    @property
    def truth(self) -> Graph | None:
        """What the graph is compared with; see ``truth_of``."""
        return truth_of(self.model, self.rewriting)

    def write(self, progress: Progress | None = None) -> dict[str, Any]:
        """Write the product, checked if that is asked for; return its manifest. Raises ``ConversionError``."""
        truth = None
        if self.product.converting.verify:
            from prototrt.converter.checking.machines.memory import refuse_large_values

            refuse_large_values(self.graph, self.rewriting)
            truth = self.truth
        with _remainder_file(self.product.converting.remainder, self.remainder, self.model.framework):
            return self.product.write(self.graph, progress, truth)


@contextmanager
def _remainder_file(file: str | None, text: str, framework: str) -> Iterator[None]:
    """The net after the cut appears once the product has been written."""
    if not file or not text:
        yield
        return
    from prototrt.converter.files.writing.publication import publication
    from prototrt.converter.files.writing.texts import predict_net, prototxt, write_text

    with publication(file) as files:
        write_text(files, file, text, prototxt if framework == "caffe" else predict_net)
        yield


def begin_conversion(
    file: str, options: ConversionOptions, listener: GraphListener = lambda graph: graph
) -> PreparedConversion:
    """Read a net with its weights, and rewrite it for what the options ask for; ``listener`` hears of the graph.

    Raises ``ConversionError``, also if a file that stands where the product goes is not ours.
    """
    product = Product.of(options)
    rewriting = product.rewrite_options(options.part(RewriteOptions))
    refuse_foreign(Option("file"), product.file)
    model = load_with_weights(file, options.part(LoadOptions), rewriting)
    graph = rewrite(model, options=rewriting)
    text, remainder = "", product.converting.remainder
    if is_cut(model, rewriting.outputs):
        model, graph = _cut(product, rewriting, model, graph)
        if remainder:
            from prototrt.surgery.views.remainder import remainder_of

            rest = remainder_of(model, rewriting, remainder)
            text, graph = rest.text, replace(graph, warnings=(*graph.warnings, *rest.warnings))
    elif remainder:
        raise OptionsError(Worded("{} is for {}", Option("remainder"), Option("outputs", ["auto"])))
    return PreparedConversion(product, rewriting, model, listener(graph), text)


def _cut(product: Product, rewriting: RewriteOptions, model: Model, graph: Graph) -> tuple[Model, Graph]:
    """The net cut before the layers that the product cannot have, as before those without a rule."""
    while refused := _refusals(product, graph):
        layers = [
            replace(layer, problems=(*layer.problems, *refused[layer.origin]))
            if layer.origin in refused
            else layer
            for layer in model.layers
        ]
        model = replace(model, layers=tuple(layers))
        graph = rewrite(model, options=rewriting)
    return model, graph


def _refusals(product: Product, graph: Graph) -> Mapping[Origin, Sequence[ConversionError]]:
    """By layer, why the product cannot have it. Raises ``ConversionError`` for what is wrong with no layer."""
    refused: dict[Origin, list[ConversionError]] = {}
    try:
        product.refuse(graph)
    except ConversionError as error:
        for each in distinct([error]):
            if each.origin is None or not isinstance(each, UnsupportedLayerError):
                raise
            refused.setdefault(each.origin, []).append(each)
    return refused


def convert_files(
    file: str, options: ConversionOptions, listener: GraphListener = lambda graph: graph
) -> Converted:
    """A net and its weights become an engine, a model or a program. Raises ``ConversionError``.

    ``listener`` hears of the graph before that is made.
    """
    began = time.perf_counter()
    conversion = begin_conversion(file, options, listener)
    manifest = conversion.write(options.progress)
    return Converted(
        conversion.model, conversion.graph, conversion.product, manifest, time.perf_counter() - began
    )
