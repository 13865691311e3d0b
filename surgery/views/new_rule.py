"""The beginning of a rule for one layer, and a test of it: Python text from what the net says of the layer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.naming import WORDS, Names, literal
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option
from prototrt.caffe_proto.model import one_layer
from prototrt.surgery.building.layer_rules import python_name
from prototrt.surgery.expansion.expand import reach
from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.surgery.ir import Shape
from prototrt.surgery.options import RewriteOptions

_LONGEST = 60
_IMPORTED = ("Layer", "LayerBuilder", "Value")
_TAKEN = frozenset(
    {*WORDS, *_IMPORTED, "annotations", "build", "fields", "layer", "layer_rule", "python_rule"}
)
"""What the file with a rule names itself."""


@dataclass(frozen=True, slots=True)
class NewRule:
    """What the net says of a layer, as a rule needs it. ``bottoms`` have a shape where it is known.

    ``option`` is how a command takes the rule: ``rules``, or ``replace`` where its type has a rule already.
    """

    layer: str
    type: str
    option: str
    decorator: str | None
    function: str
    bottoms: Mapping[str, Shape | None]
    tops: Sequence[str]
    fields: Mapping[str, Any]
    blobs: Sequence[tuple[int, ...]] | None
    net: str
    weights: str | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "layer": self.layer,
            "type": self.type,
            "function": self.function,
            "bottoms": {
                name: None if shape is None else [*map(str, shape)] for name, shape in self.bottoms.items()
            },
            "tops": [*self.tops],
            "fields": dict(self.fields),
            "blobs": None if self.blobs is None else [[*shape] for shape in self.blobs],
        }

    def usage(self, file: str) -> Option:
        """The option that gives the rule in ``file`` to a command."""
        by_layer = {self.layer: f"{file}:{self.function}"}
        return Option(self.option, by_layer if self.option == "replace" else file)

    def rule_text(self) -> str:
        """The file with the rule."""
        names = _Identifiers([self.function, *(f"blob_{index}" for index, _ in enumerate(self.blobs or ()))])
        bottoms = [names.free(bottom, "x") for bottom in self.bottoms]
        imported = [*_IMPORTED, *([self._registry] if self.decorator else [])]
        signature = ", ".join(
            ["build: LayerBuilder", "layer: Layer", *(f"{bottom}: Value" for bottom in bottoms)]
        )
        lines = [
            f'"""A rule for the layer {literal(self.layer)} of type {_safe(self.type)}."""',
            "",
            "from __future__ import annotations",
            "",
            f"from prototrt.surgery.rules import {', '.join(imported)}",
            "",
            "",
            *([self.decorator] if self.decorator else []),
            f"def {self.function}({signature}) -> list[Value]:",
            '    """Say what the layer computes, and which source says so."""',
            *(f"    {line}" for line in self._body(bottoms, names)),
        ]
        return "\n".join(lines) + "\n"

    @property
    def _registry(self) -> str:
        return str(self.decorator).lstrip("@").partition("(")[0]

    def _body(self, bottoms: Sequence[str], names: _Identifiers) -> list[str]:
        lines = [
            f"# {word}: bottom {literal(bottom)}, shape {_shape_text(shape)}"
            for word, (bottom, shape) in zip(bottoms, self.bottoms.items(), strict=True)
        ]
        lines += [f"# tops: {', '.join(map(literal, self.tops))}"]
        lines += [line for name, value in self.fields.items() for line in _field_lines(name, value, names)]
        if self.blobs is None:
            lines.append("# blobs: none are known without the weights")
        for index, blob in enumerate(self.blobs or ()):
            lines.append(f'blob_{index} = build.parameter(layer, {blob}, "blob {index}")')
        lines.append(f'raise NotImplementedError("compute the tops of {_safe(self.layer)}")')
        tops = ", ".join([*bottoms[:1]] * len(self.tops))
        return [*lines, f"return [{tops}]"]

    def test_text(self, rules: str, folder: str) -> str:
        """The file with a test of the rule in ``rules``; both are in ``folder``."""
        arguments = [f"HERE / {literal(_relative(self.net, folder))}"]
        if self.weights is not None:
            arguments.append(f"HERE / {literal(_relative(self.weights, folder))}")
        rules_option = f"rules=str(HERE / {literal(rules)})"
        if self.option == "replace":
            rules_option = (
                f'replace={{{literal(self.layer)}: str(HERE / {literal(rules)}) + ":{self.function}"}}'
            )
        return _TEST.format(
            rules=_safe(rules),
            test=_safe(f"test_{rules}"),
            function=self.function,
            bottoms=[*self.bottoms],
            tops=[*self.tops],
            arguments=", ".join(arguments),
            layer=literal(self.layer),
            rules_option=rules_option,
        )


_TEST = '''"""The rule in {rules} computes what the layer computed elsewhere.

Record its bottoms and tops once, where the layer runs. Each array has the name that BOTTOMS and TOPS have for it:
numpy.savez("recorded.npz", **{{"NAME": net.blobs["BLOB"].data}}). Copy the bottoms of a layer in place before it runs.

Run it with: python -m pytest {test}
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import prototrt
from prototrt.surgery.rules import one_layer

HERE = Path(__file__).parent
BOTTOMS = {bottoms!r}
TOPS = {tops!r}


def test_{function}() -> None:
    recorded = np.load(HERE / "recorded.npz")
    net = one_layer(prototrt.load({arguments}), {layer})
    shapes = {{name: recorded[name].shape for name in BOTTOMS}}
    graph = prototrt.rewrite(net, shapes=shapes, {rules_option})
    results = prototrt.Session(graph, on="reference").run({{name: recorded[name] for name in BOTTOMS}})
    for name in TOPS:
        np.testing.assert_allclose(results[name], recorded[name], rtol=1e-4, atol=1e-5, err_msg=name)
'''


def new_rule(model: Model, name: str, options: RewriteOptions) -> NewRule:
    """Begin a rule for the layer. Raises ``ConversionError``."""
    layer, alone = model.layer_named(name), one_layer(model, name).layers[-1]
    if model.framework != "caffe":
        raise NetError(
            "this is a Caffe2 net, for whose operators rules of users are not written",
            where=model.file,
            fix="give the prototxt of another net",
        )
    if layer.type == "Input":
        raise NetError(
            "an input has no rule", origin=layer.origin, fix="name a layer that computes something"
        )
    shapes = reach(model, replace(options, require_weights=False), layer).shapes
    has_rule = framework_by_name("caffe").rule_of(layer) is not None
    decorator = f"@layer_rule({literal(layer.type)})"
    if layer.type == "Python":
        decorator = f"@python_rule({literal(python_name(layer))})"
    return NewRule(
        layer=layer.name,
        type=layer.type,
        option="replace" if has_rule else "rules",
        decorator=None if has_rule else decorator,
        function=_function_name(layer),
        bottoms={blob: shapes.get(bottom) for blob, bottom in zip(alone.bottoms, layer.bottoms, strict=True)},
        tops=alone.tops,
        fields=layer.fields,
        blobs=None if layer.blobs is None else [blob.shape for blob in layer.blobs],
        net=model.file,
        weights=model.weights.file,
    )


def _function_name(layer: Layer) -> str:
    kind = python_name(layer).rpartition(".")[2] if layer.type == "Python" else layer.type
    return _Identifiers().free(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower(), "rule")


class _Identifiers:
    """Names of blobs and fields as names in Python, each given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._names = Names({*_TAKEN, *taken})

    def free(self, name: str, usual: str) -> str:
        word = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_")
        return self._names.free(word if word.isidentifier() and word not in WORDS else usual)


def _field_lines(name: str, value: Any, names: _Identifiers) -> list[str]:
    """A variable for the field, and for each field in a block, with what this layer states."""
    variable = names.free(name, "field")
    line = f"{variable} = layer.fields[{literal(name)}]"
    if not isinstance(value, dict):
        return [f"{line}  # {_short(value)}"]
    inside = [
        f"{names.free(inner, 'field')} = {variable}[{literal(inner)}]  # {_short(each)}"
        for inner, each in value.items()
    ]
    return [line, *inside]


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _shape_text(shape: Shape | None) -> str:
    return "unknown" if shape is None else f"({', '.join(map(str, shape))})"


def _safe(name: str) -> str:
    return literal(name)[1:-1]


def _relative(file: str, folder: str) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()
