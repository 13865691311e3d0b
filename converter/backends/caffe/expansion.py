"""The expansion of a net that is upgraded."""

from __future__ import annotations

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import ConversionError, distinct, raise_all, silent
from prototrt.caffe_proto.common.records import replace
from prototrt.caffe_proto.common.wording import Option, Worded, options_in
from prototrt.surgery.expansion.expand import Expansion, expand
from prototrt.surgery.options import RewriteOptions

_NOT_OF_UPGRADE = {"outputs", "plugin"}


def expand_for(option: Option, model: Model, options: RewriteOptions) -> Expansion:
    """The expansion that the option needs, with recurrent layers as loops. Raises ``ConversionError``."""
    try:
        with silent():
            return expand(model, options=replace(options, sequence="loop", implied=("sequence",)))
    except ConversionError as error:
        errors = distinct([error])
        for each in errors:
            if options_in(each.fix) & _NOT_OF_UPGRADE:
                each.fix = Worded("leave out {}, which needs a rule for every layer", option)
        raise_all(errors)
        raise
