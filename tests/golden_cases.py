"""What Caffe and its forks computed: the cases under tests/goldens/caffe and tests/goldens/forks, and how a
graph is held against them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

import prototrt
from prototrt import Form, Precision, TileForm, Way
from prototrt.converter.checking.verification.comparison import TOLERANCES, difference_of
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.samples import families_of, words_of

GOLDENS = Path(__file__).parent / "goldens"
_PRODUCTS = {"Convolution", "Deconvolution", "Embed", "InnerProduct", "LSTM", "RNN"}
SEQUENCES: tuple[Form, ...] = ("loop", "unroll", "step")


class Runnable(Protocol):
    """A session, or what runs calls like one."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]: ...


SessionOf: TypeAlias = Callable[[Graph], Runnable]


@dataclass(frozen=True)
class Case:
    """One net, run by real Caffe or a fork of it on given inputs in one or several calls."""

    folder: Path
    facts: Mapping[str, Any] = field(compare=False)

    def __str__(self) -> str:
        return self.folder.name

    @property
    def layer_types(self) -> set[str]:
        return {*self.facts["layer_types"]}

    @property
    def families(self) -> set[str]:
        return families_of(self.layer_types)

    @property
    def words(self) -> set[str]:
        """The types of its layers with their fields, and with the words that are values."""
        return words_of((self.folder / "model.prototxt").read_text())

    @property
    def has_product(self) -> bool:
        """Whether a part of it is computed in float16 where that is asked for."""
        return not _PRODUCTS.isdisjoint(self.layer_types)

    @property
    def is_recurrent(self) -> bool:
        return not {"LSTM", "RNN"}.isdisjoint(self.layer_types)

    @property
    def sequences(self) -> list[Form]:
        """The ways in which a recurrence can be written: as a single step only where T is 1."""
        has_one_step = all(shape[0] == 1 for shape in self.facts["inputs"].values())
        return [sequence for sequence in SEQUENCES if sequence != "step" or has_one_step]

    @property
    def calls(self) -> int:
        return int(self.facts["calls"])

    def load(self, overrides: Mapping[str, int] | None = None) -> prototrt.Model:
        return prototrt.load(
            self.folder / "model.prototxt",
            self.folder / self.facts["weights_file"],
            phase=self.facts["phase"],
            level=self.facts["level"],
            stages=self.facts["stages"],
            overrides=overrides,
        )

    def arrays(self, kind: str) -> list[dict[str, Array]]:
        """``inputs`` or ``outputs``, call by call."""
        names = [f"{kind}_{call}.npz" for call in range(self.calls)] if self.calls > 1 else [f"{kind}.npz"]
        return [dict(np.load(self.folder / name)) for name in names]

    def tolerance(self, output: str, precision: Precision = "fp32") -> tuple[float, float]:
        """The relative and the absolute error that the index allows; ``exact`` cases compare equal."""
        hint = self.facts["tolerance_hint"]
        return (0, 0) if "exact" in hint else (hint[precision]["rtol"], hint[precision]["atol"][output])


def read_yaml(file: Path) -> Any:
    """What the file holds, by the loader in C, where PyYAML comes with it."""
    import yaml

    return yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def caffe_cases() -> list[Case]:
    return _cases_in(GOLDENS / "caffe")


def fork_cases() -> list[Case]:
    return _cases_in(GOLDENS / "forks")


def _cases_in(folder: Path) -> list[Case]:
    index = json.loads((folder / "index.json").read_text())
    return [Case(folder / facts["case"], facts) for facts in index]


def case_called(name: str) -> Case:
    (case,) = [case for case in (*caffe_cases(), *fork_cases()) if str(case) == name]
    return case


def recurrent_runs() -> list[tuple[Case, Form]]:
    """Every recurrent case in every sequence that it can be written in."""
    return [(case, sequence) for case in caffe_cases() if case.is_recurrent for sequence in case.sequences]


def rewritten(
    case: Case,
    inputs: Mapping[str, Array],
    sequence: Form = "auto",
    tile: TileForm = "broadcast",
    precision: Precision = "fp32",
) -> Graph:
    """The case's graph for inputs of these shapes, cut at every blob that Caffe's answers hold."""
    shapes = tuple((name, array.shape) for name, array in inputs.items())
    return _rewritten(case, shapes, sequence, tile, precision)


@lru_cache(maxsize=8)  # one case after the other runs in several ways
def _rewritten(
    case: Case,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    sequence: Form,
    tile: TileForm,
    precision: Precision,
) -> Graph:
    return prototrt.rewrite(
        case.load(),
        shapes=dict(shapes),
        outputs=list(case.arrays("outputs")[0]),
        sequence=sequence,
        tile=tile,
        precision=precision,
        settings=case.facts.get("settings", {}).get("json", {}),
    )


def runs(
    case: Case,
    on: Way | SessionOf,
    sequence: Form = "auto",
    tile: TileForm = "broadcast",
    precision: Precision = "fp32",
) -> Iterator[tuple[Mapping[str, Array], dict[str, Array]]]:
    """What we compute and what Caffe computed, call by call. A call of other shapes begins anew.

    ``on`` is a way of running, or what makes a session of a graph.
    """
    session: Runnable | None = None
    shapes = None
    for inputs, expected in zip(case.arrays("inputs"), case.arrays("outputs"), strict=True):
        new = {name: array.shape for name, array in inputs.items()}
        if session is None or new != shapes:
            graph = rewritten(case, inputs, sequence, tile, precision)
            session, shapes = (
                prototrt.Session(graph, on=on, cut=True) if isinstance(on, str) else on(graph),
                new,
            )
        yield session.run(inputs), expected


def check(case: Case, on: Way | SessionOf, sequence: Form = "auto", tile: TileForm = "broadcast") -> None:
    """Every output of every call within the tolerance of the index."""
    for results, expected in runs(case, on, sequence, tile):
        for name, wanted in expected.items():
            assert results[name].shape == wanted.shape, name
            relative, absolute = case.tolerance(name)
            np.testing.assert_allclose(results[name], wanted, relative, absolute, err_msg=name)


def check_half(case: Case, on: Way | SessionOf, sequence: Form = "auto") -> None:
    """Computed in float16, every output of every call within the tolerance of that."""
    for results, expected in runs(case, on, sequence, precision="fp16"):
        for name, wanted in expected.items():
            difference = difference_of(results[name], wanted, TOLERANCES["fp16"])
            assert difference.is_small, (name, difference)
