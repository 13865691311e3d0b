"""Names of Python for layers, blobs and constants, whose own names may hold anything."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prototrt.caffe_proto.common.naming import WORDS, Names
from prototrt.converter.backends.torch.functions import FUNCTIONS

_WORDS = (
    "add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval extra_repr"
    " float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia"
    " named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer"
    " register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook"
    " register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter"
    " register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule"
    " share_memory state_dict to to_empty train training type xpu zero_grad"
)
MODULE_NAMES = frozenset(_WORDS.split())
"""Attributes that every nn.Module has."""
FUNCTION_PREFIX = "caffe_"
"""How the names of a file's own functions begin, and no name in them."""
_OF_FILES = (
    "annotations functional load load_file nn Path self Sequence Tensor torch WEIGHTS"
    " load_written tl triton UNWRITTEN"
)
_TAKEN = frozenset({*WORDS, *FUNCTIONS, *_OF_FILES.split()})
"""What a file names itself."""


def identifier(name: str) -> str:
    """The letters, digits and underscores of a name, in lower case."""
    word = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")
    while word.startswith(FUNCTION_PREFIX):
        word = word.removeprefix(FUNCTION_PREFIX)
    return word if word and not word[0].isdigit() else f"layer_{word}".rstrip("_")


def class_name(name: str) -> str:
    """A name in the form of a class, as in ``NetLenet``. Capitals stay."""
    words = re.findall(r"[0-9A-Za-z]+", name)
    word = "".join(each[:1].upper() + each[1:] for each in words)
    return word if word and not word[0].isdigit() else f"Net{word}"


class PythonNames:
    """Names that are all different, in a file, a function or a class, and that nothing else in the file has.

    Those of functions and classes differ from those of their file: they have no capitals, and no function's prefix.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._names = Names({*_TAKEN, *taken})

    def new(self, hint: str, mark: str = "_") -> str:
        """A name like the hint. ``mark`` stands before its number."""
        return self._names.free(hint, number_form=f"{mark}{{}}")
