"""Which net is loaded, and where its weights come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from prototrt.caffe_proto.common.options import Names, Options, PathLike, at_least, one_of, option
from prototrt.caffe_proto.common.records import KW_ONLY, dataclass
from prototrt.caffe_proto.common.wording import Option, Worded

FieldValue: TypeAlias = str | bool | int | float | Sequence[str | bool | int | float]
"""The value of a field as a file would have it; several for a repeated field, as a list or with commas between them."""
Overrides: TypeAlias = Mapping[str, FieldValue]
"""Values of fields, by ``LAYER.FIELD`` or ``LAYER.MESSAGE.FIELD``."""
Phase: TypeAlias = Literal["TEST", "TRAIN"]
Definitions: TypeAlias = Mapping[str, str]
"""The values of the placeholders of a template, by their names."""
TEXT_SUFFIXES = {"caffe": ".prototxt", "caffe2": ".pbtxt"}
"""How files end that hold the text of a net, by its framework."""


@dataclass(frozen=True)
class LoadOptions(Options):
    """The choice of the net, and the source of its weights."""

    weights: PathLike | None = option(
        "A caffemodel, or an HDF5 or npz file; for a net of Caffe2 an init net. Its content decides which one it is."
    )
    _: KW_ONLY
    phase: Phase = one_of(
        Phase, "The phase to read the net for; by default TEST.", shown="[test|train]"
    )  # a field
    level: int = option("The NetState level to read the net for; by default 0.", 0, shown="N")
    stages: Names = option(
        "The NetState stages to read the net for.", (), shown="NAME", called="net_stage", once="stage"
    )
    random_weights: int | None = at_least(0, "Draw random weights from this seed.", shown="SEED")
    allow_unknown: bool = option("Drop unknown fields that only matter to training.", False)
    overrides: Overrides | None = option(
        Worded(
            "Set fields of the layers whose names match, as in {}.",
            Option("overrides", {"conv*.convolution_param.pad": "1"}),
        ),
        called="set",
    )
    define: Definitions | None = option(
        Worded("Fill in placeholders of a template, as in {}.", Option("define", {"BATCH": "1"}))
    )
