"""Each word that we write for trtexec, in scripts and on pages, is one that the release has: 8.2 to 11."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.wording import Option
from prototrt.converter.builder_options import BUILDER_OPTIONS, refuse_for
from prototrt.converter.checking.machines.targets import TARGETS, Target, find_target
from prototrt.converter.files.machines import MACHINES, TRTEXEC_WORDS, Version
from prototrt.converter.options import BuildOptions
from prototrt.converter.trtexec import trtexec_command
from prototrt.surgery.ir import Graph
from prototrt.tests.builder_values import VALUES
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.small_nets import tanh

RELEASED = [
    (8, 2),
    (8, 4),
    (8, 5),
    (8, 6),
    *((10, minor) for minor in range(17)),
    *((11, minor) for minor in range(5)),
]
WORD = re.compile(r"(?<![\w-])--[A-Za-z][A-Za-z0-9]*")
BUILT = {name: target for name, target in TARGETS.items() if target.uses_trtexec}


def has(release: Version, word: str) -> bool:
    since, last = TRTEXEC_WORDS[word]
    return since <= release and (last is None or release <= last)


def releases_with(target: Target) -> Iterator[Version]:
    """The releases that a script may meet: its own and, from strong typing on, all later ones."""
    yield from (each for each in RELEASED if each == target.release or (10, 0) <= target.release <= each)


def words_for(target: Target, building: BuildOptions, precision: str, graph: Graph) -> list[str]:
    command = trtexec_command(graph.inputs, precision, "a.onnx", building, target.release)
    return [word.partition("=")[0] for word in command[1:]]


def taken(target: Target) -> Iterator[BuildOptions]:
    """Each option of the builder that the target takes, alone."""
    for option in BUILDER_OPTIONS:
        value = {"workspace": "512MiB"} if option.name == "mem_pool_size" else VALUES[option.name]
        needed = {"use_dla_core": 0} if option.name == "allow_gpu_fallback" else {}
        given: dict[str, Any] = {**needed, option.name: value}
        building = BuildOptions(**given)
        try:
            refuse_for(Option("target", target.name), target.name, building, target.release)
        except OptionsError:
            continue
        yield building


PLACES = [*BUILT, *(machine.words[0] for machine in MACHINES if machine.target == "datacenter")]


@pytest.mark.parametrize("place", PLACES)
def test_a_script_has_only_words_of_its_releases(place: str) -> None:
    target, graph = find_target(place), tanh()
    choices = [BuildOptions(), BuildOptions(tf32=True), *taken(target)]
    assert len(choices) > 2 + 4
    for building in choices:
        for precision in target.precisions:
            words = words_for(target, building, precision, graph)
            for release in releases_with(target):
                assert [word for word in words if not has(release, word)] == [], (release, building)


def test_a_word_of_a_later_release_would_be_found() -> None:
    target = replace(TARGETS["jetpack5"], release=(10, 0))
    assert "--stronglyTyped" in words_for(target, BuildOptions(), "fp16", tanh())
    assert not has((8, 6), "--stronglyTyped")
    assert not has((11, 0), "--fp16")


PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "samples").rglob("*.md")),
]
OLD = "coming-from-nvidias-caffe-parser.md"
"""The page that lists the words of old releases, to say what replaces them."""


def lines_for_trtexec() -> Iterator[tuple[str, str, list[str]]]:
    """Lines of pages that hand words to trtexec or to a script for it: the page, the line, the words."""
    for page in PAGES:
        for line in page.read_text().splitlines():
            handed = re.findall(r"(?:trtexec|\.onnx\.sh)( --[^`]*)", line)
            words = WORD.findall(" ".join(handed))
            if words:
                yield page.name, line, words


def test_pages_hand_trtexec_words_that_it_has() -> None:
    found = [*lines_for_trtexec()]
    assert len(found) >= 4
    for page, line, words in found:
        assert {*words} <= {*TRTEXEC_WORDS}, line
        is_of_old_release = page == OLD or re.search(r"jetpack[456]\b", line)
        assert is_of_old_release or all(has(RELEASED[-1], word) for word in words), line
