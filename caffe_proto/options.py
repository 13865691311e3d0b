"""Which net is loaded, and where its weights come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias

from prototrt.caffe_proto.common.options import Names, Options, PathLike, at_least, one_of

FieldValue: TypeAlias = str | bool | int | float | Sequence[str | bool | int | float]
"""The value of a field as a file would have it; several for a repeated field, as a list or with commas between them."""
Overrides: TypeAlias = Mapping[str, FieldValue]
"""Values of fields, by ``LAYER.FIELD`` or ``LAYER.MESSAGE.FIELD``."""
Phase: TypeAlias = Literal["TEST", "TRAIN"]
Definitions: TypeAlias = Mapping[str, str]
"""The values of the placeholders of a template, by their names."""


@dataclass(frozen=True)
class LoadOptions(Options):
    """The choice of the net, and the source of its weights.

    ``weights`` are a caffemodel, or an HDF5 or npz file; for a net of Caffe2 an init net. Its content
    decides which one it is. ``random_weights`` is the seed of random weights that replace a file.
    ``phase``, ``level`` and ``stages`` say which of the layers with include and exclude rules belong to
    the net. ``allow_unknown`` makes warnings of unknown fields that only matter to training.
    ``overrides`` set fields of layers, by ``LAYER.FIELD``. ``define`` holds the values of the
    placeholders of a template, by their names.
    """

    weights: PathLike | None = None
    _: KW_ONLY
    phase: Phase = one_of(Phase)  # it makes the field
    level: int = 0
    stages: Names = ()
    random_weights: int | None = at_least(0)
    allow_unknown: bool = False
    overrides: Overrides | None = None
    define: Definitions | None = None
