"""Layers written in Python. Their module and class in ``python_param`` identify them."""

from __future__ import annotations

import ast
import re
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.surgery.expansion.layer_builder import LayerRule
from prototrt.surgery.ir.registry import Registry

python_rule: Registry[str, LayerRule] = Registry("Python layer rule")
"""By ``MODULE.LAYER``, as in ``@python_rule("rpn.proposal_layer.ProposalLayer")``, which also serves a layer
of ``lib.rpn.proposal_layer``: programs keep such a module in packages of their own."""

_TAG = re.compile(r"!![\w/:.]+")
_KEY = re.compile(r"(?P<before>^|[{,\n])\s*(?P<key>[A-Za-z_]\w*)\s*:")


def python_name(layer: Layer) -> str:
    """``MODULE.LAYER`` of a layer of type ``Python``."""
    return f"{layer.param.module}.{layer.param.layer}"


def known_python_rule(layer: Layer) -> LayerRule | None:
    """The rule for a Python layer: for its module and class, or for them without the outermost packages."""
    *packages, module, name = python_name(layer).split(".")
    names = (".".join((*packages[start:], module, name)) for start in range(len(packages) + 1))
    return next((rule for rule in map(python_rule.find, names) if rule), None)


def python_parameters(layer: Layer) -> dict[str, Any]:
    """The settings in ``param_str``: ``KEY: VALUE`` in braces with commas, or one per line, with Python values.

    YAML and Python both read this form. A tag such as ``!!python/tuple`` is ignored. Raises ``NetError``.
    """
    text = _KEY.sub(r'\g<before>"\g<key>":', _TAG.sub("", layer.param.param_str.strip()))
    if not text.startswith("{"):
        text = "{" + ",".join(line for line in text.splitlines() if line.strip()) + "}"
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:
        found = error
    if not isinstance(found, dict):
        raise NetError(
            f"param_str cannot be read: {layer.param.param_str!r}",
            because="it is not a list of KEY: VALUE",
            fix="write it as {'feat_stride': 16, 'scales': [8, 16, 32]}",
        )
    return found
