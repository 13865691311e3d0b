"""One model of a batch, and what became of it."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from typing import Any

from prototrt.caffe_proto.common.records import asdict, dataclass, field
from prototrt.converter.files.writing.ownership import DerivedPath
from prototrt.converter.files.writing.side_files import SIDE_SUFFIXES, WEIGHTS_SUFFIX, module_weights
from prototrt.converter.front.batch.keys import OUTPUTS, options_of
from prototrt.converter.options import ConversionOptions

CPU_TIME = 4 * 3600.0
"""Seconds of all cores together, unless a model says otherwise: far more than any build takes."""
FILE_SIZE = 64 * 10**9
"""Bytes of one file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A model to convert.

    ``options`` are those of ``keys.FIELDS``, by name, as plain values.
    ``timeout`` and ``cpu_time`` are in seconds, ``memory`` and ``file_size`` in bytes. Without ``memory``,
    the limit is a share of the machine's. ``needs`` are resources of a cluster's worker. ``fault`` says why the model
    cannot be converted, if its list shows that.
    """

    name: str
    where: str  # "models.yaml:12"
    prototxt: str
    weights: str | None
    target: str
    options: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    timeout: float | None = None
    memory: int | None = None
    cpu_time: float = CPU_TIME
    file_size: int = FILE_SIZE
    fault: str = ""

    @property
    def conversion(self) -> ConversionOptions:
        """What ``convert`` takes for it. Raises ``OptionsError``."""
        return options_of(ConversionOptions, {**self.options, "file": self.target, "weights": self.weights})

    @property
    def outputs(self) -> dict[str, str]:
        """The files that options ask for beside the engine or model, by option."""
        return {name: file for name in OUTPUTS if (file := self.options[name]) is not None}

    @property
    def places(self) -> dict[str, str]:
        """Each file that the conversion may write, by its suffix, or by a dot and the option that asks for it."""
        product = {
            "": self.target,
            **{suffix: DerivedPath(f"{self.target}{suffix}") for suffix in SIDE_SUFFIXES},
        }
        if self.is_module:
            product[WEIGHTS_SUFFIX] = module_weights(self.target)
        return product | {f".{name}": file for name, file in self.outputs.items()}

    @property
    def is_module(self) -> bool:
        """Whether it becomes a PyTorch module, which names the file of its weights."""
        return self.target.lower().endswith(".py")

    def written_files(self) -> dict[str, str]:
        """Those of the places where there is a file."""
        return {name: file for name, file in self.places.items() if os.path.isfile(file)}


class Status(enum.Enum):
    """How a model ended, in a reader's words."""

    CONVERTED = "converted"
    CACHED = "cached"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    SKIPPED = "skipped"

    @property
    def is_good(self) -> bool:
        return self in (Status.CONVERTED, Status.CACHED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an entry. ``facts`` are counts and checks, for reports; ``seconds`` are wall time."""

    entry: Entry
    status: Status
    exit_code: int = 0
    seconds: float = 0.0
    message: str = ""
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Options that are not set are left out."""
        entry = asdict(self.entry)
        del entry["fault"]  # which is the message
        entry["options"] = {name: setting for name, setting in self.entry.options.items() if setting}
        return {
            **entry,
            "status": self.status.value,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "message": self.message,
            "warnings": list(self.warnings),
            "facts": dict(self.facts),
        }


SEVERITY = (0, 3, 4, 6, 5, 1)
"""Exit codes, the worst last: a wrong engine is worse than none, a mistake of ours worse than all."""


def worst_exit_code(codes: list[int]) -> int:
    return max(codes, key=SEVERITY.index, default=0)
