"""The files that a graph is made from, as its manifest lists them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.files import identity_of
from prototrt.caffe_proto.weights import sha256_of
from prototrt.surgery.expansion.frameworks import Framework
from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.ir import Source


def sources_of(model: Model, framework: Framework, build: LayerBuilder) -> tuple[Source, ...]:
    """Net, weights, mean files, and the files that options name. Their contents are hashed only on demand."""
    net, stored = framework.sources
    options, weights = build.options, model.weights
    sources = [Source(net, model.file, partial(sha256_of, model.file))]
    if weights.file is not None:
        sources.append(Source(stored, weights.file, lambda: weights.sha256))
    given = {"rules": options.rules, "settings": options.settings}
    if options.is_quantized:
        given |= {"scales": options.scales, "calibration_cache": options.calibration_cache}
    files = [*(("mean", file) for file in build.mean_files), *given.items()]
    sources += [Source(role, file, partial(sha256_of, file)) for role, file in files if isinstance(file, str)]
    return tuple(replace(source, identity=identity_of(source.file)) for source in sources)
