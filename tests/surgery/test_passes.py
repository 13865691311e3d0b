"""What each pass makes of a graph, as text: goldens/passes/PASS/CASE/net.prototxt, before.txt, after.txt.

Where a pass leaves a graph alone, the two texts are equal, and it returns the very graph it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import prototrt
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import Graph
from prototrt.surgery.ops import Scan
from prototrt.surgery.passes.compute_in_half import compute_in_half
from prototrt.surgery.passes.drop_identities import drop_identities
from prototrt.surgery.passes.drop_unused import drop_unused
from prototrt.surgery.passes.elide_tiles import elide_tiles
from prototrt.surgery.passes.fold_constants import fold_constants
from prototrt.surgery.passes.merge_reshapes import merge_reshapes
from prototrt.surgery.passes.rejoin_rows import rejoin_rows
from prototrt.surgery.passes.scale_products import scale_products
from prototrt.surgery.passes.share_products import share_products
from prototrt.surgery.passes.sink_sums import sink_sums
from prototrt.surgery.passes.stack_scans import stack_scans
from prototrt.surgery.passes.turn_scans import turn_scans
from prototrt.surgery.passes.unroll_scans import unroll_scans
from prototrt.surgery.pipeline import Pass
from prototrt.tests.golden_cases import GOLDENS


def unroll_all(graph: Graph) -> Graph:
    return unroll_scans(graph, [node for node in graph.nodes if isinstance(node.op, Scan)])


PASSES: dict[str, Pass] = {
    "compute_in_half": compute_in_half,
    "drop_identities": drop_identities,
    "drop_unused": drop_unused,
    "elide_tiles": elide_tiles,
    "fold_constants": fold_constants,
    "merge_reshapes": merge_reshapes,
    "rejoin_rows": lambda graph: rejoin_rows(stack_scans(graph)),
    "scale_products": scale_products,
    "share_products": lambda graph: share_products(drop_unused(drop_identities(turn_scans(graph)))),
    "sink_sums": sink_sums,
    "stack_scans": stack_scans,
    "turn_scans": turn_scans,
    "unroll_scans": unroll_all,
}
FOLDERS = sorted(path.parent for path in (GOLDENS / "passes").glob("*/*/net.prototxt"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_pass(folder: Path, check_text: Callable[[Path, str], None]) -> None:
    model = prototrt.load(folder / "net.prototxt", random_weights=1)
    before = expand(model, cont="drop" if "drop_cont" in folder.name else "keep").graph
    after = PASSES[folder.parent.name](before)
    after.verify()
    assert (after is before) == (after.text() == before.text())
    assert (after is before) == folder.name.startswith("alone")
    check_text(folder / "before.txt", before.text())
    check_text(folder / "after.txt", after.text())


def test_every_pass_has_goldens_and_is_left_alone_once() -> None:
    for name in PASSES:
        cases = [folder.name for folder in FOLDERS if folder.parent.name == name]
        assert any(case.startswith("alone") for case in cases), name
        assert any(not case.startswith("alone") for case in cases), name
