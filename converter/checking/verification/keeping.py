"""Layers that 8 bits cost too much: they stay in 16, so that a net computes on the calibration data what it did."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import silent
from prototrt.caffe_proto.common.records import replace
from prototrt.caffe_proto.common.wording import listed
from prototrt.converter.checking.calibration.calibration import Calibration
from prototrt.converter.checking.verification.quantization import Truth, quantized_layers
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.options import CalibrateOptions
from prototrt.converter.running.data.calls import all_data
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import Value
from prototrt.surgery.ops import NonMaxSuppression, TopK, While
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.pipeline import rewrite
from prototrt.surgery.views.inspection import multiply_adds

_JUDGED = 8
"""Calls that the net is judged on, as a whole and with one layer quantized at a time."""


def with_layers_in_float(model: Model, options: CalibrateOptions, calibration: Calibration) -> Calibration:
    """The calibration with the layers that stay in 16 bits, for int8 and for fp8, and warnings that name them.

    If the cosine of an output with float32 is below ``options.auto_keep``, layers are kept, those first that cost
    most when they are quantized alone, until it is not. Raises ``ConversionError``.
    """
    if not options.auto_keep or not any(record.scale for record in calibration.scales.records.values()):
        return calibration
    rewriting = replace(options.rewriting or RewriteOptions(), precision="fp32", scales=calibration)
    with silent():
        signature = Signature.of_graph(rewrite(model, options=rewriting))
        rewriting = before_decisions(model, rewriting)
        full = rewrite(model, options=rewriting)
        read = {value.name for value in full.inputs}
        calls = [
            replace(call, feeds={name: call.feeds[name] for name in call.feeds if name in read})
            for call in islice(all_data(options, signature).calls(), _JUDGED)
        ]
        truth = Truth.of(full, calls)
        quantized = replace(rewriting, precision="int8"), replace(rewriting, precision="fp8")
        chosen = [_choose(model, each, truth, options.auto_keep) for each in quantized]
    kept = {eight: names for eight, (names, _) in zip(("int8", "fp8"), chosen, strict=True) if names}
    notes = [note for names, note in chosen if names]
    scales = replace(calibration.scales, kept=kept)
    return replace(calibration, scales=scales, warnings=(*calibration.warnings, *notes))


def _choose(model: Model, options: RewriteOptions, truth: Truth, least: float) -> tuple[tuple[str, ...], str]:
    """The layers to keep in 16 bits, and what that changes."""

    def cosine(kept: Sequence[str]) -> float:
        costs = truth.costs(rewrite(model, options=replace(options, keep_float=tuple(kept))))
        return min((cost.cosine for cost in costs), default=1.0)

    before = cosine(())
    if before >= least:
        return (), ""
    graph = rewrite(model, options=options)
    layers = quantized_layers(graph)
    ordered = sorted(layers, key=lambda layer: cosine([other for other in layers if other != layer]))
    count = bisect_left(range(len(ordered)), True, key=lambda count: cosine(ordered[:count]) >= least)
    kept, work = ordered[:count], multiply_adds(graph)
    share = sum(work[layers[name]] for name in ordered[count:]) / sum(work.values())
    return tuple(kept), (
        f"{options.precision}: {listed(kept)} {'stay' if count > 1 else 'stays'} in 16 bits: the cosine with float32 is"
        f" {cosine(kept):.4f}, and was {before:.4f}; {share:.0%} of the multiply-adds have 8 bits"
    )


def before_decisions(model: Model, options: RewriteOptions) -> RewriteOptions:
    """The net up to the layers that choose: a list of boxes is another one if two scores change places."""
    expansion = expand(model, options=options)
    graph, decided, choosing = expansion.graph, set[Value](), set[str]()
    for node in graph.nodes:
        chooses = isinstance(node.op, (TopK, NonMaxSuppression, While))
        if chooses or not decided.isdisjoint(node.inputs):
            decided.update(node.outputs)
        if chooses:
            choosing.add(node.origin.layer)
    sources = [bottom for layer in model.layers if layer.name in choosing for bottom in layer.bottoms]
    outputs = [value.name for value in graph.outputs if value not in graph.state_outputs]
    tops = {name: value for name, value in expansion.tops.items() if value not in decided}
    computed = {value for node in graph.nodes for value in node.outputs}
    names = [name for name in (*outputs, *sources) if name in tops and tops[name] in computed]
    return replace(options, outputs=tuple(dict.fromkeys(names))) if choosing and names else options
