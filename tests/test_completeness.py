"""Nothing that computes, and nothing that a user can set, goes without a golden or a test.

What there is comes from the registries, caffe.proto and the command line; what is tested, from the goldens and from
the source of the tests. A rule, a primitive, a field or an option that is added without a test fails here.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path

import click
import pytest

from prototrt import cli
from prototrt.caffe_proto.common.options import Options
from prototrt.caffe_proto.options import LoadOptions
from prototrt.caffe_proto.schema import Message, message_class, parameter_fields
from prototrt.converter.options import (
    BatchOptions,
    BuildOptions,
    CalibrateOptions,
    CompareOptions,
    ConvertOptions,
    DataOptions,
    DeepStreamOptions,
    ExportOptions,
    TritonOptions,
    VerifyOptions,
)
from prototrt.converter.showing.views.stages import ShownStage
from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.surgery.expansion.idle_options import PURPOSES
from prototrt.surgery.ir import Op, walk
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.converter.test_families import PRIMITIVES
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.golden_cases import GOLDENS, caffe_cases, fork_cases, rewritten
from prototrt.tests.sources import nodes_of

RULES = ("surgery/detection", "surgery/forks", "surgery/images", "surgery/layers", "surgery/recurrent")
WITHOUT_NUMBERS = {"test_completeness.py", "refusal_cases.py", "test_refusals.py"}
"""Tests that name things without computing anything."""


WITHOUT_ENTRY = {"lstm_minidb"}
"""A net in one file: its meta.json describes it."""


NETS = {"caffe": "model.prototxt", "caffe2": "predict_net.pbtxt"}
MADE_BY_EVERY_NET = {"Input"}


@pytest.mark.parametrize("framework", NETS)
def test_every_rule_has_numbers_to_be_held_against(framework: str) -> None:
    computed = types_in_goldens(framework) | texts_in_tests(framework)
    assert [
        kind for kind in framework_by_name(framework).rules.rules if kind not in computed | MADE_BY_EVERY_NET
    ] == []


def test_every_primitive_is_in_a_golden_or_made_by_a_test() -> None:
    missing = {kind.__name__ for kind in PRIMITIVES} - calls_in_tests()
    assert not missing or missing <= {kind.__name__ for kind in ops_in_goldens()}


def test_every_field_that_a_rule_reads_is_set_by_a_golden_or_a_test() -> None:
    written = words_in_goldens() | words_in_tests()
    assert [field for field in sorted(fields_of_rules() & names_in_rules()) if field not in written] == []


def test_every_option_is_given_by_a_test() -> None:
    given = words_in_tests()
    forgotten = [
        f"{path} {option.opts[0]}"
        for path, option in options(cli.main, "prototrt")
        if not given & set(option.opts)
    ]
    assert forgotten == []


TOLD_ELSEWHERE = {"dynamic", "layout", "onnx_lstm", "precision", "seed", "stage", "stages"}
"""Options of which a warning of their own says where they change nothing."""
WITH_AN_EFFECT = {
    "the source of a net, and of its weights": "allow_unknown define level overrides phase random_weights trust",
    "its inputs and outputs, which are refused where they do not fit": (
        "keep_constant max_shapes min_shapes opt_shapes outputs plugin recurrences replace shapes sizes stream"
    ),
    "a limit or a permission, which most nets keep": (
        "allow_gpu_fallback atol auto_keep budget force keep_batch_norm max_memory max_size older_than rtol strict tf32"
    ),
    "an engine or a model, refused for other products": (
        "backend builder_optimization_level compute_capabilities device export_layer_info"
        " hardware_compatibility_level mem_pool_size opset profiles profiling_verbosity refit runtime_cache"
        " strip_weights target timing_cache_file use_dla_core version_compatible"
    ),
    "data, refused where they are of another kind": (
        "calls channels data_loader draw expect inputs labels mean merge method old_config resize scale"
    ),
    "a file or a folder that is written": (
        "cache emit_header export_cache file folder remainder report_json report_junit report_md repository"
        " weights_file"
    ),
    "what a command does": (
        "dry_run is_opened jobs keep_going layer layer_times layers max_batch_size name naming on only platform"
        " print_after reader scheduler verification verify ways"
    ),
    "what is shown": "as_json debug markdown quiet shown verbose version",
}


def test_every_option_has_an_effect_on_any_net_or_is_told_to_have_none() -> None:
    told = TOLD_ELSEWHERE.union(*(purpose.options for purpose in PURPOSES))
    known = {name for names in WITH_AN_EFFECT.values() for name in names.split()}
    taken = {str(option.name): f"{path} {option.opts[0]}" for path, option in options(cli.main, "prototrt")}
    assert [spelling for name, spelling in taken.items() if name not in told | known] == []
    assert (told & known, (told | known) - taken.keys()) == (set(), set())


def test_every_option_of_a_call_is_given_by_a_test() -> None:
    given = words_in_tests()
    calls = (
        BatchOptions,
        LoadOptions,
        RewriteOptions,
        ShownStage,
        BuildOptions,
        CalibrateOptions,
        CompareOptions,
        ConvertOptions,
        DataOptions,
        DeepStreamOptions,
        ExportOptions,
        TritonOptions,
        VerifyOptions,
    )
    others = (".tests.", ".commandline.")
    kinds = {
        kind
        for kind in Options.__subclasses__()
        if not any(each in f".{kind.__module__}." for each in others)
    }
    assert kinds <= {*calls}
    assert [
        f"{call.__name__}.{one.name}" for call in calls for one in fields(call) if one.name not in given
    ] == []


@pytest.mark.parametrize("index", sorted(GOLDENS.glob("*/index.json")), ids=lambda index: index.parent.name)
def test_every_golden_has_an_entry_in_the_index(index: Path) -> None:
    found = json.loads(index.read_text())
    cases = found if isinstance(found, list) else found["cases"]
    named = {facts["case"] if isinstance(facts, dict) else facts for facts in cases}
    assert named == {path.name for path in index.parent.iterdir() if path.is_dir()} - WITHOUT_ENTRY


@cache
def words_in_goldens() -> set[str]:
    """Every word of the nets that something else than this project has computed."""
    nets = [net for name in NETS.values() for net in GOLDENS.glob(f"*/*/{name}")]
    return {word for net in nets for word in re.findall(r"\w+", net.read_text())}


def types_in_goldens(framework: str) -> set[str]:
    nets = GOLDENS.glob(f"*/*/{NETS[framework]}")
    return {kind for net in nets for kind in re.findall(r'type: "(\w+)"', net.read_text())}


def ops_in_goldens() -> set[type[Op]]:
    """The primitives that the goldens of Caffe and its forks become."""
    cases = [*caffe_cases(), *fork_cases()]
    graphs = (rewritten(case, case.arrays("inputs")[0]) for case in cases)
    return {type(node.op) for graph in graphs for node in walk(graph)}


@dataclass
class Source:
    """What the tests about a framework write: whole strings, keywords, and the names of what they call."""

    texts: set[str] = field(default_factory=set)
    keywords: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)


@cache
def sources_of_tests() -> dict[str, Source]:
    """By framework: tests about Caffe2 have its name in their path, all others are Caffe's."""
    tests, sources = ROOT / "tests", {framework: Source() for framework in NETS}
    for path in tests.rglob("*.py"):
        if path.name in WITHOUT_NUMBERS:
            continue
        source = sources["caffe2" if "caffe2" in str(path.relative_to(tests)) else "caffe"]
        for node in nodes_of(path):
            match node:
                case ast.Constant(value=str(text)):
                    source.texts.add(text)
                case ast.keyword(arg=str(name)):
                    source.keywords.add(name)
                case ast.Call(func=ast.Name(id=name)):
                    source.calls.add(name)
    return sources


def texts_in_tests(*frameworks: str) -> set[str]:
    """Whole strings in the source of tests, and types in the nets that they write."""
    texts = {text for framework in frameworks for text in sources_of_tests()[framework].texts}
    return texts | {kind for text in texts for kind in re.findall(r'type: "(\w+)"', text)}


@cache
def words_in_tests() -> set[str]:
    """Words, options included, in strings and keywords."""
    keywords = {name for source in sources_of_tests().values() for name in source.keywords}
    return keywords | {word for text in texts_in_tests(*NETS) for word in re.findall(r"-{0,2}\w[\w-]*", text)}


def calls_in_tests() -> set[str]:
    return {name for source in sources_of_tests().values() for name in source.calls}


def fields_of_rules() -> set[str]:
    """The fields of the parameters of each type that has a rule; fillers are for training."""
    layer = message_class("LayerParameter").DESCRIPTOR
    types = framework_by_name("caffe").rules.rules
    messages = {layer.fields_by_name[name].message_type for kind in types for name in parameter_fields(kind)}
    return {field.name for message in messages for field in message.fields if not _is_filler(field)}


def _is_filler(field: Message) -> bool:
    return field.message_type is not None and field.message_type.name == "FillerParameter"


def names_in_rules() -> set[str]:
    """Attributes and strings in the source of the rules."""
    files = [path for folder in RULES for path in (ROOT / folder).rglob("*.py")]
    nodes = [node for path in files for node in nodes_of(path)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def options(command: click.Command, path: str) -> Iterator[tuple[str, click.Option]]:
    """The options of a command and of those below it."""
    yield from ((path, option) for option in command.params if isinstance(option, click.Option))
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, f"{path} {name}")
