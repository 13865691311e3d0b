"""The arrows of a folded drawing, from the script's own module run by Node.js."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from prototrt.converter.showing.page.writing import FOLDER, join_modules

FACTS = {"stages": ["As written"], "layers": [], "verification": None}
PROGRAM = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const module = new Function("document", CONTENT + "return { contentOf, drawings: module_facts.drawings };");
console.log(JSON.stringify(cases.map(({ facts, folded, columns }) => {
  const { contentOf, drawings: [drawing] } = module({ getElementById: () => ({ textContent: JSON.stringify(facts) }) });
  drawing.folded = new Set(drawing.boxes.filter(({ name }) => folded.includes(name)));
  const end = thing => thing.others ? [...thing.others].map(({ name }) => name) : thing.name;
  return columns.map(column => contentOf(drawing, column).arrows
    .map(({ source, target, label, kind }) => [end(source), end(target), label, kind]));
})));
"""
"""For each case, the arrows of each column. A stub is the list of the boxes that it stands for."""


def items(chance: random.Random, depth: int, names: Iterator[str]) -> list[dict[str, Any]]:
    """Nodes, and frames around others."""
    made: list[dict[str, Any]] = []
    for _ in range(chance.randint(2, 4)):
        item: dict[str, Any] = {"parts": [[None, [next(names)]]]}
        if depth and chance.random() < 0.5:
            item |= {"dashed": False, "repeat": "r", "blocks": 3, "items": items(chance, depth - 1, names)}
        made.append(item)
    return made


def paths(of: list[dict[str, Any]], around: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Of each node, the names of its frames, the outermost first, and its own."""
    for item in of:
        path = (*around, item["parts"][0][1][0])
        yield from paths(item["items"], path) if "items" in item else [path]


def case(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    drawn = items(chance, 3, (f"box {number}" for number in range(1000)))
    nodes = list(paths(drawn))
    edges = [
        [
            *sorted(chance.choices(range(len(nodes)), k=2)),
            chance.choice(["", "1x2"]),
            chance.choice(["", "fed back"]),
        ]
        for _ in range(2 * len(nodes))
    ]
    frames = sorted({name for path in nodes for name in path[:-1]})
    cuts = sorted({0, len(drawn), chance.randrange(1, len(drawn))})
    return {
        "facts": {**FACTS, "drawings": [{"items": drawn, "edges": edges}]},
        "folded": chance.sample(frames, chance.randint(0, len(frames))),
        "columns": [
            {"first": first, "end": end} for first, end in [(0, len(drawn)), *itertools.pairwise(cuts)]
        ],
    }


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_each_edge_is_inside_a_fold_or_one_arrow_and_there_are_no_others() -> None:
    cases = [case(seed) for seed in range(200)]
    content = join_modules(FOLDER / "script" / "content.js").replace("export ", "")
    program = PROGRAM.replace("CONTENT", json.dumps(content))
    done = subprocess.run(
        ["node", "-e", program], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    for each, (whole, *columns) in zip(cases, json.loads(done.stdout), strict=True):
        (drawing,) = each["facts"]["drawings"]
        nodes = list(paths(drawing["items"]))
        shown = [next((name for name in path[:-1] if name in each["folded"]), path[-1]) for path in nodes]
        expected = {
            (shown[source], shown[target], label, kind)
            for source, target, label, kind in drawing["edges"]
            if shown[source] != shown[target] or (source == target and shown[source] == nodes[source][-1])
        }
        assert sorted(map(tuple, whole)) == sorted(expected)
        in_columns = {
            (one, other)
            for column in columns
            for source, target, *_ in column
            for one in ([source] if isinstance(source, str) else source)
            for other in ([target] if isinstance(target, str) else target)
        }
        assert in_columns == {(source, target) for source, target, *_ in expected}
