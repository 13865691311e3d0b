"""The tables of docs/deploy.md, from the table of machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototrt.converter.files.machine_types import names_of
from prototrt.converter.files.machines import (
    MACHINES,
    SYSTEMS,
    TABLE,
    Capability,
    Machine,
    releases_of,
    version_text,
)


def machines_table() -> str:
    """A row for each compute capability, with the words of its machines that a TensorRT for models serves."""
    rows = [
        "| compute capability | machines, as `--target` takes them | computes | TensorRT |",
        "| --- | --- | --- | --- |",
        *_capability_rows(),
    ]
    checked = f"As of {TABLE['checked']}; `converter/files/machines.json` has the source of each row."
    return "\n".join([checked, "", *rows])


def _capability_rows() -> Iterator[str]:
    by_capability: dict[Capability, list[Machine]] = {}
    for machine in MACHINES:
        if machine.target:
            by_capability.setdefault(machine.capability, []).append(machine)
    for capability, machines in sorted(by_capability.items(), key=lambda each: each[0].version):
        words = ", ".join(f"`{machine.words[0]}`" for machine in machines)
        name = f"{version_text(capability.version)} ({capability.architecture})"
        yield f"| {name} | {words} | {names_of(capability.version)} | {_releases(machines)} |"


def _releases(machines: Sequence[Machine]) -> str:
    """The releases of TensorRT that serve a compute capability, for which models are written."""
    if all(machine.dla is not None for machine in machines):
        return "that of its system"
    rows = releases_of(machines[0].capability.version)
    first = machines[0].capability.since or rows[0].since
    return f"{version_text(first)} {'and newer' if rows[-1].last is None else f'to {version_text(rows[-1].last)}'}"


def systems_table() -> str:
    """A row for each release of JetPack and DRIVE OS."""
    rows = ["| system | machines | TensorRT | `--target` |", "| --- | --- | --- | --- |"]
    for system in SYSTEMS:
        machines = ", ".join(machine.name for machine in MACHINES if system.serves(machine))
        tensorrt = "not known" if system.tensorrt is None else version_text(system.tensorrt)
        rows.append(f"| {system.name} | {machines} | {tensorrt} | `{system.target}` |")
    return "\n".join(rows)
