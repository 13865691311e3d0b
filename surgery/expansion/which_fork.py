"""The fork of a layer, for layers that do not show it themselves."""

from __future__ import annotations

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.expansion.layer_builder import LayerBuilder
from prototrt.surgery.forks import MEANINGS, Fork


def which_fork(build: LayerBuilder, layer: Layer, likely: Fork) -> Fork:
    """The fork that the user names, if its layers of this type have a different meaning; otherwise the likely one.

    A likely fork is reported as a warning.
    """
    meanings = MEANINGS[layer.type]
    fork = build.options.fork
    if fork is not None and fork in meanings:
        return fork
    for other in (fork for fork in meanings if fork != likely):
        build.warn(
            Worded(
                "read as the layer of {}: {}; use {} if {}",
                likely,
                meanings[likely],
                Option("fork", other),
                meanings[other],
            )
        )
    return likely
