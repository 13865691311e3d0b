"""Numbers that Caffe, Caffe2 or a formula after a fork's source computed, held against any way of running a net.

They travel in ``goldens.tar.xz``, which tests/tools/make_selftest_goldens.py packs.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prototrt.caffe_proto import load
from prototrt.caffe_proto.common.records import dataclass, field
from prototrt.converter.checking.selftest.nets import SessionOf
from prototrt.converter.checking.selftest.rows import Check
from prototrt.converter.checking.verification.comparison import TOLERANCES, Difference, difference_of
from prototrt.surgery.ir import Array, Graph
from prototrt.surgery.options import Form, Precision
from prototrt.surgery.pipeline import rewrite

ARCHIVE = Path(__file__).with_name("goldens.tar.xz")
INDEX = "index.json"
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "bf16")


@dataclass(frozen=True)
class Golden:
    """One net with the inputs and the expected outputs of its calls, in a folder."""

    folder: Path
    facts: Mapping[str, Any] = field(compare=False)

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def is_recurrent(self) -> bool:
        return "auto" not in self.facts["sequences"]

    def calls(self) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
        """Inputs and expected outputs."""
        count = self.facts["calls"]
        for number in [f"_{call}" for call in range(count)] if count > 1 else [""]:
            yield self._arrays("inputs", number), self._arrays("outputs", number)

    def _arrays(self, kind: str, number: str) -> dict[str, Array]:
        with np.load(self.folder / f"{kind}{number}.npz") as arrays:
            names = self.facts.get("blobs", {}).get(kind) or {name: name for name in arrays}
            return {blob: arrays[name] for blob, name in names.items()}

    def graph(self, sequence: Form, precision: Precision) -> Graph:
        """The graph for the sizes of the first call, cut at every blob that is expected."""
        inputs, expected = next(self.calls())
        return rewrite(
            load(*(self.folder / file for file in self.facts["net"]), **self.facts["loading"]),
            shapes={name: array.shape for name, array in inputs.items()},
            outputs=list(expected),
            sequence=sequence,
            precision=precision,
            settings=self.facts["settings"],
        )


def unpack(folder: Path) -> None:
    """Put the archive's files into a folder."""
    with tarfile.open(ARCHIVE) as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None, entry.name
            (folder / entry.name).parent.mkdir(exist_ok=True)
            (folder / entry.name).write_bytes(content.read())


def unpack_goldens(folder: Path) -> list[Golden]:
    """The goldens that were put into a folder, recurrent ones first."""
    goldens = [Golden(folder / facts["name"], facts) for facts in json.loads((folder / INDEX).read_text())]
    return sorted(goldens, key=lambda golden: not golden.is_recurrent)


def goldens(folder: Path, session_of: SessionOf) -> Iterator[Check]:
    """Every net in float32, recurrent ones in each form; then recurrent ones in lower precision."""
    for golden in unpack_goldens(folder):
        for form in golden.facts["sequences"]:
            yield _check(golden, session_of, form, "fp32")
    for precision in PRECISIONS[1:]:
        for golden in unpack_goldens(folder):
            if golden.is_recurrent:
                yield _check(golden, session_of, "auto", precision)


def checks_of_goldens(folder: Path, session_of: SessionOf) -> Iterator[Check]:
    """Every net in float32, as it is converted by default."""
    for golden in unpack_goldens(folder):
        yield _check(golden, session_of, "auto", "fp32")


def _check(golden: Golden, session_of: SessionOf, form: Form, precision: Precision) -> Check:
    words = (golden.name, *([form] if form != "auto" else []), precision)
    return Check(", ".join(words), lambda: _compare(golden, session_of, form, precision))


def _compare(golden: Golden, session_of: SessionOf, form: Form, precision: Precision) -> str:
    worst = []
    with session_of(golden.graph(form, precision), cut=True) as session:
        for inputs, expected in golden.calls():
            results = session.run(inputs)
            worst += [near(results[name], array, precision, name) for name, array in expected.items()]
    return f"{largest(*worst)} from {golden.facts['by']}"


def builds(folder: Path, build: Callable[[Graph], str]) -> Iterator[Check]:
    """An engine of every net."""
    for golden in unpack_goldens(folder):
        yield Check(golden.name, lambda golden=golden: build(golden.graph("auto", "fp32")))  # type: ignore[misc]  # mypy does not infer it


def near(array: Array, expected: Array, precision: Precision, name: str) -> Difference:
    """How far off it is. Raises ``AssertionError`` where that is more than the precision explains."""
    assert array.shape == expected.shape, f"{name} has the shape {array.shape}, expected {expected.shape}"
    difference = difference_of(array, expected, TOLERANCES[precision])
    assert difference.is_small, (
        f"{name} is off by {difference.max_abs:.2g}, expected at most {difference.allowed:.2g}"
    )
    return difference


def largest(*differences: Difference) -> str:
    worst = max(differences, key=lambda difference: difference.max_abs)
    return f"largest difference {worst.max_abs:.1e}"
