"""Rules of layers: how many bottoms they take, those of layers in Python, and those in a user's file."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError, UnreadableFileError
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.caffe_proto.common.wording import Option, Worded, excerpt, plural, shortened
from prototrt.caffe_proto.forks import MEANINGS, Fork
from prototrt.caffe_proto.recognition import read_text
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.building.layer_builder import LayerBuilder, LayerRule, layer_rule
from prototrt.surgery.building.plugin_rules import PluginRule, UserMeaning
from prototrt.surgery.building.user_code import FAILURES, errors_of_user, place_of, wrong_function
from prototrt.surgery.ir import Shape, Value
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.ir.verification import InvalidGraphError, check_types


class _BottomsOfRule(NamedTuple):
    """The bottoms that a rule takes: their names, and how many; ``most`` is None where there is no limit."""

    names: tuple[str, ...]
    least: int
    most: int | None


def takes_bottoms(rule: LayerRule, layer: Layer) -> bool:
    """Whether the layer has as many bottoms as the rule's signature."""
    _, least, most = _bottoms_of(rule)
    return least <= len(layer.bottoms) and (most is None or len(layer.bottoms) <= most)


def names_of_bottoms(rule: LayerRule) -> tuple[str, ...]:
    """What the rule calls its bottoms."""
    return _bottoms_of(rule).names


def check_bottoms(rule: LayerRule, layer: Layer) -> None:
    """The rule's signature says which bottoms a layer has."""
    if not takes_bottoms(rule, layer):
        named, least, most = _bottoms_of(rule)
        count = len(layer.bottoms)
        span = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        names = ", ".join(named)
        word = layer.bottom_word
        raise NetError(
            f"has {plural(count, word)}, expected {span}",
            origin=layer.origin,
            fix=f"give it the {word}s {names}" if names else f"remove its {word}s",
        )


@cache
def _bottoms_of(rule: LayerRule) -> _BottomsOfRule:
    """Read once for each rule: a net has many layers of few types."""
    _, _, *parameters = inspect.signature(rule).parameters.values()
    named = [item for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
    least = sum(item.default is item.empty for item in named)
    most = len(named) if len(named) == len(parameters) else None
    return _BottomsOfRule(tuple(item.name for item in named), least, most)


python_rule: Registry[str, LayerRule] = Registry("Python layer rule")
"""By ``MODULE.LAYER``, as in ``@python_rule("rpn.proposal_layer.ProposalLayer")``, which also serves a layer
of ``lib.rpn.proposal_layer``: programs keep such a module in packages of their own."""

_FIX_PARAMETERS = "write it as {'feat_stride': 16, 'scales': [8, 16, 32]}"
_LONGEST = 10_000
"""Characters of ``param_str``; the programs that wrote it state a few numbers."""
_TAG = re.compile(r"!![\w/:.]+")
_WORDS = {"true": True, "false": False, "null": None}
"""JSON's and YAML's."""
_KEY = re.compile(r"(?P<before>^|[{,\n])[^\S\n]*(?P<key>[A-Za-z_]\w*)\s*:")


def python_name(layer: Layer) -> str:
    """``MODULE.LAYER`` of a layer of type ``Python``."""
    return f"{layer.param.module}.{layer.param.layer}"


def python_rule_of(layer: Layer) -> LayerRule | None:
    """The rule for a Python layer: for its module and class, or for them without the outermost packages."""
    *packages, module, name = python_name(layer).split(".")
    names = (".".join((*packages[start:], module, name)) for start in range(len(packages) + 1))
    return next((rule for rule in map(python_rule.find, names) if rule), None)


def python_parameters(layer: Layer) -> dict[str, Any]:
    """The settings in ``param_str``: ``KEY: VALUE`` in braces with commas, or one per line, with Python values.

    YAML and Python both read this form, which JSON has, too. A tag such as ``!!python/tuple`` is ignored, and a word
    without quotes is a text, as in YAML. Raises ``NetError``.
    """
    source = layer.param.param_str
    if len(source) > _LONGEST:
        raise NetError(
            f"param_str has {len(source):,} characters, expected at most {_LONGEST:,}", fix=_FIX_PARAMETERS
        )
    text = _KEY.sub(r'\g<before>"\g<key>":', _TAG.sub("", source.strip()))
    if not text.startswith("{"):
        text = "{" + ",".join(line for line in text.splitlines() if line.strip()) + "}"
    try:
        parameters = ast.literal_eval(_WithTexts().visit(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        parameters = error  # the last three are for keys that are lists, and for deep nesting
    if not isinstance(parameters, dict):
        raise NetError(
            f"param_str cannot be read: {shortened(repr(source))}",
            because="it is not a list of KEY: VALUE",
            fix=_FIX_PARAMETERS,
        )
    return parameters


class _WithTexts(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_WORDS.get(node.id, node.id))


_WRITE_THEM = "write it as docs/forks.md shows"
_lock = Lock()
_cache: dict[tuple[Path, bytes], UserRules] = {}


@dataclass(frozen=True, slots=True)
class UserRules:
    """Rules by layer type, and for layers written in Python by ``MODULE.LAYER``."""

    layers: Mapping[str, LayerRule] = field(default_factory=dict)
    python: Mapping[str, LayerRule] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """All functions of the file, by their names."""


def rules_of(file: str) -> UserRules:
    """Run a file of rules, once for each content. It is a program with all the rights of its user.

    Raises ``UnreadableFileError``.
    """
    content = read_text(file, "a Python file with rules", _WRITE_THEM)
    path = Path(file).resolve()
    with _lock:
        if (path, content) not in _cache:
            _cache[path, content] = _load_rules(file, content)
        return _cache[path, content]


def _load_rules(file: str, content: bytes) -> UserRules:
    """The rules that the file adds. The registries are restored afterwards."""
    names: dict[str, Any] = {"__name__": f"rules of {file}"}
    try:
        with layer_rule.apart() as layers, python_rule.apart() as python:
            exec(compile(content, file, "exec"), names)
    except FAILURES as error:
        raise UnreadableFileError(
            "is not a file of rules", where=file, because=f"{type(error).__name__}: {error}", fix=_WRITE_THEM
        ) from error
    return UserRules(
        {name: _watch(rule, file) for name, rule in layers.items()},
        {name: _watch(rule, file) for name, rule in python.items()},
        {name: function for name, function in names.items() if callable(function)},
    )


def replacement(layer: str, place: str) -> LayerRule:
    """The rule ``FILE.py:FUNCTION`` that a user gives for one layer. Raises ``ConversionError``."""
    file, colon, name = place.rpartition(":")
    functions = rules_of(file).functions if colon else {}
    if name in functions:
        return _watch(functions[name], file)
    own = [
        each
        for each, function in functions.items()
        if getattr(function, "__module__", "") == f"rules of {file}"
    ]
    problem = f"has no function {name}" if colon else "names no function"
    fix = (
        f"name one of its functions: {', '.join(own)}"
        if own
        else "write a rule into it, as docs/forks.md shows"
    )
    if not colon:
        fix = Worded("write the file and the function: {}", Option("replace", {layer: f"{place}:FUNCTION"}))
    raise UnreadableFileError(problem, where=file or place, fix=fix)


def _watch(rule: LayerRule, file: str) -> LayerRule:
    """A user's rule: its mistakes are errors of the file, and one value stands for a list of one."""
    if isinstance(rule, PluginRule):
        return rule

    @wraps(rule)
    def call(build: LayerBuilder, layer: Layer, *bottoms: Value) -> Sequence[Expression]:
        place, since = place_of(rule) if hasattr(rule, "__code__") else file, len(build.nodes)
        with errors_of_user(file):
            results = rule(build, layer, *bottoms)
        try:
            for node in build.nodes[since:]:
                check_types(node)
        except InvalidGraphError as error:
            raise wrong_function(place, f"its nodes do not fit together: {error}") from error
        each: Sequence[Any] = results if isinstance(results, list | tuple) else [results]
        if not all(isinstance(value, Value) for value in each):
            raise wrong_function(place, f"it returns {excerpt(repr(results))}, expected a list of values")
        return each

    return call


def meaning_from(file: str | None, kind: str, outputs: int, shapes: dict[object, list[Shape]]) -> UserMeaning:
    """The meaning of a plugin by the rule of its type in a file, or without one; ``shapes`` are those it knows."""
    rule = PluginRule(kind) if file is None else rules_of(file).layers.get(kind)
    assert isinstance(rule, PluginRule), f"{file} has no rule for the plugin of {kind}"
    return UserMeaning(rule, outputs, shapes)


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
