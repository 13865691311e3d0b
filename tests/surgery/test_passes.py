"""What each pass makes of a graph, as text: goldens/passes/PASS/CASE/net.prototxt, before.txt, after.txt.

A net of Caffe2 is net.pbtxt and init_net.pbtxt; shapes.json has what these do not state.
Where a pass leaves a graph alone, the two texts are equal, and it returns the very graph it was given.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

import prototrt
from prototrt import Cont
from prototrt.surgery import passes
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import Graph, bodies
from prototrt.surgery.passes.drop_identities import drop_identities
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.passes.hoist_invariants import hoist_invariants
from prototrt.surgery.passes.join_products import join_products
from prototrt.surgery.passes.keep_unit_axes import keep_unit_axes
from prototrt.surgery.passes.put_batch_first import put_batch_first
from prototrt.surgery.passes.stack_scans import stack_scans
from prototrt.surgery.passes.turn_scans import turn_scans
from prototrt.surgery.passes.unroll_scans import inline_single_steps, unroll_scans
from prototrt.surgery.pipeline import all_passes
from prototrt.surgery.runner import Pass, PassList, run
from prototrt.tests.golden_cases import GOLDENS

BEFORE = {
    "fuse_lstms": (hoist_invariants, drop_unused),
    "fuse_whole_cells": (hoist_invariants, drop_unused),
    "fuse_forward_lstms": (hoist_invariants, drop_unused),
    "join_columns": (inline_single_steps, keep_unit_axes),
    "join_products": (inline_single_steps, keep_unit_axes),
    "keep_unit_axes": (inline_single_steps,),
    "rejoin_rows": (stack_scans,),
    "sink_moves": (put_batch_first, inline_single_steps),
    "share_products": (turn_scans, drop_identities, drop_unused),
    "stand_rows_up": (unroll_scans, keep_unit_axes),
    "stack_products": (inline_single_steps, keep_unit_axes, join_products, drop_unused),
}
"""What must have run before a pass finds something to do; the others are given the expanded net."""
PASSES = all_passes()
FOLDERS = sorted(path for path in (GOLDENS / "passes").glob("*/*") if path.is_dir())


def is_pass(name: str, item: object) -> bool:
    if name.startswith("_") or not inspect.isfunction(item):
        return False
    return get_type_hints(item) == {"graph": Graph, "return": Graph}


def passes_on_disk() -> Iterator[str]:
    """The public functions in the modules of ``surgery/passes`` that make a graph of a graph."""
    for module in pkgutil.iter_modules(passes.__path__):
        found = import_module(f"{passes.__name__}.{module.name}")
        for name, item in vars(found).items():
            if getattr(item, "__module__", None) == found.__name__ and is_pass(name, item):
                yield name


def expanded(folder: Path) -> Graph:
    cont: Cont = "drop" if "drop_cont" in folder.name else "keep"
    if (folder / "net.prototxt").exists():
        return expand(prototrt.load(folder / "net.prototxt", random_weights=1), cont=cont).graph
    model = prototrt.load(folder / "net.pbtxt", folder / "init_net.pbtxt")
    return expand(model, shapes=json.loads((folder / "shapes.json").read_text())).graph


def prepared(folder: Path) -> Graph:
    return run(expanded(folder), [PassList("before", BEFORE.get(folder.parent.name, ()))])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_pass(folder: Path, check_text: Callable[[Path, str], None]) -> None:
    before = prepared(folder)
    after = run(before, [PassList("the pass", (PASSES[folder.parent.name],))])
    assert (after is before) == (after.text() == before.text())
    assert (after is before) == folder.name.startswith("alone")
    check_text(folder / "before.txt", before.text())
    check_text(folder / "after.txt", after.text())


def levels(graph: Graph) -> Iterator[Graph]:
    """The graph and all bodies in it."""
    yield graph
    yield from (level for node in graph.nodes for body in bodies(node.op) for level in levels(body))


def without_needs(change: Pass) -> Pass:
    bare: Pass = inspect.unwrap(change)
    return bare


def on_one_level(change: Pass) -> Pass:
    """The pass as its module defines it: it does not enter bodies."""
    bare = without_needs(change)
    declared: Pass = getattr(sys.modules[bare.__module__], bare.__name__)
    return declared


DECLARED = {on_one_level(change): without_needs(change) for change in PASSES.values()}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_without_what_it_needs_a_pass_has_nothing_to_do(folder: Path) -> None:
    for level in levels(prepared(folder)):
        for change, bare in DECLARED.items():
            if change is not bare:
                assert (change(level) is level) == (bare(level) is level), change.__name__


def test_every_pass_is_in_a_list() -> None:
    assert sorted(passes_on_disk()) == sorted(PASSES)


def test_every_golden_is_of_a_pass() -> None:
    assert {folder.parent.name for folder in FOLDERS} <= set(PASSES)


@pytest.mark.parametrize("name", sorted({*PASSES, *passes_on_disk()}))
def test_every_pass_has_goldens_and_is_left_alone_once(name: str) -> None:
    cases = [folder.name for folder in FOLDERS if folder.parent.name == name]
    assert any(case.startswith("alone") for case in cases)
    assert any(not case.startswith("alone") for case in cases)
