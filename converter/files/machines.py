"""The machines that people name, and what their GPUs and their TensorRT can do: ``machines.json``. Light to import.

Each row of the table has its source and its date. What is not known is null there: nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from prototrt.caffe_proto.common.records import dataclass

Version: TypeAlias = tuple[int, int]
"""A release, or a compute capability: 8.6 is ``(8, 6)``."""
_VENDOR = "nvidia geforce tesla quadro jetson gpu module developer kit generation edition blackwell server workstation"
_VARIANTS = "ti super laptop mobile max q d pcie nvl"
_IGNORED = {*_VENDOR.split(), *_VARIANTS.split()}
"""Words of a name that say nothing about the compute capability."""
_MEMORY = ("sxm", "hbm")


@dataclass(frozen=True, slots=True)
class Capability:
    """A compute capability, and the types that its GPUs compute. ``since``: TensorRT's first release, where known."""

    version: Version
    architecture: str
    types: tuple[str, ...]
    since: Version | None


@dataclass(frozen=True, slots=True)
class ReleaseRange:
    """Compute capabilities that TensorRT supports, in the releases ``since`` to ``last``. None is no limit.

    Plans of TensorRT for RTX run on the ``named`` ones; between these they do not (``refuses``), or nobody knows.
    """

    since: Version
    last: Version | None
    oldest: Version
    newest: Version | None
    named: tuple[Version, ...] = ()
    refuses: bool = False


@dataclass(frozen=True, slots=True)
class System:
    """A release of JetPack or DRIVE OS. ``cuda`` and ``tensorrt`` are None where they are not known."""

    name: str
    target: str
    cuda: str | None
    tensorrt: Version | None
    capabilities: tuple[Version, ...]
    machines: tuple[str, ...]

    def serves(self, machine: Machine) -> bool:
        """Whether the machine runs it."""
        is_its_kind = machine.dla is not None and self.name.startswith("DRIVE") == machine.name.startswith(
            "DRIVE"
        )
        is_named = not self.machines or machine.name in self.machines
        return is_its_kind and is_named and machine.capability.version in self.capabilities


@dataclass(frozen=True, slots=True)
class Machine:
    """A GPU, or a computer with one. ``words`` are what people call it, the usual one first.

    ``target`` is what it is converted for, unless people name another; empty if no TensorRT serves it. ``dla`` says
    whether it has a DLA; None for GPUs that stand in a computer.
    """

    name: str
    words: tuple[str, ...]
    capability: Capability
    target: str
    dla: bool | None

    @property
    def releases(self) -> ReleaseRange | None:
        """The newest releases of TensorRT that serve it."""
        return next(iter(releases_of(self.capability.version)[::-1]), None)

    @property
    def systems(self) -> tuple[System, ...]:
        """The releases of JetPack or DRIVE OS that serve it."""
        return tuple(system for system in SYSTEMS if system.serves(self))


def version(text: str) -> Version:
    """``8.6`` or ``8.6.1`` as ``(8, 6)``."""
    major, minor, *_ = (*text.split("."), "0")
    return int(major), int(minor)


def version_text(number: Version) -> str:
    """``(8, 6)`` as ``8.6``."""
    return f"{number[0]}.{number[1]}"


def _with_versions(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table, where versions are numbers."""
    versions = ("capability", "since", "last", "oldest", "newest", "tensorrt")
    return {key: version(cell) if key in versions and cell else cell for key, cell in row.items()}


TABLE: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("machines.json").read_text(encoding="utf-8"), object_hook=_with_versions
)
CAPABILITIES: Mapping[Version, Capability] = {
    row["capability"]: Capability(
        row["capability"], row["architecture"], tuple(row["types"]), row.get("since")
    )
    for row in TABLE["capabilities"]
}
RELEASES: Mapping[str, Sequence[ReleaseRange]] = {
    backend: [
        ReleaseRange(
            row["since"],
            row["last"],
            row["oldest"],
            row["newest"],
            tuple(map(version, row.get("named", ()))),
            row.get("refuses", False),
        )
        for row in TABLE[backend]
    ]
    for backend in ("enterprise", "rtx")
}
"""By backend, the oldest releases first."""
SYSTEMS: Sequence[System] = [
    System(
        row["system"],
        row["target"],
        row["cuda"],
        row["tensorrt"],
        tuple(map(version, row["capabilities"])),
        tuple(row.get("machines", ())),
    )
    for row in TABLE["systems"]
]
MACHINES: Sequence[Machine] = [
    Machine(row["name"], tuple(row["names"]), CAPABILITIES[row["capability"]], row["target"], row.get("dla"))
    for row in TABLE["machines"]
]
TRTEXEC_WORDS: Mapping[str, tuple[Version, Version | None]] = {
    row["word"]: (row["since"], row["last"]) for row in TABLE["trtexec"]
}
"""Options of trtexec: the first release that has each, and the last one if a release has removed it."""


def releases_of(capability: Version) -> list[ReleaseRange]:
    """The releases of TensorRT that support a compute capability, the oldest first."""
    return [
        each
        for each in RELEASES["enterprise"]
        if each.oldest <= capability and (each.newest is None or capability <= each.newest)
    ]


def _key(name: str) -> str:
    """What tells machines apart in a name: ``NVIDIA GeForce RTX 3080 Ti`` is ``rtx3080``."""
    words = re.findall(r"[a-z]+|[0-9]+", name.lower())
    return "".join(
        word
        for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False)
        if word not in _IGNORED and not _tells_the_memory(before, word, after)
    )


def _tells_the_memory(before: str, word: str, after: str) -> bool:
    """Whether a word belongs to ``80GB``, ``SXM4`` or ``HBM3e``; GB10 is a machine."""
    is_size = (word.isdecimal() and after == "gb") or (word == "gb" and before.isdecimal())
    return is_size or word in _MEMORY or before in _MEMORY or (word == "e" and before.isdecimal())


@cache
def _machines_by_key() -> Mapping[str, Machine]:
    return {_key(name): machine for machine in MACHINES for name in (machine.name, *machine.words)}


MACHINE_WORDS: Sequence[str] = [word for machine in MACHINES for word in machine.words]


def find_machine(name: str) -> Machine | None:
    """The machine that people, or its driver, call so."""
    return _machines_by_key().get(_key(name))


def close_machines(name: str) -> list[str]:
    """At most three words for machines that this may be a misspelling of."""
    from difflib import get_close_matches  # for an error

    words = {_key(word): word for word in MACHINE_WORDS}
    return [words[key] for key in get_close_matches(_key(name), words, cutoff=0.7)]


def lowest_with(kind: str) -> Version:
    """The lowest compute capability from which on GPUs compute this type."""
    return min(number for number, capability in CAPABILITIES.items() if kind in capability.types)
